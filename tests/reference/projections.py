"""Projections of one list of scores, from their optimisation problems."""

import math
from itertools import combinations

import numpy as np
from scipy.optimize import brentq


def softmax(z, temperature=1.0):
    top = max(z)
    weights = [math.exp((x - top) / temperature) for x in z]
    return [w / sum(weights) for w in weights]


def sparsegen(z, lam=0.0):
    """``argmin ||a - z||^2 - lam ||a||^2`` over the simplex: the best of the stationary points of every support."""
    best, value = None, math.inf
    for size in range(1, len(z) + 1):
        for support in combinations(range(len(z)), size):
            tau = (sum(z[t] for t in support) - (1 - lam)) / size
            a = np.zeros(len(z))
            for t in support:
                a[t] = (z[t] - tau) / (1 - lam)
            objective = float(((a - z) ** 2).sum() - lam * (a**2).sum())
            if a.min() >= -1e-12 and objective < value:
                best, value = a, objective
    return best.clip(0)


def sparsemax(z):
    return sparsegen(z, 0.0)


def entmax(z, alpha):
    """``a_t = max((alpha - 1) z_t - tau, 0)^(1 / (alpha - 1))`` with tau such that they sum to 1."""
    x = [(alpha - 1) * v for v in z]

    def weights(tau):
        return np.array([max(v - tau, 0.0) ** (1 / (alpha - 1)) for v in x])

    tau = brentq(lambda t: weights(t).sum() - 1, max(x) - 1, max(x), xtol=1e-15, rtol=1e-15, maxiter=500)
    return weights(tau)


def entmax15(z):
    return entmax(z, 1.5)
