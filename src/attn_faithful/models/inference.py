"""One pass of a model over a data set: predictions and attention of every example, in the data's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.models.adapted import adapted
from attn_faithful.models.blocks import Block, distinct_blocks
from attn_faithful.models.protocol import AttentionModel, Batch, Encoded

Collate = Callable[[list[dict[str, Any]]], dict[str, Tensor]]
Row = tuple[int, np.ndarray, np.ndarray]  # place in the data, probabilities, attention over its items


@dataclass(frozen=True)
class Outputs:
    """What a model says of n examples.

    Attributes:
        probabilities: (n, C) float64.
        attention: one float64 array an example, over its content tokens in order; they sum to 1, less
            what special tokens keep.
    """

    probabilities: np.ndarray
    attention: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.attention)

    @classmethod
    def of(cls, rows: list[Row], classes: int) -> Outputs:
        """Outputs of the rows in the order of their places."""
        if not rows:
            return cls(np.zeros((0, classes)), [])
        rows = sorted(rows, key=lambda row: row[0])
        _, probabilities, attention = zip(*rows, strict=True)
        return cls(np.stack(probabilities), list(attention))


def planned(model: AttentionModel, dataset: Any) -> list[Block]:
    """The blocks of a data set for a model; which texts make a block depends on nothing but the texts."""
    return distinct_blocks(dataset, adapted(model).cost)


def encode_block(
    model: AttentionModel,
    dataset: Any,
    collate: Collate,
    block: Block,
    site: str,
) -> tuple[Batch, Encoded]:
    """Run the texts of a block once, without gradients: a row a distinct text.

    Args:
        model: encodes in eval mode.
        dataset: rows with ``input_ids``.
        collate: makes a batch of rows.
        block: of :func:`planned`.
        site: where in the model.

    Returns:
        the batch on the model's device, and what the model did.
    """
    batch = batch_of(model, dataset, collate, block)
    with torch.no_grad():
        return batch, model.encode(batch, site)


def batch_of(
    model: AttentionModel,
    dataset: Any,
    collate: Collate,
    block: Block,
) -> dict[str, Tensor]:
    """The inputs of the texts of a block, a row a distinct text, on the model's device."""
    device = next(model.parameters()).device
    rows = [dataset[place] for place in block.first]
    batch = collate(rows)
    batch.pop("labels", None)
    return {name: value.to(device) for name, value in batch.items()}


def output_rows(copies: Sequence[Sequence[int]], encoded: Encoded) -> list[Row]:
    """The outputs of one block: what came out of a text goes to all places where it stands."""
    probabilities = encoded.probabilities.double().cpu().numpy()  # (B, C)
    weights = encoded.over_items.double().cpu().numpy()  # (B, T)
    content = encoded.content.cpu().numpy()
    rows: list[Row] = []
    for text, places in enumerate(copies):
        attention = weights[text][content[text]]
        rows += [(place, probabilities[text], attention) for place in places]
    return rows


def run_share(
    model: Any,
    dataset: Any,
    collate: Collate,
    rank: int = 0,
    world: int = 1,
) -> list[Row]:
    """The outputs of this process's share of a data set; attention over the tokens (see `Encoded.over_items`).

    Every world-th block is this process's.
    """
    rows: list[Row] = []
    for block in planned(model, dataset)[rank::world]:
        _, encoded = encode_block(model, dataset, collate, block, model.sites[0])
        rows += output_rows(block.copies, encoded)
    return rows


def run_over(model: Any, dataset: Any, collate: Collate) -> Outputs:
    """The outputs of every example, in the order of the data set; attention over the tokens."""
    return Outputs.of(run_share(model, dataset, collate), model.config.num_labels)
