"""AOPC of orders of removals, and its limits over all orders: all subsets, by dynamic programming (Edin et al. 2024).

A set of kept items is a number whose bits say which are kept.
"""

from __future__ import annotations

import numpy as np


def bits(kept, n):
    """Which of n items are kept."""
    return (np.asarray(kept)[..., None] >> np.arange(n)) & 1 == 1


def kept_probabilities(weights, token_logits, bias, decision):
    """p_y of every set of kept items (2^n,), renormalized; the bias alone where no weight is kept."""
    a, z, b = (np.asarray(values, dtype=np.float64) for values in (weights, token_logits, bias))
    kept = bits(np.arange(1 << len(a)), len(a)) * a  # (2^n, n)
    mass = kept.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        context = np.where(mass[:, None] > 0, kept @ np.where(np.isneginf(b), 0, z) / mass[:, None], 0)
    logits = context + b
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers[:, decision] / powers.sum(1)


def aopc(p, order):
    """``mean over k = 1 ... n - 1 of p(all) - p(without the first k)``, from p of every set."""
    n = len(order)
    left = (1 << n) - 1
    lost = []
    for item in order[:-1]:
        left -= 1 << item
        lost.append(p[-1] - p[left])
    return sum(lost) / (n - 1)


def limits(p):
    """The greatest and the smallest AOPC of any order, from p of every set."""
    n = len(p).bit_length() - 1
    sizes = bits(np.arange(len(p)), n).sum(1)
    found = []
    for best in (np.max, np.min):
        lost = np.zeros(len(p))  # of the best way to each set
        for size in range(n - 1, 0, -1):
            sets = np.flatnonzero(sizes == size)
            removed, item = np.nonzero(~bits(sets, n))
            before = lost[sets[removed] | (1 << item)].reshape(len(sets), -1)
            lost[sets] = best(before, axis=1) + p[-1] - p[sets]
        found.append(best(lost[sizes == 1]) / (n - 1))
    return tuple(found)
