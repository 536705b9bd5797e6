"""Puts the mask token in the place of items of a block's texts and asks the model again, once for every masked text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from attn_faithful.attributions.parts import id_parts
from attn_faithful.experiments.item_erasures import ItemErasures
from attn_faithful.models.protocol import Batch

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
        counts = torch.tensor([len(places) for places in unknown])
        text = torch.arange(len(unknown)).repeat_interleave(counts).to(keep.device)  # (R,)
        place = torch.tensor(list(chain.from_iterable(places.values() for places in unknown)), dtype=torch.long)
        names = list(chain.from_iterable(unknown))
        kept = keep[text, place.to(keep.device)]  # (R, T)
        for part in id_parts(self.model, len(text), keep.shape[2]):
            rows = part.to(keep.device)
            masked = self.texts(text[rows], kept[rows])
            logits = self.model.logits_of(masked, text[rows]).double()  # (P, C)
            for number, of_text in zip(part.tolist(), logits, strict=True):
                self.known[names[number]] = of_text

    def texts(self, text: Tensor, keep: Tensor) -> dict[str, Tensor]:
        """The inputs of texts (R,) with the tokens outside ``keep`` (R, T) masked."""
        inputs = {name: values[text] for name, values in self.shared.items()}
        inputs["input_ids"] = self._ids(self.batch["input_ids"][text], keep)
        return inputs

    def _ids(self, ids: Tensor, keep: Tensor) -> Tensor:
        return torch.where(keep, ids, self.mask)

    def _beside(self) -> list[bytes]:
        """Of each text all that is read beside its ids."""
        columns = [values.cpu().numpy() for values in self.shared.values()]
        names = []
        for row in range(len(self.batch["input_ids"])):
            names.append(b"|".join(column[row].tobytes() for column in columns))
        return names
