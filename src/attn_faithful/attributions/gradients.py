"""How the prediction changes with the embeddings of the tokens (Captum).

All run in eval mode, in the precision of the weights, and differentiate with respect to the embeddings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import (
    SOURCES,
    Attribution,
    Request,
    SourceSettings,
    by_item,
    cells,
    one_attention,
    outcome,
    reached,
)
from attn_faithful.models.adapted import class_name, forward_arguments, input_embeddings, original
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import Batch, evaluating

CONVERGED = 1e-3  # of the change of the outcome, by which integrated gradients may miss it
ROUNDING = 1e-6  # of an outcome in float32

_EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class EmbeddedText:
    """A model as a function of its embeddings.

    Attributes:
        model: with a forward of `inputs_embeds`.
        settings: what of the outcome is taken.
        multi_label: the kind of the logits that are read.
        read: takes what is asked out of the model's logits.
        embedded: (B, T, E), without gradient.
        names: of the forward's other inputs.
        given: the target of each example, then the other inputs; nothing is attributed to them.
    """

    model: Any
    settings: SourceSettings
    multi_label: bool
    embedded: Tensor
    names: tuple[str, ...]
    given: tuple[Tensor, ...]
    read: Callable[[Tensor], Tensor] = lambda logits: logits

    @property
    def leaf(self) -> Tensor:
        """The embeddings as something to differentiate by."""
        return self.embedded.clone().requires_grad_()

    def __call__(self, embedded: Tensor, target: Tensor, *given: Tensor) -> Tensor:
        """The outcome (B,) of texts with the embeddings (B, T, E)."""
        return outcome(self.read(self.logits(embedded, *given)), target, self.settings.outcome, self.multi_label)

    def logits(self, embedded: Tensor, *given: Tensor) -> Tensor:
        """Logits (B, C) of texts with the embeddings (B, T, E)."""
        found: Tensor = self.model(inputs_embeds=embedded, **dict(zip(self.names, given, strict=True))).logits
        return found


def embedded_text(
    request: Request, source: str, attention: Mapping[str, Tensor] | None = None, rows: slice = _EVERY
) -> EmbeddedText:
    """The model as a function of the batch's embeddings.

    Args:
        request: what is asked.
        source: who asks, for errors.
        attention: arguments of the forward that take the place of the model's own attention, for these rows.
        rows: of the batch.

    Raises:
        InputError: the model does not take embeddings, or no attention in place of its own.
    """
    model, batch = request.model, _of(request.batch, rows)
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
    with torch.no_grad():
        given = batch.get("inputs_embeds")
        embedded = (table(batch["input_ids"].long()) if given is None else given).detach()
    left = {"inputs_embeds", "labels"}
    if not model.reads_ids:
        left.add("input_ids")
    others = {name: value for name, value in batch.items() if name in takes - left}
    if attention is not None:
        others |= {name: value.detach() for name, value in attention.items()}
    return EmbeddedText(
        model,
        request.settings,
        request.asked.multi_label,
        embedded,
        tuple(others),
        (request.classes[rows], *others.values()),
        request.read,
    )


@contextmanager
def analysing(model: Any) -> Iterator[None]:
    """Eval mode, float32, and no cuDNN, which refuses the backward pass of a recurrent network in eval mode."""
    device = next(model.parameters()).device.type
    enabled = torch.backends.cudnn.enabled
    with evaluating(original(model)), torch.autocast(device, enabled=False):
        try:
            # alone: cudnn.flags() would read all of its settings, and refuses those of newer and older kinds together
            torch.backends.cudnn.enabled = False
            yield
        finally:
            torch.backends.cudnn.enabled = enabled


def embedding_gradients(request: Request, source: str = "saliency") -> tuple[Tensor, Tensor]:
    """The embeddings of the texts and the gradient of the outcome with respect to them, (B, T, E) each."""
    from captum.attr import Saliency  # takes seconds to import

    def gradient(text: EmbeddedText, rows: slice) -> tuple[Tensor, Tensor]:
        return text.embedded, Saliency(text).attribute(text.leaf, abs=False, additional_forward_args=text.given)

    embedded, found = _in_parts(request, source, gradient)
    return embedded, found


@SOURCES.register("saliency")
def saliency(request: Request) -> Attribution:
    """Gradient ``g`` of the outcome with respect to the token's embedding ``e``: l1, l2, sum, or xxex, ``g . e``.

    Reference:
        Simonyan et al. (2014), section 3; Jain and Wallace (2019), section 4.1, algorithm 1 (xxex).
    """
    embedded, gradient = embedding_gradients(request, "saliency")
    if request.settings.reduction == "xxex":
        gradient = gradient.cpu().double() * embedded.cpu().double()
        return Attribution(_signed(request, gradient, "sum"))
    return Attribution(_signed(request, gradient, request.settings.reduction))


@SOURCES.register("input_x_gradient")
def input_x_gradient(request: Request) -> Attribution:
    """Gradient times embedding, entry by entry; xxex and sum are both ``g . e``.

    Reference:
        Jain and Wallace (2019), section 4.1, algorithm 1: as the one-hot text holds a 1 at its token, this is the
        gradient with respect to that 1, which they take the magnitude of.
    """
    from captum.attr import InputXGradient

    def product(text: EmbeddedText, rows: slice) -> tuple[Tensor, ...]:
        return (InputXGradient(text).attribute(text.leaf, additional_forward_args=text.given),)

    found = _in_parts(request, "input_x_gradient", product)[0]
    return Attribution(_signed(request, found, request.settings.reduction))


@SOURCES.register("integrated_gradients")
def integrated_gradients(request: Request) -> Attribution:
    """``(e - b) . (mean gradient on the straight way from b to e)``, entry by entry; xxex and sum are both the sum.

    The way starts where every content token has the embedding of the baseline ``b``; special tokens stay. The signed
    sums over a text's tokens add up to the change of the outcome: ``convergence_delta`` (extra) is what is missing.

    Reference:
        Sundararajan et al. (2017), section 3.
    """
    from captum.attr import IntegratedGradients

    def along(text: EmbeddedText, rows: slice) -> tuple[Tensor, Tensor]:
        size = text.embedded.shape[:2]
        inside = reached(request)[rows, :, None]
        found, delta = IntegratedGradients(text).attribute(
            text.embedded,
            torch.where(inside, _baseline(request, text.embedded), text.embedded),
            additional_forward_args=text.given,
            n_steps=request.settings.n_steps,
            internal_batch_size=max(size[0], CELLS // (cells(request.model, size[1]) * request.model.attention_layers)),
            return_convergence_delta=True,
        )
        return found, delta[:, None, None]

    found, delta = (part.cpu().double() for part in _in_parts(request, "integrated_gradients", along))
    delta = delta.sum((1, 2))
    change = found.sum((1, 2)) - delta
    wrong = (delta.abs() >= CONVERGED * change.abs()) & (delta.abs() > ROUNDING)
    reasons = [
        f"integrated gradients miss the change of {c:.3g} by {d:.1g}: raise n_steps" if w else None
        for c, d, w in zip(change.tolist(), delta.tolist(), wrong.tolist(), strict=True)
    ]
    values = _signed(request, found, request.settings.reduction)
    return Attribution(values, {"convergence_delta": delta}, reasons if any(reasons) else ())


def text_at(request: Request, source: str, rows: slice = _EVERY) -> EmbeddedText:
    """The model as a function of the embeddings of some rows, on the request's attention path."""
    if request.attention_path == "attached":
        return embedded_text(request, source, rows=rows)
    attention = request.model.fixed_attention(_of(request.batch, rows))
    if attention is None:
        attention = {"attention_weights": one_attention(request, source)[rows]}
    return embedded_text(request, source, attention, rows)


