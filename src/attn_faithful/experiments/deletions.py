"""Deletes items from the texts of a block and asks the model again, once for every set of items."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.distinct_deletions import Naming
from attn_faithful.models.protocol import Batch

CELLS = 2**22  # flags of what is kept, of alternatives that are asked for together


class Remover:
    """``remover(keep (B, K, T) bool) -> logits (B, K, C)``: the model's `without`, of items, with a memory.

    Shares of short texts round up to the same number, rankings agree on sets, neighbouring words are equal, and another
    site asks the same again: most shortened texts are there several times, and each is asked for once.

    Args:
        model: with `without`.
        batch: its inputs.
        members: which item each token belongs to, see `Encoded.members`.
    """

    def __init__(self, model: Any, batch: Batch, members: Tensor | None) -> None:
        self.model, self.batch, self.members = model, batch, members
        self.naming = Naming.of(batch, ordered=not model.reads_alone)
        self.known: dict[bytes, Tensor] = {}  # a shortened text -> its logits (C,)

    def serves(self, members: Tensor | None) -> bool:
        """Whether items of another site are those of this one."""
        if members is None or self.members is None:
            return members is self.members
        return torch.equal(members, self.members)

    def __call__(self, keep: Tensor) -> Tensor:
        keep = self._of_tokens(keep)
        names = [[_digest(name) for name in row] for row in self.naming.names(keep)]
        missing: list[dict[bytes, int]] = []
        taken: set[bytes] = set()
        for row in names:
            first: dict[bytes, int] = {}
            for k, name in enumerate(row):
                if name not in self.known and name not in taken:
                    first.setdefault(name, k)
            taken |= first.keys()
            missing.append(first)
        self._ask(keep, missing)
        return torch.stack([torch.stack([self.known[name] for name in row]) for row in names])

    def _of_tokens(self, keep: Tensor) -> Tensor:
        """Flags of items (B, K, items) as those of tokens (B, K, T): a token goes with its item."""
        members = self.members
        if members is None:
            return keep
        index = members.clamp(min=0)[:, None].expand(-1, keep.shape[1], -1)
        return keep.gather(2, index) | (members < 0)[:, None]

    def _ask(self, keep: Tensor, missing: list[dict[bytes, int]]) -> None:
        most = max((len(first) for first in missing), default=0)
        if not most:
            return
        # a text of fewer sets than others is asked for whole, which costs least
        once = keep.new_ones(len(keep), most, keep.shape[2])
        for row, first in enumerate(missing):
            once[row, : len(first)] = keep[row, list(first.values())]
        all_gather = max(1, CELLS // max(1, len(keep) * keep.shape[2]))
        parts = [self.model.without(self.batch, part).double() for part in once.split(all_gather, dim=1)]
        logits = torch.cat(parts, dim=1)
        for row, first in enumerate(missing):
            self.known.update(zip(first, logits[row, : len(first)].unbind(), strict=True))


def _digest(name: bytes) -> bytes:
    """A short name in a long one's place: a block of long texts asks for many."""
    return hashlib.blake2b(name, digest_size=16).digest()
