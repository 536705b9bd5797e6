"""Kendall's tau-b of two rankings with its p-value, without what a general library spends on each call."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]

EXACT = 33  # items up to which the p-value counts permutations
PAIRS = 512  # items up to which all pairs are compared at once


def tau_b(x: Ranks, y: Ranks) -> tuple[float, float]:
    r"""tau-b and its two-sided p-value under independence.

    ``(C - D) / sqrt((n0 - n1) (n0 - n2))`` for C concordant and D discordant of n0 pairs, n1 and n2 of them tied in one
    ranking. Without ties p counts permutations up to 33 items, and wherever at most one pair stands against the others;
    else it is the normal approximation with its correction for ties. The same numbers as ``scipy.stats.kendalltau``,
    which takes ten times as long for a text of twenty words.

    Args:
        x, y: (T,) ranks from 0 without gaps; neither is constant.

    Returns:
        tau-b, -1 to 1, and p, 0 to 1.

    Example:
        >>> [round(value, 6) for value in tau_b(np.array([0, 1, 2]), np.array([0, 1, 1]))]
        [0.816497, 0.220671]
    """
    n = len(x)
    if n > PAIRS:
        from scipy import stats  # takes a second

        result = stats.kendalltau(x, y)
        return float(result.statistic), float(result.pvalue)
    x_order = np.sign(x[:, None] - x)  # (n, n)
    y_order = np.sign(y[:, None] - y)
    score = int((x_order * y_order).sum()) // 2  # C - D
    pairs = n * (n - 1) // 2
    x_tied, x0, x1 = _ties(x)
    y_tied, y0, y1 = _ties(y)
    value = score / math.sqrt((pairs - x_tied) * (pairs - y_tied))
    if not x_tied and not y_tied:
        against = min((pairs - score) // 2, (pairs + score) // 2)
        if n <= EXACT or against <= 1:
            return value, exact_p(n, against)
    m = n * (n - 1)
    triples = m * max(n - 2, 1)
    without_ties = (m * (2 * n + 5) - x1 - y1) / 18
    variance = without_ties + 2 * x_tied * y_tied / m + x0 * y0 / (9 * triples)
    return value, math.erfc(abs(score) / math.sqrt(2 * variance))


def _ties(ranks: Ranks) -> tuple[int, int, int]:
    """Tied pairs, and what the variance needs of the sizes t of ties: sums of t (t-1) (t-2) and t (t-1) (2t+5)."""
    t = np.bincount(ranks)
    t = t[t > 1]
    twice_pairs = t * (t - 1)
    pairs = int(twice_pairs.sum()) // 2
    x0 = int((twice_pairs * (t - 2)).sum())
    x1 = int((twice_pairs * (2 * t + 5)).sum())
    return pairs, x0, x1


@cache
def exact_p(n: int, against: int) -> float:
    """Twice the share of permutations of n with at most so many inversions, at most 1.

    Example:
        >>> exact_p(3, 0)
        0.3333333333333333
    """
    if against == 0:
        count = 1
    elif against == 1:
        count = n
    else:
        count = sum(_inversions(n)[: against + 1])
    return min(1.0, 2 * count / math.factorial(n))


@cache
def _inversions(n: int) -> list[int]:
    """How many permutations of n have 0, 1, 2, ... inversions."""
    counts = [1]
    for size in range(2, n + 1):
        length = len(counts) + size - 1
        padded = [0] * (size - 1) + counts + [0] * (size - 1)
        counts = [sum(padded[k : k + size]) for k in range(length)]
    return counts
