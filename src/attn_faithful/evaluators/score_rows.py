"""What a test gives back: rows of the tables "scores" and "variants"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.schema import columns as columns_of_table

UNDEFINED = "undefined"  # why a value is NaN where nothing else says it

Cell = tuple[float, str | None]  # a value, and why it is NaN
Table = dict[str, list[Any]]  # column -> entries, one a row


@dataclass(frozen=True, eq=False)
class ScoreColumn:
    """One metric of every example of a block.

    Attributes:
        metric: name from the metric table.
        values: (B,), or (B, S) of a metric by slot; NaN where undefined.
        reasons: why a value is NaN, one entry a value, of an example slot after slot; ignored where the value is a
            number. None for no entries.
        otherwise: why a value is NaN that has no entry in `reasons`.
        source: what was scored; None for the attention of the block.
    """

    metric: str
    values: Tensor | np.ndarray
    reasons: Sequence[str | None] | None = None
    otherwise: str = UNDEFINED
    source: str | None = None

    @property
    def slots(self) -> int:
        return self.values.shape[1] if self.values.ndim == 2 else 1

    def cells(self) -> list[Cell]:
        """Value and reason of every example, slot after slot; a reason stands beside NaN and nothing else."""
        values = self.values.flatten().tolist()
        reasons = self.reasons or [None] * len(values)
        pairs = zip(values, reasons, strict=True)
        return [self._cell(float(value), reason) for value, reason in pairs]

    def _cell(self, value: float, reason: str | None) -> Cell:
        if value == value:
            return value, None
        return value, reason or self.otherwise


@dataclass(frozen=True)
class NamedCell:
    """One value of a metric: what was scored, the metric's name, the value, and why it is NaN."""

    source: str
    metric: str
    value: float
    reason: str | None


class CellColumns:
    """Columns that are worked out one value at a time: for every example, slot after slot, the same metrics.

    Args:
        examples, slots: B and S.
    """

    def __init__(self, examples: int, slots: int) -> None:
        self.shape = (examples, slots)
        self.by_place: list[list[NamedCell]] = []

    def next_slot(self) -> None:
        """Go on to the next slot, or to the first one of the next example."""
        self.by_place.append([])

    def put(
        self,
        source: str,
        metric: MetricSpec,
        value: float,
        reason: str | None,
    ) -> None:
        """Add the value of a metric in this slot."""
        self.by_place[-1].append(NamedCell(source, metric.name, value, reason))

    def columns(self) -> list[ScoreColumn]:
        """A column a source and metric, in the order in which a slot's came."""
        columns = []
        for cells in zip(*self.by_place, strict=True):
            values = np.array([cell.value for cell in cells]).reshape(self.shape)
            reasons = [cell.reason for cell in cells]
            columns.append(ScoreColumn(cells[0].metric, values, reasons, source=cells[0].source))
        return columns


@dataclass(frozen=True, eq=False)
class VariantColumns:
    """One alternative of every example of a block.

    Attributes:
        test: name of the test.
        variant: which alternative it is.
        exists: (B,) bool: which examples have it; the others have no row.
        columns: further columns of the table "variants" -> an entry an example, in a tensor (B, ...) or a list.
    """

    test: str
    variant: str
    exists: Tensor
    columns: Mapping[str, Tensor | Sequence[Any]]

    def entries(self) -> list[dict[str, Any] | None]:
        """The further columns of each example; None where it has no such alternative."""
        lists = {name: _as_list(column) for name, column in self.columns.items()}
        entries: list[dict[str, Any] | None] = []
        for row, exists in enumerate(self.exists.tolist()):
            further = {name: values[row] for name, values in lists.items()}
            entries.append(further if exists else None)
        return entries


def _as_list(column: Tensor | Sequence[Any]) -> Sequence[Any]:
    if isinstance(column, Tensor):
        return column.tolist()
    return column


