"""Rank correlation of attention with importance, one example at a time.

Values that differ only by rounding count as tied, so one unit in the last place never decides a ranking. Undefined is
NaN with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from attn_faithful._checks import InputError, check_same_length, check_shape
from attn_faithful.functional.kendall import tau_b
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, TOO_SHORT

Array = NDArray[np.float64]
Ranks = NDArray[np.int64]

TIE_TOLERANCE = 1e-6
SIGNIFICANT = 0.05

# No ranking of fewer tokens can be significant: 4 reach p = 2 / 4! = .083, and .056 under ties by the approximation.
LONG = 5

# From 8 tokens on Student's t is off by at most .013 where p < .1; for 4 in the same order it would give 0, not .083.
_ENUMERATED = 7


@dataclass(frozen=True)
class Correlation:
    """A rank correlation of one example.

    Attributes:
        value: -1 to 1, or NaN.
        p_value: two-sided, 0 to 1, or NaN.
        reason: why the value is NaN; None where it is defined.
        ties_x, ties_y: share of tied pairs, 0 to 1; NaN where there is no pair or a NaN in the scores.
        n: number of tokens.
    """

    value: float
    p_value: float
    reason: str | None
    ties_x: float
    ties_y: float
    n: int


def merge_ties(values: ArrayLike, tie_tolerance: float = TIE_TOLERANCE) -> Ranks:
    r"""Ranks of ``values`` from 0, the smallest, without gaps; equal up to rounding is equal.

    In sorted order a value joins the one before it if their gap is at most ``tie_tolerance * max(|a|, |b|)``. Such
    steps chain: a long run of close neighbours is one rank.

    Args:
        values: (T,), any unit; infinite ones are ranked and never merged with finite ones.
        tie_tolerance: 0 to below 1; 0 merges equal values only.

    Returns:
        ranks (T,), 0 to the number of different values minus 1.

    Raises:
        InputError: another shape, a NaN, a tolerance out of range.

    Example:
        >>> merge_ties([0.3, 0.1, 0.3 + 1e-9, 0.6]).tolist(), merge_ties([0.3, 0.1, 0.3 + 1e-9, 0.6], 0).tolist()
        ([1, 0, 1, 2], [1, 0, 2, 3])
    """
    values = _vector("values", values)
    check_tie_tolerance(tie_tolerance)
    if np.isnan(values).any():
        raise InputError("Expected `values` without NaN, which has no rank; leave such examples out and count them.")
    return _merged(values.tobytes(), tie_tolerance).copy()


def check_tie_tolerance(tie_tolerance: float) -> None:
    """Raise unless it is at least 0 and below 1."""
    if not 0 <= tie_tolerance < 1:
        raise InputError(f"Expected `tie_tolerance` of at least 0 and below 1, but got {tie_tolerance}.")


@lru_cache(maxsize=256)
def _merged(values_as_bytes: bytes, tie_tolerance: float) -> Ranks:
    """Cached, since several measures ask for the ranks of the same scores; never written to."""
    values = np.frombuffer(values_as_bytes)
    order = np.argsort(values, kind="stable")
    low, high = values[order[:-1]], values[order[1:]]  # sorted neighbours
    with np.errstate(invalid="ignore", over="ignore"):
        gap = high - low
        close = gap <= tie_tolerance * np.maximum(np.abs(low), np.abs(high))
    # beside an infinite value the tolerance is infinite too, but what is finite is no tie of it
    apart = (low != high) & ~(close & np.isfinite(gap))
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(apart)
    return ranks


def paired_ranks(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> tuple[Ranks, Ranks, str | None]:
    """Ranks of both vectors by :func:`merge_ties`, and why nothing can be said about their order, or None.

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        ranks of ``x`` (T,), ranks of ``y`` (T,), both empty where a score is NaN; and the first reason that holds of
        "no content token", "n<2", "nan in scores", "constant attention", "constant gradient" (after ``names``).

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Example:
        >>> x_ranks, y_ranks, reason = paired_ranks([0.25, 0.25], [3.0, 1.0])
        >>> x_ranks.tolist(), y_ranks.tolist(), reason
        ([0, 0], [1, 0], 'constant attention')
    """
    x, y = _vector(names[0], x), _vector(names[1], y)
    check_same_length(names, (x, y), example)
    if np.isnan(x).any() or np.isnan(y).any():
        no_ranks = np.zeros(0, dtype=np.int64)
        return no_ranks, no_ranks, TOO_SHORT if len(x) < 2 else NAN_SCORES
    x_ranks = merge_ties(x, tie_tolerance)
    y_ranks = merge_ties(y, tie_tolerance)
    return x_ranks, y_ranks, _no_order(x_ranks, y_ranks, names)


def _no_order(x_ranks: Ranks, y_ranks: Ranks, names: tuple[str, str]) -> str | None:
    """Why ranks say nothing about an order, or None."""
    if len(x_ranks) == 0:
        return NO_TOKEN
    if len(x_ranks) == 1:
        return TOO_SHORT
    for name, ranks in zip(names, (x_ranks, y_ranks), strict=True):
        if not ranks.any():
            return f"constant {name}"
    return None


def kendall_tau_b(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> Correlation:
    r"""Kendall's tau-b: do two score vectors order the tokens alike?

    ``(P - Q) / sqrt((P + Q + X) (P + Q + Y))`` with P concordant, Q discordant pairs, X and Y the pairs tied in ``x``
    alone and in ``y`` alone, after :func:`merge_ties`. The p-value is scipy's: exact without ties for up to 33
    tokens, otherwise from the normal approximation, which is rough for few tokens.

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`; 0 repeats the papers.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`Correlation`: -1 (opposite order) to 1 (same order); NaN with a reason of :func:`paired_ranks`.

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Reference:
        Jain and Wallace, section 4.1, algorithm 1; Kendall (1945) for tau-b.

    Example:
        >>> result = kendall_tau_b([0.6, 0.4, 0, 0, 0, 0], [5, 6, 1, 2, 3, 4])
        >>> print(f"{result.value:.6f} {result.p_value:.6f} {result.ties_x:.1f} {result.ties_y:.1f} {result.n}")
        0.602464 0.114461 0.4 0.0 6
        >>> kendall_tau_b([1.0], [0.3]).reason
        'n<2'
    """
    return _correlation(tau_b, x, y, tie_tolerance, names, example)


def spearman(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> Correlation:
    r"""Spearman's rho: the Pearson correlation of the average ranks, after :func:`merge_ties`.

    The two-sided p-value is the exact share of permutations with at least this ``|rho|`` for up to 7 tokens, ties or
    not, and Student's t with ``n - 2`` degrees of freedom beyond (which would give 0 for 3 tokens in the same order).

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`Correlation`: -1 (opposite order) to 1 (same order); NaN with a reason of :func:`paired_ranks`.

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Reference:
        Spearman (1904); beside Kendall's tau in Jain and Wallace, section 4.1.

    Example:
        >>> result = spearman([0.5, 0.3, 0.2], [0.2, 0.5, 0.3])
        >>> round(result.value, 6), round(result.p_value, 6)
        (-0.5, 1.0)
    """
    return _correlation(_rho, x, y, tie_tolerance, names, example)


def _vector(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    check_shape(name, array, "T", "pass one example at a time, its content tokens only")
    return array


def _tied_share(ranks: Ranks) -> float:
    """Share of the pairs that are tied; NaN without a pair."""
    pairs = len(ranks) * (len(ranks) - 1)
    if not pairs:
        return math.nan
    counts = np.bincount(ranks)
    return float((counts * (counts - 1)).sum() / pairs)


def _correlation(
    measure: Callable[[Ranks, Ranks], tuple[float, float]],
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float,
    names: tuple[str, str],
    example: object,
) -> Correlation:
    x_ranks, y_ranks, reason = paired_ranks(x, y, tie_tolerance, names, example)
    value = p_value = math.nan
    if reason is None:
        value, p_value = measure(x_ranks, y_ranks)
        value = min(max(value, -1.0), 1.0)
        p_value = min(max(p_value, 0.0), 1.0)
    return Correlation(
        value=value,
        p_value=p_value,
        reason=reason,
        ties_x=_tied_share(x_ranks),
        ties_y=_tied_share(y_ranks),
        n=len(np.asarray(x)),
    )


def _rho(x_ranks: Ranks, y_ranks: Ranks) -> tuple[float, float]:
    """Spearman's rho and its p-value."""
    n = len(x_ranks)
    a = _average_ranks(x_ranks) - (n + 1) / 2
    b = _average_ranks(y_ranks) - (n + 1) / 2
    product = a @ b
    value = float(product / math.sqrt((a @ a) * (b @ b)))
    if n <= _ENUMERATED:
        of_all_orders = b[_permutations(n)] @ a  # (n!,)
        at_least_as_far = np.abs(of_all_orders) >= abs(product) - 1e-9
        return value, float(at_least_as_far.mean())
    # the two tails of Student's t at rho sqrt((n - 2) / (1 - rho^2)), without its division by 0
    unexplained = max(1 - value**2, 0.0)
    return value, float(special.betainc(n / 2 - 1, 0.5, unexplained))


def _average_ranks(ranks: Ranks) -> Array:
    """From 1; tied tokens share the mean of their places."""
    counts = np.bincount(ranks)
    middles = counts.cumsum() - (counts - 1) / 2
    return np.asarray(middles[ranks], dtype=np.float64)


@cache
def _permutations(n: int) -> NDArray[np.int64]:
    """Every order of n items, (n!, n)."""
    return np.array(list(permutations(range(n))), dtype=np.int64)
