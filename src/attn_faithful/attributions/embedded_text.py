"""A model as a function of the embeddings of its tokens, for gradients with respect to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, one_attention, outcome
from attn_faithful.attributions.parts import EVERY, Part, gradient_parts
from attn_faithful.models.adapted import class_name, forward_arguments
from attn_faithful.models.embedded import EmbeddedTexts
from attn_faithful.models.modes import analysing


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
    request: Request, source: str, attention: Mapping[str, Tensor] | None = None, part: Part = EVERY
) -> EmbeddedText:
    """The model as a function of the batch's embeddings.

    Args:
        request: the model and its batch.
        source: the name of the source, for errors.
        attention: arguments of the forward that take the place of the model's own attention, for these texts.
        part: of the batch.

    Raises:
        InputError: the model takes no embeddings, or no attention in the place of its own.
    """
    model, batch = request.model, part.of_batch(request.batch)
    texts = EmbeddedTexts.of(model, batch)
    if texts is None:
        raise InputError(
            f"The source {source!r} needs a model with get_input_embeddings() and a forward that takes "
            f"`inputs_embeds`, but {class_name(model)} is none; "
            "add them, or choose 'leave_one_out' with the operator 'delete'."
        )
    if attention is not None and not set(attention) <= forward_arguments(model):
        raise InputError(
            f"The forward of {class_name(model)} takes no `attention_weights` that could be held fixed; "
            "choose attention_path 'attached'."
        )
    inputs = dict(texts.inputs)
    for name, value in (attention or {}).items():
        inputs[name] = value.detach()
    arguments = (request.classes[part.rows], *inputs.values())
    return EmbeddedText(request, texts.embedded, tuple(inputs), arguments)


def text_at(request: Request, source: str, part: Part = EVERY) -> EmbeddedText:
    """The model as a function of the embeddings of some texts, on the request's attention path."""
    if request.attention_path == "attached":
        return embedded_text(request, source, part=part)
    attention = request.model.fixed_attention(part.of_batch(request.batch))
    if attention is None:
        attention = {"attention_weights": one_attention(request, source)[part.rows]}
    return embedded_text(request, source, attention, part)


def in_parts(
    request: Request,
    source: str,
    work: Callable[[EmbeddedText, Part], tuple[Tensor, ...]],
    rows_a_text: int = 1,
) -> tuple[Tensor, ...]:
    """What ``work(text, part) -> tensors (P, T', .)`` gives of the batch's texts, (B, T, .), 0 behind each T'.

    Args:
        request: the model and its batch.
        source: the name of the source, for errors.
        work: on some texts at a time.
        rows_a_text: rows that the model is given of each text.
    """
    parts = gradient_parts(request, rows_a_text)
    found = []
    for part in parts:
        text = text_at(request, source, part)
        with analysing(request.model):
            tensors = (text.embedded, text.embedded)
            if text.embedded.numel():
                tensors = work(text, part)
        found.append(tensors)
    if parts == [EVERY]:
        return tuple(tensor.detach() for tensor in found[0])
    return tuple(in_place(request, parts, tensors) for tensors in zip(*found, strict=True))


def in_place(request: Request, parts: Sequence[Part], values: Sequence[Tensor]) -> Tensor:
    """Values of parts (P, T', ...) as those of the batch (B, T, ...), 0 behind each T'."""
    texts, tokens = request.batch["input_ids"].shape
    whole = values[0].new_zeros(texts, tokens, *values[0].shape[2:])
    for part, values_of_part in zip(parts, values, strict=True):
        whole[part.rows, : values_of_part.shape[1]] = values_of_part.detach()
    return whole
