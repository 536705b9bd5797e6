"""Deletes items from the texts of a block and asks the model again, once for every set of items."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn_faithful.experiments.item_erasures import ItemErasures
from attn_faithful.models.distinct_deletions import Naming
from attn_faithful.models.protocol import Batch
from attn_faithful.models.shortened import shortened

CELLS = 2**22  # flags of the alternatives that are run together


class ItemDeletions(ItemErasures):
    """``deletions(keep (B, K, items) bool) -> logits (B, K, C)``: the model's `without`, of items, with a memory.

    Args:
        model: with `without`.
        batch: its inputs.
        members: which item each token belongs to, see `Encoded.members`.
    """

    def __init__(self, model: Any, batch: Batch, members: Tensor | None) -> None:
        super().__init__(members)
        self.model = model
        self.batch = batch
        self.naming = Naming.of(batch, ordered=not model.reads_alone)

    def names(self, keep: Tensor) -> list[list[bytes]]:
        return self.naming.names(keep)

    def texts(self, text: Tensor, keep: Tensor) -> dict[str, Tensor]:
        kept = self._read(text) & keep  # (R, T)
        longest = max(1, int(kept.sum(1).max()))
        texts = shortened(self.batch, text, kept, longest)
        texts.pop("word_ids", None)
        if "input_ids" in texts:
            texts["input_ids"] = torch.where(texts["attention_mask"], texts["input_ids"], self.model.pad_token_id)
        return texts

    def lengths(self, text: Tensor, keep: Tensor) -> Tensor:
        return (self._read(text) & keep).sum(1)

    def _read(self, text: Tensor) -> Tensor:
        """Which tokens of texts (R,) are read, (R, T) bool."""
        mask = self.batch.get("attention_mask")
        if mask is None:
            some = self.batch.get("input_ids", self.batch.get("inputs_embeds"))
            mask = torch.ones(some.shape[:2], dtype=torch.bool, device=text.device)
        return mask.bool()[text]

    def run(self, keep: Tensor, unknown: list[dict[bytes, int]]) -> None:
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
