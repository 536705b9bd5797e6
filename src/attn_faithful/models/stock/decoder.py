"""Logits of a stock model under other attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attn_faithful._checks import InputError
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import check_alternatives
from attn_faithful.models.stock.changed_row import ChangedRow
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.slots import Slots


@dataclass(frozen=True)
class Reading:
    """One forward whose attention was read at some layers.

    Attributes:
        inputs: of the model.
        logits: (B, C).
        calls: the layers that were read, by number, in order.
        count: how many blocks had run before the first of them.
        outputs: of each stack the output of the last of these blocks.
    """

    inputs: dict[str, Tensor]
    logits: Tensor
    calls: dict[int, Call]
    count: int
    outputs: dict[int, Any]


class Decoder:
    """Logits that follow from other attention at some layers: only what comes after them is run again.

    Args:
        model: that was read.
        reading: the forward with its own attention.
        slots: of each layer.
        place: (B,), the position of the one token that is needed after the layer's attention; None for all tokens.
        changed_row: of a layer below the last, where only this token's row changes; None where all rows may.
        cost: of `AttentionModel`.
    """

    def __init__(
        self,
        model: StockForward,
        reading: Reading,
        slots: list[Slots],
        place: Tensor | None,
        changed_row: ChangedRow | None,
        cost: Callable[[int], int],
    ) -> None:
        self.model = model
        self.reading = reading
        self.slots = slots
        self.place = place
        self.changed_row = changed_row
        self.cost = cost

    def __call__(self, weights: Tensor) -> Tensor:
        """(B, K, S, T) -> (B, K, C)."""
        check_alternatives(weights)
        texts, length = self.reading.inputs["input_ids"].shape
        alternatives = weights.shape[1]
        slots = sum(each.count for each in self.slots)
        expected = (texts, alternatives, slots, length)
        if weights.shape != expected:
            raise InputError(f"Expected `attention` of shape {expected}, but got {tuple(weights.shape)}.")
        if texts * alternatives == 0:
            return weights.new_zeros(texts, alternatives, self.model.config.num_labels)
        text = torch.arange(texts, device=weights.device).repeat_interleave(alternatives)  # (B * K,)
        flat = weights.flatten(0, 1)  # (B * K, S, T)
        if torch.is_grad_enabled() and weights.requires_grad:
            logits = self.rows(flat, text)
        else:
            first, back = _distinct(text, flat)
            logits = self.rows(flat[first], text[first])[back]
        return logits.view(texts, alternatives, -1)

    def rows(self, weights: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C) under weights (R, S, T) of some texts (R,), of which the rows lie together."""
        run = self._run
        with_graph = torch.is_grad_enabled() and weights.requires_grad
        if with_graph and len(text) > self._size(weights.shape[-1]):
            run = self._checkpointed
        return self._parts(run, weights, text)

    def _size(self, length: int) -> int:
        """How many rows of texts of so many tokens are run together, as their cost allows."""
        cost = self.cost(length)
        if self.place is not None:
            cost = length  # one row of attention and not one a token
        return max(1, CELLS // cost)

    def _parts(
        self,
        run: Callable[[Tensor, Tensor], Tensor],
        weights: Tensor,
        text: Tensor,
    ) -> Tensor:
        """Logits (R, C) of weights (R, S, T) for some texts (R,), run a part after another."""
        size = self._size(weights.shape[-1])
        parts = zip(weights.split(size), text.split(size), strict=True)
        return torch.cat([run(*part) for part in parts])

    def _checkpointed(self, weights: Tensor, text: Tensor) -> Tensor:
        """As `_run`, with the memory of one part at a time in the backward pass too."""
        logits: Tensor = checkpoint(self._run, weights, text, use_reentrant=False)
        return logits

    def _run(self, weights: Tensor, text: Tensor) -> Tensor:
        with self.model.analysing():
            if self.place is not None:
                return self._at_one_token(weights, text, self.place[text])
            if self.changed_row is not None:
                return self.changed_row.logits(self.outputs(weights, text), text)
            alter = {}
            counts = [each.count for each in self.slots]
            parts = weights.split(counts, dim=1)  # (R, slots of a layer, T) each
            for number, slots, part in zip(self.reading.calls, self.slots, parts, strict=True):
                alter[number] = slots.altered(part, text)
            return self.continued(Trace(alter=alter), text)

    def _at_one_token(self, weights: Tensor, text: Tensor, place: Tensor) -> Tensor:
        """At the last layer, of other tokens the one that the classifier reads needs no more than their values."""
        (number,) = self.reading.calls
        output = self.outputs(weights, text)
        return self.continued(Trace(values={number: lambda: output}), text, place)

    def outputs(self, weights: Tensor, text: Tensor) -> Tensor:
        """What the heads give for one row under weights (R, S, T), (R, 1, H, D); the rows of a text lie together."""
        (call,) = self.reading.calls.values()
        rows = self.slots[0].whole(weights, text).to(call.value.dtype)  # (R, H, T)
        texts, counts = text.unique_consecutive(return_counts=True)
        outputs = []
        for number, of_text in zip(texts.tolist(), rows.split(counts.tolist()), strict=True):
            values = call.value[number]  # (H, T, D)
            outputs.append((of_text.transpose(0, 1) @ values).transpose(0, 1))
        return torch.cat(outputs)[:, None]

    def continued(self, trace: Trace, text: Tensor, place: Tensor | None = None) -> Tensor:
        """Logits (R, C) of some texts (R,), or of one position of each, from the known blocks on."""
        reading = self.reading
        return self.model.continued(reading.inputs, reading.count, reading.outputs, trace, text, place)


def _distinct(text: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The rows (R, S, T) that no earlier row of their text equals, and for each row which of these it equals."""
    seen: dict[tuple[int, bytes], int] = {}
    first = []
    back = []
    pairs = zip(text.tolist(), weights.detach().cpu().numpy(), strict=True)
    for row, (number, values) in enumerate(pairs):
        key = (number, values.tobytes())
        if key not in seen:
            seen[key] = len(first)
            first.append(row)
        back.append(seen[key])
    return torch.tensor(first, device=weights.device), torch.tensor(back, device=weights.device)
