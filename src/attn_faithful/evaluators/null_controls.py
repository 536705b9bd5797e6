"""Null controls: attention without information in the place of the model's, to compare numbers with chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attn_faithful._registry import Registry
from attn_faithful.evaluators.base import Block

CONTROLS: Registry[Callable[[Block], Tensor]] = Registry("control")


@CONTROLS.register("uniform")
def uniform(block: Block) -> Tensor:
    """Shares (B, S, T) that are equal over the items."""
    items = block.items.double()  # (B, S, T)
    count = items.sum(-1, keepdim=True)  # (B, S, 1)
    return items / count.clamp(min=1)


@CONTROLS.register("random")
def random(block: Block) -> Tensor:
    """Shares (B, S, T) drawn evenly from the simplex over the items, by seed and text."""
    items = block.items.cpu()  # (B, S, T)
    shares = torch.zeros(items.shape, dtype=torch.float64)
    for row, slots in enumerate(items):
        generator = block.generator(row, "random attention")
        for slot, inside in enumerate(slots):
            count = int(inside.sum())
            draws = torch.rand(count, generator=generator, dtype=torch.float64)
            # exponential draws over their sum: evenly spread over the simplex
            weights = -torch.log1p(-draws)
            total = weights.sum().clamp(min=1e-300)
            shares[row, slot, inside] = weights / total
    return shares.to(block.items.device)


def controlled(block: Block, name: str) -> Block:
    """The block with a control's attention on its items, and the logits that follow from it.

    Positions that are no items keep the model's weight, and so does their mass.

    Raises:
        InputError: an unknown control.
    """
    encoded = block.encoded
    items = block.items
    own_attention = encoded.attention.double()  # (B, S, T)
    mass = (own_attention * items).sum(-1, keepdim=True)  # (B, S, 1)
    shares = CONTROLS[name](block)  # (B, S, T)
    attention = torch.where(items, shares * mass, own_attention).to(encoded.attention.dtype)
    with torch.no_grad():
        logits = encoded.decode(attention[:, None])[:, 0]  # (B, C)
    pooled = encoded.pooled
    if pooled is not None:
        # a slot keeps its share of the whole; what several slots reach, as heads do, they share evenly
        reached_by = encoded.allowed.sum(1).clamp(min=1)  # (B, T)
        slot_share = ((pooled / reached_by)[:, None] * encoded.allowed).sum(-1, keepdim=True)  # (B, S, 1)
        pooled = (attention * slot_share).sum(1)  # (B, T)
    encoded = replace(
        encoded,
        attention=attention,
        logits=logits,
        scores=None,  # no scores lead to a control's attention
        log_weights=None,
        pooled=pooled,
    )
    return replace(block, encoded=encoded, attention=name)
