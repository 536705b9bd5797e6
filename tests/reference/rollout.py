"""Attention through many layers, from the papers' formulas: loops over tokens, heads and paths."""

from collections import deque

import numpy as np


def merged(layer, heads):
    """One matrix (T, T) of a layer's heads (H, T, T)."""
    how = {"mean": lambda w: sum(w) / len(w), "max": max, "min": min}[heads]
    size = layer.shape[-1]
    return np.array([[how([head[i, j] for head in layer]) for j in range(size)] for i in range(size)])


def mixed(matrix):
    """0.5 W + 0.5 I, each row divided by its sum (Abnar and Zuidema, 2020, section 3)."""
    found = 0.5 * matrix + 0.5 * np.eye(len(matrix))
    return np.array([row / sum(row) for row in found])


def rollout(layers):
    """The whole matrix of what each token after the last layer (L, T, T) holds of each before the first."""
    found = np.eye(layers.shape[-1])
    for matrix in layers:
        found = mixed(matrix) @ found
    return found


def flow(layers, start, sink):
    """Maximum flow from ``start`` (T,) above the last layer (L, T, T) to a token below the first: Edmonds and Karp."""
    depth, size = layers.shape[:2]
    left = {}

    def edge(tail, head, capacity):
        if capacity > 0:
            left.setdefault(tail, {})[head] = capacity
            left.setdefault(head, {}).setdefault(tail, 0.0)

    for i in range(size):
        edge("source", (depth, i), start[i])
    for level, matrix in enumerate(layers):
        for i, row in enumerate(mixed(matrix)):
            for j, capacity in enumerate(row):
                edge((level + 1, i), (level, j), capacity)
    total = 0.0
    while (path := _shortest(left, "source", (0, sink))) is not None:
        room = min(left[a][b] for a, b in path)
        total += room
        for a, b in path:
            left[a][b] -= room
            left[b][a] += room
    return total


def _shortest(left, source, sink):
    """The edges of a shortest way along which something can still flow."""
    came, waiting = {source: None}, deque([source])
    while waiting:
        node = waiting.popleft()
        for other, room in left.get(node, {}).items():
            if room > 1e-15 and other not in came:
                came[other] = node
                waiting.append(other)
    if sink not in came:
        return None
    path, node = [], sink
    while came[node] is not None:
        path.append((came[node], node))
        node = came[node]
    return path[::-1]


def relevance(attention, gradient):
    """The whole matrix R of layers (L, H, T, T) (Chefer et al., 2021, equations 5 and 6)."""
    found = np.eye(attention.shape[-1])
    for weights, slopes in zip(attention, gradient, strict=True):
        step = sum(np.maximum(g * w, 0) for w, g in zip(weights, slopes, strict=True)) / len(weights)
        found = found + step @ found
    return found


def value_norms(weights, values, output):
    """Length of each key's part in one query's output (Kobayashi et al., 2020, equations 3 to 7).

    ``weights``: (H, T) of the query; ``values``: (H, T, D); ``output``: (H * D, N), no bias.
    """
    heads, size, width = values.shape
    found = []
    for j in range(size):
        whole = np.zeros(output.shape[1])
        for h in range(heads):
            whole += weights[h, j] * (values[h, j] @ output[h * width : (h + 1) * width])
        found.append(np.sqrt(sum(whole**2)))
    return np.array(found)
