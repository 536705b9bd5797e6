"""What the papers printed, number by number, and ours beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from attn_faithful.reports.paper_numbers import PaperNumbers
from attn_faithful.reports.papers import PAPERS
from evidence.cells import ALL, CellSummary, Number
from evidence.estimates import Estimate, over_seeds
from evidence.schedule import Entry, cells_of

RECIPES = Path(__file__).parents[1] / "recipes" / "papers"
TWIN = "attefa"  # the recipe's own kind of twin
_OF_TWINS = ("twin_f1", "tvd", "jsd", "attefa")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Row:
    """One printed number and ours.

    Attributes:
        key: labels of the cell, such as ("SST", "lstm", "additive").
        metric: as the recipe writes it: "base_f1", "attefa", or metric, source and class.
        paper: the printed number.
        band: how far ours may lie from it.
        ours: over seeds; None where nothing was run.
        reason: why there is nothing of ours; "" where there is.
    """

    key: tuple[str, ...]
    metric: str
    paper: float
    band: float
    ours: Estimate | None
    reason: str = ""

    @property
    def within(self) -> str:
        """ "interval" where ours holds the printed number, else "band", else "no"; "" without a number of ours."""
        if self.ours is None or not self.ours.seeds:
            return ""
        if self.ours.low <= self.paper <= self.ours.high:
            return "interval"
        if abs(self.ours.value - self.paper) <= self.band + _ROUNDING:
            return "band"
        return "no"


def printed_rows(paper: str, cells: Sequence[CellSummary], entries: Sequence[Entry]) -> list[Row]:
    """Every number that a paper printed, in the recipe's order.

    Args:
        paper: name of its recipe.
        cells: all that is finished.
        entries: of the schedule, for what is not.
    """
    expected = expected_of(paper)
    rows = []
    for row, values in expected.rows.items():
        cells_of_row = [cell for cell in cells if cell.paper == paper and _key(cell, expected.key) == row]
        for metric, value in zip(expected.metrics, values, strict=False):
            if value is None:
                continue
            band = expected.band.get(metric.split(" ")[0], 0.0)
            ours = over_seeds(numbers_of(cells_of_row, metric))
            if ours.seeds:
                rows.append(Row(_labels(row, cells_of_row[0], expected.key), metric, value, band, ours))
            else:
                reason = missing_because(paper, row, expected.key, entries)
                rows.append(Row(tuple(row.split(" ")), metric, value, band, None, reason))
    return rows


def expected_of(paper: str) -> PaperNumbers:
    """The printed numbers that a recipe holds."""
    content: dict[str, Any] = yaml.safe_load((RECIPES / f"{paper}.yaml").read_text(encoding="utf-8"))
    return PaperNumbers.from_json(content["expected"])


def numbers_of(cells: Sequence[CellSummary], metric: str) -> list[Number]:
    """The numbers of a printed metric, one a seed of the base and, where it is of twins, of the twin."""
    found = []
    for cell in cells:
        if metric in _OF_TWINS:
            found += cell.of_twins(metric, TWIN)
            continue
        name, source, group = _parts(metric)
        if group.isdigit() and int(group) < len(cell.label_names):
            group = cell.label_names[int(group)]
        found += cell.find(name, source, group)
    return found


def _parts(metric: str) -> tuple[str, str, str]:
    """Metric, source and class of a printed metric; those of the base have a name alone."""
    if " " not in metric:
        return metric, "", ALL
    name, source, group = metric.split(" ", 2)
    return name, source, group


def missing_because(paper: str, row: str, key: Sequence[str], entries: Sequence[Entry]) -> str:
    """Why a row has no number of ours."""
    for known in PAPERS:
        if known.recipe != f"{paper}.yaml":
            continue
        for data, reason in known.missing.items():
            if f"{row} ".startswith(f"{data} "):
                return reason
    minutes = 0.0
    why = ""
    for entry in entries:
        places = [" ".join(axes.get(axis, "-") for axis in key) for axes in cells_of(entry)]
        if entry.paper == paper and row in places:
            minutes += entry.minutes * len(entry.seeds)
            why = entry.left_out or why
    if not minutes:
        return "not in the schedule"
    return f"{why or 'not run'}: {hours(minutes)}"


def hours(minutes: float) -> str:
    """Minutes of one core in words."""
    if minutes < 60:
        return f"about {minutes:.0f} min of one core"
    return f"about {minutes / 60:.1f} h of one core"


def _key(cell: CellSummary, axes: Sequence[str]) -> str:
    return " ".join(cell.axes.get(axis, "-") for axis in axes)


def _labels(row: str, cell: CellSummary, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell.axes.get(axis, "-") for axis in axes)
