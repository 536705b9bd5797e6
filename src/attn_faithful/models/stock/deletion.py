"""Logits of a stock model for texts without some of their tokens: each shortened text is read as any other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful.models.blocks import CELLS
from attn_faithful.models.distinct_deletions import first_equal, from_first, is_first
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Trace


def logits_without(
    model: StockForward,
    inputs: dict[str, Tensor],
    keep: Tensor,
    cost: Callable[[int], int],
) -> Tensor:
    """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted, the longest texts first.

    Args:
        model: that is run.
        inputs: what it reads of a batch.
        keep: bool.
        cost: of `AttentionModel`.
    """
    mask = inputs["attention_mask"].bool()  # (B, T)
    first = first_equal(inputs, keep)  # (B, K)
    kept = (mask[:, None] & keep).flatten(0, 1)  # (B * K, T)
    lengths = kept.sum(-1)  # (B * K,)
    text = torch.arange(len(keep), device=keep.device).repeat_interleave(keep.shape[1])  # (B * K,)
    distinct = is_first(first).flatten()  # (B * K,)
    order = lengths.argsort(descending=True, stable=True)
    order = order[distinct[order]]
    classes = model.config.num_labels
    logits = torch.zeros(len(lengths), classes, device=keep.device, dtype=torch.float64)
    done = 0
    with model.analysing():
        while done < len(order):
            longest = max(1, int(lengths[order[done]]))
            size = max(1, CELLS // cost(longest))
            rows = order[done : done + size]
            shortened = _shortened(inputs, text[rows], kept[rows], longest)
            ids = shortened["input_ids"]
            there = shortened["attention_mask"].bool()
            shortened["input_ids"] = torch.where(there, ids, model.pad_token_id)
            logits[rows] = model.run(shortened, Trace()).double()
            done += len(rows)
    return from_first(logits.view(*keep.shape[:2], classes), first)


def _shortened(
    inputs: dict[str, Tensor],
    text: Tensor,
    kept: Tensor,
    length: int,
) -> dict[str, Tensor]:
    """The inputs of some texts (P,) with the tokens ``kept`` (P, T) alone, in the first ``length`` places."""
    order = torch.argsort(~kept, dim=1, stable=True)[:, :length]  # (P, length)
    shortened = {}
    for name, values in inputs.items():
        shortened[name] = values[text].gather(1, order)
    there = kept.gather(1, order)
    shortened["attention_mask"] = there.to(shortened["attention_mask"].dtype)
    return shortened
