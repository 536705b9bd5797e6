"""A column of lists of numbers, read at once."""

from __future__ import annotations

from typing import Any

import numpy as np


class ListColumn:
    """The lists of a column of pyarrow's; a null is None.

    Attributes:
        flat: the numbers of all lists, in a row.
        starts: where each list begins among them, and the end.
        there: whether each is a list.
    """

    def __init__(self, column: Any) -> None:
        lists = column.combine_chunks()
        self.there = np.asarray(lists.is_valid()) if len(lists) else np.zeros(0, dtype=bool)
        self.starts = np.asarray(lists.offsets) if len(lists) else np.zeros(1, dtype=int)
        self.flat = np.asarray(lists.values, dtype=float) if len(lists) else np.zeros(0)

    def __len__(self) -> int:
        return len(self.there)

    def __getitem__(self, row: int) -> np.ndarray | None:
        return self.flat[self.starts[row] : self.starts[row + 1]] if self.there[row] else None


def one_an_item(values: np.ndarray, n: int) -> np.ndarray | None:
    """Weights of several slots over the same items as their mean; None where slots differ in their items."""
    if not n or len(values) % n:
        return None
    return values.reshape(-1, n).mean(0)
