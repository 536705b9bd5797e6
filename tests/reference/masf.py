"""MaSF by loops over texts, layers and units: numpy alone."""

import numpy as np

DIGITS = 9


def unit_p(others, value):
    """Two-sided, among other texts' values."""
    low = 1 + sum(other <= value for other in others)
    high = 1 + sum(other >= value for other in others)
    return min(1.0, 2 * min(low, high) / (len(others) + 1))


def simes(p):
    ordered = sorted(p)
    smallest = min(len(p) * value / k for k, value in enumerate(ordered, start=1))
    return round(smallest + 1e-6 * np.mean(p), DIGITS)


def simes_of(text, others):
    """Of one layer: a text's units (U,) among those of others (m, U)."""
    return simes([unit_p([other[u] for other in others], text[u]) for u in range(len(text))])


def p_value(text, first, second):
    """Of a text, a list of layers (U,), among two halves of such texts."""
    layers = range(len(text))
    # the text stands among those of the second half, which are judged with it as it is judged with them
    everybody = [text, *second]
    statistics = [0.0] * len(everybody)
    for layer in layers:
        others = [other[layer] for other in first]
        s = [simes_of(one[layer], others) for one in everybody]
        for place, own in enumerate(s):
            r = sum(each <= own for each in s) / len(everybody)
            statistics[place] -= 2 * np.log(r)
    own = round(statistics[0], DIGITS)
    return sum(round(each, DIGITS) >= own for each in statistics) / len(everybody)
