"""How the numbers of a grid's cells move with a setting that is a number, such as sparsegen's lambda."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attn_faithful.records.scores import MetricFacts
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.groups import Group, all_metrics
from attn_faithful.reports.numbers import number
from attn_faithful.reports.tables.sources import shown, shown_means
from attn_faithful.reports.tables.table import Table

_NUMBER = re.compile(r"(?:(.*?)\s+)?(-?\d+(?:\.\d+)?(?:e-?\d+)?)")
# axes whose labels may end in a number that measures nothing
_NO_SETTING = ("data", "encoder", "model", "model from", "folder", "split", "numbers")
FEW = 3  # cells, below which an order says nothing


@dataclass(frozen=True)
class Family:
    """Models that differ in one number alone.

    Attributes:
        axis: that the number is of.
        name: the labels of the other axes, and the words before the number.
        x: the number, in order.
        groups: the models, in that order.
    """

    axis: str
    name: str
    x: Sequence[float]
    groups: Sequence[Group]


@dataclass(frozen=True)
class TrendRow:
    """One result against the setting.

    Attributes:
        metric, source: of the result.
        values: one a model, NaN where undefined.
        tau, p: Kendall's tau-b between the setting and the values, and its p-value; NaN for fewer than three values.
        n: models with a value.
    """

    metric: str
    source: str
    values: Sequence[float]
    tau: float
    p: float
    n: int


@dataclass(frozen=True)
class Trend:
    """The results of a family of models against their setting.

    Attributes:
        axis, family, x: of the family.
        rows: accuracy, AtteFa and F1 of each twin, and all that the tests tabulate.
    """

    axis: str
    family: str
    x: Sequence[float]
    rows: Sequence[TrendRow]


def trends(groups: Sequence[Group]) -> list[Trend]:
    """One trend a family of three models or more.

    The number is an axis's label, or stands at its end: "0.5", "sparsegen -10".
    """
    listed = []
    for family in families(groups):
        distinct = set(family.x)
        if len(distinct) >= FEW:
            listed.append(_trend(family))
    return listed


def families(groups: Sequence[Group]) -> list[Family]:
    """Models that differ in one number alone, in the order of that number."""
    members = by_key(_numbered(groups), lambda member: (member.axis, member.others))
    listed = []
    for (axis, others), cells in members.items():
        cells.sort(key=lambda member: member.number)
        x = [cell.number for cell in cells]
        of_family = [cell.group for cell in cells]
        listed.append(Family(axis, others, x, of_family))
    return listed


@dataclass(frozen=True)
class _Numbered:
    """A model with a number in one of its labels."""

    axis: str
    others: str
    number: float
    group: Group


def _numbered(groups: Sequence[Group]) -> Iterator[_Numbered]:
    for group in groups:
        for axis, label in group.axes.items():
            match = _NUMBER.fullmatch(label)
            if match is None or axis in _NO_SETTING:
                continue
            others = [name for other, name in group.axes.items() if other != axis]
            if match[1]:
                others.append(match[1])
            yield _Numbered(axis, " ".join(others), float(match[2]), group)


def _trend(family: Family) -> Trend:
    results = list(map(_results, family.groups))
    names = dict.fromkeys(itertools.chain.from_iterable(results))
    rows = []
    for metric, source in names:
        values = [result.get((metric, source), math.nan) for result in results]
        rows.append(TrendRow(metric, source, values, *_tau(family.x, values)))
    return Trend(family.axis, family.name, family.x, rows)


def _results(group: Group) -> dict[tuple[str, str], float]:
    """The means of a model by metric and source."""
    results = {("accuracy", "base"): group.base.accuracy.mean}
    for variant, twins in group.twins.items():
        results["attefa", variant] = twins.attefa.mean
        results["f1", variant] = twins.f1.mean
    return results | shown_means(group.tests, group.metrics)


def _tau(x: Sequence[float], values: Sequence[float]) -> tuple[float, float, int]:
    """Kendall's tau-b between two columns, its p, and how many values are defined."""
    from scipy.stats import kendalltau

    settings: list[float] = []
    defined: list[float] = []
    for setting, value in zip(x, values, strict=True):
        if not math.isnan(value):
            settings.append(setting)
            defined.append(value)
    n = len(defined)
    if n < FEW or len(set(defined)) < 2:
        return math.nan, math.nan, n
    test = kendalltau(settings, defined)
    return float(test.statistic), float(test.pvalue), n


def trend_tables(groups: Sequence[Group]) -> list[Table]:
    """One table a family of models."""
    metrics = all_metrics(groups)
    return [_table(trend, metrics) for trend in trends(groups)]


def _table(trend: Trend, metrics: Mapping[str, MetricFacts]) -> Table:
    rows = []
    for row in trend.rows:
        title = row.metric
        if title in metrics:
            title = metrics[title].title
        numbers = map(number, (*row.values, row.tau, row.p))
        rows.append([title, shown(row.source), *numbers, str(row.n)])
    settings = [f"{x:g}" for x in trend.x]
    head = ["metric", "source", *settings, "Tau", "p", "n"]
    note = f"Columns: {trend.axis}; tau: Kendall's tau-b between it and the means over texts; n: cells with a mean."
    title = f"{trend.family}: results against {trend.axis}"
    return Table(title, head, rows, [note], f"{trend.axis} {trend.family}")
