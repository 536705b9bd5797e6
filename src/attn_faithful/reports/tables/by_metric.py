"""A table a metric: data sets and models as rows, the best marked."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.reports.groups import Group
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.models import axes_of, labels
from attn_faithful.reports.tables.sources import (
    CONTROLS,
    UndefinedReasons,
    is_control,
    mean_beside,
    parts,
    shown,
    speaks,
    with_control,
)
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.twins import attefa_table, base_constant

_SAME = 1e-12
_NUMBERS = ("mean", "std", "low", "high", "std_seeds", "n_seeds", "n", "n_undefined")

Place = tuple[str, str, str]  # site, source, group of texts


def metric_tables(groups: Sequence[Group]) -> list[Table]:
    """One table a metric that the tests tabulate, and AtteFa's first."""
    of_twins = _twin_table(groups)
    of_tests = [_MetricTable(metric, groups).table() for metric in all_metrics(groups).values() if metric.shown]
    return of_tests if of_twins is None else [of_twins, *of_tests]


def all_metrics(groups: Sequence[Group]) -> dict[str, MetricFacts]:
    """What the metrics of some groups are, by name."""
    metrics: dict[str, MetricFacts] = {}
    for group in groups:
        metrics |= group.metrics
    return metrics


def places(metric: str, groups: Sequence[Group]) -> list[tuple[str, str]]:
    """The sites and sources of a metric over all texts, without controls."""
    found: dict[tuple[str, str], None] = {}
    for group in groups:
        for record in group.tests:
            if record.metric == metric and record.group == ALL and not is_control(record.source):
                found[record.site, record.source] = None
    return list(found)


@dataclass
class _MetricTable:
    """The table of one metric.

    Attributes:
        metric: what it is.
        groups: the models.
        rows: as they are added.
        best: rows that are marked.
        reasons: why numbers are undefined.
    """

    metric: MetricFacts
    groups: Sequence[Group]
    rows: list[list[str]] = field(default_factory=list)
    best: set[int] = field(default_factory=set)
    reasons: UndefinedReasons = field(default_factory=UndefinedReasons)

    def table(self) -> Table:
        """The table, its rows by data set, then by site and source, then by model."""
        for data in dict.fromkeys(group.axes["data"] for group in self.groups):
            for site, source in self.places:
                self._add_block(data, site, source)
        sites = ["site"] if self.several_sites else []
        bracketed = [f"({control})" for control in self.controls]
        head = ["data", *sites, "source", *self.other_axes, "Mean", "95%", *bracketed, "n", "undefined"]
        metric = self.metric
        title = f"{metric.title}: {metric.meaning} ({metric.test}, {metric.paper})"
        marks = {(row, head.index("Mean")) for row in self.best}
        return Table(title, head, self.rows, self._notes(), metric.name, marks, self._data())

    @cached_property
    def records(self) -> list[dict[Place, ScoreRecord]]:
        """The metric's records of each group, by place."""
        return [
            {(r.site, r.source, r.group): r for r in group.tests if r.metric == self.metric.name}
            for group in self.groups
        ]

    @cached_property
    def places(self) -> list[tuple[str, str]]:
        """Sites and sources, without controls."""
        return places(self.metric.name, self.groups)

    @cached_property
    def several_sites(self) -> bool:
        return len({site for site, _ in self.places}) > 1

    @cached_property
    def controls(self) -> list[str]:
        """The controls that stand in the source of any record."""
        sources = {source for records in self.records for _, source, _ in records}
        return [control for control in CONTROLS if any(control in parts(source) for source in sources)]

    @cached_property
    def other_axes(self) -> list[str]:
        """All axes but "data"."""
        return [axis for axis in axes_of(self.groups) if axis != "data"]

    def _add_block(self, data: str, site: str, source: str) -> None:
        """The rows of one data set, site and source; the best is marked among those that were tested alike."""
        means: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for group, records in zip(self.groups, self.records, strict=True):
            record = records.get((site, source, ALL))
            if record is None or group.axes["data"] != data:
                continue
            means[group.comparable].append((len(self.rows), record.mean if record.n else math.nan))
            self.reasons.add(record.reasons)
            names = [data, *([site] if self.several_sites else []), shown(source), *labels(group, self.other_axes)]
            beside = [self._beside(record, records, control) for control in self.controls]
            counts = [str(record.n), str(record.n_undefined)]
            self.rows.append([*names, _over_seeds(record), interval(record.low, record.high), *beside, *counts])
        if speaks(source, self.metric) != "-":
            for alike in means.values():
                self.best.update(best_rows(alike, self.metric.direction))

    def _beside(self, record: ScoreRecord, records: Mapping[Place, ScoreRecord], control: str) -> str:
        """The same number with a control in attention's place; a dash where attention has no part in it."""
        source = with_control(record.source, control)
        if source == record.source:
            return "-"
        return mean_beside(records.get((record.site, source, ALL)), record.n)

    def _notes(self) -> list[str]:
        unit = f", in {self.metric.unit}" if self.metric.unit else ""
        over, of_interval = "", ""
        if max(len(group.seeds) for group in self.groups) > 1:
            over, of_interval = " over seeds ± standard deviation (ddof 0); n: over all seeds", ", mean over seeds"
        notes = [f"Mean over texts{unit}{over}; 95%: bootstrap interval{of_interval}."]
        if self.controls:
            notes.append(
                "In brackets: the same with such attention in the model's place, and its n where it is another."
            )
        if self.best:
            notes.append(
                f"Bold: of the model's own attention, the {self.metric.direction} mean speaks for faithful attention; "
                "best of a data set and source."
            )
        return notes + self.reasons.notes

    def _data(self) -> tuple[list[str], list[list[Any]]]:
        """Every number unrounded, controls and classes too."""
        axes = ["data", *self.other_axes]
        rows = []
        for group, records in zip(self.groups, self.records, strict=True):
            names = [group.axes.get(axis, "") for axis in axes]
            for (site, source, texts), record in records.items():
                numbers = [_unrounded(getattr(record, name)) for name in _NUMBERS]
                reasons = "; ".join(f"{reason} ({n})" for reason, n in record.reasons.items())
                rows.append([*names, self.metric.name, site, source, texts, *numbers, reasons])
        return [*axes, "metric", "site", "source", "class", *_NUMBERS, "reasons"], rows


