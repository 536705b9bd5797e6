"""Encoded examples in memory, as arrays: what a training loop reads thousands of times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from attn_faithful.data.mapped_tables import Spill, flat


class Ragged(Sequence[Any]):
    """Lists of numbers end to end: a row is a view, and nothing is held a row.

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
            return [self[i] for i in range(*key.indices(len(self)))]
        if not -len(self) <= key < len(self):
            raise IndexError(key)
        key %= max(len(self), 1)
        return self.values[self.bounds[key] : self.bounds[key + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Numbers in each row."""
        return np.diff(self.bounds)


class Texts(Sequence[str]):
    """Texts that stay in arrow's memory: one is made when it is asked for.

    Args:
        column: a chunked array of strings.

    Example:
        >>> import datasets
        >>> texts = Texts.of(datasets.Dataset.from_dict({"text": ["a", "b", "c"]}), "text")
        >>> texts[1], list(texts.take([2, 0]))
        ('b', ['c', 'a'])
    """

    def __init__(self, column: Any) -> None:
        self.column = column

    @classmethod
    def of(cls, dataset: Any, name: str) -> Texts:
        """A column of a datasets.Dataset."""
        return cls(dataset.select_columns([name]).with_format("arrow")[:].column(name))

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, key: Any) -> Any:
        return self.column[key].as_py() if isinstance(key, int) else self.column[key].to_pylist()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 1000):
            yield from self.column.slice(start, 1000).to_pylist()

    def take(self, index: Sequence[int]) -> Texts:
        """The texts at ``index``, in that order."""
        return self if len(index) == len(self) and list(index) == list(range(len(self))) else Texts(self._taken(index))

    def _taken(self, index: Sequence[int]) -> Any:
        import pyarrow as pa

        spill = Spill()
        for start in range(0, len(index), 1000):
            spill.add(pa.table({"text": self.column.take(pa.array(index[start : start + 1000]))}))
        return spill.table().column(0) if len(index) else self.column[:0]


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
        self._columns = {name: _flat(values) for name, values in columns.items()}
        self.column_names = list(columns)
        self._size = len(next(iter(columns.values()))) if columns else 0

    @classmethod
    def of(cls, dataset: Any) -> Rows:
        """The columns of a datasets.Dataset."""
        table = dataset.with_format("arrow")[:]
        return cls({name: _column(table.column(name)) for name in dataset.column_names})

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        return {name: values[key] for name, values in self._columns.items()}

    def __getitems__(self, index: Sequence[int]) -> list[dict[str, Any]]:
        return [self[i] for i in index]

    def with_columns(self, **columns: Sequence[Any]) -> Rows:
        """The same rows with further columns."""
        whole = Rows(columns)
        if len(whole) != len(self):
            raise ValueError(f"Expected {len(self)} values a column, but got {len(whole)}.")
        whole._columns = {**self._columns, **whole._columns}
        whole.column_names = list(whole._columns)
        return whole

    def take(self, index: Sequence[int]) -> Rows:
        """The rows at ``index``, in that order."""
        taken = Rows({})
        taken._columns = {name: [values[i] for i in index] for name, values in self._columns.items()}
        taken.column_names, taken._size = list(self.column_names), len(index)
        return taken


def _column(column: Any) -> Sequence[Any]:
    """A column of arrow: lists of numbers without a copy, anything else as a list."""
    import pyarrow as pa

    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    numbers = lists and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))
    if not numbers or column.null_count or not len(column):
        return column.to_pylist()
    parts = [chunk for chunk in column.chunks if len(chunk)]
    values = [part.flatten() for part in parts]
    if any(part.null_count for part in values):
        return column.to_pylist()
    sizes = np.concatenate([np.diff(np.asarray(part.offsets)) for part in parts])
    return Ragged(flat(values), np.cumsum([0, *sizes]))


def _flat(values: Sequence[Any]) -> Sequence[Any]:
    """Lists of numbers as views of one array; anything else as it is."""
    if isinstance(values, Ragged):
        return values
    values = list(values)
    if not values or not isinstance(values[0], list | np.ndarray):
        return values
    bounds = np.cumsum([0, *(len(v) for v in values)])
    flat = np.concatenate([np.asarray(v) for v in values if len(v)]) if bounds[-1] else np.zeros(0)
    if flat.ndim != 1 or flat.dtype.kind not in "iufb":
        return values
    return Ragged(flat, bounds)
