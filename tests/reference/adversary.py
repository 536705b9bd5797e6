"""Adversarial attention by brute force: every vertex from the definition, and a grid over the simplex."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize

from tests.reference.divergences import jsd


def change(attention, other, margins):
    """How far the probability of class 1 moves."""

    def probability(weights):
        return 1 / (1 + math.exp(-sum(w * m for w, m in zip(weights, margins, strict=True))))

    return abs(probability(other) - probability(attention))


def best_vertex(attention, margins, low, high, free=None):
    """The largest JSD over one-token and two-token distributions with ``low <= margin <= high``, by loops.

    On the tokens in ``free``; None for all.
    """
    n, best = len(attention), -math.inf
    free = range(n) if free is None else free
    slack = 1e-12 * max((abs(m) for m in margins), default=0)
    for i in free:
        if low - slack <= margins[i] <= high + slack:
            best = max(best, jsd(one_hot(n, {i: 1.0}), attention))
    for bound in (low, high):
        for i, j in itertools.product(free, repeat=2):
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


def general_solver(attention, token_logits, bias, eps, starts):
    """The largest JSD that scipy's SLSQP finds within a TVD of eps, from the attention and from random starts."""
    n, generator = len(attention), np.random.default_rng(0)

    def predicted(weights):
        logits = weights @ token_logits + bias
        odds = np.exp(logits - logits.max())
        return odds / odds.sum()

    def moved(weights):
        return np.abs(predicted(weights) - predicted(attention)).sum() / 2

    def slope(weights):
        weights = np.maximum(weights, 1e-12)
        return -0.5 * np.log(2 * weights / (weights + attention))

    constraints = (
        {"type": "ineq", "fun": lambda weights: eps - moved(weights)},
        {"type": "eq", "fun": lambda weights: weights.sum() - 1},
    )
    best = 0.0
    for start in range(starts):
        begin = generator.dirichlet(np.full(n, 0.5)) if start else attention
        found = minimize(
            lambda weights: -jsd(np.maximum(weights, 0), attention),
            begin,
            jac=slope,
            bounds=[(0, 1)] * n,
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 200},
        )
        point = np.maximum(found.x, 0) / np.maximum(found.x, 0).sum()
        for share in np.linspace(1, 0, 2001):  # back to where the limit is kept
            other = attention + share * (point - attention)
            if moved(other) <= eps:
                best = max(best, jsd(other, attention))
                break
    return best


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


def moved_on_grid(attention, items, steps):
    """Attentions with the weight of the items dealt anew over a grid and the rest kept, and their JSD from it."""
    places = np.flatnonzero(items)
    weight = attention[places].sum()
    for shares in grid(len(places), steps):
        other = attention.copy()
        other[places] = weight * shares
        yield other, jsd(other, attention)


def best_on_grid(attention, kept, steps):
    """The largest JSD over the grid's distributions for which ``kept`` holds."""
    return max((jsd(other, attention) for other in grid(len(attention), steps) if kept(other)), default=-math.inf)
