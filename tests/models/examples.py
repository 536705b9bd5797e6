"""Small models and batches for the tests of models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

SMALL = {
    "vocab_size": 20,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_heads": 2,
    "kernel_sizes": (3, 5),
    "dropout": 0.3,
}


def small_model(seed: int = 0, **settings: Any) -> AttentionClassifier:
    """A small classifier in eval mode, with seeded weights and with dropout, which analysis must not use."""
    torch.manual_seed(seed)
    return AttentionClassifier(AttentionClassifierConfig(**{**SMALL, **settings})).eval()


def small_batch(
    lengths: tuple[int, ...] = (7, 3, 1, 0),
    special: tuple[tuple[int, int], ...] = (),
    queries: tuple[int, ...] | None = None,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Random texts, padded on the right.

    Args:
        lengths: of the texts.
        special: (text, position) of special tokens.
        queries: lengths of the queries.
        seed: of the tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    batch = _texts(lengths, generator)
    if special:
        mask = 1 - batch["attention_mask"]
        for row, position in special:
            mask[row, position] = 1
        batch["special_tokens_mask"] = mask
    if queries is not None:
        batch |= {f"query_{name}": value for name, value in _texts(queries, generator).items()}
    return batch


def _texts(lengths: tuple[int, ...], generator: torch.Generator) -> dict[str, Tensor]:
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(2, 20, mask.shape, generator=generator)
    return {"input_ids": ids * mask, "attention_mask": mask}
