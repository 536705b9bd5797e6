"""Rank correlations and agreement on the first k items of many texts at once.

The same numbers as `rankings` and `top_k`, which say what the measures are, give text by text: counts and ratios of
whole numbers to the last bit. An example is a row, and no number of a row depends on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attn_faithful.functional.block_ranks import BlockRanks, Flags, signs
from attn_faithful.functional.kendall import EXACT, PAIRS, exact_p, tau_b
from attn_faithful.functional.rankings import Array
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, TOO_SHORT, Reasons, first_reasons

Counts = NDArray[np.int64]

CELLS = 2**16  # pairs of items that are compared at once: what fits into a core's cache


@dataclass(frozen=True, eq=False)
class BlockTau:
    """tau-b and its p-value (R,), NaN where undefined, and why each row is undefined."""

    value: Array
    p_value: Array
    reasons: Reasons


@dataclass(frozen=True, eq=False)
class BlockTopK:
    """Agreement of the first k items (R,), NaN where undefined; each is the function of `top_k` of that name."""

    top_k_tau: Array
    top_k_kendall: Array
    overlap: Array


def undefined(x: BlockRanks, y: BlockRanks) -> Reasons:
    """Why nothing can be said about the order of each row, or None: as `rankings.paired_ranks`.

    Example:
        >>> from attn_faithful.functional.block_ranks import Items
        >>> items = Items.of(np.array([[True, True], [True, False]]))
        >>> ranks = [BlockRanks.of(name, np.array([[0.5, 0.5], [1.0, 0.0]]), items) for name in ("a", "b")]
        >>> undefined(*ranks)
        ['constant a', 'n<2']
    """
    flags: dict[str, Flags] = {NO_TOKEN: x.n == 0, TOO_SHORT: x.n == 1, NAN_SCORES: x.has_nan | y.has_nan}
    for ranks in (x, y):
        flags.setdefault(f"constant {ranks.name}", ranks.is_constant)
    return first_reasons(flags)


def block_tau(x: BlockRanks, y: BlockRanks) -> BlockTau:
    """tau-b of each row with its two-sided p-value, as `rankings.kendall_tau_b`.

    Args:
        x, y: over the same items.

    Example:
        >>> from attn_faithful.functional.block_ranks import Items
        >>> items = Items.of(np.ones((1, 3), dtype=bool))
        >>> x = BlockRanks.of("x", np.array([[0.5, 0.3, 0.2]]), items)
        >>> y = BlockRanks.of("y", np.array([[0.2, 0.5, 0.3]]), items)
        >>> block_tau(x, y).value.round(6).tolist()
        [-0.333333]
    """
    reasons = undefined(x, y)
    is_defined = np.array([reason is None for reason in reasons], dtype=bool)
    value, p_value = np.full((2, len(x)), math.nan)
    is_short = x.n <= PAIRS
    short = np.flatnonzero(is_defined & is_short)
    score = _scores(x, y, short)
    value[short] = _tau(score, x, y, short)
    p_value[short] = _p_values(score, x, y, short)
    for row in np.flatnonzero(is_defined & ~is_short):
        n = x.n[row]
        value[row], p_value[row] = tau_b(x.ranks[row, :n], y.ranks[row, :n])
    return BlockTau(value.clip(-1.0, 1.0), p_value.clip(0.0, 1.0), reasons)


def _scores(x: BlockRanks, y: BlockRanks, rows: Counts) -> Counts:
    """Concordant minus discordant pairs of some rows."""
    longest = int(x.n[rows].max(initial=1))
    at_once = max(1, CELLS // longest**2)
    scores = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        twice = np.einsum("rij,rij->r", x.order(part), y.order(part))
        scores[start : start + at_once] = twice.astype(np.int64) // 2
    return scores


def _tau(score: Counts, x: BlockRanks, y: BlockRanks, rows: Counts) -> Array:
    """tau-b of some rows from their concordant minus discordant pairs."""
    n = x.n[rows]
    pairs = n * (n - 1) // 2
    untied = (pairs - x.tied_pairs[rows]) * (pairs - y.tied_pairs[rows])
    value: Array = score / np.sqrt(untied)
    return value


def _p_values(score: Counts, x: BlockRanks, y: BlockRanks, rows: Counts) -> Array:
    """Of some rows by permutations where nothing ties, by the normal approximation elsewhere, see `kendall.tau_b`."""
    n = x.n[rows]
    pairs = n * (n - 1) // 2
    against = np.minimum((pairs - score) // 2, (pairs + score) // 2)
    without_ties = (x.tied_pairs[rows] == 0) & (y.tied_pairs[rows] == 0)
    is_exact = without_ties & ((n <= EXACT) | (against <= 1))
    p_values = np.empty(len(rows))
    counted = zip(n[is_exact].tolist(), against[is_exact].tolist(), strict=True)
    p_values[is_exact] = [exact_p(*place) for place in counted]
    deviations = _deviations(score, x, y, rows)[~is_exact]
    p_values[~is_exact] = [math.erfc(deviation) for deviation in deviations.tolist()]
    return p_values


def _deviations(score: Counts, x: BlockRanks, y: BlockRanks, rows: Counts) -> Array:
    """Standard deviations that the scores of some rows are off by under independence, divided by the root of 2."""
    n = x.n[rows]
    m = n * (n - 1)
    x_twice, y_twice = x.twice_tied_pairs[rows], y.twice_tied_pairs[rows]
    x_tied, y_tied = x.tied[rows], y.tied[rows]
    x0, y0 = (x_twice * (x_tied - 2)).sum(1), (y_twice * (y_tied - 2)).sum(1)
    x1, y1 = (x_twice * (2 * x_tied + 5)).sum(1), (y_twice * (2 * y_tied + 5)).sum(1)
    without_ties = (m * (2 * n + 5) - x1 - y1) / 18
    triples = m * np.maximum(n - 2, 1)
    variance = without_ties + 2 * x.tied_pairs[rows] * y.tied_pairs[rows] / m + x0 * y0 / (9 * triples)
    deviations: Array = np.abs(score) / np.sqrt(2 * variance)
    return deviations


def block_rho(x: BlockRanks, y: BlockRanks) -> Array:
    """Spearman's rho of each row, as `rankings.spearman`; NaN where undefined.

    Example:
        >>> from attn_faithful.functional.block_ranks import Items
        >>> items = Items.of(np.ones((1, 3), dtype=bool))
        >>> x = BlockRanks.of("x", np.array([[0.5, 0.3, 0.2]]), items)
        >>> y = BlockRanks.of("y", np.array([[0.2, 0.5, 0.3]]), items)
        >>> block_rho(x, y).tolist()
        [-0.5]
    """
    # ranks are halves of whole numbers, so that these sums are exact in any order
    product = np.einsum("rt,rt->r", x.centred, y.centred)
    squares = np.einsum("rt,rt->r", x.centred, x.centred) * np.einsum("rt,rt->r", y.centred, y.centred)
    is_undefined = (squares == 0) | x.has_nan | y.has_nan
    rho: Array = product / np.sqrt(np.where(is_undefined, math.nan, squares))
    return rho.clip(-1.0, 1.0)


def block_top_k(x: BlockRanks, y: BlockRanks, k: int, p: float = 0.5) -> BlockTopK:
    """How well the first k items of each row agree, by the measures of `top_k`.

    Args:
        x, y: over the same items.
        k: at least 2, cut to a row's items.
        p: cost of a pair whose order only one list knows.

    Example:
        >>> from attn_faithful.functional.block_ranks import Items
        >>> items = Items.of(np.ones((1, 4), dtype=bool))
        >>> x = BlockRanks.of("x", np.array([[0.4, 0.3, 0.2, 0.1]]), items)
        >>> y = BlockRanks.of("y", np.array([[1.0, 4.0, 3.0, 2.0]]), items)
        >>> found = block_top_k(x, y, 2)
        >>> found.top_k_kendall.round(6).tolist(), found.overlap.tolist()
        ([0.111111], [0.5])
    """
    is_defined = (x.n > 1) & ~(x.has_nan | y.has_nan | x.is_constant | y.is_constant)
    k_of_rows = np.minimum(k, x.n)
    lists = _TwoLists.of(x, y, k_of_rows)
    with np.errstate(divide="ignore", invalid="ignore"):  # of rows that are undefined
        tau = lists.tau(p)
        distance = lists.distance(p)
        in_both = np.minimum(x.share_in_first(k_of_rows), y.share_in_first(k_of_rows))
        # one after the other, so that the padding does not change how the sum is rounded
        overlap = in_both.cumsum(1)[:, -1:].sum(1) / k_of_rows
    return BlockTopK(*(np.where(is_defined, values, math.nan) for values in (tau, distance, overlap)))


@dataclass(frozen=True, eq=False)
class _TwoLists:
    """The first k items of two rankings, and how each list orders the U items in either.

    Attributes:
        k: (R,), items of each list.
        x_members, y_members: (R, U), which items are in each list.
        x_order, y_order: (R, U, U), 1 where the first item stands above the second in the list, -1 below, 0 tied, as
            are all that the list lacks, which stand below those that it has.
    """

    k: Counts
    x_members: Flags
    y_members: Flags
    x_order: NDArray[np.float32]
    y_order: NDArray[np.float32]

    @classmethod
    def of(cls, x: BlockRanks, y: BlockRanks, k: Counts) -> _TwoLists:
        x_members, y_members = x.first(k), y.first(k)
        in_either = x_members | y_members
        most = int(in_either.sum(1).max(initial=0))
        places = np.argsort(~in_either, axis=1, kind="stable")[:, :most]  # (R, U)
        counted = np.take_along_axis(in_either, places, axis=1)
        of_x = np.take_along_axis(np.where(x_members, x.ranks, -1), places, axis=1)
        of_y = np.take_along_axis(np.where(y_members, y.ranks, -1), places, axis=1)
        return cls(k, counted & (of_x >= 0), counted & (of_y >= 0), signs(of_x, counted), signs(of_y, counted))

    def tau(self, p: float) -> Array:
        """Kendall's correlation of the lists."""
        product = self.x_order * self.y_order
        x_ordered, y_ordered = _twice_ordered(self.x_order), _twice_ordered(self.y_order)
        both_ordered = _twice_ordered(product)
        opposite = (both_ordered - _sums(product)) // 2
        in_one = x_ordered + y_ordered - 2 * both_ordered
        in_either = (self.x_members | self.y_members).sum(1)
        pairs = in_either * in_either - in_either  # each twice, as in the two counts
        tau: Array = 1 - 2 * (opposite + p * in_one) / pairs
        return tau

    def distance(self, p: float) -> Array:
        """The distance of Jain and Wallace's code."""
        common = self.x_members & self.y_members
        c = common.sum(1)
        below = self._below(self.x_order, self.x_members, common) + self._below(self.y_order, self.y_members, common)
        alone = self.k - c
        unordered = alone * (alone - 1) // 2
        cost = (1 - self._tau_within(common)) / 2 * c**2 + below + 2 * p * unordered
        in_either = (self.x_members | self.y_members).sum(1)
        distance: Array = cost / in_either**2
        return distance

    def _tau_within(self, common: Flags) -> Array:
        """tau-b of the common items (R, U); 1 where either list ties them all."""
        both = common[:, :, None] & common[:, None]
        x_order, y_order = self.x_order * both, self.y_order * both
        score = _sums(x_order * y_order) // 2
        untied = (_twice_ordered(x_order) // 2) * (_twice_ordered(y_order) // 2)
        return np.where(untied > 0, score / np.sqrt(untied), 1.0)

    @staticmethod
    def _below(order: NDArray[np.float32], members: Flags, common: Flags) -> Counts:
        """Pairs of a common item (R, U) that stands below one that this list alone has."""
        alone = members & ~common
        return _sums((order < 0) & common[:, :, None] & alone[:, None])


def _sums(values: NDArray[np.float32] | Flags) -> Counts:
    """Sums (R,) of whole numbers (R, U, U)."""
    sums: NDArray[np.float32] = np.einsum("rij->r", values, dtype=np.float32)
    return sums.astype(np.int64)


def _twice_ordered(order: NDArray[np.float32]) -> Counts:
    """(R,), pairs that are ordered, each twice."""
    ordered: NDArray[np.float32] = np.einsum("rij,rij->r", order, order)
    return ordered.astype(np.int64)
