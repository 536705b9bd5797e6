"""From explanations, an importance of each token, to AUCs: how well they find the tokens that decide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_faithful._checks import InputError
from attn_faithful.functional.auc import auc, within_text_auc
from attn_faithful.functional.reasons import NAN_SCORES
from attn_faithful.records.bench import EVERY, TOKEN, BenchModel, BenchScore

DECISIVE = "decisive"  # the metric
NOT_GIVEN = "no importance given"
NONE_DECISIVE = "no decisive token"
ALL_DECISIVE = "no token beside the decisive ones"


@dataclass(frozen=True)
class Explained:
    """An explanation of the texts of one model of the set.

    Attributes:
        model: of the set.
        examples: ids of the B texts.
        lengths: of the texts, in tokens (B,).
        importance: of each text's tokens (T,), the higher the more important; None for a text without.
        decisive: of each text, whether a token decides the label (T,).

    Raises:
        InputError: not one entry a text, an importance that has not one value a token.
    """

    model: BenchModel
    examples: Sequence[str]
    lengths: NDArray[np.int64]
    importance: Sequence[ArrayLike | None]
    decisive: Sequence[ArrayLike]

    def __post_init__(self) -> None:
        counts = {len(self.examples), len(self.lengths), len(self.importance), len(self.decisive)}
        if len(counts) > 1:
            raise InputError(f"Expected an entry for each text of {self.model.name}, but got {sorted(counts)} of them.")
        for example, values, mask in zip(self.examples, self.importance, self.decisive, strict=True):
            if values is not None and np.shape(values) != np.shape(mask):
                raise InputError(
                    f"Expected an importance for each of the {np.size(mask)} tokens of {example!r}, but got "
                    f"{np.size(values)}; give one a word, in the order of the text."
                )

    @cached_property
    def texts(self) -> list[_Text]:
        """The proven texts."""
        texts = []
        columns = zip(self.examples, self.lengths, self.importance, self.decisive, strict=True)
        for example, length, importance, decisive in columns:
            if example not in self.model.unproven:
                texts.append(_text(example, int(length), importance, np.asarray(decisive, dtype=bool)))
        return texts


@dataclass(frozen=True)
class _Text:
    """How well the decisive tokens of a text are found: `auc`, NaN with a reason where it is undefined."""

    example: str
    length: int
    auc: float
    reason: str
    n_decisive: int
    n_others: int


def scores_of_explanations(explained: Sequence[Explained], source: str) -> list[BenchScore]:
    """AUC of the decisive tokens of a text against its others, its mean over texts, by kind of model and length.

    Texts for which the truth of their model is not proven are left out. A text with an importance that is not finite is
    undefined as a whole: what is left could be chosen.

    Args:
        explained: one a model.
        source: what the explanation is called.

    Returns:
        first of all models, then kind by kind in their order; of each of all lengths, then length by length.
        `n_explains` are the decisive tokens and `n_other` the others, of texts that are defined; `n_undefined` are
        texts.
    """
    kinds = list(dict.fromkeys(one.model.kind for one in explained))
    lengths = sorted({text.length for one in explained for text in one.texts})
    by_name = sorted(explained, key=lambda one: one.model.name)  # resamples do not depend on the order given
    scores = []
    for kind in (EVERY, *kinds):
        of_kind = [one for one in by_name if kind in (EVERY, one.model.kind)]
        for length in (EVERY, *lengths):
            by_model = []
            for one in of_kind:
                by_model.append([text for text in one.texts if length in (EVERY, text.length)])
            scores.append(_score(source, kind, str(length), by_model))
    return scores


def _score(source: str, kind: str, length: str, by_model: Sequence[Sequence[_Text]]) -> BenchScore:
    texts = [text for of_model in by_model for text in of_model]
    defined = [text for text in texts if not text.reason]
    reasons = Counter(text.reason for text in texts if text.reason)
    values = [[text.auc for text in of_model] for of_model in by_model]
    names = [[text.example for text in of_model] for of_model in by_model]
    mean, low, high = within_text_auc(values, names)
    return BenchScore(
        metric=DECISIVE,
        source=source,
        kind=kind,
        level=TOKEN,
        length=length,
        auc=mean,
        low=low,
        high=high,
        n_explains=sum(text.n_decisive for text in defined),
        n_other=sum(text.n_others for text in defined),
        n_undefined=reasons.total(),
        reasons=dict(sorted(reasons.items())),
    )


def _text(example: str, length: int, importance: ArrayLike | None, decisive: NDArray[np.bool_]) -> _Text:
    n_decisive = int(decisive.sum())
    n_others = len(decisive) - n_decisive
    reason = _reason(importance, n_decisive, n_others)
    value = math.nan
    if not reason:
        values = np.asarray(importance, dtype=np.float64)
        value = auc(values[decisive], values[~decisive])
    return _Text(example, length, value, reason, n_decisive, n_others)


def _reason(importance: ArrayLike | None, n_decisive: int, n_others: int) -> str:
    """Why a text has no AUC; "" where it has one."""
    if importance is None:
        return NOT_GIVEN
    if not np.isfinite(np.asarray(importance, dtype=np.float64)).all():
        return NAN_SCORES
    if not n_decisive:
        return NONE_DECISIVE
    return "" if n_others else ALL_DECISIVE
