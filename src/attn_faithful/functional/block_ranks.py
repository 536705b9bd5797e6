"""Ranks of many texts at once: the rows of a block, padded, with what rank correlations need of their ties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.rankings import TIE_TOLERANCE, Array, Ranks, check_tie_tolerance

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Items:
    """The items of R rows of a block, moved to the front of their rows.

    Attributes:
        places: (R, N), where each item stands; beyond a row's items any other place.
        n: (R,), items of each row, up to N.
    """

    places: NDArray[np.int64]
    n: NDArray[np.int64]

    @classmethod
    def of(cls, items: Flags) -> Items:
        """Those that are flagged in (R, T).

        Raises:
            InputError: another shape.

        Example:
            >>> found = Items.of(np.array([[False, True, True], [False, True, False]]))
            >>> found.places.tolist(), found.n.tolist()
            ([[1, 2], [1, 0]], [2, 1])
        """
        check_shape("items", items, "R T")
        n = items.sum(1)
        most = int(n.max(initial=0))
        in_front = np.argsort(~items, axis=1, kind="stable")
        return cls(in_front[:, :most], n)

    @cached_property
    def inside(self) -> Flags:
        """(R, N), whether there is an item."""
        return np.arange(self.places.shape[1]) < self.n[:, None]

    def of_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Each item's value (R, N), from values (R, T)."""
        return np.take_along_axis(values, self.places, axis=1)


