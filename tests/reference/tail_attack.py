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


def refined_least_lead(steps, origin, moves, decision, cuts, best=12, rounds=22):
    """The least lead over two slots' shares to about 1e-9: a dense grid, then smaller and smaller ones round its best.

    Args:
        steps: as `logits` reads them.
        origin, moves: (D,) and (2, T, D).
        decision: the class decided.
        cuts: of the dense grid.
        best: points round which each smaller grid is laid, of half the size of the one before.
        rounds: of smaller grids.
    """
    own = np.array(list(grid(moves.shape[1], cuts)))  # (N, T)
    places = np.stack([np.repeat(own, len(own), 0), np.tile(own, (len(own), 1))], 1)  # (N * N, 2, T)
    free = moves.shape[1] - 1
    offsets = np.array(list(itertools.product((-1, 0, 1), repeat=2 * free))).reshape(-1, 2, free)
    size = 1 / cuts
    for _ in range(rounds):
        leads = lead(logits(steps, origin + np.einsum("nst,std->nd", places, moves)), decision)
        places = places[np.argsort(leads)[:best]]
        near = places[:, None, :, :free] + size * offsets  # (best, offsets, 2, T - 1)
        near = np.clip(near, 0, 1).reshape(-1, 2, free)
        near /= np.maximum(near.sum(-1, keepdims=True), 1)
        near = np.concatenate([near, 1 - near.sum(-1, keepdims=True)], -1)
        places = np.concatenate([places, near])
        size *= 0.5
    return float(lead(logits(steps, origin + np.einsum("nst,std->nd", places, moves)), decision).min())
