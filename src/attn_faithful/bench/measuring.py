"""From the numbers of all models of the set to AUCs and lines: how well each tells attention that explains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError
from attn_faithful.bench.measured import NOT_COMPUTED, Measured, Number, faithful_side
from attn_faithful.functional.auc import auc, auc_interval, clustered_auc
from attn_faithful.functional.best_line import BELOW, best_line
from attn_faithful.records.bench import EVERY, MODEL, TEXT, BenchLine, BenchScore

Array = NDArray[np.float64]

LEAST_DEFINED = 0.5  # share of a model's texts; the mean of fewer is one of a selection, not of the model
FEW_TEXTS = "fewer than half of the texts"


def scores_of_tests(measured: Sequence[Measured]) -> list[BenchScore]:
    """AUC of every number, for all models that do not explain and each kind of them, on both levels, by length.

    Texts for which the truth of their model is not proven are left out. On the level of models a number is its mean
    over the defined texts of a model, and undefined where less than half of them are: a selection of its texts is
    another sample. Lengths are told apart on the level of texts.

    Args:
        measured: one a model.

    Returns:
        number by number, in the order in which they were measured; of each first all kinds, then kind by kind; of each
        first models, then texts, of all lengths first.

    Raises:
        InputError: no model that explains, or none that does not.
    """
    kinds = _kinds(measured)
    lengths = sorted({int(length) for one in measured for length in one.lengths})
    scores = []
    for number in numbers_of(measured):
        models = _models(measured, number)
        for kind in (EVERY, *kinds):
            of_kind = [model for model in models if _compared(model, kind)]
            scores.append(_model_score(number, kind, of_kind))
            for length in (EVERY, *lengths):
                scores.append(_text_score(number, kind, of_kind, length))
    return scores


def lines_of_tests(measured: Sequence[Measured]) -> list[BenchLine]:
    """The best line on every number of models, with its error on models that it was not chosen on.

    Accuracy and shares are those out of bag of `best_line`, not those of the models that the line was chosen on.

    Args:
        measured: one a model.

    Returns:
        number by number; those on which there is no line are left out.

    Raises:
        InputError: no model that explains, or none that does not.
    """
    _kinds(measured)
    lines = []
    for number in numbers_of(measured):
        models = [model for model in _models(measured, number) if math.isfinite(model.value)]
        line = _line(number, models)
        if line is not None:
            lines.append(line)
    return lines


def numbers_of(measured: Sequence[Measured]) -> list[Number]:
    """Metric and source of every number that was measured on any model, in the order of the first that has it."""
    numbers: dict[Number, None] = {}
    for one in measured:
        numbers |= dict.fromkeys(one.numbers)
    return list(numbers)


@dataclass(frozen=True)
class _ModelNumber:
    """One number of one model."""

    measured: Measured
    number: Number

    @property
    def kind(self) -> str:
        return self.measured.model.kind

    @property
    def explains(self) -> bool:
        return self.measured.model.explains

    @cached_property
    def of_texts(self) -> Array:
        """Of the proven texts (B,), NaN where undefined."""
        values = self.measured.column(self.number).values[self.measured.is_proven]
        return np.where(np.isfinite(values), values, math.nan)

    @cached_property
    def reasons(self) -> list[str]:
        """Why those of the proven texts are undefined (B,); "" where they are not."""
        given = self.measured.column(self.number).reasons
        proven = np.flatnonzero(self.measured.is_proven)
        reasons = []
        for place, value in zip(proven, self.of_texts, strict=True):
            reason = given[place] or NOT_COMPUTED
            reasons.append("" if math.isfinite(value) else reason)
        return reasons

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Of the proven texts (B,)."""
        return self.measured.lengths[self.measured.is_proven]

    @property
    def value(self) -> float:
        """Of the model; NaN where too few of its texts have one."""
        if self.reason:
            return math.nan
        mean = float(np.nanmean(self.of_texts))
        return self.measured.of_model.get(self.number, mean)

    @property
    def reason(self) -> str:
        """Why the model has none; "" where it has."""
        defined = np.isfinite(self.of_texts)
        if not defined.any():
            return Counter([*self.reasons, NOT_COMPUTED]).most_common(1)[0][0]
        if defined.mean() < LEAST_DEFINED:
            return FEW_TEXTS
        if not math.isfinite(self.measured.of_model.get(self.number, 0.0)):
            return NOT_COMPUTED
        return ""


