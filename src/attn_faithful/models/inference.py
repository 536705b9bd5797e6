"""One pass of a model over a data set: predictions and attention of every example, in the data's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.models.protocol import AttentionModel, evaluating

Collate = Callable[[list[dict[str, Any]]], dict[str, Tensor]]


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
    def of(cls, rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Outputs:
        """Outputs of one (probabilities, attention) an example."""
        return cls(np.stack([chances for chances, _ in rows]), [weights for _, weights in rows])


def run_over(model: AttentionModel, dataset: Any, collate: Collate, batch_size: int = 128) -> Outputs:
    """Encode every example once, in eval mode, without gradients.

    Args:
        model: a pooled attention model (one slot).
        dataset: rows with ``input_ids``.
        collate: makes a batch of rows.
        batch_size: examples a batch; the numbers do not depend on it beyond rounding.

    Returns:
        The outputs in the order of the data set; batches are made of texts of like length.
    """
    lengths = np.asarray([len(ids) for ids in dataset["input_ids"]])
    order = np.argsort(-lengths, kind="stable")
    device = next(model.parameters()).device
    probabilities: list[np.ndarray | None] = [None] * len(order)
    attention: list[np.ndarray] = [np.zeros(0)] * len(order)
    with torch.no_grad(), evaluating(model):
        for start in range(0, len(order), batch_size):
            index = order[start : start + batch_size].tolist()
            batch = collate([dataset[i] for i in index])
            batch.pop("labels", None)
            encoded = model.encode({name: value.to(device) for name, value in batch.items()}, model.sites[0])
            chances = encoded.probabilities.double().cpu().numpy()
            weights = encoded.attention[:, 0].double().cpu().numpy()
            content = encoded.content.cpu().numpy()
            for row, i in enumerate(index):
                probabilities[i] = chances[row]
                attention[i] = weights[row][content[row]]
    width = model.config.num_labels
    stacked = np.stack(probabilities) if len(order) else np.zeros((0, width))
    return Outputs(stacked, attention)
