"""Logits of a stock model under other attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attn_faithful._checks import InputError, check_shape
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.layers import repeated, taken
from attn_faithful.models.stock.slots import Slots

if TYPE_CHECKING:
    from attn_faithful.models.stock.model import StockModel


class Decoder:
    """Logits that follow from other attention at some layers: only what comes after them is run again."""

    def __init__(
        self,
        model: StockModel,
        inputs: dict[str, Tensor],
        calls: Sequence[int],
        slots: list[Slots],
        count: int,
        kept: dict[int, Any],
        seen: dict[int, Call],
    ) -> None:
        self.model, self.inputs, self.calls, self.slots = model, inputs, calls, slots
        self.count, self.kept = count, kept
        last = calls[-1]
        alone = len(calls) == 1 and model.alone(last)
        self.place = model.probe.place(inputs, model.config) if alone else None
        self.call = seen[last] if alone else None

    def __call__(self, weights: Tensor) -> Tensor:
        """(B, K, S, T) -> (B, K, C)."""
        check_shape("attention", weights, "B K S T", "pass attention[:, None] for one alternative an example")
        (b, t), k = self.inputs["input_ids"].shape, weights.shape[1]
        expected = (b, k, sum(each.count for each in self.slots), t)
        if weights.shape != expected:
            raise InputError(f"Expected `attention` of shape {expected}, but got {tuple(weights.shape)}.")
        if b * k == 0:
            return weights.new_zeros(b, k, self.model.config.num_labels)
        texts, flat = torch.arange(b, device=weights.device).repeat_interleave(k), weights.flatten(0, 1)
        if torch.is_grad_enabled() and weights.requires_grad:  # memory of one part at a time, in the backward pass too
            run = lambda part, rows: checkpoint(self._run, part, rows, use_reentrant=False)  # noqa: E731
            return self._parts(run, flat, texts).view(b, k, -1)
        first, back = _once(texts, flat)
        return self._parts(self._run, flat[first], texts[first])[back].view(b, k, -1)

    def _parts(self, run: Callable[[Tensor, Tensor], Tensor], weights: Tensor, texts: Tensor) -> Tensor:
        """Logits of weights (R, S, T) for some texts (R,), as many together as their cost allows."""
        length = weights.shape[-1]
        size = max(1, CELLS // (length if self.place is not None else self.model.cost(length)))
        return torch.cat([run(*part) for part in zip(weights.split(size), texts.split(size), strict=True)])

    def _run(self, weights: Tensor, rows: Tensor) -> Tensor:
        model, texts = self.model, len(self.inputs["input_ids"])
        with model.analysing():
            if self.place is not None:
                return self._at_one(weights, rows)
            parts = weights.split([s.count for s in self.slots], dim=1)
            trace = Trace(
                alter={n: s.altered(part, rows) for n, s, part in zip(self.calls, self.slots, parts, strict=True)}
            )
            known = {stack: taken(output, rows, texts) for stack, output in self.kept.items()}
            with model.blocks.skipping(self.count, known, trace):
                return model.run(repeated(self.inputs, rows), trace)

    def _at_one(self, weights: Tensor, rows: Tensor) -> Tensor:
        """At the last layer, of other tokens the one that the classifier reads needs no more than their values."""
        model, call, n = self.model, self.call, self.calls[-1]
        place = self.place[rows]
        whole = self.slots[0].whole(weights, rows)[:, :, None]  # (R, H, 1, T)
        trace = Trace(values={n: lambda: (whole.to(call.value.dtype) @ call.value[rows]).transpose(1, 2)})
        texts = len(self.inputs["input_ids"])
        known = {stack: taken(output, rows, texts, place) for stack, output in self.kept.items()}
        with model.blocks.skipping(self.count, known, trace):
            return model.run(repeated(self.inputs, rows, place), trace)


def _once(texts: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The rows (R, S, T) that no earlier row of their text equals, and for each row which of these it equals."""
    seen: dict[tuple[int, bytes], int] = {}
    first, back = [], []
    for row, (text, values) in enumerate(zip(texts.tolist(), weights.detach().cpu().numpy(), strict=True)):
        name = (text, values.tobytes())
        if name not in seen:
            seen[name] = len(first)
            first.append(row)
        back.append(seen[name])
    return torch.tensor(first, device=weights.device), torch.tensor(back, device=weights.device)
