"""A column of texts that stays in arrow's memory."""

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
        return cls(dataset.select_columns([name]).with_format("arrow")[:].column(name))

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, key: Any) -> Any:
        return self.column[key].as_py() if isinstance(key, int) else self.column[key].to_pylist()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from self.column.slice(start, _BATCH).to_pylist()

    def take(self, indices: Sequence[int]) -> Texts:
        """The texts at ``indices``, in that order."""
        import pyarrow as pa

        if len(indices) == len(self) and list(indices) == list(range(len(self))):
            return self
        if not len(indices):
            return Texts(self.column[:0])
        spill = Spill()
        for start in range(0, len(indices), _BATCH):
            batch = self.column.take(pa.array(indices[start : start + _BATCH]))
            spill.add(pa.table({"text": batch}))
        return Texts(spill.table().column(0))


def values_at(values: Sequence[Any], indices: Sequence[int]) -> Sequence[Any]:
    """The values of a column at `indices`, in that order."""
    return values.take(indices) if isinstance(values, Texts) else [values[i] for i in indices]
