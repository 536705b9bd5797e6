"""How the prediction changes with the embeddings of the tokens; the integral along a line is Captum's.

All run in eval mode and in the precision of the weights, and differentiate by the embeddings alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item, norms, reached
from attn_faithful.attributions.embedded_text import EmbeddedText, in_parts
from attn_faithful.attributions.parts import Part, rows_back

CONVERGED = 1e-3  # share of the change of the outcome by which integrated gradients may miss it
ROUNDING = 1e-6  # of an outcome in float32


def embedding_gradients(request: Request, source: str = "saliency") -> tuple[Tensor, Tensor]:
    """The embeddings of the texts and the gradient of the outcome with respect to them, (B, T, E) each."""

    def work(text: EmbeddedText, part: Part) -> tuple[Tensor, Tensor]:
        return text.embedded, _gradient(text)

    embedded, gradients = in_parts(request, source, work)
    return embedded, gradients


@torch.enable_grad()
def _gradient(text: EmbeddedText) -> Tensor:
    """The gradient (B, T, E) of each text's outcome with respect to its embeddings."""
    leaf = text.leaf
    outcomes = text(leaf, *text.arguments)  # (B,)
    (gradient,) = torch.autograd.grad(outcomes.sum(), leaf)
    return gradient


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

    def work(text: EmbeddedText, part: Part) -> tuple[Tensor, ...]:
        return (text.embedded * _gradient(text),)

    products = in_parts(request, "input_x_gradient", work)[0]
    return Attribution(_signed(request, products, request.settings.reduction))


@SOURCES.register("integrated_gradients")
def integrated_gradients(request: Request) -> Attribution:
    """``(e - b) . (mean gradient on the straight line from b to e)``, entry by entry; xxex and sum are both the sum.

    On the line's start every content token has the embedding of the baseline ``b``; special tokens stay. The signed
    values of a text add up to the change of the outcome, up to ``convergence_delta`` (extra).

    Reference:
        Sundararajan et al. (2017), section 3.
    """
    from captum.attr import IntegratedGradients  # takes half a second to import

    n_steps = request.settings.n_steps

    def along(text: EmbeddedText, part: Part) -> tuple[Tensor, Tensor]:
        examples, length = text.embedded.shape[:2]
        inside = part.of(reached(request))[:, :, None]
        baseline = _baseline(request, text.embedded)
        baseline = torch.where(inside, baseline, text.embedded)  # (B, tokens, E)
        attributions, delta = IntegratedGradients(text).attribute(
            text.embedded,
            baseline,
            additional_forward_args=text.arguments,
            n_steps=n_steps,
            internal_batch_size=max(examples, rows_back(request.model, length)),
            return_convergence_delta=True,
        )
        return attributions, delta[:, None, None]

    attributions, delta = in_parts(request, "integrated_gradients", along, rows_a_text=n_steps)
    attributions = attributions.cpu().double()
    delta = delta.cpu().double().sum((1, 2))
    change = attributions.sum((1, 2)) - delta
    values = _signed(request, attributions, request.settings.reduction)
    return Attribution(values, {"convergence_delta": delta}, _unconverged(change, delta))


def _unconverged(change: Tensor, delta: Tensor) -> Sequence[str | None]:
    """Why integrated gradients that miss the change (B,) by delta (B,) are not reliable; empty if all are."""
    error = delta.abs()
    misses = (error >= CONVERGED * change.abs()) & (error > ROUNDING)
    if not bool(misses.any()):
        return ()
    reasons: list[str | None] = [None] * len(delta)
    for row in misses.nonzero()[:, 0].tolist():
        miss = f"miss the change of {float(change[row]):.3g} by {float(delta[row]):.1g}"
        reasons[row] = f"integrated gradients {miss}: raise n_steps"
    return reasons


def _baseline(request: Request, embedded: Tensor) -> Tensor:
    if request.settings.baseline == "zero":
        return torch.zeros_like(embedded)
    pad = request.token_ids.get("pad")
    if pad is None:
        raise InputError("The baseline 'pad' needs a padding token, but the tokenizer has none; choose 'zero'.")
    pad_id = torch.tensor(pad, device=embedded.device)
    with torch.no_grad():
        row = request.model.get_input_embeddings()(pad_id)
    return row.expand_as(embedded)


def _signed(request: Request, values: Tensor, reduction: str) -> Tensor:
    """From (B, tokens, E) to (B, T) items, in float64 on the CPU; magnitudes are taken after the reduction."""
    if reduction in ("l1", "l2"):
        order = int(reduction[1])
        lengths = norms(values, order)  # (B, tokens)
        return by_item(request, lengths, order).cpu()
    sums = values.sum(-1, dtype=torch.float64)
    sums = by_item(request, sums).cpu()
    return sums.abs() if request.settings.is_magnitude else sums
