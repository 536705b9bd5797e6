"""Forwards whose last block is run for the token that the classifier reads; the others give keys and values alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import OneRow, Trace
from attn_faithful.models.stock.layers import repeated, taken


def can_end_early(model: StockForward, calls: int) -> bool:
    """Whether the last of so many attention calls starts a block that follows another one of its stack."""
    count = model.blocks.before(calls - 1)
    steps = model.blocks.steps
    if not 0 < count < len(steps):
        return False
    last, before = steps[count], steps[count - 1]
    return last.first == calls - 1 and last.stack == before.stack


def logits_by_one_row(model: StockForward, inputs: dict[str, Tensor], calls: int, place: Tensor) -> Tensor:
    """Logits (B, C), as `StockForward.run` gives them but for rounding.

    The forward leaves its last block once the attention of one row is known; the rest of the block is run again for
    this row alone. That saves the last block but for its queries, keys and values: an eighth of a model of six layers.

    Args:
        model: of which `can_end_early` holds.
        inputs: that it reads.
        calls: of attention in one forward.
        place: (B,), the token that the classifier reads.
    """
    count = model.blocks.before(calls - 1)
    outputs: dict[int, Any] = {}
    one_row = OneRow(calls - 1, place)
    with model.blocks.keeping(count, outputs), model.blocks.ending(count, outputs):
        model.run(inputs, Trace(one_row=one_row))
    output = one_row.output
    if output is None:
        raise RuntimeError(f"{type(model.model).__name__} never reached its last attention")
    texts = len(place)
    rows = torch.arange(texts, device=place.device)
    known = {stack: taken(values, rows, texts, place) for stack, values in outputs.items()}
    trace = Trace(values={calls - 1: lambda: output})
    with model.blocks.skipping(count, known, trace):
        return model.run(repeated(inputs, rows, place), trace)
