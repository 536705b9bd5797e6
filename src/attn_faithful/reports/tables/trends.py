"""How the numbers of a grid's cells move with a setting that is a number, such as sparsegen's lambda."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attn_faithful.records.scores import ALL
from attn_faithful.reports.groups import Group
from attn_faithful.reports.numbers import number
from attn_faithful.reports.tables.sources import CONTROLS, shown
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
    return [_trend(family) for family in families(groups) if len(set(family.x)) >= FEW]


def families(groups: Sequence[Group]) -> list[Family]:
    """Models that differ in one number alone, in the order of that number."""
    members: dict[tuple[str, str], list[tuple[float, Group]]] = defaultdict(list)
    for group in groups:
        for axis, label in group.axes.items():
            match = None if axis in _NO_SETTING else _NUMBER.fullmatch(label)
            if match is None:
                continue
            others = [name for other, name in group.axes.items() if other != axis]
            name = " ".join([*others, match[1]] if match[1] else others)
            members[axis, name].append((float(match[2]), group))
    found = []
    for (axis, name), cells in members.items():
        cells.sort(key=lambda cell: cell[0])
        found.append(Family(axis, name, [x for x, _ in cells], [group for _, group in cells]))
    return found


def _trend(family: Family) -> Trend:
    results = [_results(group) for group in family.groups]
    rows = []
    for metric, source in dict.fromkeys(key for result in results for key in result):
        values = [result.get((metric, source), math.nan) for result in results]
        rows.append(TrendRow(metric, source, values, *_tau(family.x, values)))
    return Trend(family.axis, family.name, family.x, rows)


def _results(group: Group) -> dict[tuple[str, str], float]:
    """The means of a model by metric and source."""
    results = {("accuracy", "base"): group.base.accuracy.mean}
    for variant, twins in group.twins.items():
        results["attefa", variant] = twins.attefa.mean
        results["f1", variant] = twins.f1.mean
    for record in group.tests:
        metric = group.metrics.get(record.metric)
        if metric is not None and metric.shown and record.group == ALL and _of_model(record.source):
            results[record.metric, record.source] = record.mean
    return results


def _of_model(source: str) -> bool:
    """Whether a source is no control, and of two sources one is attention."""
    pair_without_attention = "~" in source and not source.startswith("attention~")
    return not pair_without_attention and not any(control in source for control in CONTROLS)


def _tau(x: Sequence[float], values: Sequence[float]) -> tuple[float, float, int]:
    from scipy.stats import kendalltau

    pairs = [(a, b) for a, b in zip(x, values, strict=True) if not math.isnan(b)]
    if len(pairs) < FEW or len({value for _, value in pairs}) < 2:
        return math.nan, math.nan, len(pairs)
    found = kendalltau(*zip(*pairs, strict=True))
    return float(found.statistic), float(found.pvalue), len(pairs)


def trend_tables(trends: Sequence[Trend], titles: Mapping[str, str]) -> list[Table]:
    """One table a family of models.

    Args:
        trends: of `trends`.
        titles: of the tests' metrics.
    """
    return [_table(trend, titles) for trend in trends]


def _table(trend: Trend, titles: Mapping[str, str]) -> Table:
    rows = []
    for row in trend.rows:
        names = [titles.get(row.metric, row.metric), shown(row.source)]
        rows.append([*names, *map(_cell, [*row.values, row.tau, row.p]), str(row.n)])
    head = ["metric", "source", *(f"{x:g}" for x in trend.x), "Tau", "p", "n"]
    note = f"Columns: {trend.axis}; tau: Kendall's tau-b between it and the means over texts; n: cells with a mean."
    title = f"{trend.family}: results against {trend.axis}"
    return Table(title, head, rows, [note], f"{trend.axis} {trend.family}")


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else number(value)
