"""What a test gives back: rows of the tables "scores" and "variants"."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
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
        values = np.array(self.values.flatten().tolist(), dtype=np.float64)
        cells: list[Cell] = [(value, None) for value in values.tolist()]
        for place in np.flatnonzero(np.isnan(values)):
            reason = self.reasons[place] if self.reasons else None
            cells[place] = (math.nan, reason or self.otherwise)
        return cells


@dataclass(frozen=True, eq=False)
class VariantColumns:
    """One alternative of every example of a block.

    Attributes:
        test: name of the test.
        variant: which alternative it is.
        exists: (B,) bool: which examples have it; the others have no row.
        columns: further columns of the table "variants" -> an entry an example, in a tensor (B, ...) or a list; "slot"
            is 0 where it is not among them.
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
        slots = columns[0].slots
        places = len(block.example) * slots  # of an example and slot, with a row a column
        cells_by_place = zip(*(column.cells() for column in columns), strict=True)
        cells = list(chain.from_iterable(cells_by_place))
        sources = [column.source or block.attention for column in columns]
        entries: Table = {
            "example": _repeated(block.example, slots * len(columns)),
            "site": [block.site] * len(cells),
            "slot": _repeated(range(slots), len(columns)) * len(block.example),
            "source": sources * places,
            "label": [block.label] * len(cells),
            "metric": [column.metric for column in columns] * places,
            "value": [value for value, _ in cells],
            "reason": [reason for _, reason in cells],
        }
        for name, column in self.scores.items():
            column.extend(entries[name])

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


def _repeated(entries: Iterable[Any], times: int) -> list[Any]:
    """Each entry so many times, before the next."""
    return [entry for entry in entries for _ in range(times)]


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
