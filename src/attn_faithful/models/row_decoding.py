"""Logits of rows of attention, any number of each text, by a `decode` that takes as many alternatives of every text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Decode = Callable[[Tensor], Tensor]


def decode_rows(decode: Decode, attention: Tensor, text: Tensor, texts: int) -> Tensor:
    """Logits (R, C) under attention (R, S, T) of some texts (R,); those of a text lie together, texts rise.

    A `decode` may have a method ``rows(attention, text)`` of its own, which runs these rows alone. Of others each text
    gets as many alternatives as the one of most rows, its last row again and again.

    Args:
        decode: of `Encoded`, ``(B, K, S, T) -> (B, K, C)``.
        attention: R rows, at least one.
        text: int64, whose they are.
        texts: B.

    Example:
        >>> decode = lambda attention: attention.sum(-1)
        >>> decode_rows(decode, torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.tensor([1, 1]), texts=3)
        tensor([[3.],
                [7.]])
    """
    rows = getattr(decode, "rows", None)
    if rows is not None:
        logits: Tensor = rows(attention, text)
        return logits
    counts = torch.bincount(text, minlength=texts)  # (B,)
    start = counts.cumsum(0) - counts  # (B,), the first row of each text
    number = torch.arange(len(text), device=text.device) - start[text]  # (R,), of each row within its text
    alternative = torch.arange(int(counts.max()), device=text.device)  # (K,)
    last = (counts - 1).clamp(min=0)
    row = start[:, None] + torch.minimum(alternative, last[:, None])  # (B, K)
    row = row.clamp(max=len(text) - 1)  # a text of no rows gets any other's
    return decode(attention[row])[text, number]
