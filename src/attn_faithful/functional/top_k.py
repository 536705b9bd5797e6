"""Agreement on the first k tokens: irrelevant tokens far down a ranking add noise to a correlation over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_faithful._checks import InputError
from attn_faithful.functional.kendall import tau_b
from attn_faithful.functional.rankings import TIE_TOLERANCE, Ranks, paired_ranks


@dataclass(frozen=True)
class TopK:
    """Agreement of one example's first tokens; ``reason`` says why ``value`` is NaN, None where it is defined.

    ``k`` is the number of tokens compared, cut to the ``n`` that there are.
    """

    value: float
    reason: str | None
    k: int
    n: int


def overlap(
    x: ArrayLike,
    y: ArrayLike,
    k: int,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> TopK:
    r"""Share of the k highest tokens that two score vectors have in common.

    ``(1 / k) sum_t min(u_t, v_t)``, where ``u_t`` is 1 for a token that is surely among the first k of ``x``, 0 for
    one that is surely not, and m / g for the g tokens that tie for the last m places (sparse attention ties its
    zeros); ``v_t`` the same for ``y``. A tie therefore prefers no position, and a vector overlaps with itself by 1.

    Args:
        x, y: (T,), any unit, over the same content tokens; higher comes first.
        k: at least 1; cut to T, where the value is 1 whatever the scores.
        tie_tolerance: see :func:`~attn_faithful.functional.rankings.merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`TopK`: 0 to 1, higher is more alike; unrelated rankings give k / T on average. NaN with a reason of
        :func:`~attn_faithful.functional.rankings.paired_ranks`.

    Raises:
        InputError: unequal lengths, another shape, a wrong k.

    Reference:
        Jain and Wallace, section 6, leave agreement on the top-k tokens open.

    Example:
        >>> overlap([0.4, 0.3, 0.2, 0.1], [4, 1, 3, 2], k=2).value
        0.5
        >>> round(overlap([1.0, 0.0, 0.0, 0.0], [4, 3, 2, 1], k=2).value, 6)  # the second place: 1 of 3 zeros
        0.666667
    """
    k = _checked_k(k, 1)
    x_ranks, y_ranks, reason = paired_ranks(x, y, tie_tolerance, names, example)
    n = len(np.asarray(x))
    k = min(k, n)
    if reason:
        return TopK(math.nan, reason, k, n)
    in_both = np.minimum(_share_in(x_ranks, k), _share_in(y_ranks, k))
    share = float(in_both.sum() / k)
    return TopK(share, None, k, n)


def top_k_kendall(
    x: ArrayLike,
    y: ArrayLike,
    k: int,
    p: float = 0.5,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> TopK:
    r"""The distance of two top-k lists as Jain and Wallace's code has it; to repeat their numbers.

    With C the tokens in both lists, A those of ``x`` alone and B those of ``y`` alone:
    ``((1 - tau) / 2 |C|^2 + d + 2 p binom(k - |C|, 2)) / |A u B u C|^2``, where tau is tau-b within C (its term is 0
    where tau is undefined) and d counts the pairs in which a token of C stands below one of A in ``x``, or below one
    of B in ``y``. Pairs of A with B cost nothing, so two lists without a common token are at most p / 4 apart, less
    than the same tokens in the opposite order, at 1: :func:`top_k_tau` has no such gap.

    Args:
        x, y: (T,), any unit, over the same content tokens; higher comes first. Of tokens that tie for the last
            places those that stand first in the text are taken.
        k: at least 2, cut to T; the paper's is max(10, 0.1 * mean length).
        p: cost of a pair whose order only one list knows, 0 to 1.
        tie_tolerance: see :func:`~attn_faithful.functional.rankings.merge_ties`; 0 repeats the paper.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`TopK`: 0 (same lists) to 1; lower is more alike. NaN with a reason of
        :func:`~attn_faithful.functional.rankings.paired_ranks`, where their code gives 0 or the order of a sort.

    Raises:
        InputError: unequal lengths, another shape, a wrong k or p.

    Reference:
        Jain and Wallace, section 4.1 (their code); after Fagin, Kumar and Sivakumar (2003), section 3.1.

    Example:
        >>> top_k_kendall([0.4, 0.3, 0.2, 0.1], [1, 4, 3, 2], k=2).value
        0.1111111111111111
    """
    lists = _two_lists(x, y, k, p, tie_tolerance, names, example)
    if isinstance(lists, TopK):
        return lists
    common = lists.x.members & lists.y.members
    c = int(common.sum())
    x_common, y_common = lists.x.ranks[common], lists.y.ranks[common]
    tau = 1.0
    if len(np.unique(x_common)) > 1 and len(np.unique(y_common)) > 1:
        tau, _ = tau_b(x_common, y_common)
    below = lists.x.pairs_below(common) + lists.y.pairs_below(common)
    unordered = math.comb(lists.k - c, 2)
    cost = (1 - tau) / 2 * c**2 + below + 2 * p * unordered
    in_either = int((lists.x.members | lists.y.members).sum())
    return TopK(cost / in_either**2, None, lists.k, len(common))


def top_k_tau(
    x: ArrayLike,
    y: ArrayLike,
    k: int,
    p: float = 0.5,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> TopK:
    r"""Kendall's correlation of two top-k lists: ``1 - 2 K / (number of pairs)`` over the tokens in either list.

    K sums over pairs: 1 if the lists order them oppositely, p if only one list orders them, 0 otherwise; a token
    that a list lacks stands below all that it has, tied with the others that it lacks. With p = 0.5, k >= T
    and no pair tied in both this is tau-a.

    Args:
        x, y: (T,), any unit, over the same content tokens; higher comes first. Of tokens that tie for the last
            places those that stand first in the text are taken.
        k: at least 2, cut to T.
        p: cost of a pair whose order only one list knows, 0 to 1; 0.5 expects a random order there.
        tie_tolerance: see :func:`~attn_faithful.functional.rankings.merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`TopK`: -1 to 1 (same lists), higher is more alike; two lists without a common token have
        ``-k / (2 k - 1)`` at p = 0.5. NaN with a reason of
        :func:`~attn_faithful.functional.rankings.paired_ranks`.

    Raises:
        InputError: unequal lengths, another shape, a wrong k or p.

    Reference:
        Fagin, Kumar and Sivakumar (2003), section 3.1, K with penalty p, as a correlation.

    Example:
        >>> round(top_k_tau([0.4, 0.3, 0.2, 0.1], [1, 2, 3, 4], k=2).value, 6)  # no common token
        -0.666667
    """
    lists = _two_lists(x, y, k, p, tie_tolerance, names, example)
    if isinstance(lists, TopK):
        return lists
    in_either = lists.x.members | lists.y.members
    x_order = lists.x.order(in_either)
    y_order = lists.y.order(in_either)
    opposite = int((x_order * y_order < 0).sum())
    in_one = int(((x_order == 0) != (y_order == 0)).sum())
    pairs = x_order.size - len(x_order)  # each twice, as in the two counts
    tau = 1 - 2 * (opposite + p * in_one) / pairs
    return TopK(tau, None, lists.k, len(in_either))


@dataclass(frozen=True, eq=False)
class _List:
    """The first k tokens of a ranking.

    Attributes:
        ranks: (T,), of all tokens; higher comes first.
        members: (T,), bool, which tokens are in the list.
    """

    ranks: Ranks
    members: NDArray[np.bool_]

    @classmethod
    def first(cls, ranks: Ranks, k: int) -> _List:
        """Of tokens that tie for the last places those that stand first in the text."""
        members = np.zeros(len(ranks), dtype=bool)
        members[np.argsort(-ranks, kind="stable")[:k]] = True
        return cls(ranks, members)

    def pairs_below(self, common: NDArray[np.bool_]) -> int:
        """Pairs of a common token that stands below one that this list alone has."""
        alone = self.ranks[self.members & ~common]
        return int((self.ranks[common][:, None] < alone).sum())

    def order(self, tokens: NDArray[np.bool_]) -> Ranks:
        """1 where the row's token stands above the column's, -1 below, 0 tied, as are all that the list lacks."""
        values = np.where(self.members, self.ranks, -1)[tokens]
        order: Ranks = np.sign(values[:, None] - values)
        return order


@dataclass(frozen=True, eq=False)
class _TwoLists:
    """The lists of two rankings of the same tokens, each of k tokens."""

    x: _List
    y: _List
    k: int


def _two_lists(
    x: ArrayLike,
    y: ArrayLike,
    k: int,
    p: float,
    tie_tolerance: float,
    names: tuple[str, str],
    example: object,
) -> _TwoLists | TopK:
    """The two lists, or the undefined result."""
    k = _checked_k(k, 2)
    if not 0 <= p <= 1:
        raise InputError(f"Expected `p` between 0 and 1, but got {p}; 0.5 expects a random order.")
    x_ranks, y_ranks, reason = paired_ranks(x, y, tie_tolerance, names, example)
    n = len(np.asarray(x))
    k = min(k, n)
    if reason:
        return TopK(math.nan, reason, k, n)
    return _TwoLists(_List.first(x_ranks, k), _List.first(y_ranks, k), k)


def _checked_k(k: int, least: int) -> int:
    if not k >= least or k == math.inf or int(k) != k:
        raise InputError(f"Expected `k` as a whole number of at least {least}, but got {k}.")
    return int(k)


def _share_in(ranks: Ranks, k: int) -> NDArray[np.float64]:
    """How surely each token is among the first k: 1, 0, or the share of tied tokens that find a place."""
    tied = np.bincount(ranks)
    above = tied[::-1].cumsum()[::-1] - tied
    share_of_rank = np.clip((k - above) / tied, 0.0, 1.0)
    share: NDArray[np.float64] = share_of_rank[ranks]
    return share
