"""Importance of the encoder's states for the output, and of the tokens for the states.

Attention weighs states. Where it agrees with the importance of states, it need not agree with that of tokens: a state
may depend on many of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, norms
from attn_faithful.attributions.embedded_text import text_at
from attn_faithful.attributions.hidden import hidden_gradient_importance
from attn_faithful.functional.concentration import normalized_entropy
from attn_faithful.models.adapted import class_name, forward_arguments
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import prediction_change


@SOURCES.register("state_saliency")
def state_saliency(request: Request) -> Attribution:
    """Length of the gradient of the outcome with respect to each token's state; l1 where the reduction is l1, else l2.

    With the attention path "detached" it goes with attention by construction: the state's part in the context is its
    weight times itself. With "attached" the scores' part is there too.

    Raises:
        InputError: the model returns no states, one a token.

    Reference:
        Meister et al. (2021), section 3.1: their g of the output with respect to an intermediate state.
    """
    gradient = state_gradients(request)
    order = 1 if request.settings.reduction == "l1" else 2
    return Attribution(norms(gradient, order).cpu())


def state_gradients(request: Request) -> Tensor:
    """Gradient of the target's outcome with respect to each token's state, (B, T, N).

    Raises:
        InputError: the model returns no states, one a token.
    """
    if "output_hidden_states" not in forward_arguments(request.model):
        raise _no_states(request)
    text = text_at(request, "state_saliency")
    if text.embedded.numel() == 0:
        return torch.zeros(*request.encoded.content.shape, 1)
    with analysing(request.model), torch.enable_grad():
        output = request.model(inputs_embeds=text.leaf, **text.inputs, output_hidden_states=True)
        states = output.hidden_states
        if not isinstance(states, Tensor) or states.shape[:2] != request.encoded.content.shape:
            raise _no_states(request)
        logits = request.read(output.logits)
        outcomes = request.outcome(logits)  # (B,)
        gradient: Tensor = torch.autograd.grad(outcomes.sum(), states)[0]
    return gradient


def _no_states(request: Request) -> InputError:
    return InputError(
        f"The source 'state_saliency' needs a model that returns a state a token, but {class_name(request.model)} "
        "does not; choose 'saliency'."
    )


@SOURCES.register("state_leave_one_out")
@torch.no_grad()
def state_leave_one_out(request: Request) -> Attribution:
    """Change of the prediction (TVD) without each token's state, the attention to the others projected again.

    Raises:
        InputError: a site of several slots, or one whose scores are unknown.

    Reference:
        Meister et al. (2021), section 3.1: their D of the output for an intermediate state.
    """
    encoded = request.view
    slots = encoded.attention.shape[1]
    if encoded.scores is None or encoded.project is None or slots != 1:
        missing = " without them" if encoded.scores is None else ""
        raise InputError(
            "The source 'state_leave_one_out' needs one attention distribution with its scores, but the site has "
            f"{slots}{missing}; choose 'leave_one_out'."
        )
    content, allowed = encoded.content, encoded.allowed[:, 0]
    items = torch.arange(content.shape[1], device=content.device)
    if not len(items):
        return Attribution(torch.zeros(content.shape))
    logits = []
    size = max(1, CELLS // max(1, content.numel()))
    for removed in items.split(size):
        keep = allowed[:, None] & (items != removed[:, None])  # (B, K, T)
        attention = encoded.project(encoded.scores.expand(keep.shape), keep)
        attention = attention.to(encoded.attention.dtype)
        logits.append(encoded.decode(attention[:, :, None]))
    return Attribution(prediction_change(encoded, torch.cat(logits, dim=1)))


@SOURCES.register("hidden_gradient")
def hidden_gradient(request: Request) -> Attribution:
    """Share of each token in what moves the states' lengths, averaged over the states; and how spread it is.

    ``hidden_entropy`` (extra) is the normalized entropy of a state's shares, averaged over the states: 1 where each
    state depends on all tokens alike, 0 for encoders that read each token alone.

    Reference:
        Meister et al. (2021), equation 5 and table 1.
    """
    shares, _ = hidden_gradient_importance(request.model, request.batch, request.encoded)  # (B, P, T)
    content = request.encoded.content.cpu()
    rows, states = content.nonzero(as_tuple=True)
    entropy = torch.full(content.shape, math.nan, dtype=torch.float64)  # (B, P)
    if len(rows):
        entropy[rows, states], _ = normalized_entropy(shares[rows, states], content[rows])
    return Attribution(shares.nanmean(1), {"hidden_entropy": entropy.nanmean(1)})
