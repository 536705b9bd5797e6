"""Small changes of embeddings and the attention under them, text by text, from the definition."""

import numpy as np


def perturbed_embeddings(embedded, directions, radius):
    """Each embedding (n, N) of a text moved along its direction by ``radius`` times the mean length of all."""
    if not len(embedded):
        return embedded
    length = radius * sum(np.linalg.norm(embedding) for embedding in embedded) / len(embedded)
    moved = []
    for embedding, direction in zip(embedded, directions, strict=True):
        own = np.linalg.norm(direction)
        moved.append(embedding if own == 0 else embedding + length * direction / own)
    return np.array(moved)


def correlation_distance(one, other):
    """``1 - r`` of two lists of weights, by Pearson's formula; None where undefined."""
    n = len(one)
    if n < 2 or max(one) == min(one) or max(other) == min(other):
        return None
    mean, other_mean = sum(one) / n, sum(other) / n
    covariance = sum((a - mean) * (b - other_mean) for a, b in zip(one, other, strict=True))
    spread, other_spread = sum((a - mean) ** 2 for a in one), sum((b - other_mean) ** 2 for b in other)
    return 1 - covariance / np.sqrt(spread * other_spread)