def _models(measured: Sequence[Measured], number: Number) -> list[_ModelNumber]:
    """In the order of their names, so that resamples do not depend on the order in which they were measured."""
    by_name = sorted(measured, key=lambda one: one.model.name)
    return [_ModelNumber(one, number) for one in by_name]


def _kinds(measured: Sequence[Measured]) -> list[str]:
    """The kinds of models that do not explain, in the order of the models."""
    kinds = list(dict.fromkeys(one.model.kind for one in measured if not one.model.explains))
    if not kinds or not any(one.model.explains for one in measured):
        raise InputError(
            f"Expected models that explain and models that do not, but all of the {len(measured)} are of one side; "
            "measure both."
        )
    return kinds


def _compared(model: _ModelNumber, kind: str) -> bool:
    return model.explains or kind in (EVERY, model.kind)


def _turned(number: Number) -> float:
    """-1 for a number whose lower values are the more faithful ones."""
    return -1.0 if faithful_side(number) == BELOW else 1.0


def _model_score(number: Number, kind: str, models: Sequence[_ModelNumber]) -> BenchScore:
    turned = _turned(number)
    explaining = [turned * model.value for model in models if model.explains]
    others = [turned * model.value for model in models if not model.explains]
    reasons = Counter(model.reason for model in models if model.reason)
    low, high = auc_interval(explaining, others)
    return BenchScore(
        metric=number[0],
        source=number[1],
        kind=kind,
        level=MODEL,
        length=EVERY,
        auc=auc(explaining, others),
        low=low,
        high=high,
        n_explains=int(np.isfinite(explaining).sum()),
        n_other=int(np.isfinite(others).sum()),
        n_undefined=reasons.total(),
        reasons=_sorted(reasons),
    )


def _text_score(number: Number, kind: str, models: Sequence[_ModelNumber], length: int | str) -> BenchScore:
    turned = _turned(number)
    explaining, others = [], []
    reasons: Counter[str] = Counter()
    for model in models:
        of_length = np.full(len(model.lengths), True) if length == EVERY else model.lengths == length
        values = turned * model.of_texts[of_length]
        (explaining if model.explains else others).append(values)
        reasons.update(model.reasons[place] for place in np.flatnonzero(of_length))
    del reasons[""]
    found = clustered_auc(explaining, others)
    return BenchScore(
        metric=number[0],
        source=number[1],
        kind=kind,
        level=TEXT,
        length=str(length),
        auc=found.auc,
        low=found.low,
        high=found.high,
        n_explains=_defined(explaining),
        n_other=_defined(others),
        n_undefined=reasons.total(),
        reasons=_sorted(reasons),
    )


def _line(number: Number, models: Sequence[_ModelNumber]) -> BenchLine | None:
    """None where there is no line."""
    explaining = [model for model in models if model.explains]
    others = [model for model in models if not model.explains]
    values, other_values = [model.value for model in explaining], [model.value for model in others]
    found = best_line(values, other_values, faithful_side(number))
    if not found.side:
        return None
    passed = {}
    for kind in dict.fromkeys(model.kind for model in others):
        of_kind = [model.kind == kind for model in others]
        right = found.right_negative[of_kind]
        if np.isfinite(right).all():
            passed[kind] = 1 - float(right.mean())
    return BenchLine(
        metric=number[0],
        source=number[1],
        line=found.line,
        faithful=found.side,
        balanced_accuracy=found.balanced_accuracy,
        low=found.low,
        high=found.high,
        missed=1 - float(found.right_positive.mean()),
        passed=passed,
        n_explains=len(explaining),
        n_other=len(others),
    )


def _defined(groups: Sequence[Array]) -> int:
    return sum(int(np.isfinite(group).sum()) for group in groups)


def _sorted(reasons: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(reasons.items()))
