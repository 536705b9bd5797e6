"""A model as a function of the embeddings of its tokens, for gradients with respect to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, cells, one_attention, outcome
from attn_faithful.models.adapted import class_name, forward_arguments, input_embeddings, original
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import Batch, evaluating

_EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class EmbeddedText:
    """A model as a function of its embeddings.

    Attributes:
        request: the model and the outcome.
        embedded: (B, T, E), without gradient.
        names: of the forward's other inputs.
        arguments: the target of each example, then the other inputs; nothing is attributed to them.
    """

    request: Request
    embedded: Tensor
    names: tuple[str, ...]
    arguments: tuple[Tensor, ...]

    @property
    def leaf(self) -> Tensor:
        """The embeddings as a leaf of the graph, with gradient."""
        return self.embedded.clone().requires_grad_()

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The forward's other inputs by name."""
        return dict(zip(self.names, self.arguments[1:], strict=True))

    def __call__(self, embedded: Tensor, target: Tensor, *inputs: Tensor) -> Tensor:
        """The outcome (B,) of texts with the embeddings (B, T, E)."""
        request = self.request
        logits = request.read(self.logits(embedded, *inputs))
        return outcome(logits, target, request.settings.outcome, request.multi_label)

    def logits(self, embedded: Tensor, *inputs: Tensor) -> Tensor:
        """Logits (B, C) of texts with the embeddings (B, T, E)."""
        named = dict(zip(self.names, inputs, strict=True))
        logits: Tensor = self.request.model(inputs_embeds=embedded, **named).logits
        return logits


def embedded_text(
    request: Request, source: str, attention: Mapping[str, Tensor] | None = None, rows: slice = _EVERY
) -> EmbeddedText:
    """The model as a function of the batch's embeddings.

    Args:
        request: the model and its batch.
        source: the name of the source, for errors.
        attention: arguments of the forward that take the place of the model's own attention, for these rows.
        rows: of the batch.

    Raises:
        InputError: the model takes no embeddings, or no attention in the place of its own.
    """
    model, batch = request.model, _rows_of(request.batch, rows)
    takes = forward_arguments(model)
    table = input_embeddings(model)
    if table is None or "inputs_embeds" not in takes:
        raise InputError(
            f"The source {source!r} needs a model with get_input_embeddings() and a forward that takes "
            f"`inputs_embeds`, but {class_name(model)} is none; "
            "add them, or choose 'leave_one_out' with the operator 'delete'."
        )
    if attention is not None and not set(attention) <= takes:
        raise InputError(
            f"The forward of {class_name(model)} takes no `attention_weights` that could be held fixed; "
            "choose attention_path 'attached'."
        )
    embedded = batch.get("inputs_embeds")
    if embedded is None:
        with torch.no_grad():
            embedded = table(batch["input_ids"].long())
    replaced = {"inputs_embeds", "labels"}
    if not model.reads_ids:
        replaced.add("input_ids")
    inputs = {name: value for name, value in batch.items() if name in takes - replaced}
    for name, value in (attention or {}).items():
        inputs[name] = value.detach()
    arguments = (request.classes[rows], *inputs.values())
    return EmbeddedText(request, embedded.detach(), tuple(inputs), arguments)


def text_at(request: Request, source: str, rows: slice = _EVERY) -> EmbeddedText:
    """The model as a function of the embeddings of some rows, on the request's attention path."""
    if request.attention_path == "attached":
        return embedded_text(request, source, rows=rows)
    attention = request.model.fixed_attention(_rows_of(request.batch, rows))
    if attention is None:
        attention = {"attention_weights": one_attention(request, source)[rows]}
    return embedded_text(request, source, attention, rows)


@contextmanager
def analysing(model: Any) -> Iterator[None]:
    """Eval mode, float32, and no cuDNN, which refuses the backward pass of a recurrent network in eval mode."""
    device = next(model.parameters()).device.type
    enabled = torch.backends.cudnn.enabled
    with evaluating(original(model)), torch.autocast(device, enabled=False):
        try:
            # not by cudnn.flags(), which reads all settings and refuses old and new kinds of them together
            torch.backends.cudnn.enabled = False
            yield
        finally:
            torch.backends.cudnn.enabled = enabled


def in_parts(
    request: Request, source: str, work: Callable[[EmbeddedText, slice], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """Run ``work(text, rows) -> tensors (B, ., .)`` on the batch's texts, some at a time (:func:`row_parts`)."""
    parts = []
    for rows in row_parts(request):
        text = text_at(request, source, rows)
        with analysing(request.model):
            part = (text.embedded, text.embedded)
            if text.embedded.numel():
                part = work(text, rows)
        parts.append(part)
    return tuple(torch.cat(tensors).detach() for tensors in zip(*parts, strict=True))


def row_parts(request: Request) -> list[slice]:
    """The batch's rows, as many at a time as may go back through all layers of a model together."""
    texts, model = len(request.encoded.logits), request.model
    if not model.layered:
        return [_EVERY]
    length = request.batch["input_ids"].shape[1]
    size = max(1, CELLS // (cells(model, length) * model.attention_layers))
    return [slice(start, start + size) for start in range(0, max(1, texts), size)]


def _rows_of(batch: Batch, rows: slice) -> Batch:
    if rows == _EVERY:
        return batch
    return {name: values[rows] for name, values in batch.items()}
