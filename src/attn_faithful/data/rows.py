"""Encoded examples in memory, as arrays: what a training loop reads thousands of times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


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
        return cls({name: dataset[name][:] for name in dataset.column_names})

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


def _flat(values: Sequence[Any]) -> list[Any]:
    """Lists of numbers as views of one array; anything else as it is."""
    values = list(values)
    if not values or not isinstance(values[0], list | np.ndarray):
        return values
    bounds = np.cumsum([0, *(len(v) for v in values)])
    flat = np.concatenate([np.asarray(v) for v in values if len(v)]) if bounds[-1] else np.zeros(0)
    if flat.ndim != 1 or flat.dtype.kind not in "iufb":
        return values
    return [flat[a:b] for a, b in pairwise(bounds)]
