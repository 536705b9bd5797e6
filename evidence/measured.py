"""Tables of what was measured: a row a model, a column a number with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evidence.cells import ALL, CellSummary, Number, all_cells
from evidence.estimates import Estimate, difference, over_seeds
from evidence.markdown import number, table

Rows = Mapping[str, Sequence[CellSummary]]  # label of a row -> its cells, a seed each


@dataclass(frozen=True)
class Column:
    """One number of every row.

    Attributes:
        title: head of the column.
        metric, source: of the number, as in `Number`.
        digits: decimal places.
    """

    title: str
    metric: str
    source: str = "attention"
    digits: int = 2

    def of(self, cells: Sequence[CellSummary]) -> Estimate:
        """The number over the seeds of a row."""
        return over_seeds(self.numbers(cells))

    def numbers(self, cells: Sequence[CellSummary]) -> list[Number]:
        """Those of the cells that have it."""
        found: list[Number] = []
        for cell in cells:
            found += cell.find(self.metric, self.source)
        return found


ACCURACY = Column("accuracy", "base_accuracy", "", 3)


def cells_of(topic: str, **labels: str) -> list[CellSummary]:
    """The cells of a topic or recipe with these labels, by seed."""
    found = []
    for cell in all_cells():
        if cell.paper == topic and labels.items() <= dict(cell.axes).items():
            found.append(cell)
    return sorted(found, key=lambda cell: cell.seed)


def by_label(topic: str, axis: str, labels: Sequence[str]) -> dict[str, list[CellSummary]]:
    """A row a label of an axis, with all its seeds."""
    return {label: cells_of(topic, **{axis: label}) for label in labels}


def by_seed(topic: str, axis: str, labels: Sequence[str]) -> dict[str, list[CellSummary]]:
    """A row a label and seed."""
    rows = {}
    for label in labels:
        for cell in cells_of(topic, **{axis: label}):
            rows[f"{label}, seed {cell.seed}"] = [cell]
    return rows


def with_interval(estimate: Estimate, digits: int = 2) -> str:
    """A number and its 95% interval: "0.65 [0.60, 0.72]"; "" where nothing was measured."""
    if not estimate.n and not estimate.seeds:
        return ""
    shown = number(estimate.value, digits)
    if math.isnan(estimate.low):
        return shown
    return f"{shown} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def measured_table(first: str, rows: Rows, columns: Sequence[Column]) -> str:
    """A row a model.

    Args:
        first: head of the column of labels.
        rows: label -> cells.
        columns: the numbers.
    """
    lines = [[label, *_shown(cells, columns)] for label, cells in rows.items()]
    return table([first, *(column.title for column in columns)], lines)


def turned_table(first: str, rows: Rows, columns: Sequence[Column]) -> str:
    """The same table with a column a model and a row a number."""
    of_models = [_shown(cells, columns) for cells in rows.values()]
    lines = []
    for place, column in enumerate(columns):
        lines.append([column.title, *(shown[place] for shown in of_models)])
    return table([first, *rows], lines)


def _shown(cells: Sequence[CellSummary], columns: Sequence[Column]) -> list[str]:
    return [with_interval(column.of(cells), column.digits) for column in columns]


def gap(cells: Sequence[CellSummary], first: Column, second: Column) -> Estimate:
    """First minus second number of the same cells."""
    return difference(first.of(cells), second.of(cells))


def between(cells: Sequence[CellSummary], others: Sequence[CellSummary], column: Column) -> Estimate:
    """A number of cells minus that of others."""
    return difference(column.of(cells), column.of(others))


def sources_of(cells: Sequence[CellSummary], metric: str) -> list[str]:
    """Sources that have a metric over all texts, in the order of the cells."""
    found = {}
    for cell in cells:
        for entry in cell.numbers:
            if entry.metric == metric and entry.group == ALL:
                found[entry.source] = None
    return list(found)


def about(cells: Sequence[CellSummary]) -> str:
    """What the numbers of cells rest on: texts, seeds, versions, machine."""
    if not cells:
        return "Nothing was measured."
    texts = sorted({cell.data["test"]["n"] for cell in cells})
    seeds = sorted({cell.seed for cell in cells})
    first = cells[0]
    versions = ", ".join(f"{name} {first.versions[name]}" for name in ("torch", "transformers", "python"))
    machine = f"{first.machine['device']}, {first.machine['machine']}, {first.machine['threads']} thread"
    minutes = sum(cell.minutes for cell in cells)
    parts = [
        f"Test texts: {', '.join(f'{n:,}' for n in texts)}",
        f"seeds: {', '.join(map(str, seeds))}",
        f"{minutes:.0f} minutes in all",
        versions,
        machine,
    ]
    return "; ".join(parts) + "."
