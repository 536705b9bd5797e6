"""Attention and its gradient as importance, and random importance as a control."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import check_same_length
from attn_faithful._seeds import seed_for
from attn_faithful.attributions.base import SOURCES, Attribution, Request, one_attention


@SOURCES.register("attention")
def attention(request: Request) -> Attribution:
    """The weight that the model put on each token, 0 to 1."""
    return Attribution(one_attention(request, "attention"))


@SOURCES.register("attention_gradient")
def attention_gradient(request: Request) -> Attribution:
    """Gradient of the target's outcome with respect to the attention weights, each taken as free; always signed.

    The states that attention weighs stay as they are. It is computed from the log-odds, so that a prediction of 1 up
    to rounding still gives a ranking.

    Reference:
        Serrano and Smith (2019), section 5.2: the decision function is the predicted class's probability.
    """
    return Attribution(_attention_gradient(request).sum(1))


def _attention_gradient(request: Request) -> Tensor:
    """Gradient with respect to each weight, (B, S, T), 0 where nothing is allowed."""
    encoded = request.view
    with torch.enable_grad():
        weights = encoded.attention.detach().clone().requires_grad_()
        logits = encoded.decode(weights[:, None])[:, 0]
        log_odds = request.outcome(logits, of="logit")
        gradient = weights.detach()
        if weights.numel():
            (gradient,) = torch.autograd.grad(log_odds.sum(), weights)
    gradient = gradient.double() * encoded.allowed  # (B, S, T)
    log_odds = log_odds.detach().double()
    scale = torch.ones_like(log_odds)
    if request.settings.outcome == "probability":
        # dp = p (1 - p) d ln p / (1 - p)
        scale = log_odds.sigmoid() * (-log_odds).sigmoid()
    return gradient * scale[:, None, None].to(gradient.device)


@SOURCES.register("attention_x_gradient")
def attention_x_gradient(request: Request) -> Attribution:
    """Attention times its gradient, see `attention_gradient`; always signed, and summed over the slots of a site.

    Reference:
        Serrano and Smith (2019), section 5.2.
    """
    weights = request.encoded.attention.detach().double()  # (B, S, T)
    products = _attention_gradient(request) * weights
    return Attribution(products.sum(1))


@SOURCES.register("random")
def random(request: Request) -> Attribution:
    """Uniform draws from [0, 1), a control.

    An example's draws depend on the seed, its key and the number of its content tokens, and on nothing else.
    """
    content = request.encoded.content.cpu()
    check_same_length(("keys", "examples"), (request.keys, content))
    values = torch.zeros(content.shape, dtype=torch.float64)
    for row, key in enumerate(request.keys):
        generator = torch.Generator().manual_seed(seed_for(request.seed, key, "random source"))
        inside = content[row]
        n_tokens = int(inside.sum())
        values[row, inside] = torch.rand(n_tokens, generator=generator, dtype=torch.float64)
    return Attribution(values)
