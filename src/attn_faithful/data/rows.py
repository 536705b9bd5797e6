"""Encoded examples in memory, as arrays: what a training loop reads thousands of times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from attn_faithful.data.files.mapped_tables import concatenated
from attn_faithful.data.text_column import values_at


class Ragged(Sequence[Any]):
    """Lists of numbers end to end: a row is a view, and nothing is stored a row.

    Args:
        values: all of them, one dimension.
        bounds: (n + 1,) where each row begins, and the end.

    Example:
        >>> rows = Ragged(np.array([5, 6, 7]), np.array([0, 2, 3]))
        >>> [row.tolist() for row in rows]
        [[5, 6], [7]]
    """

    def __init__(self, values: np.ndarray, bounds: np.ndarray) -> None:
        self.values, self.bounds = values, bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, key: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: slice) -> list[np.ndarray]: ...
    def __getitem__(self, key: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(key, slice):
            places = range(len(self))[key]
            return [self[i] for i in places]
        if not -len(self) <= key < len(self):
            raise IndexError(key)
        key %= len(self)
        start, end = self.bounds[key], self.bounds[key + 1]
        return self.values[start:end]

    @property
    def lengths(self) -> np.ndarray:
        """Numbers in each row."""
        return np.diff(self.bounds)


class Rows:
    """Columns of equal length, a row at a time without conversion.

    List columns become one flat array each and rows are views of it, so a row costs microseconds where a data set on
    disk takes a hundred times as long.

    Args:
        columns: name -> values; ragged numeric lists are allowed.

    Example:
        >>> rows = Rows({"input_ids": [[2, 3], [4]], "labels": [0, 1]})
        >>> len(rows), rows[1]["input_ids"].tolist(), rows["labels"]
        (2, [4], [0, 1])
    """

    def __init__(self, columns: dict[str, Sequence[Any]]) -> None:
        self._columns = {name: _as_ragged(values) for name, values in columns.items()}
        self.column_names = list(columns)
        self._size = len(next(iter(columns.values()))) if columns else 0

    @classmethod
    def of(cls, dataset: Any) -> Rows:
        """The columns of a datasets.Dataset."""
        table = dataset.with_format("arrow")[:]
        columns = {name: _from_arrow(table.column(name)) for name in dataset.column_names}
        return cls(columns)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        return {name: values[key] for name, values in self._columns.items()}

    @property
    def examples(self) -> Sequence[str]:
        """The id of each row."""
        return self._columns["example"]

    @property
    def labels(self) -> Sequence[Any]:
        """The label of each row, -1 where it is unknown; a list of 0 and 1 where a text may have several."""
        return self._columns["labels"]

    @property
    def lengths(self) -> Sequence[int]:
        """The tokens of each row."""
        return self._columns["length"]

    @property
    def content(self) -> list[np.ndarray]:
        """Which tokens of each row are no special ones, (T,) bool each."""
        if "special_tokens_mask" not in self.column_names:
            return [np.ones(len(ids), dtype=bool) for ids in self._columns["input_ids"]]
        return [~np.asarray(special, dtype=bool) for special in self._columns["special_tokens_mask"]]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        return [self[i] for i in indices]

    def with_columns(self, **columns: Sequence[Any]) -> Rows:
        """The same rows with further columns."""
        rows = Rows(columns)
        if len(rows) != len(self):
            raise ValueError(f"Expected {len(self)} values a column, but got {len(rows)}.")
        rows._columns = {**self._columns, **rows._columns}
        rows.column_names = list(rows._columns)
        return rows

    def take(self, indices: Sequence[int]) -> Rows:
        """The rows at ``indices``, in that order."""
        rows = Rows({})
        rows._columns = {name: values_at(values, indices) for name, values in self._columns.items()}
        rows.column_names = list(self.column_names)
        rows._size = len(indices)
        return rows


def _from_arrow(column: Any) -> Sequence[Any]:
    """A column of arrow: lists of numbers without a copy, anything else as a list."""
    if not _lists_numbers(column.type) or column.null_count or not len(column):
        return column.to_pylist()
    values, sizes = [], []
    for chunk in column.chunks:
        if not len(chunk):
            continue
        numbers = chunk.flatten()
        if numbers.null_count:
            return column.to_pylist()
        values.append(numbers)
        sizes.extend(np.diff(chunk.offsets))
    return Ragged(concatenated(values), np.cumsum([0, *sizes]))


def _lists_numbers(kind: Any) -> bool:
    import pyarrow as pa

    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return False
    return pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)


def _as_ragged(values: Sequence[Any]) -> Sequence[Any]:
    """Lists of numbers as views of one array; anything else as it is."""
    if isinstance(values, Ragged):
        return values
    values = list(values)
    if not values or not isinstance(values[0], list | np.ndarray):
        return values
    bounds = np.cumsum([0, *map(len, values)])
    numbers = np.zeros(0)
    filled = [np.asarray(row) for row in values if len(row)]
    if filled:
        numbers = np.concatenate(filled)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iufb":
        return values
    return Ragged(numbers, bounds)
