"""The least time of a stage on a BERT classifier: what its answer needs at the rate that this thread multiplies at.

A stage's floor is its number of distinct shortened or altered texts, each at its own length, times the operations that
its answer needs (in the last layer the row of the first token alone), over the rate of matrix products of the model's
own shapes, measured in the same run. A multiply-add is two operations. Embeddings, normalizations, softmax and
activations are in no floor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

TOKENS = (256, 1024, 4096)  # that one product takes: the fastest of them counts
REPEATS, KEPT_UP = 3, 0.05  # runs, and seconds of each


def whole_operations(config: Any, length: int) -> float:
    """Operations of all layers on all pieces of one text."""
    width, inner = config.hidden_size, config.intermediate_size
    weights = 4 * width**2 + 2 * width * inner  # of a layer: query, key, value, output; in and out of the inner one
    return config.num_hidden_layers * (2 * length * weights + 4 * length**2 * width)


def forward_share(model: Any, length: int, rows: int) -> float:
    """The share of `rate` at which the model's own forward runs on unpadded rows."""
    ids = torch.ones(rows, length, dtype=torch.long)
    with torch.inference_mode():
        seconds = min(kept_up(lambda: model(input_ids=ids)) for _ in range(REPEATS))
    return rows * whole_operations(model.config, length) / seconds / rate(model.config)


def operations(config: Any, length: int) -> float:
    """Operations of one text of so many pieces, its classifier included."""
    width, inner = config.hidden_size, config.intermediate_size
    others = whole_operations(config, length) * (config.num_hidden_layers - 1) / config.num_hidden_layers
    keys_and_values = 4 * length * width**2
    one_row = 2 * (2 * width**2 + 2 * width * inner) + 4 * length * width
    classifier = 2 * width**2 + 2 * width * config.num_labels
    return others + keys_and_values + one_row + classifier


def rate(config: Any) -> float:
    """Operations a second in the products of one layer's weights, each with as many tokens as suit it best."""
    width, inner = config.hidden_size, config.intermediate_size
    seconds_an_operation, weights = 0.0, 0
    for rows, columns, count in ((width, width, 4), (width, inner, 1), (inner, width, 1)):
        matrix = torch.randn(columns, rows)
        times = [_time(torch.randn(tokens, rows), matrix) for tokens in TOKENS]
        seconds_an_operation += count * rows * columns * min(times)
        weights += count * rows * columns
    return weights / seconds_an_operation


def _time(tokens: torch.Tensor, matrix: torch.Tensor) -> float:
    """Seconds an operation of tokens (R, N) through a linear layer (M, N), kept up for a while."""
    bias = torch.zeros(len(matrix))
    operations_a_run = 2 * len(tokens) * matrix.numel()
    least = min(kept_up(lambda: torch.nn.functional.linear(tokens, matrix, bias)) for _ in range(REPEATS))
    return least / operations_a_run


def kept_up(work: Callable[[], Any]) -> float:
    """Seconds of processor time a run, over so long that what else the machine does falls on it as on a stage."""
    start, runs = time.process_time(), 0
    while time.process_time() - start < KEPT_UP:
        work()
        runs += 1
    return (time.process_time() - start) / runs


def floor(config: Any, rows: Iterable[list[int]], speed: float, times: float = 1.0) -> float:
    """Seconds for the distinct ones of some rows of ids.

    Args:
        speed: see `rate`.
        times: of each row's operations: 2 for a gradient with respect to embeddings, which goes forth and back.
    """
    distinct = {tuple(row) for row in rows}
    return times * sum(operations(config, len(row)) for row in distinct) / speed
