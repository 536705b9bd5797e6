"""The columns of a run's tables at one site, lists of numbers read at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from attn_faithful.reports.run import Run
from attn_faithful.schema import TABLES

_UNREAD = ("changes", "probabilities")  # large columns that nothing here needs


class ListColumn:
    """The lists of a column of pyarrow's; a null is None.

    Attributes:
        flat: the numbers of all lists, in a row.
        starts: where each list begins among them, and the end.
        there: whether each is a list.
    """

    def __init__(self, column: Any) -> None:
        lists = column.combine_chunks()
        self.flat = np.zeros(0)  # (numbers,)
        self.starts = np.zeros(1, dtype=int)  # (lists + 1,)
        self.there = np.zeros(0, dtype=bool)  # (lists,)
        if len(lists):
            self.flat = np.asarray(lists.values, dtype=float)
            self.starts = np.asarray(lists.offsets)
            self.there = np.asarray(lists.is_valid())

    def __getitem__(self, row: int) -> np.ndarray | None:
        if not self.there[row]:
            return None
        start, end = self.starts[row], self.starts[row + 1]
        return self.flat[start:end]


class SiteColumns:
    """The columns of a table's rows at one site; none where the run lacks the table.

    Args:
        run: that the table is of.
        table: its name.
        site: None for the rows of all sites.
    """

    def __init__(self, run: Run, table: str, site: str | None) -> None:
        self._columns = _columns_at(run, table, site)
        self._lists: dict[str, ListColumn] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __len__(self) -> int:
        first: Any = next(iter(self._columns.values()), ())
        return len(first)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._columns)

    def values(self, name: str) -> list[Any]:
        """The values of a column, an entry a row; None where the table lacks it."""
        if name not in self._columns:
            return [None] * len(self)
        return self._columns[name].to_pylist()

    def lists(self, name: str) -> ListColumn:
        """A column of lists of numbers, read once."""
        if name not in self._lists:
            self._lists[name] = ListColumn(self._columns[name])
        return self._lists[name]


def _columns_at(run: Run, name: str, site: str | None) -> dict[str, Any]:
    import pyarrow.compute as pc

    if not run.has(name):
        return {}
    read = [column for column in TABLES[name] if column not in _UNREAD]
    table = run.read(name, read)
    if site is not None and "site" in table.column_names:
        at_site = pc.equal(table.column("site"), site)
        table = table.filter(at_site)
    return {column: table.column(column) for column in table.column_names}


def one_an_item(values: np.ndarray, n: int) -> np.ndarray | None:
    """Weights of several slots over the same items as their mean; None where slots differ in their items."""
    if not n or len(values) % n:
        return None
    by_slot = values.reshape(-1, n)  # (S, items)
    return by_slot.mean(0)
