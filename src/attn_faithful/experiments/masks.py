"""Puts the mask token in the place of items of a block's texts and asks the model again, once for every masked text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attn_faithful.attributions.parts import id_parts
from attn_faithful.experiments.item_erasures import ItemErasures, rows_of
from attn_faithful.models.protocol import Batch
from attn_faithful.models.stock.packing import lengths_of

REPLACED = ("input_ids", "inputs_embeds", "labels")  # inputs that masked texts do not share with the whole ones


class ItemMasks(ItemErasures):
    """``masks(keep (B, K, items) bool) -> logits (B, K, C)``: of the texts with the other items masked, with a memory.

    Every token of a masked item becomes the mask token in its place, and stays what it was beside: content, of its
    sentence, of its segment.

    Args:
        model: that reads `input_ids`.
        batch: its inputs.
        members: which item each token belongs to, see `Encoded.members`.
        mask: the id of the tokenizer's mask token.
    """

    def __init__(self, model: Any, batch: Batch, members: Tensor | None, mask: int) -> None:
        super().__init__(members)
        self.model = model
        self.batch = batch
        self.mask = mask
        self.shared = {name: values for name, values in batch.items() if name not in REPLACED}

    @classmethod
    def possible(cls, batch: Batch, token_ids: Mapping[str, int | None]) -> bool:
        """Whether there is a mask token, and ids to put it among."""
        return token_ids.get("mask") is not None and "input_ids" in batch

    def names(self, keep: Tensor) -> list[list[bytes]]:
        ids = self._ids(self.batch["input_ids"][:, None], keep)  # (B, K, T)
        if self.model.reads_alone:
            ids = ids.sort(-1).values  # the order of the tokens says nothing
        names = []
        for row, beside in zip(ids.cpu().numpy(), self._beside(), strict=True):
            names.append([masked.tobytes() + beside for masked in row])
        return names

    @torch.no_grad()
    def run(self, keep: Tensor, unknown: list[dict[bytes, int]]) -> None:
        names, text, kept = rows_of(keep, unknown)
        for part in id_parts(self.model, len(text), keep.shape[2]):
            rows = part.to(keep.device)
            logits = self.model.logits_of(self.texts(text[rows], kept[rows]), text[rows])  # (P, C)
            self.remember(names, part, logits.double())

    def texts(self, text: Tensor, keep: Tensor) -> dict[str, Tensor]:
        inputs = {name: values[text] for name, values in self.shared.items()}
        inputs["input_ids"] = self._ids(self.batch["input_ids"][text], keep)
        return inputs

    def lengths(self, text: Tensor, keep: Tensor) -> Tensor:
        mask = self.batch.get("attention_mask")
        if mask is None:
            return torch.full_like(text, keep.shape[1])
        return lengths_of(mask)[text]

    def _ids(self, ids: Tensor, keep: Tensor) -> Tensor:
        return torch.where(keep, ids, self.mask)

    def _beside(self) -> list[bytes]:
        """Of each text all that is read beside its ids."""
        columns = [values.cpu().numpy() for values in self.shared.values()]
        names = []
        for row in range(len(self.batch["input_ids"])):
            names.append(b"|".join(column[row].tobytes() for column in columns))
        return names
