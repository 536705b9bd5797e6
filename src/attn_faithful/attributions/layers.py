"""Importance from the attention of several layers, of transformers models alone."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item, outcome, reached
from attn_faithful.attributions.embedded_text import in_place
from attn_faithful.attributions.layered_text import LayeredText, calls_at, layered_text, one_stack
from attn_faithful.attributions.parts import gradient_parts
from attn_faithful.functional.flow import attention_flow as flow_of
from attn_faithful.functional.rollout import over_heads, positive_part, relevance
from attn_faithful.functional.rollout import rollout as rollout_of
from attn_faithful.models.modes import analysing
from attn_faithful.models.stock.interface import Alter, Trace


@SOURCES.register("raw_attention")
@torch.no_grad()
def raw_attention(request: Request) -> Attribution:
    """Attention of the token that the classifier reads, or the mean over the text's rows; 0 to 1.

    The heads of a layer become one by the setting `heads`. At the site of all layers the setting `layers` takes the
    last one or the mean over all.
    """
    text = layered_text(request, "raw_attention")
    calls = calls_at(request, text, "raw_attention")
    shares = {call: text.row_shares(call) for call in calls}

    def take(call: int, weights: Tensor) -> Tensor:
        chosen = text.chosen_heads(weights)  # (B, H, Q, T)
        attention = over_heads(chosen, request.settings.heads)  # (B, Q, T)
        row = shares[call][:, None].to(attention.dtype) @ attention  # (B, 1, T)
        return text.at_tokens(call, row[:, 0])

    by_layer = text.collect(calls, take)  # (B, layers, T)
    return Attribution(by_item(request, by_layer.mean(1)))


@SOURCES.register("rollout")
@torch.no_grad()
def rollout(request: Request) -> Attribution:
    """Attention followed down through all layers, half of each around it; over all tokens it sums to 1.

    The heads of a layer become one by the setting `heads`. The row is that of the token that the classifier reads, or
    the mean over the text's rows.

    Raises:
        InputError: an encoder with a decoder, which the paper does not cover.

    Reference:
        Abnar and Zuidema (2020), section 3, equation 1.
    """
    attention, shares = _stack_of_maps(request, "rollout")
    values = rollout_of(attention, shares)  # (B, T)
    return Attribution(by_item(request, values))


@SOURCES.register("attention_flow")
@torch.no_grad()
def attention_flow(request: Request) -> Attribution:
    """The most that can flow down to each token through all layers, the network for itself alone; 0 to 1.

    Where the classifier reads all tokens, the flow starts at all of them in equal shares. A text of n tokens takes n
    flows through a network of layers times n^2 edges: in six layers a tenth of a second for 30 tokens, seconds for 128.

    Raises:
        InputError: an encoder with a decoder, which the paper does not cover.

    Reference:
        Abnar and Zuidema (2020), section 3, attention flow.
    """
    attention, shares = _stack_of_maps(request, "attention_flow")
    flow = flow_of(attention, shares, reached(request))
    return Attribution(by_item(request, flow.nan_to_num(0.0)))


@SOURCES.register("attention_relevance")
def attention_relevance(request: Request) -> Attribution:
    """Attention that speaks for the target, added up through all layers; 0 and up.

    Gradients are those of the target's log-odds, whatever the setting `outcome`: those of a confident model's
    probability are so small that only the identity would count. The token that is read has the identity's 1 too.

    Raises:
        InputError: an encoder with a decoder.

    Reference:
        Chefer et al. (2021), Generic attention-model explainability, section 3.1, equations 5 and 6.
    """
    model = one_stack(request, "attention_relevance").model
    parts = gradient_parts(request)
    found = []
    for part in parts:
        text = LayeredText(model, model.inputs(part.of_batch(request.batch)))
        found.append(_relevance(request, text, part.of(request.classes)))
    values = in_place(request, parts, found)  # (B, T)
    return Attribution(by_item(request, values))


def _relevance(request: Request, text: LayeredText, target: Tensor) -> Tensor:
    """Relevance (P, T) of the tokens of some texts for their targets (P,)."""
    calls = range(len(text.model.probe.heads))
    added: dict[int, Tensor] = {}
    weights: dict[int, Tensor] = {}

    def adding_to(call: int) -> Alter:
        def add(own_weights: Tensor, allowed: Tensor) -> Tensor:
            # nothing is added, and yet the gradient has a place to be taken at, also of a model that is frozen
            added[call] = torch.zeros_like(own_weights).requires_grad_()
            weights[call] = own_weights.detach()
            return own_weights + added[call]

        return add

    with analysing(text.model), torch.enable_grad():
        trace = Trace(alter={call: adding_to(call) for call in calls})
        logits = text.model.run(text.inputs, trace)
        logits = request.read(logits)
        log_odds = outcome(logits, target, "logit", request.multi_label)  # (B,)
        gradients = torch.autograd.grad(log_odds.sum(), [added[call] for call in calls])
    steps = torch.stack([positive_part(weights[call], gradients[call]) for call in calls], dim=1)  # (B, layers, T, T)
    start = text.row_shares(calls[-1])
    return relevance(steps, start)


def _stack_of_maps(request: Request, source: str) -> tuple[Tensor, Tensor]:
    """The attention of all layers, (B, L, T, T), and the shares (B, T) of the rows that are read."""
    text = one_stack(request, source)
    calls = range(len(text.model.probe.heads))

    def take(call: int, weights: Tensor) -> Tensor:
        return over_heads(weights, request.settings.heads)

    attention = text.collect(calls, take)  # (B, layers, T, T)
    return attention, text.row_shares(calls[-1])
