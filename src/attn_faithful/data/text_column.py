"""Columns of a data set: texts that stay in arrow's memory, other values as Python has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attn_faithful.data.files.mapped_tables import Spill

_BATCH = 1000  # texts that are copied at once


class Texts(Sequence[str]):
    """Texts in arrow's memory: a Python string is made when a text is read.

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
        table = dataset.select_columns([name]).with_format("arrow")[:]
        return cls(table.column(name))

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int):
            return self.column[key].as_py()
        return self.column[key].to_pylist()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from self.column.slice(start, _BATCH).to_pylist()

    def take(self, indices: Sequence[int]) -> Texts:
        """The texts at ``indices``, in that order."""
        import pyarrow as pa

        all_indices = range(len(self))
        if len(indices) == len(self) and list(indices) == list(all_indices):
            return self
        if not len(indices):
            return Texts(self.column[:0])
        spill = Spill()
        for start in range(0, len(indices), _BATCH):
            batch = pa.array(indices[start : start + _BATCH])
            spill.add(pa.table({"text": self.column.take(batch)}))
        return Texts(spill.table().column(0))


def column_values(dataset: Any, name: str) -> list[Any]:
    """The values of a column of a datasets.Dataset, as Python has them."""
    return dataset.with_format(None).select_columns([name])[:][name]


def values_at(values: Sequence[Any], indices: Sequence[int]) -> Sequence[Any]:
    """The values of a column at `indices`, in that order."""
    if isinstance(values, Texts):
        return values.take(indices)
    return [values[i] for i in indices]