@dataclass(frozen=True, eq=False)
class BlockRanks:
    """Ranks of the items of R rows, as :func:`~attn_faithful.functional.rankings.merge_ties` gives them row by row.

    Attributes:
        name: of what is ranked, for reasons.
        ranks: (R, N), from 0, the smallest, without gaps; -1 beyond a row's items. Those of a row with a NaN mean
            nothing.
        inside: (R, N), whether there is an item.
        n: (R,), items of each row.
        has_nan: (R,), whether an item's value is NaN.
    """

    name: str
    ranks: Ranks
    inside: Flags
    n: NDArray[np.int64]
    has_nan: Flags

    @classmethod
    def of(cls, name: str, values: Array, items: Items, tie_tolerance: float = TIE_TOLERANCE) -> BlockRanks:
        """Ranks of the values of the items of each row.

        Args:
            name: of what is ranked, for reasons.
            values: (R, T), any unit.
            items: of the same rows.
            tie_tolerance: see :func:`~attn_faithful.functional.rankings.merge_ties`.

        Raises:
            InputError: unequal numbers of rows, a tolerance out of range.

        Example:
            >>> items = Items.of(np.array([[True, True, True], [True, True, False]]))
            >>> BlockRanks.of("attention", np.array([[0.3, 0.1, 0.3], [0.2, 0.8, 0.0]]), items).ranks.tolist()
            [[1, 0, 1], [0, 1, -1]]
        """
        check_tie_tolerance(tie_tolerance)
        check_shape("values", values, "R T")
        if len(values) != len(items.n):
            raise InputError(f"Expected as many rows of `values` as of `items`, but got {len(values)}, {len(items.n)}.")
        inside = items.inside
        own = np.where(inside, items.of_values(values), np.nan)  # (R, N), NaN sorts behind all numbers
        order = np.argsort(own, axis=1, kind="stable")
        ascending = np.take_along_axis(own, order, axis=1)
        low, high = ascending[:, :-1], ascending[:, 1:]  # sorted neighbours
        with np.errstate(invalid="ignore", over="ignore"):
            gap = high - low
            close = gap <= tie_tolerance * np.maximum(np.abs(low), np.abs(high))
        # beside an infinite value the tolerance is infinite too, but what is finite is no tie of it
        apart = (low != high) & ~(close & np.isfinite(gap))
        ascending_ranks = np.zeros(own.shape, dtype=np.int64)
        ascending_ranks[:, 1:] = np.cumsum(apart, axis=1)
        ranks = np.empty_like(ascending_ranks)
        np.put_along_axis(ranks, order, ascending_ranks, axis=1)
        is_nan: Flags = np.isnan(own) & inside
        has_nan: Flags = np.any(is_nan, axis=1)
        return cls(name, np.where(inside, ranks, -1), inside, items.n, has_nan)

    def __len__(self) -> int:
        return len(self.n)

    @cached_property
    def is_constant(self) -> Flags:
        """(R,), whether all items have one rank."""
        constant: Flags = self.ranks.max(1, initial=0) == 0
        return constant

    @cached_property
    def tied(self) -> NDArray[np.int64]:
        """(R, N), how many items have each rank."""
        rows, width = self.ranks.shape
        first = np.arange(rows)[:, None] * width
        numbered = (first + self.ranks)[self.inside]
        return np.bincount(numbered, minlength=rows * width).reshape(rows, width)

    @cached_property
    def twice_tied_pairs(self) -> NDArray[np.int64]:
        """(R, N), t (t - 1) for the t items of each rank."""
        return self.tied * (self.tied - 1)

    @cached_property
    def tied_pairs(self) -> NDArray[np.int64]:
        """(R,), pairs of items that tie."""
        pairs: NDArray[np.int64] = self.twice_tied_pairs.sum(1) // 2
        return pairs

    @cached_property
    def tied_share(self) -> Array:
        """(R,), share of the pairs that tie; NaN without a pair or with a NaN."""
        pairs = (self.n * (self.n - 1)).astype(np.float64)
        pairs[(pairs == 0) | self.has_nan] = np.nan
        share: Array = self.twice_tied_pairs.sum(1) / pairs
        return share

    @cached_property
    def centred(self) -> Array:
        """(R, N), ranks from 1 with the mean of their places for tied items, less the row's mean; 0 beyond."""
        middles = self.tied.cumsum(1) - (self.tied - 1) / 2
        average = np.take_along_axis(middles, np.maximum(self.ranks, 0), axis=1)
        return np.where(self.inside, average - (self.n[:, None] + 1) / 2, 0.0)

    def order(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """(rows, n, n) for some rows and their longest n: 1 where the first item ranks higher, -1 lower, 0 tied."""
        width = int(self.n[rows].max(initial=0))
        return signs(self.ranks[rows, :width], self.inside[rows, :width])

    def first(self, k: NDArray[np.int64]) -> Flags:
        """(R, N), the k (R,) items that rank highest; of those that tie for the last places the first in the text."""
        highest_first = np.argsort(-self.ranks, axis=1, kind="stable")  # what is beyond has the lowest rank
        members = np.zeros(self.ranks.shape, dtype=bool)
        is_first = np.arange(self.ranks.shape[1]) < k[:, None]
        np.put_along_axis(members, highest_first, is_first, axis=1)
        return members

    def share_in_first(self, k: NDArray[np.int64]) -> Array:
        """(R, N), how surely each item is among the first k (R,), see `top_k.overlap`."""
        tied = self.tied
        from_here_up = tied[:, ::-1].cumsum(1)[:, ::-1]
        places_left = k[:, None] - (from_here_up - tied)
        share_of_rank = np.clip(places_left / np.maximum(tied, 1), 0.0, 1.0)
        share = np.take_along_axis(share_of_rank, np.maximum(self.ranks, 0), axis=1)
        return np.where(self.inside, share, 0.0)


def signs(values: NDArray[np.int64], counted: Flags) -> NDArray[np.float32]:
    """(R, N, N), 1 where the first of two items has the higher value (R, N), -1 the lower, 0 equal or not counted.

    Example:
        >>> signs(np.array([[2, 5, 9]]), np.array([[True, True, False]])).tolist()
        [[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    narrow = values.astype(np.int32)  # twice as fast, and wide enough for ranks of items
    order = np.sign(narrow[:, :, None] - narrow[:, None])
    both = counted[:, :, None] & counted[:, None]
    return np.where(both, order, 0).astype(np.float32)
