"""How unusual erased texts are to a model, each computed once."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attn_faithful.experiments.item_erasures import ItemErasures, rows_of
from attn_faithful.functional.masf import Masf
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.stock.packing import load_of, packed

Activations = list[Tensor]  # of each layer (n, U)


class ItemPValues(ItemErasures):
    """``p_values(keep (B, K, items) bool) -> p (B, K)``: MaSF of the texts that items are erased from, with a memory.

    NaN for a text that is left without a token.

    Args:
        erasures: the way to erase items.
        model: the one whose activations are looked at.
        masf: what it was trained on.
    """

    def __init__(self, erasures: ItemErasures, model: Any, masf: Masf) -> None:
        super().__init__(erasures.members)
        self.erasures = erasures
        self.model = model
        self.masf = masf

    def names(self, keep: Tensor) -> list[list[bytes]]:
        return self.erasures.names(keep)

    def run(self, keep: Tensor, unknown: list[dict[bytes, int]]) -> None:
        names, text, kept = rows_of(keep, unknown)
        for part in run_together(self.model, self.erasures.lengths(text, kept)):
            rows = part.to(keep.device)
            activations = self.model.largest_activations(self.erasures.texts(text[rows], kept[rows]))
            self.remember(names, part, self.masf.p_values([layer.cpu() for layer in activations]))


def run_together(model: Any, lengths: Tensor) -> list[Tensor]:
    """Texts of so many tokens (R,) whose activations are computed together, by number, (P,) each."""
    lengths = lengths.cpu().clamp(min=1)
    if model.layered:
        return packed(lengths, model.texts_together, load_of(model.device).padding)

    def most(length: int) -> int:
        return max(1, CELLS // max(1, model.cost(length)))

    return packed(lengths, most, CELLS)
