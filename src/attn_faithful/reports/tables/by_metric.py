"""A table a metric: data sets and models as rows, the best marked."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.groups import Group, all_metrics, axes_of
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.sources import (
    UndefinedReasons,
    controls_in,
    is_control,
    mean_beside,
    shown,
    speaks,
    with_control,
)
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.twins import attefa_table, base_constant, twins_of

_SAME = 1e-12
_NUMBERS = ("mean", "std", "low", "high", "std_seeds", "n_seeds", "n", "n_undefined")

Place = tuple[str, str, str]  # site, source, group of texts


def metric_tables(groups: Sequence[Group]) -> list[Table]:
    """One table a metric that the tests tabulate, and AtteFa's first."""
    tables: list[Table] = []
    of_twins = _twin_table(groups)
    if of_twins is not None:
        tables.append(of_twins)
    for metric in all_metrics(groups).values():
        if metric.shown:
            tables.append(_MetricTable(metric, groups).table())
    return tables


def places(metric: str, groups: Sequence[Group]) -> list[tuple[str, str]]:
    """The sites and sources of a metric over all texts, without controls."""
    sites_and_sources: dict[tuple[str, str], None] = {}
    for group in groups:
        for record in group.tests:
            if record.metric == metric and record.group == ALL and not is_control(record.source):
                sites_and_sources[record.site, record.source] = None
    return list(sites_and_sources)


@dataclass(frozen=True)
class _Candidate:
    """A row whose number may be the best of those that can be compared.

    Attributes:
        row: its place.
        block: what rows must share to be compared.
        mean: NaN where undefined.
    """

    row: int
    block: Hashable
    mean: float


def _best_rows(candidates: Sequence[_Candidate], direction: str | None) -> set[int]:
    """The rows with the mean that speaks most for faithful attention; none of a block where all are the same."""
    best: set[int] = set()
    if direction is None:
        return best
    defined = [candidate for candidate in candidates if not math.isnan(candidate.mean)]
    for block in by_key(defined, lambda candidate: candidate.block).values():
        means = [candidate.mean for candidate in block]
        smallest, largest = min(means), max(means)
        if largest - smallest <= _SAME:
            continue
        top = largest if direction == "higher" else smallest
        for candidate in block:
            if abs(candidate.mean - top) <= _SAME:
                best.add(candidate.row)
    return best


class _MetricTable:
    """The table of one metric, its rows by data set, then by site and source, then by model."""

    def __init__(self, metric: MetricFacts, groups: Sequence[Group]) -> None:
        self.metric, self.groups = metric, groups
        self.places = places(metric.name, groups)
        sites = {site for site, _ in self.places}
        self.several_sites = len(sites) > 1
        self.other_axes = [axis for axis in axes_of(groups) if axis != "data"]
        self.records = list(map(self._records, groups))
        all_sources = [source for _, source, _ in chain.from_iterable(self.records)]
        self.controls = controls_in(all_sources)
        self.rows: list[list[str]] = []
        self.candidates: list[_Candidate] = []
        self.reasons = UndefinedReasons()

    def _records(self, group: Group) -> dict[Place, ScoreRecord]:
        """The records of the metric, by place."""
        records: dict[Place, ScoreRecord] = {}
        for record in group.tests:
            if record.metric == self.metric.name:
                records[record.site, record.source, record.group] = record
        return records

    def table(self) -> Table:
        data_sets = dict.fromkeys(group.axes["data"] for group in self.groups)
        for data in data_sets:
            for site, source in self.places:
                self._add(data, site, source)
        names = ["data", "site", "source"] if self.several_sites else ["data", "source"]
        bracketed = [f"({control})" for control in self.controls]
        head = [*names, *self.other_axes, "Mean", "95%", *bracketed, "n", "undefined"]
        metric = self.metric
        title = f"{metric.title}: {metric.meaning} ({metric.test}, {metric.paper})"
        best = _best_rows(self.candidates, metric.direction)
        marks = {(row, head.index("Mean")) for row in best}
        first = ("Mean", "95%", "n", "undefined")
        return Table(title, head, self.rows, self._notes(bool(best)), metric.name, marks, self._data(), first=first)

    def _add(self, data: str, site: str, source: str) -> None:
        """The rows of one data set, site and source."""
        names = [data, site, shown(source)] if self.several_sites else [data, shown(source)]
        for group, records in zip(self.groups, self.records, strict=True):
            record = records.get((site, source, ALL))
            if record is None or group.axes["data"] != data:
                continue
            if speaks(source, self.metric) != "-" and record.n:
                block = (data, site, source, group.comparable)
                self.candidates.append(_Candidate(len(self.rows), block, record.mean))
            self.reasons.add(record.reasons)
            numbers = [_over_seeds(record), interval(record.low, record.high)]
            beside = [self._beside(record, records, control) for control in self.controls]
            counts = [str(record.n), str(record.n_undefined)]
            self.rows.append([*names, *group.labels(self.other_axes), *numbers, *beside, *counts])

    def _beside(self, record: ScoreRecord, records: Mapping[Place, ScoreRecord], control: str) -> str:
        """The same number with a control in attention's place; a dash where attention has no part in it."""
        source = with_control(record.source, control)
        if source == record.source:
            return "-"
        return mean_beside(records.get((record.site, source, ALL)), record.n)

    def _notes(self, marked: bool) -> list[str]:
        unit, over, of_interval = "", "", ""
        if self.metric.unit:
            unit = f", in {self.metric.unit}"
        if any(len(group.seeds) > 1 for group in self.groups):
            over, of_interval = " over seeds ± standard deviation (ddof 0); n: over all seeds", ", mean over seeds"
        notes = [f"Mean over texts{unit}{over}; 95%: bootstrap interval{of_interval}."]
        if self.controls:
            notes.append(
                "In brackets: the same with such attention in the model's place, or such a ranking, and its n where it "
                "is another."
            )
        if marked:
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
            labels = [group.axes.get(axis, "") for axis in axes]
            for place, record in records.items():
                numbers = [unrounded(getattr(record, name)) for name in _NUMBERS]
                reasons = "; ".join(f"{reason} ({n})" for reason, n in record.reasons.items())
                rows.append([*labels, self.metric.name, *place, *numbers, reasons])
        return [*axes, "metric", "site", "source", "class", *_NUMBERS, "reasons"], rows


def unrounded(value: float | None) -> float | str:
    """A number for CSV; empty where it is undefined."""
    if value is None or math.isnan(value):
        return ""
    return value


def _over_seeds(record: ScoreRecord) -> str:
    """The mean, with the standard deviation over seeds where there are several."""
    if not record.n:
        return "-"
    mean = number(record.mean)
    if record.n_seeds is None or record.n_seeds < 2:
        return mean
    return f"{mean} ±{number(record.std_seeds)}"


def _twin_table(groups: Sequence[Group]) -> Table | None:
    """AtteFa's table with the best of each data set marked; a collapsed twin's says nothing. None without twins."""
    table = attefa_table(groups)
    if table is None:
        return None
    candidates = []
    for row, (group, twins) in enumerate(twins_of(groups, False)):
        if not twins.collapsed and not base_constant(twins):
            block = (group.axes["data"], twins.variant, group.comparable)
            candidates.append(_Candidate(row, block, twins.attefa.mean))
    best = _best_rows(candidates, "higher")
    table.best = {(row, table.head.index("AtteFa")) for row in best}
    if best:
        table.notes.append(
            "Bold: the highest of a data set and kind of twin among models without collapsed twins or a constant base."
        )
    return table
