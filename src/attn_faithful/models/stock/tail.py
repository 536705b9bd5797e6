"""What comes after the attention of a stock model's last layer, as data, from one traced forward of the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful.functional.tail import Tail, TailUnknownError
from attn_faithful.models.stock.decoder import Decoder
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.slots import Slots
from attn_faithful.models.stock.tail_nodes import Fixed, Start, gap_of, in_order
from attn_faithful.models.stock.traced_steps import EXACT, NEAR, TracedSteps, Unknown


class StockTail:
    """Makes the `Tail` of a stock model's site from what its own modules do, see `traced_steps`.

    Args:
        decoder: of the site.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    @torch.no_grad()
    def __call__(self, texts: Tensor) -> Tail:
        """The tail of some texts (R,), in float64; its logits are those of `decode` but for rounding.

        Raises:
            TailUnknownError: the message names the model's class and what is not understood.
        """
        self._check_site()
        (slots,) = self.decoder.slots
        own = slots.attention[texts]  # (R, S, T)
        given = self.decoder.outputs(own, texts)  # (R, 1, H, V)
        traced = TracedSteps(given)
        logits = self._rest(traced, given, texts)
        last = traced.node_of(logits)
        if last is None:
            raise self._unknown(
                "its logits do not follow from the attention by functions of torch that can be traced",
                "its logits cannot be traced",
            )
        if isinstance(last, Unknown):
            raise self._unknown(f"{last.cause} after the attention is not understood", last.cause)
        starts, steps = in_order(last)
        fixed = given[:, 0].double()  # (R, H, V)
        fixed[:, slots.heads] = 0
        items = slots.values(self._call.value, texts).double()  # (R, S, T, V)
        base = torch.cat([_base(start, fixed) for start in starts], dim=-1)
        values = torch.cat([_values(start, items, slots) for start in starts], dim=-1)
        tail = Tail(base, values, steps)
        self._check_logits(tail, texts, EXACT if traced.exact else NEAR)
        return tail

    @property
    def _call(self) -> Call:
        (call,) = self.decoder.reading.calls.values()
        return call

    def _check_site(self) -> None:
        model = self.decoder.model
        if self.decoder.place is None:
            raise self._unknown(
                "only at its last layer, and where its classifier reads one token whose row makes the slots, is what "
                "comes after the attention known as data",
                self._why_not_one_row(),
            )
        if model.backbone is not None:
            raise self._unknown(f"its blocks compute in {model.backbone}; leave dtype out", "blocks in half precision")

    def _why_not_one_row(self) -> str:
        probe = self.decoder.model.probe
        if any(probe.encoder):
            return "an encoder with a decoder"
        last = len(probe.heads) - 1
        if list(self.decoder.reading.calls) != [last]:
            return "not the last layer alone"
        return "not one row alone"

    def _rest(self, traced: TracedSteps, given: Tensor, texts: Tensor) -> Tensor:
        """Logits (R, C) of the rest of the forward, traced."""
        model = self.decoder.model
        (number,) = self.decoder.reading.calls
        trace = Trace(values={number: lambda: given})
        with model.analysing(), traced.watching(model.model):
            return self.decoder.continued(trace, texts, self.decoder.place[texts])

    def _check_logits(self, tail: Tail, texts: Tensor, tolerance: float) -> None:
        """Raise unless a tail has the logits of the model, under its own attention and under an even one."""
        (slots,) = self.decoder.slots
        allowed = slots.allowed[texts]
        even = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)  # (R, S, T)
        attention = torch.stack([slots.attention[texts], even.to(slots.attention)], dim=1)  # (R, 2, S, T)
        expected = self.decoder.rows(attention.flatten(0, 1), texts.repeat_interleave(2))  # (R * 2, C)
        gap = gap_of(tail.logits(attention).flatten(0, 1), expected)
        if gap > tolerance:
            raise self._unknown(
                f"its modules, put together from what they do, give logits that are off by {gap:.2g}",
                "its modules together give other logits",
            )

    def _unknown(self, reason: str, why: str) -> TailUnknownError:
        """That the tail is unknown for a reason, also told in a few words, both with the model's class."""
        name = type(self.decoder.model.model).__name__
        return TailUnknownError(f"{name}: {reason}.", f"{name}, {why}")


def _base(start: Start, fixed: Tensor) -> Tensor:
    """What a vector is without the slots' attention, (R, D); fixed: what other heads give, (R, H, V)."""
    if isinstance(start, Fixed):
        return start.numbers
    of_other_heads = fixed.flatten(1)  # (R, H * V)
    if start.matrix is not None:
        of_other_heads = of_other_heads @ start.matrix.T
    return start.shift + of_other_heads


def _values(start: Start, items: Tensor, slots: Slots) -> Tensor:
    """What weight 1 on an item adds to a vector, (R, S, T, D), from the items' value vectors (R, S, T, V)."""
    if isinstance(start, Fixed):
        return items.new_zeros(*items.shape[:3], start.numbers.shape[1])
    by_head = start.dense.unflatten(1, (slots.size, -1))[:, slots.heads]  # (D, S, V)
    return torch.einsum("rstv,dsv->rstd", items, by_head)
