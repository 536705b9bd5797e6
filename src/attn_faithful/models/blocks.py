"""How a data set is cut into batches, so that numbers do not depend on its order or on who asks.

A matrix product rounds differently with other rows beside a row. Blocks are made of the texts alone: sorted by length
and content, of a size that the length decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

TOLD = ("input_ids", "sentence_ids", "query_input_ids", "candidates")  # what tells texts apart
ROWS = 64
CELLS = 32 * 1024  # rows times tokens: what bounds the memory of a block


def content_keys(dataset: Any) -> list[str]:
    """A digest of what each example says to a model; equal texts have equal keys.

    Args:
        dataset: columns ``input_ids`` and where they are there ``sentence_ids``, ``query_input_ids``, ``candidates``.
    """
    names = [name for name in TOLD if name in dataset.column_names]
    columns = [dataset[name] for name in names]
    return [_digest(values) for values in zip(*columns, strict=True)]


def _digest(values: Sequence[Any]) -> str:
    seen = hashlib.sha256()
    for value in values:
        seen.update(np.asarray(value, dtype=np.int64).tobytes() + b"|")
    return seen.hexdigest()[:16]


def blocks(
    lengths: Sequence[int], keys: Sequence[str], cost: Callable[[int], int] = lambda length: length
) -> list[list[int]]:
    """Rows that are encoded together, longest texts first.

    Args:
        lengths: tokens of each example.
        keys: of :func:`content_keys`.
        cost: cells that a text of so many tokens takes.

    Example:
        >>> blocks([2, 9, 2], ["a", "b", "c"])
        [[1, 2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], keys[i]), reverse=True)
    found: list[list[int]] = []
    start = 0
    while start < len(order):
        size = max(1, min(ROWS, CELLS // max(1, cost(lengths[order[start]]))))
        found.append(order[start : start + size])
        start += size
    return found
