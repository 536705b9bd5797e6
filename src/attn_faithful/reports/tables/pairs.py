"""Models in pairs on the texts that they share, a table a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attn_faithful.functional.summaries import Paired, holm, paired
from attn_faithful.records.scores import ALL, MetricFacts
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.groups import Group, all_metrics
from attn_faithful.reports.numbers import interval, number, p_value
from attn_faithful.reports.tables.by_metric import places, unrounded
from attn_faithful.reports.tables.sources import shown
from attn_faithful.reports.tables.table import Table

ALL_PAIRS = 8  # models of one data set, above which each is compared with the best alone
_FIRST = ("Difference", "95%", "p (Holm)", "n")
_CSV = ["data", "metric", "site", "source", "first", "second", "mean", "low", "high", "effect", "p", "p_holm", "n"]


@dataclass(frozen=True)
class Pair:
    """Two models on the same texts.

    Attributes:
        data, site, source: what was compared.
        first, second: what tells the two from each other.
        test: first minus second.
    """

    data: str
    site: str
    source: str
    first: str
    second: str
    test: Paired


@dataclass(frozen=True)
class _Column:
    """A number of one model: what tells the model from others, a value a text, and its mean."""

    title: str
    values: Any
    mean: float


def paired_tables(groups: Sequence[Group]) -> list[Table]:
    """One table a metric, of the models that share texts and were tested alike, two by two."""
    alike = by_key(groups, lambda group: group.comparable)
    tables = []
    for metric in all_metrics(groups).values():
        if not metric.shown or metric.direction is None:
            continue
        pairs: list[Pair] = []
        for same in alike.values():
            if len(same) > 1:
                pairs += _pairs(metric, same)
        if pairs:
            tables.append(_table(metric, pairs))
    return tables


def _pairs(metric: MetricFacts, groups: Sequence[Group]) -> list[Pair]:
    names, differences = [], []
    for site, source in places(metric.name, groups):
        columns = _columns(metric.name, site, source, groups)
        for one, two in _chosen(columns, metric.direction):
            names.append((groups[0].axes["data"], site, source, one.title, two.title))
            differences.append(one.values - two.values)  # by text; NaN where one of them lacks it
    if not names:
        return []
    import pandas as pd

    tests = paired(pd.concat(differences, axis=1).to_numpy())  # (texts, pairs)
    return [Pair(*which, test) for which, test in zip(names, tests, strict=True)]


def _columns(metric: str, site: str, source: str, groups: Sequence[Group]) -> list[_Column]:
    """A number of the models that have one, each text's mean over seeds."""
    columns = []
    for group in groups:
        records = [record for record in group.tests if record.place == (metric, site, source, ALL)]
        if not records or not records[0].n:
            continue
        total, *others = [run.scores(metric, source, site) for run in group.runs]
        for values in others:
            total = total + values
        mean_over_seeds = total / len(group.runs)
        columns.append(_Column(model_title(group, groups), mean_over_seeds, records[0].mean))
    return columns


def _chosen(columns: Sequence[_Column], direction: str | None) -> list[tuple[_Column, _Column]]:
    """All pairs; of many models each with the best."""
    if len(columns) <= ALL_PAIRS:
        return list(combinations(columns, 2))
    choose = max if direction == "higher" else min
    best = choose(columns, key=lambda column: column.mean)
    return [(best, other) for other in columns if other is not best]


def model_title(group: Group, groups: Sequence[Group]) -> str:
    """The labels by which a group differs from the others; all but the data where it does not."""
    labels = []
    for axis, label in group.axes.items():
        if any(other.axes.get(axis) != label for other in groups):
            labels.append(label)
    if not labels:
        labels = [label for axis, label in group.axes.items() if axis != "data"]
    return " ".join(labels)


def _table(metric: MetricFacts, pairs: Sequence[Pair]) -> Table:
    sites = {pair.site for pair in pairs}
    several = len(sites) > 1
    corrected = holm([pair.test.p for pair in pairs])
    rows, data = [], []
    for pair, p_holm in zip(pairs, corrected, strict=True):
        test = pair.test
        site = [pair.site] if several else []
        named = [pair.data, *site, shown(pair.source), pair.first, pair.second]
        numbers = [number(test.mean), interval(test.low, test.high), number(test.effect, 2)]
        rows.append([*named, *numbers, p_value(test.p), p_value(p_holm), str(test.n)])
        names = [pair.data, metric.name, pair.site, pair.source, pair.first, pair.second]
        values = map(unrounded, (test.mean, test.low, test.high, test.effect, test.p, p_holm))
        data.append([*names, *values, test.n])
    site = ["site"] if several else []
    head = ["data", *site, "source", "first", "second", "Difference", "95%", "Effect", "p", "p (Holm)", "n"]
    title, name = f"{metric.title}: models in pairs", f"{metric.name}-paired"
    return Table(title, head, rows, _notes(metric, pairs), name, data=(_CSV, data), first=_FIRST)


def _notes(metric: MetricFacts, pairs: Sequence[Pair]) -> list[str]:
    notes = [
        "Difference: mean of first minus second over the n texts in which both are defined (each its mean over seeds), "
        "with its 95% bootstrap interval; effect: rank-biserial correlation, -1 to 1; p: Wilcoxon signed-rank, "
        "two-sided, and corrected for all rows of the table (Holm).",
        f"A {metric.direction} value speaks for faithful attention, where the source is the model's own attention.",
    ]
    firsts = {pair.first for pair in pairs}
    if len(firsts) == 1 and len(pairs) >= ALL_PAIRS:
        notes.append(f"More than {ALL_PAIRS} models: each is compared with the best alone.")
    return notes
