"""Divergences of two lists of probabilities, term by term."""

import math
from itertools import pairwise


def tvd(p, q):
    total = 0.0
    for a, b in zip(p, q, strict=True):
        total += abs(a - b)
    return total / 2


def multilabel_tvd(p, q):
    return sum(tvd([a, 1 - a], [b, 1 - b]) for a, b in zip(p, q, strict=True)) / len(p)


def kl(p, q, eps=0.0):
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if eps > 0:
            total += a * (math.log(a + eps) - math.log(b + eps))
        elif a > 0:
            total += math.inf if b == 0 else a * math.log(a / b)
    return total


def jsd(p, q, eps=0.0):
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return kl(p, middle, eps) / 2 + kl(q, middle, eps) / 2


def largest_jsd(attention, steps=60):
    """The best over every corner and over a grid on every edge of the simplex."""
    n = len(attention)
    best = 0.0
    corners = [[float(i == j) for j in range(n)] for i in range(n)]
    for corner in corners:
        best = max(best, jsd(corner, attention))
    for one, other in pairwise(corners):
        for k in range(steps + 1):
            mix = [(k * a + (steps - k) * b) / steps for a, b in zip(one, other, strict=True)]
            best = max(best, jsd(mix, attention))
    return best
