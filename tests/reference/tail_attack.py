"""The least lead over a fine grid of products of simplices, slow and dense."""

import itertools

import numpy as np
from scipy import special


def logits(steps, vectors):
    """Logits (N, C) of vectors (N, D) through steps that are given as (kind, source, arrays...)."""
    made = [vectors]
    for kind, source, *rest in steps:
        x = made[source]
        if kind == "linear":
            weight, bias = rest
            made.append(x @ weight.T + bias)
        elif kind == "norm":
            weight, bias, eps = rest
            centred = x - x.mean(1, keepdims=True)
            made.append(centred / np.sqrt((centred**2).mean(1, keepdims=True) + eps) * weight + bias)
        elif kind == "gelu":
            made.append(x * special.ndtr(x))
        elif kind == "tanh":
            made.append(np.tanh(x))
        elif kind == "sum":
            made.append(x + made[rest[0]])
    return made[-1]


def lead(scores, decision):
    """By how much the decision leads its best rival, (N,)."""
    return scores[:, decision] - np.delete(scores, decision, 1).max(1)


def grid(items, cuts):
    """All shares of that many items in multiples of 1 / cuts."""
    bars = itertools.combinations(range(cuts + items - 1), items - 1)
    for places in bars:
        ends = (-1, *places, cuts + items - 1)
        yield np.array([b - a - 1 for a, b in itertools.pairwise(ends)]) / cuts


def least_lead(steps, origin, moves, decision, cuts):
    """The least lead over the grid of two slots' shares; moves (2, T, D)."""
    shares = [np.array(list(grid(moves.shape[1], cuts))) for _ in range(2)]
    first, second = (a @ m for a, m in zip(shares, moves, strict=True))  # (N, D) each
    return min(lead(logits(steps, origin + a + second), decision).min() for a in first)


def affine_least_lead(origin, moves, items, decision):
    """Of logits ``origin + sum q moves``: the least over rivals of the sum of least margins."""
    leads = []
    for rival in range(len(origin)):
        if rival != decision:
            margins = moves[..., decision] - moves[..., rival]
            by_slot = [margins[s][items[s]].min() for s in range(len(items)) if items[s].any()]
            leads.append(origin[decision] - origin[rival] + sum(by_slot))
    return min(leads)


def affine_radius(origin, moves, items, own, decision):
    """The least over rivals of ``m(own) / (m(own) - min m)`` where that is at most 1; NaN elsewhere."""
    found = []
    at_own = origin + np.einsum("st,stc->c", own, moves)
    for rival in range(len(origin)):
        if rival != decision:
            margins = moves[..., decision] - moves[..., rival]
            by_slot = [margins[s][items[s]].min() for s in range(len(items)) if items[s].any()]
            least = origin[decision] - origin[rival] + sum(by_slot)
            start = at_own[decision] - at_own[rival]
            if least < 0:
                found.append(start / (start - least))
    return min(found, default=np.nan)
