"""The short table of a run: one row a test, its number with interval and n, and beside it what chance gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_faithful.reports.answer.verdict import ENOUGH, constant_base, few
from attn_faithful.reports.groups import SeedRuns, axes_of
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.scores import Scores, same_texts
from attn_faithful.reports.tables.table import Table

Beside = Sequence[tuple[str, str]]  # sources whose numbers stand beside a test's, and their names


@dataclass(frozen=True)
class _Test:
    """A test whose number is of attention.

    Attributes:
        test, metric: names.
        number: the metric, as the table names it.
        beside: what stands beside attention.
    """

    test: str
    metric: str
    number: str
    beside: Beside


_CHANCE = (("random", "random"), ("uniform", "uniform"))
_OF_ATTENTION = (
    _Test("permutation", "attention_permutation", "median TVD", _CHANCE),
    _Test("adversarial", "adversarial_attention", "eps-max JSD", _CHANCE),
    _Test("erasure", "comprehensiveness", "comprehensiveness", _CHANCE),
    _Test("erasure", "mask_comprehensiveness", "comprehensiveness, masks", _CHANCE),
    _Test("polarity", "polarity_violation", "first item not for it", (("random", "random"),)),
    _Test("stability", "stability_tau", "tau with itself", (("random", "random"),)),
    _Test("entropy", "importance_entropy", "entropy", (("saliency", title_of("saliency")), ("random", "random"))),
    _Test("plausibility", "plausibility", "AUPRC", _CHANCE),
)


@dataclass(frozen=True)
class Headline:
    """The number of one test.

    Attributes:
        test, number: names.
        mean, low, high: over texts, with the 95% interval.
        n: texts with a value.
        beside: what stands beside it, in words; "" for nothing.
    """

    test: str
    number: str
    mean: float
    low: float
    high: float
    n: int
    beside: str

    @property
    def cells(self) -> list[str]:
        ends = interval(self.low, self.high) if self.n > 1 else "-"
        n = f"{self.n:,}"
        if few(self.n):
            n += " (few)"
        return [self.test, self.number, number(self.mean), ends, n, self.beside or "-"]


def headline_table(models: Sequence[SeedRuns], twins: bool = True) -> Table | None:
    """One row a test, site and model; None where no test was run.

    Args:
        models: the numbers are those of each one's first run.
        twins: whether AtteFa has a row, where it has no table of its own.
    """
    axes: list[str] = []
    if len(models) > 1:
        axes = axes_of(models)
    first_runs = [model.runs[0] for model in models]
    several_sites = any(len(run.shown_sites) > 1 for run in first_runs)
    rows = []
    for model, run in zip(models, first_runs, strict=True):
        for site in run.shown_sites:
            names = model.labels(axes)
            if several_sites:
                names.append(site or "-")
            for headline in headlines(Scores([run], site)):
                if twins or headline.test != "attefa":
                    rows.append([*names, *headline.cells])
    if not rows:
        return None
    notes = ["[]: 95% bootstrap interval over texts. Beside it: the same number of what is named, over the same texts."]
    if any(few(len(run.ids)) for run in first_runs):
        notes.append(f"(few): few texts, below {ENOUGH}.")
    if any(len(model.runs) > 1 for model in models):
        notes.append("Of several seeds the first.")
    names = [*axes, "site"] if several_sites else axes
    head = [*names, "test", "number", "Value", "95%", "N", "Beside it"]
    return Table("The tests in short", head, rows, notes, "headlines")


def headlines(scores: Scores) -> Iterator[Headline]:
    """The number of each test that ran at a site."""
    source = scores.run.first_source(scores.site)
    if source is not None:
        chance = ((f"random~{source}", "random"), (f"uniform~{source}", "uniform"))
        test = _Test("correlation", "attention_correlation", f"tau with {title_of(source)}", chance)
        yield from _headline(scores, test, f"attention~{source}")
    for test in _OF_ATTENTION:
        yield from _headline(scores, test)
    beside = [("random_ranking", "random")]
    if scores.best_set is not None:
        beside.append((scores.best_set, scores.best_set.replace("_", " ")))
    yield from _headline(scores, _Test("flips", "decision_flip", "fraction removed", beside))
    yield from _of_twins(scores)


def _headline(scores: Scores, test: _Test, source: str = "attention") -> Iterator[Headline]:
    """The number of a test, if it was computed."""
    record = scores.record(test.metric, source)
    if record is not None:
        beside = _beside(scores, test.metric, source, test.beside)
        yield Headline(test.test, test.number, record.mean, record.low, record.high, record.n, beside)


def _of_twins(scores: Scores) -> Iterator[Headline]:
    """AtteFa of the first twin, if there is one."""
    for twin in list(scores.twins.values())[:1]:
        title, beside = "AtteFa", ""
        if constant_base(twin):
            title = "AtteFa (base constant)"
        elif twin.collapsed:
            title = "AtteFa (collapsed)"
        if twin.constant_tvd > 0:
            beside = f"TVD of a constant {number(twin.constant_tvd)}"
        ratio = twin.attefa
        yield Headline("attefa", title, ratio.value, ratio.low, ratio.high, ratio.n, beside)


def _beside(scores: Scores, metric: str, source: str, others: Beside) -> str:
    """The same number of other sources, over the texts where both are defined; their n where these are not all."""
    values = scores.values(metric, source)
    n = int(np.isfinite(values).sum())
    parts = []
    for other, name in others:
        both = same_texts(values, scores.values(metric, other))
        if both.n == n and n:
            parts.append(f"{name} {number(both.second)}")
        elif both.n:
            parts.append(f"{name} {number(both.second)} for {number(both.first)} (n {both.n:,})")
    return ", ".join(parts)
