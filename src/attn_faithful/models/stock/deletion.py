"""Logits of a stock model for texts without some of their tokens: each shortened text is read as any other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful.models.distinct_deletions import first_equal, from_first, is_first
from attn_faithful.models.shortened import shortened
from attn_faithful.models.stock.prefix import SharedPrefixes

Inputs = dict[str, Tensor]
Predict = Callable[[Tensor, Callable[[Tensor, int], Inputs], SharedPrefixes], Tensor]


def logits_without(inputs: Inputs, keep: Tensor, predict: Predict, padding: int) -> Tensor:
    """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted; equal shortened texts are run once.

    Args:
        inputs: what the model reads of a batch.
        keep: bool.
        predict: see `StockModel.predicted_in_parts`.
        padding: the id that padding is filled with.
    """
    mask = inputs["attention_mask"].bool()  # (B, T)
    first = first_equal(inputs, keep)  # (B, K)
    distinct = is_first(first).flatten().nonzero()[:, 0]  # (R,)
    kept = (mask[:, None] & keep).flatten(0, 1)[distinct]  # (R, T)
    text = distinct // max(1, keep.shape[1])  # (R,)

    def without(rows: Tensor, length: int) -> Inputs:
        chosen = _shortened(inputs, text[rows], kept[rows], length)
        is_token = chosen["attention_mask"].bool()
        return {**chosen, "input_ids": torch.where(is_token, chosen["input_ids"], padding)}

    prefixes = _prefixes(inputs, text, kept)
    logits_of_distinct = predict(kept.sum(-1), without, prefixes)  # (R, C)
    classes = logits_of_distinct.shape[-1]
    logits = logits_of_distinct.new_zeros(first.numel(), classes)
    logits[distinct] = logits_of_distinct
    return from_first(logits.view(*keep.shape[:2], classes), first)


def _prefixes(inputs: Inputs, text: Tensor, kept: Tensor) -> SharedPrefixes:
    """The whole texts, and how many of a text's tokens stand before the first that a row (R, T) is without."""
    mask = inputs["attention_mask"].bool()  # (B, T)
    texts = torch.arange(len(mask), device=mask.device)
    whole = _shortened(inputs, texts, mask, mask.shape[1])
    deleted = mask[text] & ~kept  # (R, T)
    before_first = kept & (deleted.cumsum(1) == 0)
    length = torch.minimum(before_first.sum(1), kept.sum(1) - 1).clamp(min=0)  # (R,)
    return SharedPrefixes(whole, text, length)


def _shortened(inputs: Inputs, text: Tensor, kept: Tensor, length: int) -> Inputs:
    """The inputs of some texts (P,) with the tokens ``kept`` (P, T) alone, in the first ``length`` places."""
    texts = shortened(inputs, text, kept, length)
    texts["attention_mask"] = texts["attention_mask"].to(inputs["attention_mask"].dtype)
    return texts
