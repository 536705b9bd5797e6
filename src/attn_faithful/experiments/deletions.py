"""Deletes items from the texts of a block and asks the model again, once for every set of items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.distinct_deletions import Naming
from attn_faithful.models.protocol import Batch

CELLS = 2**22  # flags of the alternatives that are run together


class ItemDeletions:
    """``deletions(keep (B, K, items) bool) -> logits (B, K, C)``: the model's `without`, of items, with a memory.

    Shares of short texts round up to the same number, rankings agree on sets, neighbouring words are equal, and another
    site asks the same again: most shortened texts occur several times, and each is run once.

    Args:
        model: with `without`.
        batch: its inputs.
        members: which item each token belongs to, see `Encoded.members`.
    """

    def __init__(self, model: Any, batch: Batch, members: Tensor | None) -> None:
        self.model = model
        self.batch = batch
        self.members = members
        self.naming = Naming.of(batch, ordered=not model.reads_alone)
        self.known: dict[bytes, Tensor] = {}  # a shortened text -> its logits (C,)

    def serves(self, members: Tensor | None) -> bool:
        """Whether items of another site are those of this one."""
        if members is None or self.members is None:
            return members is self.members
        return torch.equal(members, self.members)

    def __call__(self, keep: Tensor) -> Tensor:
        # (B, K, T)
        keep = self._of_tokens(keep)
        names = [_digests(row) for row in self.naming.names(keep)]
        self._run(keep, self._unknown(names))
        # (B, K, C)
        return torch.stack([self._logits(row) for row in names])

    def _logits(self, names: list[bytes]) -> Tensor:
        """Logits (K, C) of shortened texts that were run."""
        return torch.stack([self.known[name] for name in names])

    def _of_tokens(self, keep: Tensor) -> Tensor:
        """Flags of items (B, K, items) as those of tokens (B, K, T): a token goes with its item."""
        members = self.members
        if members is None:
            return keep
        # (B, K, T): the item of each token, 0 for tokens of no item
        index = members.clamp(min=0)[:, None].expand(-1, keep.shape[1], -1)
        of_no_item = (members < 0)[:, None]
        return keep.gather(2, index) | of_no_item

    def _unknown(self, names: list[list[bytes]]) -> list[dict[bytes, int]]:
        """Of each text the shortened ones that were never run -> their first place; each in one text alone."""
        unknown: list[dict[bytes, int]] = []
        earlier: set[bytes] = set()
        for row in names:
            first_places: dict[bytes, int] = {}
            for k, name in enumerate(row):
                if name not in self.known and name not in earlier:
                    first_places.setdefault(name, k)
            earlier |= first_places.keys()
            unknown.append(first_places)
        return unknown

    def _run(self, keep: Tensor, unknown: list[dict[bytes, int]]) -> None:
        """Run the model on the unknown ones, a place of `keep` each, and remember their logits."""
        most = max((len(places) for places in unknown), default=0)
        if not most:
            return
        # a text with fewer of them has in the places that are left what costs least: no token, which is run once for
        # all texts; or all of its tokens, where a model reads no whole text again
        texts, _, tokens = keep.shape
        # (B, most, T)
        once = keep.new_full((texts, most, tokens), not self.model.layered)
        for row, places in enumerate(unknown):
            once[row, : len(places)] = keep[row, list(places.values())]
        chunk_size = max(1, CELLS // max(1, texts * tokens))
        parts = []
        for part in once.split(chunk_size, dim=1):
            parts.append(self.model.without(self.batch, part).double())
        # (B, most, C)
        logits = torch.cat(parts, dim=1)
        for row, places in enumerate(unknown):
            of_text = logits[row, : len(places)].unbind()
            self.known.update(zip(places, of_text, strict=True))


def _digests(names: Iterable[bytes]) -> list[bytes]:
    """Short names in long ones' places: a block of long texts has many."""
    return [hashlib.blake2b(name, digest_size=16).digest() for name in names]
