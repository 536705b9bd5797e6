"""Transformers models seen layer by layer: their attention, and the rows that the classifier reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request
from attn_faithful.models.adapted import class_name
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.interface import Alter, Trace
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.slots import keys_of_text


@dataclass(frozen=True, eq=False)
class LayeredText:
    """A transformers model and the texts that it reads.

    Attributes:
        model: whose layers are looked at; a call is one layer's attention.
        inputs: of its forward.
    """

    model: StockModel
    inputs: dict[str, Tensor]

    @property
    def read(self) -> Tensor:
        """Tokens that the model reads, bool (B, T)."""
        return self.inputs["attention_mask"].bool()

    def row_shares(self, call: int) -> Tensor:
        """Shares (B, T) of a layer's rows in what the classifier reads: 1 for its token, or equal ones of the text."""
        probe = self.model.probe
        if probe.reads in ("first", "last") and not probe.encoder[call]:
            place = probe.place(self.inputs, self.model.config)
            return one_hot(place, self.read.shape[1]).double()
        read = self.read
        n_read = read.sum(1, keepdim=True)
        return read.double() / n_read.clamp(min=1)

    def chosen_heads(self, values: Tensor) -> Tensor:
        """The values (B, H, ...) of those heads that the model was wrapped with."""
        return values if self.model.heads is None else values[:, list(self.model.heads)]

    def at_tokens(self, call: int, values: Tensor) -> Tensor:
        """Values at a layer's keys (B, T) at the text's tokens: a decoder's input is the text one position later."""
        if not self.model.probe.shifted[call]:
            return values
        return values.gather(1, keys_of_text(self.read))

    def collect(self, calls: Sequence[int], take: Callable[[int, Tensor], Tensor]) -> Tensor:
        """What ``take(call, weights (B, H, Q, T))`` makes of the layers' weights, beside one another: (B, L, ...)."""
        taken: dict[int, Tensor] = {}

        def looking_at(call: int) -> Alter:
            def look(weights: Tensor, allowed: Tensor) -> Tensor:
                taken[call] = take(call, weights)
                return weights

            return look

        trace = Trace(alter={call: looking_at(call) for call in calls})
        with analysing(self.model):
            self.model.run(self.inputs, trace)
        return torch.stack([taken[call] for call in calls], dim=1)


def layered_text(request: Request, source: str) -> LayeredText:
    """The model and the texts of a request.

    Raises:
        InputError: the model is no transformers model.
    """
    model = request.model
    if not isinstance(model, StockModel):
        raise InputError(
            f"The source {source!r} needs a transformers model with layers of attention, but "
            f"{class_name(model)} is none; choose 'attention' or 'attention_x_gradient'."
        )
    return LayeredText(model, model.inputs(request.batch))


def one_stack(request: Request, source: str) -> LayeredText:
    """The same of a model each of whose layers attends from the text's tokens to the text's tokens.

    Raises:
        InputError: the model is no transformers model, or an encoder with a decoder.
    """
    text = layered_text(request, source)
    model = text.model
    if any(model.probe.encoder) or any(model.probe.shifted):
        raise InputError(
            f"The source {source!r} follows one stack of layers, but {type(model.model).__name__} has an encoder and a "
            "decoder; choose 'raw_attention' or 'value_norm', which are of one site, or 'attention_x_gradient'."
        )
    return text


def calls_at(request: Request, text: LayeredText, source: str) -> list[int]:
    """The layers of the request's site that are read.

    Raises:
        InputError: the request names no site.
    """
    if not request.site:
        sites = ", ".join(text.model.sites)
        raise InputError(f"The source {source!r} is of one site; pass its name, one of {sites}.")
    calls = text.model.calls(request.site)
    if request.site == JOINT and request.settings.layers == "last":
        return calls[-1:]
    return calls