class ScoreRows:
    """The rows of the tables "scores" and "variants" that tests make, as columns.

    Attributes:
        scores, variants: column -> entries, one a row.
    """

    def __init__(self) -> None:
        self.scores: Table = {name: [] for name in columns_of_table("scores")}
        self.variants: Table = {name: [] for name in columns_of_table("variants")}

    def add(
        self,
        block: Block,
        values: Mapping[MetricSpec, Tensor],
        reasons: Sequence[str | None] | None = None,
        source: str | None = None,
        otherwise: str = UNDEFINED,
    ) -> None:
        """Add metrics that are undefined for the same reasons: all of the first example, then all of the next.

        Args:
            block: the examples.
            values: metric -> (B,).
            reasons, source, otherwise: as for `ScoreColumn`.
        """
        columns = []
        for metric, column in values.items():
            columns.append(ScoreColumn(metric.name, column, reasons, otherwise, source))
        self.add_columns(block, columns)

    def add_columns(self, block: Block, columns: Sequence[ScoreColumn]) -> None:
        """Add columns of one shape: all of the first example and slot, then all of the next.

        Example:
            >>> import torch
            >>> from types import SimpleNamespace
            >>> block = SimpleNamespace(example=["a", "b"], site="pool", attention="attention", label=None)
            >>> rows, tau = ScoreRows(), torch.tensor([0.5, torch.nan])
            >>> rows.add_columns(block, [ScoreColumn("tau", tau, [None, "n<2"]), ScoreColumn("p", tau)])
            >>> rows.scores["example"], rows.scores["metric"], rows.scores["reason"]
            (['a', 'a', 'b', 'b'], ['tau', 'p', 'tau', 'p'], [None, None, 'n<2', 'undefined'])
        """
        by_column = [column.cells() for column in columns]
        for place, cells in enumerate(zip(*by_column, strict=True)):
            row, slot = divmod(place, columns[0].slots)
            for column, (value, reason) in zip(columns, cells, strict=True):
                entries = {
                    "example": block.example[row],
                    "site": block.site,
                    "slot": slot,
                    "source": column.source or block.attention,
                    "label": block.label,
                    "metric": column.metric,
                    "value": value,
                    "reason": reason,
                }
                _append(self.scores, entries)

    def add_variants(self, block: Block, alternatives: Sequence[VariantColumns]) -> None:
        """Add the alternatives that exist of the first example, then those of the next; other columns are None."""
        by_alternative = [alternative.entries() for alternative in alternatives]
        for row, entries_of_row in enumerate(zip(*by_alternative, strict=True)):
            for alternative, entries in zip(alternatives, entries_of_row, strict=True):
                if entries is None:
                    continue
                where = {
                    "example": block.example[row],
                    "site": block.site,
                    "slot": 0,
                    "test": alternative.test,
                    "variant": alternative.variant,
                    "label": block.label,
                }
                _append(self.variants, {**where, **entries})

    def for_copies(self, copies: Mapping[str, Sequence[str]]) -> ScoreRows:
        """The same rows for every example that has the same text.

        Args:
            copies: example -> the examples that get its rows; none for rows that are not needed.
        """
        if all(list(names) == [example] for example, names in copies.items()):
            return self
        rows = ScoreRows()
        _extend_for_copies(rows.scores, self.scores, copies)
        _extend_for_copies(rows.variants, self.variants, copies)
        return rows

    def extend(self, other: ScoreRows) -> None:
        """Add the rows of another."""
        for name, entries in self.scores.items():
            entries.extend(other.scores[name])
        for name, entries in self.variants.items():
            entries.extend(other.variants[name])

    def without_metrics(self, metrics: Collection[str]) -> ScoreRows:
        """The same rows but for the scores of some metrics."""
        rows = ScoreRows()
        places = [i for i, metric in enumerate(self.scores["metric"]) if metric not in metrics]
        for name, entries in rows.scores.items():
            entries.extend(self.scores[name][i] for i in places)
        rows.variants = self.variants
        return rows


def is_defined(reasons: Sequence[str | None]) -> Tensor:
    """Which examples have no reason to be undefined, (B,) bool on the CPU."""
    return torch.tensor([reason is None for reason in reasons], dtype=torch.bool)


def nan_where(reasons: Sequence[str | None], values: Tensor) -> Tensor:
    """Values (B, ...) with NaN in the place of those of examples that have a reason."""
    undefined = ~is_defined(reasons).to(values.device)
    other_axes = [1] * (values.dim() - 1)
    return values.masked_fill(undefined.view(-1, *other_axes), torch.nan)


def _append(table: Table, row: Mapping[str, Any]) -> None:
    for name, entries in table.items():
        entries.append(row.get(name))


def _extend_for_copies(
    table: Table,
    other: Table,
    copies: Mapping[str, Sequence[str]],
) -> None:
    """Add each row of another table once for every copy of its example, in the copy's name."""
    places: list[int] = []
    names: list[str] = []
    for place, example in enumerate(other["example"]):
        for name in copies[example]:
            places.append(place)
            names.append(name)
    for column, entries in table.items():
        entries.extend(other[column][place] for place in places)
    table["example"] = names
