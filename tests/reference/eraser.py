"""ERASER's faithfulness of one example, from its definitions."""

import math
from fractions import Fraction


def count(n, share):
    """The smallest whole number of tokens that is at least the share of n; the share as it is written in decimals."""
    return math.ceil(Fraction(str(share)) * n)


def top(importance, content, k):
    """The positions of the k highest content tokens, one by one; the first position wins a tie."""
    left = [t for t, inside in enumerate(content) if inside]
    chosen = set()
    while left and len(chosen) < k:
        best = left[0]
        for t in left:
            if importance[t] > importance[best]:
                best = t
        left.remove(best)
        chosen.add(best)
    return chosen


def curve(p, importance, content, shares):
    """Comprehensiveness and sufficiency at each share; ``p`` gives the probability for a set of positions."""
    whole = {t for t, inside in enumerate(content) if inside}
    lost_without, lost_with_only = [], []
    for share in shares:
        chosen = top(importance, content, count(len(whole), share))
        lost_without.append(p(whole) - p(whole - chosen))
        lost_with_only.append(p(whole) - p(chosen))
    return lost_without, lost_with_only


def mean(values):
    return sum(values) / len(values)


def printed_aopc(values, at_zero):
    """1 / (|B| + 1) times the sum from k = 0 to |B|."""
    return sum([at_zero, *values]) / (len(values) + 1)