def _in_parts(
    request: Request, source: str, work: Callable[[EmbeddedText, slice], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """What ``work(text, rows)`` finds of the batch's texts, some (B, ., .), by the parts of :func:`row_parts`."""
    found = []
    for rows in row_parts(request):
        text = text_at(request, source, rows)
        with analysing(request.model):
            found.append(work(text, rows) if text.embedded.numel() else (text.embedded, text.embedded))
    return tuple(torch.cat(part).detach() for part in zip(*found, strict=True))


def row_parts(request: Request) -> list[slice]:
    """The batch's rows, as many at a time as may go back through all layers of a model together."""
    texts, model = len(request.encoded.logits), request.model
    if not model.layered:
        return [_EVERY]
    length = request.batch["input_ids"].shape[1]
    size = max(1, CELLS // (cells(model, length) * model.attention_layers))
    return [slice(start, start + size) for start in range(0, max(1, texts), size)]


def _of(batch: Batch, rows: slice) -> Batch:
    return batch if rows == _EVERY else {name: values[rows] for name, values in batch.items()}


def _baseline(request: Request, embedded: Tensor) -> Tensor:
    if request.settings.baseline == "zero":
        return torch.zeros_like(embedded)
    pad = request.token_ids.get("pad")
    if pad is None:
        raise InputError("The baseline 'pad' needs a padding token, but the tokenizer has none; choose 'zero'.")
    with torch.no_grad():
        return request.model.get_input_embeddings()(torch.tensor(pad, device=embedded.device)).expand_as(embedded)


def _signed(request: Request, values: Tensor, reduction: str) -> Tensor:
    """From (B, tokens, E) to (B, T) items, in float64 on the CPU; magnitudes are taken after the reduction."""
    if reduction in ("l1", "l2"):
        order = int(reduction[1])
        norms = torch.linalg.vector_norm(values, ord=order, dim=-1, dtype=torch.float64)
        return by_item(request, norms, order).cpu()
    summed = by_item(request, values.sum(-1, dtype=torch.float64)).cpu()
    return summed.abs() if request.settings.sign == "magnitude" else summed
