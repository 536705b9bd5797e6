"""The nearest attention at which one class overtakes another, for one list of weights ``a0`` and margins ``m``."""

import math

import numpy as np
from scipy.optimize import brentq, minimize

from tests.reference.divergences import jsd


def margins_by_class(token_logits, bias, y):
    """For every class but ``y`` that is not masked: by how much y leads it at each token."""
    return {
        c: [z[y] - z[c] + bias[y] - bias[c] for z in token_logits]
        for c in range(len(bias))
        if c != y and bias[c] != -math.inf
    }


def decision(attention, token_logits, bias):
    logits = [sum(a * z[c] for a, z in zip(attention, token_logits, strict=True)) + bias[c] for c in range(len(bias))]
    return logits.index(max(logits))


def nearest(a0, m):
    """The attention nearest to ``a0`` with a mean margin of 0, by two nested root searches; None if there is none.

    ``a_t = a0_t e_t / (2 - e_t)`` with ``e_t = exp(-2 (lambda m_t + mu))``. A token without attention has ``e_t <= 2``
    and takes the mass that is left where this holds with equality.
    """
    tokens = range(len(m))
    if not min(m) < 0:
        return None
    if sum(a * x for a, x in zip(a0, m, strict=True)) <= 0:
        return list(a0)
    support = [t for t in tokens if a0[t] > 0]
    lowest = min(tokens, key=lambda t: m[t])
    enters = m[lowest] < min(m[t] for t in support)

    def attention(lam, mu):
        a = [0.0] * len(m)
        for t in support:
            e = math.exp(-2 * (lam * m[t] + mu))
            a[t] = a0[t] * e / (2 - e) if e < 2 else math.inf
        return a

    def inverse_mass(lam, mu):
        return 1 / sum(attention(lam, mu))

    def solution(lam):
        pole = max(-lam * m[t] for t in support)
        least = -lam * m[lowest] - math.log(2) / 2 if enters else pole - math.log(2) / 2
        if enters and inverse_mass(lam, least) >= 1:
            a = attention(lam, least)
            a[lowest] = 1 - sum(a)
            return a
        mu = brentq(lambda mu: inverse_mass(lam, mu) - 1, least, pole + 1e-12, xtol=1e-15, rtol=1e-14)
        return attention(lam, mu)

    def mean(lam):
        return sum(a * x for a, x in zip(solution(lam), m, strict=True))

    high = 1.0
    while mean(high) > 0:
        high *= 2
    return solution(brentq(mean, 1e-12, high, xtol=1e-15, rtol=1e-14))


def flip_distance(a0, token_logits, bias):
    """The smallest JSD over the other classes, where it ends and which class it is; inf, None, -1 if there is none."""
    best = math.inf, None, -1
    for c, m in margins_by_class(token_logits, bias, decision(a0, token_logits, bias)).items():
        a = nearest(a0, m)
        if a is not None and jsd(a, a0) < best[0]:
            best = jsd(a, a0), a, c
    return best


def slopes(a, a0):
    """The derivatives of the JSD; a token without attention in both costs ``0.5 ln 2`` a unit."""
    return [
        math.log(2) / 2 if y == 0 else -math.inf if x == 0 else math.log(2 * x / (x + y)) / 2
        for x, y in zip(a, a0, strict=True)
    ]


def excess(a, a0, m):
    """How much the JSD of ``a`` can at most be above the smallest one: its distance to a lower bound.

    By weak duality ``sum_t 0.5 a0_t ln(2 - e_t) - mu`` is below every feasible JSD for any ``lambda >= 0`` and mu with
    all ``e_t <= 2``. They are read off two tokens, one on either side, at which the slope is ``-(lambda m_t + mu)``.
    """
    value = jsd(a, a0)
    g = slopes(a, a0)
    below, above = ([a[t] * max(sign * m[t], 0) for t in range(len(m))] for sign in (-1, 1))
    if not max(below) > 0 < max(above):
        return value
    i, j = below.index(max(below)), above.index(max(above))
    lam = max((g[i] - g[j]) / (m[j] - m[i]), 0)
    mu = max(-g[i] - lam * m[i], max(-lam * x for x in m) - math.log(2) / 2 + 1e-14)  # e < 2, rounding or not
    bound = -mu
    for weight, x in zip(a0, m, strict=True):
        if weight > 0:
            e = math.exp(-2 * (lam * x + mu))
            bound += weight * math.log(2 - e) / 2 if e < 2 else -math.inf
    return value - bound


def by_solver(a0, m, seed=0, starts=6):
    """The smallest JSD that SLSQP finds from several starts, among its points that are feasible to 1e-9."""
    generator = np.random.default_rng(seed)
    a0, m = np.array(a0), np.array(m)
    scale = np.abs(m).max()
    corner = np.eye(len(m))[m.argmin()]
    best = math.inf
    for i in range(starts):
        start = (a0 + corner) / 2 if i == 0 else 0.1 * corner + 0.9 * generator.dirichlet(np.ones(len(m)))
        found = minimize(
            lambda a: jsd(np.maximum(a, 0), a0),
            start,
            jac=lambda a: np.array(slopes(np.maximum(a, 1e-12), a0)),
            bounds=[(0, 1)] * len(m),
            constraints=[
                {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
                {"type": "ineq", "fun": lambda a: -(a @ m) / scale, "jac": lambda a: -m / scale},
            ],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )
        a = np.maximum(found.x, 0)
        if abs(a.sum() - 1) < 1e-9 and a @ m <= 1e-9 * scale:
            best = min(best, jsd(a, a0))
    return best
