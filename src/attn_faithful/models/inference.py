"""One pass of a model over a data set: predictions and attention of every example, in the data's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.models.blocks import blocks, content_keys
from attn_faithful.models.protocol import AttentionModel, Batch, Encoded

Collate = Callable[[list[dict[str, Any]]], dict[str, Tensor]]
Row = tuple[int, np.ndarray, np.ndarray]  # place in the data, probabilities, attention over its items


@dataclass(frozen=True)
class Outputs:
    """What a model says of n examples.

    Attributes:
        probabilities: (n, C) float64.
        attention: one float64 array an example, over its content tokens in order; they sum to 1.
    """

    probabilities: np.ndarray
    attention: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.attention)

    @classmethod
    def of(cls, rows: list[Row], classes: int) -> Outputs:
        """Outputs of the rows in the order of their places."""
        rows = sorted(rows, key=lambda row: row[0])
        chances = np.stack([row[1] for row in rows]) if rows else np.zeros((0, classes))
        return cls(chances, [row[2] for row in rows])


def encoded_blocks(
    model: AttentionModel, dataset: Any, collate: Collate, site: str, rank: int = 0, world: int = 1
) -> Iterator[tuple[list[int], list[str], Batch, Encoded]]:
    """Encode a data set block by block, without gradients.

    Args:
        model: encodes in eval mode.
        dataset: rows with ``input_ids``.
        collate: makes a batch of rows.
        site: where in the model.
        rank, world: this process takes every world-th block; which texts make a block does not depend on it.

    Yields:
        places in the data, their keys (see `blocks.content_keys`), the batch on the model's device, and what the
        model did.
    """
    device = next(model.parameters()).device
    keys = content_keys(dataset)
    cost = getattr(model, "cost", lambda length: length)
    for index in blocks([len(ids) for ids in dataset["input_ids"]], keys, cost)[rank::world]:
        batch = collate([dataset[i] for i in index])
        batch.pop("labels", None)
        batch = {name: value.to(device) for name, value in batch.items()}
        with torch.no_grad():
            encoded = model.encode(batch, site)
        yield index, [keys[i] for i in index], batch, encoded


def output_rows(index: list[int], encoded: Encoded) -> list[Row]:
    """The outputs of one block."""
    chances = encoded.probabilities.double().cpu().numpy()
    weights = encoded.over_items.double().cpu().numpy()
    content = encoded.content.cpu().numpy()
    return [(i, chances[row], weights[row][content[row]]) for row, i in enumerate(index)]


def run_share(model: Any, dataset: Any, collate: Collate, rank: int = 0, world: int = 1) -> list[Row]:
    """The outputs of this process's share of a data set; attention over the tokens (see `Encoded.over_items`)."""
    found: list[Row] = []
    for index, _, _, encoded in encoded_blocks(model, dataset, collate, model.sites[0], rank, world):
        found += output_rows(index, encoded)
    return found


def run_over(model: Any, dataset: Any, collate: Collate) -> Outputs:
    """The outputs of every example, in the order of the data set; attention over the tokens."""
    return Outputs.of(run_share(model, dataset, collate), model.config.num_labels)
