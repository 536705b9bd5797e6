"""ROAR's masks, RACU and the interval over seeds, by loops over texts, tokens and trapezoids."""

import math

import numpy as np
from scipy import stats


def masked_top(importance, masked, count):
    """Of one text: the tokens of `masked` and, until there are `count`, the next of the largest importance."""
    chosen = [place for place, is_masked in enumerate(masked) if is_masked]
    while len(chosen) < count:
        best = None
        for place, value in enumerate(importance):
            if place in chosen:
                continue
            value = -math.inf if math.isnan(value) else value
            if best is None or value > best[0]:
                best = (value, place)
        chosen.append(best[1])
    return [place in chosen for place in range(len(importance))]


def racu(shares, random, source):
    """Sums of trapezoids, from the first share on."""
    gained = largest = 0.0
    for i in range(len(shares) - 1):
        width = shares[i + 1] - shares[i]
        gained += width * (random[i] - source[i] + random[i + 1] - source[i + 1]) / 2
        largest += width * (random[i] - random[-1] + random[i + 1] - random[-1]) / 2
    if largest <= 0:
        return math.nan
    return max(-1.0, min(1.0, gained / largest))


def interval(values):
    values = [value for value in values if not math.isnan(value)]
    if len(values) < 2:
        return math.nan, math.nan
    if len(set(values)) == 1:
        return values[0], values[0]
    return stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
