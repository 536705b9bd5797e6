"""Wilcoxon's test by all choices of signs, its effect size, and Holm's correction by definition."""

import itertools

import numpy as np
from scipy.stats import rankdata


def biserial_by_pairs(difference):
    """The share of the ranks above 0 minus that below, each rank counted as the differences that it is no less than."""
    sizes = [abs(d) for d in difference]
    ranks = [sum(s < size for s in sizes) + (1 + sum(s == size for s in sizes)) / 2 for size in sizes]
    above = sum(r for r, d in zip(ranks, difference, strict=True) if d > 0)
    below = sum(r for r, d in zip(ranks, difference, strict=True) if d < 0)
    return (above - below) / (above + below)


def p_by_signs(difference):
    """The share of all choices of signs whose sum of ranks above 0 is as far out, doubled."""
    ranks = rankdata(np.abs(difference))[difference != 0]
    above = rankdata(np.abs(difference))[difference > 0].sum()
    sums = [np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=len(ranks))]
    tails = [np.mean([total <= above + 1e-9 for total in sums]), np.mean([total >= above - 1e-9 for total in sums])]
    return min(1.0, 2 * min(tails))


def holm_by_definition(p):
    """An adjusted p is the largest, over the tests with no larger p, of p times how many are no smaller."""
    order = sorted(p)
    adjusted = [min(1.0, max(order[j] * (len(p) - j) for j in range(i + 1))) for i in range(len(p))]
    return [adjusted[order.index(value)] for value in p]
