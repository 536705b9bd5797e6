"""Rows of several alternatives an example, each held against the example's own row.

An alternative is what the model says, or where it looks, under another attention: a permutation, an adversary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.ragged import Array, Mask, RaggedRows, Rows, numbers, over_chunks
from attn_faithful.metrics.lists import Nested


class Alternatives:
    """Rows of all alternatives laid end to end, each beside the row observed under the model's own attention.

    Args:
        name: of the alternatives' column, for errors.
        alternatives: B lists of K rows; K may differ by example.
        observed_name: of the other column.
        observed: B rows, as long as those of the alternatives.

    Attributes:
        counts: (B,), alternatives of each example.
        rows: of all alternatives.
        observed: a row an example.
        observed_repeated: the observed row beside each alternative.

    Raises:
        InputError: unequal lengths, rows that are no lists of numbers; the example and the row are named.
    """

    def __init__(self, name: str, alternatives: Nested, observed_name: str, observed: Rows) -> None:
        check_same_length((name, observed_name), (alternatives, observed))
        observed_rows: list[Any] = [numbers(observed_name, i, row) for i, row in enumerate(observed)]
        for i, rows in enumerate(alternatives):
            _check_rows(f"{name}[{i}]", rows, f"{observed_name}[{i}]", observed_rows[i])
        counts = [len(rows) for rows in alternatives]
        self.counts = np.array(counts, dtype=np.int64)
        # a whole example at a time: far faster than reading each row
        self._blocks: list[Any] = [_block(f"{name}[{i}]", rows) for i, rows in enumerate(alternatives)]
        rows_end_to_end: list[Any] = []
        observed_beside: list[Any] = []
        for block, row in zip(self._blocks, observed_rows, strict=True):
            rows_end_to_end.extend(block)
            observed_beside.extend([row] * len(block))
        self.rows = RaggedRows(name, rows_end_to_end)
        self.observed = RaggedRows(observed_name, observed_rows)
        self.observed_repeated = RaggedRows(observed_name, observed_beside)

    def compared(self, measure: Callable[[Tensor, Tensor], Tensor]) -> Array:
        """A measure of each alternative and the observed row beside it, for all alternatives end to end."""
        return over_chunks(measure, self.rows, self.observed_repeated)

    def by_example(self, values: Array) -> list[Array]:
        """Values of all alternatives end to end, cut into those of each example."""
        if not len(self.counts):
            return []
        cuts = np.cumsum(self.counts)[:-1]
        return np.split(values, cuts)

    def has_nan(self) -> Mask:
        """Which examples (B,) have a NaN in their observed row or in an alternative."""
        examples = np.arange(len(self.counts))
        example_of_row = np.repeat(examples, self.counts)
        with_nan = self.observed.has_nan.copy()
        with_nan[example_of_row[self.rows.has_nan]] = True
        return with_nan

    def check_distributions(self, examples: Mask) -> None:
        """Raise unless all rows of ``examples`` (B,) are distributions."""
        self.observed.check_distributions(examples)
        checked_rows = np.repeat(examples, self.counts)
        try:
            self.rows.check_distributions(checked_rows)
        except InputError:
            # one by one: the message then names example and row
            for i in np.flatnonzero(examples).tolist():
                rows = RaggedRows(f"{self.rows.name}[{i}]", self._blocks[i])
                every_row = np.ones(len(rows), dtype=bool)
                rows.check_distributions(every_row)
            raise


def _check_rows(name: str, rows: Sequence[Any], observed_name: str, observed: Array) -> None:
    check_same_length((name,), (rows,))
    for row in rows:
        if not hasattr(row, "__len__"):
            raise InputError(
                f"Expected `{name}` to be a list of rows, one an alternative, but got one row of numbers; "
                f"pass a list for every example, [row] where there is one alternative."
            )
    for k, row in enumerate(rows):
        if len(row) != len(observed):
            check_same_length((f"{name}[{k}]", observed_name), (row, observed))


def _block(name: str, rows: Any) -> Any:
    """Rows of one length, (K, T); a list of rows where they are none, each of which is then checked."""
    try:
        block: Any = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        block = np.zeros(())
    if block.ndim == 2 or not len(rows):
        return block
    return [numbers(name, k, row) for k, row in enumerate(rows)]
