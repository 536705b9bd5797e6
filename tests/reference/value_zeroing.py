"""Value zeroing from the paper's definition (Mohebbi et al., 2023): loops over rows and tokens."""

import math

import numpy as np


def cosine_distance(a, b):
    """1 - cos of the angle between two vectors."""
    return 1 - math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b))


def context_mixing(states, altered, read):
    """The rows' shares (T, T) of each token, from states (T, N) and those without each token's value (T, T, N).

    ``altered[j]`` holds the states without the value of token j; ``read`` (T,) says which tokens there are.
    """
    size = len(states)
    found = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if read[i] and read[j]:
                found[i, j] = cosine_distance(states[i], altered[j][i])
        total = math.fsum(found[i])
        if total > 0:
            found[i] = found[i] / total
    return found
