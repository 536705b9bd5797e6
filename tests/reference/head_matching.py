"""Distances of heads and their matching by brute force: plain loops, every permutation."""

import itertools
import math

from tests.reference.divergences import jsd


def content_attention(row, content):
    mass = sum(a for a, c in zip(row, content, strict=True) if c)
    return [a / mass if c and mass > 0 else 0.0 for a, c in zip(row, content, strict=True)]


def head_distance(twin, base, rows):
    """Mean over the real rows of two heads (Q, T) in which both have mass; NaN without any."""
    found = [
        min(jsd(p, q), math.log(2))
        for p, q, real in zip(twin, base, rows, strict=True)
        if real and sum(p) > 0 and sum(q) > 0
    ]
    return sum(found) / len(found) if found else math.nan


def distances(twin, base, rows):
    """(B, H, H) of attention (B, H, Q, T)."""
    return [
        [[head_distance(i, j, real) for j in heads_b] for i in heads_a]
        for heads_a, heads_b, real in zip(twin, base, rows, strict=True)
    ]


def mean(values):
    defined = [v for v in values if not math.isnan(v)]
    return sum(defined) / len(defined) if defined else math.nan


def best_assignment(examples):
    """The permutation of smallest total mean distance, and that total; a pair without any value is ln 2 apart."""
    h = len(examples[0])
    costs = [[mean([e[i][j] for e in examples]) for j in range(h)] for i in range(h)]
    costs = [[math.log(2) if math.isnan(c) else c for c in row] for row in costs]
    totals = {order: sum(costs[i][j] for i, j in enumerate(order)) for order in itertools.permutations(range(h))}
    best = min(totals, key=totals.__getitem__)
    return best, totals[best], costs


def matched(example, assignment):
    """Mean over heads of one example's (H, H) distances under an assignment."""
    return mean([example[i][j] for i, j in enumerate(assignment)])
