"""What the tests measured on one model of the set: every number of attention, text by text."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError
from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.metric_table import metric_table
from attn_faithful.functional.attefa import attefa as ratio_of_means
from attn_faithful.functional.best_line import ABOVE, BELOW
from attn_faithful.functional.reasons import Reasons
from attn_faithful.records.bench import BenchModel
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.scores import CORE, SETS
from attn_faithful.reports.tables.sources import is_control, parts

Array = NDArray[np.float64]
Number = tuple[str, str]  # metric, source

NOT_COMPUTED = "not computed"
TWIN_METRICS = (attefa.ATTEFA.name, attefa.TVD.name, attefa.JSD.name)


@dataclass(frozen=True)
class TextValues:
    """A number of every text of a model.

    Attributes:
        values: (B,); what is not finite is undefined.
        reasons: B, why they are undefined; None where they are not.
    """

    values: Array
    reasons: Sequence[str | None]


@dataclass(frozen=True)
class Measured:
    """What was measured on one model of the set.

    Attributes:
        model: of the set.
        examples: ids of the texts.
        lengths: of the texts, in tokens (B,).
        numbers: metric and source -> its values, a value a text.
        of_model: numbers of the whole model that are no mean over its proven texts, such as AtteFa, a ratio of means.

    Raises:
        InputError: a number that has not one value and reason a text.
    """

    model: BenchModel
    examples: Sequence[str]
    lengths: NDArray[np.int64]
    numbers: Mapping[Number, TextValues]
    of_model: Mapping[Number, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.examples)
        if len(self.lengths) != n:
            raise InputError(f"Expected {n} `lengths` of the texts of {self.model.name}, but got {len(self.lengths)}.")
        for (metric, source), column in self.numbers.items():
            if len(column.values) != n or len(column.reasons) != n:
                raise InputError(
                    f"Expected a value and a reason for each of the {n} texts of {self.model.name}, but {metric!r} of "
                    f"{source!r} has {len(column.values)} and {len(column.reasons)}; undefined values are NaN."
                )

    @property
    def is_proven(self) -> NDArray[np.bool_]:
        """Whether the truth about the model could be proven for a text (B,)."""
        return ~np.isin(self.examples, list(self.model.unproven))

    def only(self, metrics: Collection[str]) -> Measured:
        """The numbers of some metrics alone."""
        numbers = {number: values for number, values in self.numbers.items() if number[0] in metrics}
        of_model = {number: value for number, value in self.of_model.items() if number[0] in metrics}
        return replace(self, numbers=numbers, of_model=of_model)

    def column(self, number: Number) -> TextValues:
        """A number of every text; one that was not measured is undefined for all."""
        n = len(self.examples)
        missing = TextValues(np.full(n, math.nan), [NOT_COMPUTED] * n)
        return self.numbers.get(number, missing)


def measured_of_run(model: BenchModel, run: Run, lengths: Mapping[str, int]) -> Measured:
    """The numbers of a finished run on a model of the set.

    These are the metrics whose means stand in tables: of attention, of comparisons of attention with another
    importance, and of the smallest set and the core, which depend on attention alone; and of twins AtteFa, TVD and JSD,
    their mean over the seeds of a variant. Controls in the place of attention and other rankings are left out: they
    tell nothing of it. The site is the one nearest to the output that a metric has.

    Args:
        model: of the set.
        run: its folder.
        lengths: id of a text -> its length in tokens.

    Raises:
        InputError: a text of the run whose length is not known.
    """
    unknown = [example for example in run.ids if example not in lengths]
    if unknown:
        raise InputError(
            f"Expected the length of every text of {run.path}, but it is not known of {unknown[0]!r} and "
            f"{len(unknown) - 1} more; test the models on the texts of their set."
        )
    numbers: dict[Number, TextValues] = {}
    for metric, facts in run.metrics.items():
        if not facts.shown:
            continue
        for source in run.sources(metric, _site(run, metric)):
            if tells_of_attention(source):
                numbers[metric, source] = _column(run, metric, source)
    of_model: dict[Number, float] = {}
    is_proven = ~np.isin(run.ids, list(model.unproven))  # (B,)
    for variant, names in _twins_by_variant(run).items():
        twins = [{metric: _column(run, metric, name) for metric in TWIN_METRICS} for name in names]
        of_texts, ratio = numbers_of_twins(twins, is_proven)
        numbers |= {(metric, variant): column for metric, column in of_texts.items()}
        of_model[attefa.ATTEFA.name, variant] = ratio
    return Measured(
        model=model,
        examples=run.ids,
        lengths=np.array([lengths[example] for example in run.ids], dtype=np.int64),
        numbers=numbers,
        of_model=of_model,
    )


def numbers_of_twins(
    twins: Sequence[Mapping[str, TextValues]], is_proven: NDArray[np.bool_]
) -> tuple[dict[str, TextValues], float]:
    """The numbers of a model's twins of several seeds: of the texts their mean over twins, and AtteFa of the model.

    Args:
        twins: of each its `TWIN_METRICS`.
        is_proven: (B,), see `Measured.is_proven`; AtteFa is a ratio of means over these texts, of each twin.
    """
    of_texts = {metric: _mean_of([twin[metric] for twin in twins]) for metric in TWIN_METRICS}
    ratios = []
    for twin in twins:
        tvd, jsd = twin[attefa.TVD.name].values, twin[attefa.JSD.name].values
        ratios.append(ratio_of_means(tvd[is_proven], jsd[is_proven]).attefa)
    return of_texts, float(np.mean(ratios))


def tells_of_attention(source: str) -> bool:
    """Whether a number of this source is one of the model's own attention.

    Example:
        >>> [tells_of_attention(source) for source in ("attention~saliency", "uniform~saliency", "random_ranking")]
        [True, False, False]
    """
    if source in (CORE, *SETS):
        return True
    return ATTENTION in parts(source) and not is_control(source)


def faithful_side(number: Number) -> str | None:
    """On which side of a line on a number attention explains, by the metric table: "above", "below", None for neither.

    Of a metric that is not in the table it is above. The smallest set and the core have no side: that few items decide
    says nothing of attention.

    Example:
        >>> faithful_side(("decision_flip", "attention")), faithful_side(("decision_flip", "smallest_set"))
        ('below', None)
        >>> faithful_side(("mine", "attention"))
        'above'
    """
    metric, source = number
    specs = {spec.name: spec for spec in metric_table()}
    if metric not in specs:
        return ABOVE
    if source in (CORE, *SETS):
        return None
    sides = {"higher": ABOVE, "lower": BELOW}
    return sides.get(specs[metric].direction or "")


def _site(run: Run, metric: str) -> str | None:
    """The site nearest to the output that has a metric."""
    with_metric = [site for site in run.shown_sites if run.sources(metric, site)]
    return with_metric[-1] if with_metric else None


def _column(run: Run, metric: str, source: str) -> TextValues:
    site = _site(run, metric)
    reasons: Reasons = run.reasons(metric, source, site)
    values = run.scores(metric, source, site).to_numpy(dtype=float)
    return TextValues(values, reasons)


def _twins_by_variant(run: Run) -> dict[str, list[str]]:
    """Variant -> the sources of its twins, one a seed."""
    by_variant: dict[str, list[str]] = {}
    for name, twin in run.twins.items():
        by_variant.setdefault(twin.variant, []).append(name)
    return by_variant


def _mean_of(columns: Sequence[TextValues]) -> TextValues:
    """The mean over columns of what is defined in all of them."""
    values = np.stack([column.values for column in columns]).mean(0)  # (B,)
    reasons: Reasons = [None] * len(values)
    for column in columns:
        reasons = [known or reason for known, reason in zip(reasons, column.reasons, strict=True)]
    return TextValues(values, reasons)
