"""Soft erasure of one text (Zhao and Aletras 2023, section 3), number by number."""

import math


def keep_probabilities(importance, share=None):
    """Of each token; with a share ``min(1, c a)`` with the c that bisection finds."""
    above = [max(value, 0.0) for value in importance]
    if share is None:
        return [value / max(above) for value in above]
    n = len(above)
    positive = sum(value > 0 for value in above)
    if positive <= share * n:  # kept whole, and the rest is dealt to the others
        left = (share * n - positive) / max(n - positive, 1)
        return [1.0 if value > 0 else left for value in above]
    low, high = 0.0, 1 / min(value for value in above if value > 0)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(min(1.0, middle * value) for value in above) < share * n:
            low = middle
        else:
            high = middle
    return [min(1.0, high * value) for value in above]


def mean_lost(full, others):
    return sum(full - other for other in others) / len(others)


def soft_nc(full, without, zero):
    if full <= zero:
        return math.nan
    return sum(max(0.0, full - other) / (full - zero) for other in without) / len(without)


def soft_ns(full, only, zero):
    def sufficiency(other):
        return 1 - max(0.0, full - other)

    at_zero = sufficiency(zero)
    if at_zero == 1:
        return math.nan
    return sum((sufficiency(other) - at_zero) / (1 - at_zero) for other in only) / len(only)