def _unrounded(value: float | None) -> float | str:
    """A number for CSV; empty where it is undefined."""
    return "" if value is None or math.isnan(value) else value


def _over_seeds(record: ScoreRecord) -> str:
    if not record.n:
        return "-"
    several = record.n_seeds is not None and record.n_seeds > 1
    return f"{number(record.mean)} ±{number(record.std_seeds)}" if several else number(record.mean)


def best_rows(means: Sequence[tuple[int, float]], direction: str | None) -> list[int]:
    """The rows with the mean that speaks most for faithful attention; none where nothing can be compared."""
    defined = [(row, mean) for row, mean in means if not math.isnan(mean)]
    if direction is None or len(defined) < 2:
        return []
    values = [mean for _, mean in defined]
    if max(values) - min(values) <= _SAME:
        return []
    best = max(values) if direction == "higher" else min(values)
    return [row for row, mean in defined if abs(mean - best) <= _SAME]


def _twin_table(groups: Sequence[Group]) -> Table | None:
    """AtteFa's table with the best of each data set marked; a collapsed twin's says nothing. None without twins."""
    table = attefa_table(groups)
    if table is None:
        return None
    alike: dict[tuple[str, str, str], list[tuple[int, float]]] = defaultdict(list)
    row = 0
    for group in groups:
        for variant, twins in group.twins.items():
            if twins.constrained:
                continue
            if not twins.collapsed and not base_constant(twins) and twins.attefa.n:
                alike[group.axes["data"], variant, group.comparable].append((row, twins.attefa.mean))
            row += 1
    best = [place for means in alike.values() for place in best_rows(means, "higher")]
    table.best = {(place, table.head.index("AtteFa")) for place in best}
    if best:
        table.notes.append(
            "Bold: the highest of a data set and kind of twin among models without collapsed twins or a constant base."
        )
    return table
