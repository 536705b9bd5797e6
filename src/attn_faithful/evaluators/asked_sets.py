"""Logits of a block's texts without sets of items: each set is asked of the model once, whoever needs it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class AskedSets:
    """Asks a model for logits of texts without some items, and remembers them by text and set.

    Args:
        ask: ``ask(keep (R, T) bool, text (R,)) -> logits (R, C)``; rows of a text lie together.
        texts: of the block.

    Attributes:
        count: (B,), int64, how many sets of each text the model was asked for.
    """

    def __init__(self, ask: Callable[[Tensor, Tensor], Tensor], texts: int) -> None:
        self._ask = ask
        self._known: dict[tuple[int, bytes], Tensor] = {}
        self.count = torch.zeros(texts, dtype=torch.long)

    def __call__(self, keep: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C) of texts (R,) with what is in ``keep`` (R, T) alone."""
        bits = np.packbits(keep.cpu().numpy(), axis=1)
        keys = [(number, row.tobytes()) for number, row in zip(text.tolist(), bits, strict=True)]
        first: dict[tuple[int, bytes], int] = {}
        for row, key in enumerate(keys):
            if key not in self._known:
                first.setdefault(key, row)
        if first:
            rows = torch.tensor(list(first.values()), device=keep.device)
            logits = self._ask(keep[rows], text[rows])
            self._known.update(zip(first, logits, strict=True))
            self.count += torch.bincount(text[rows].cpu(), minlength=len(self.count))
        return torch.stack([self._known[key] for key in keys])
