"""Deletes items from the texts of a block and asks the model again, once for every set of items."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.models.protocol import Batch

CELLS = 2**22  # flags of what is kept, of alternatives that are asked for together


class Remover:
    """``remover(keep (B, K, T) bool) -> logits (B, K, C)``: the model's `without`, of items, with a memory.

    Shares of short texts round up to the same number, rankings agree on sets, and another site asks the same again:
    most sets are there several times.

    Args:
        model: with `without`.
        batch: its inputs.
        members: which item each token belongs to, see `Encoded.members`.
    """

    def __init__(self, model: Any, batch: Batch, members: Tensor | None) -> None:
        self.model, self.batch, self.members = model, batch, members
        self.known: defaultdict[int, dict[bytes, Tensor]] = defaultdict(dict)  # text -> what is kept -> logits

    def serves(self, members: Tensor | None) -> bool:
        """Whether items of another site are those of this one."""
        if members is None or self.members is None:
            return members is self.members
        return torch.equal(members, self.members)

    def __call__(self, keep: Tensor) -> Tensor:
        masks = np.packbits(keep.cpu().numpy(), axis=-1)
        names = [[mask.tobytes() for mask in row] for row in masks]
        missing: list[dict[bytes, int]] = []
        for row, wanted in enumerate(names):
            first: dict[bytes, int] = {}
            for k, name in enumerate(wanted):
                if name not in self.known[row]:
                    first.setdefault(name, k)
            missing.append(first)
        self._ask(keep, missing)
        return torch.stack([torch.stack([self.known[row][name] for name in found]) for row, found in enumerate(names)])

    def _ask(self, keep: Tensor, missing: list[dict[bytes, int]]) -> None:
        most = max((len(first) for first in missing), default=0)
        if not most:
            return
        # a text of fewer sets than others is asked for whole, which costs least
        once = keep.new_ones(len(keep), most, keep.shape[2])
        for row, first in enumerate(missing):
            once[row, : len(first)] = keep[row, list(first.values())]
        together = max(1, CELLS // max(1, len(keep) * keep.shape[2]))
        logits = torch.cat([self._of_tokens(part).double() for part in once.split(together, dim=1)], dim=1)
        for row, first in enumerate(missing):
            for place, name in enumerate(first):
                self.known[row][name] = logits[row, place]

    def _of_tokens(self, keep: Tensor) -> Tensor:
        members = self.members
        if members is not None:  # a token goes with its item
            index = members.clamp(min=0)[:, None].expand(-1, keep.shape[1], -1)
            keep = keep.gather(2, index) | (members < 0)[:, None]
        logits: Tensor = self.model.without(self.batch, keep)
        return logits
