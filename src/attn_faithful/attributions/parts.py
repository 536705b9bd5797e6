"""Which texts of a batch are run together: all of them, or of transformers models those of nearly one length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful.attributions.base import Request, cells
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import Batch
from attn_faithful.models.stock.packing import lengths_of, load_of, packed

IDS = 2**20  # of rows that are made of texts at a time


@dataclass(frozen=True, eq=False)
class Part:
    """Some texts of a batch, cut behind the last token of the longest.

    Attributes:
        rows: which texts, (P,); a slice for all of them.
        length: how many places are left of each; None for all.
    """

    rows: Tensor | slice
    length: int | None

    def of(self, values: Tensor) -> Tensor:
        """What values (B,) or (B, T, ...) say of these texts."""
        if values.dim() < 2:
            return values[self.rows]
        return values[self.rows, : self.length]

    def of_batch(self, batch: Batch) -> dict[str, Tensor]:
        """These texts of a batch."""
        return {name: self.of(values) for name, values in batch.items()}


EVERY = Part(slice(None), None)


def gradient_parts(request: Request, rows_a_text: int = 1) -> list[Part]:
    """The request's texts, as many at a time as go back through all layers of a model together.

    Args:
        request: the model and its batch.
        rows_a_text: rows that the model is given of each text.
    """
    model = request.model
    if not model.layered or not len(request.encoded.logits):
        return [EVERY]

    def most(length: int) -> int:
        return max(1, rows_back(model, length) // rows_a_text)

    padding = load_of(model.device).padding // rows_a_text
    return _of_nearly_one_length(text_lengths(request), most, padding)


def rows_back(model: Any, length: int) -> int:
    """How many rows of so many tokens go back through all layers together: what memory holds, and a cache."""
    in_memory = CELLS // (cells(model, length) * model.attention_layers)
    if model.layered:
        in_memory = min(in_memory, model.texts_together(length))
    return max(1, in_memory)


def forward_parts(request: Request, texts: Tensor, tokens: int, of_ids: bool = False) -> list[Part]:
    """Rows that are run forth together, each made of one of the request's texts.

    Args:
        request: the model and its batch.
        texts: of each row, the number of the text that it is made of, (R,).
        tokens: places of each row.
        of_ids: whether the model's `logits_of` is given them, which packs those of a transformers model itself.

    Returns:
        parts of the R rows.
    """
    model = request.model
    if model.layered and not of_ids:
        lengths = text_lengths(request)[texts]  # (R,)
        return _of_nearly_one_length(lengths, model.texts_together, load_of(model.device).padding)
    return [Part(rows.to(texts.device), None) for rows in id_parts(model, len(texts), tokens)]


def id_parts(model: Any, rows: int, tokens: int) -> list[Tensor]:
    """Rows of so many ids that a model's `logits_of` is given together, by number, (P,) each."""
    if not rows:
        return []
    size = max(1, CELLS // cells(model, tokens))
    if model.layered:
        size = max(1, IDS // tokens)
    return list(torch.arange(rows).split(size))


def text_lengths(request: Request) -> Tensor:
    """How many places each text of a transformers model takes up to its last token, (B,)."""
    mask = request.batch.get("attention_mask")
    if mask is None:
        mask = torch.ones_like(request.batch["input_ids"])
    return lengths_of(mask)


def _of_nearly_one_length(lengths: Tensor, most: Callable[[int], int], padding: int) -> list[Part]:
    """Parts of rows of so many tokens (R,), see `attn_faithful.models.stock.packing.packed`."""
    parts = []
    for rows in packed(lengths, most, padding):
        longest = max(1, int(lengths[rows[0]]))
        parts.append(Part(rows, longest))
    return parts
