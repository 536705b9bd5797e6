"""Adversarial attention by brute force: every vertex from the definition, and a grid over the simplex."""

import itertools
import math

import numpy as np

from tests.reference.divergences import jsd


def change(attention, other, margins):
    """How far the probability of class 1 moves."""

    def probability(weights):
        return 1 / (1 + math.exp(-sum(w * m for w, m in zip(weights, margins, strict=True))))

    return abs(probability(other) - probability(attention))


def best_vertex(attention, margins, low, high):
    """The largest JSD over one-token and two-token distributions with ``low <= margin <= high``, by loops."""
    n, best = len(attention), -math.inf
    slack = 1e-12 * max((abs(m) for m in margins), default=0)
    for i in range(n):
        if low - slack <= margins[i] <= high + slack:
            best = max(best, jsd(one_hot(n, {i: 1.0}), attention))
    for bound in (low, high):
        for i, j in itertools.product(range(n), repeat=2):
            if math.isfinite(bound) and margins[i] < bound < margins[j]:
                share = (margins[j] - bound) / (margins[j] - margins[i])
                best = max(best, jsd(one_hot(n, {i: share, j: 1 - share}), attention))
    return best


def limits(attention, margins, eps):
    """The margins between which the probability stays within eps."""
    now = sum(w * m for w, m in zip(attention, margins, strict=True))
    p = 1 / (1 + math.exp(-now))
    low = math.log((p - eps) / (1 - p + eps)) if p > eps else -math.inf
    high = math.log((p + eps) / (1 - p - eps)) if p < 1 - eps else math.inf
    return low, high


def one_hot(n, shares):
    weights = np.zeros(n)
    for place, share in shares.items():
        weights[place] = share
    return weights


def grid(n, steps):
    """All distributions on n tokens whose weights are multiples of 1 / steps."""
    for cuts in itertools.combinations(range(steps + n - 1), n - 1):
        edges = (-1, *cuts, steps + n - 1)
        yield np.array([edges[i + 1] - edges[i] - 1 for i in range(n)]) / steps


def best_on_grid(attention, kept, steps):
    """The largest JSD over the grid's distributions for which ``kept`` holds."""
    return max((jsd(other, attention) for other in grid(len(attention), steps) if kept(other)), default=-math.inf)
