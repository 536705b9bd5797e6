"""A mix of the attention of all heads with weights that were fitted to leave-one-out on training texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item
from attn_faithful.attributions.layered_text import LayeredText, layered_text


@SOURCES.register("learned_heads")
@torch.no_grad()
def learned_heads(request: Request) -> Attribution:
    """Attention of all heads of all layers, each times its learned weight, added up; always signed, any unit.

    ``sum_lh w_lh a_lh`` for the attention ``a_lh`` of the token that the classifier reads, or the mean over the text's
    rows. The weights are of the model, not of the text: see `functional.learned_heads.fit_heads`. It costs a forward.

    Raises:
        InputError: no weights were fitted.

    Reference:
        Cohen-Wang et al. (2025), AT2.
    """
    text = layered_text(request, "learned_heads")
    weights = request.head_weights
    if weights is None:
        raise InputError(
            "The source 'learned_heads' needs weights of heads, which are fitted on training texts by "
            "evaluate_attention, explain and attn-faithful evaluate; ask one of them."
        )
    heads = _rows_of_heads(text)  # (B, L, H, T)
    mix = torch.einsum("lh,blht->bt", weights.to(heads), heads)
    return Attribution(by_item(request, mix))


@torch.no_grad()
def attention_of_heads(request: Request) -> Tensor:
    """The attention of every head to each item, (B, T, L * H) float64: what the source `learned_heads` mixes."""
    text = layered_text(request, "learned_heads")
    columns = _rows_of_heads(text).flatten(1, 2).unbind(1)  # (B, tokens) each
    return torch.stack([by_item(request, column) for column in columns], dim=-1)


def _rows_of_heads(text: LayeredText) -> Tensor:
    """Attention (B, L, H, T) of the rows that the classifier reads; 0 for heads that a layer has fewer than others."""
    most = max(text.model.probe.heads)
    calls = range(len(text.model.probe.heads))
    shares = {call: text.row_shares(call) for call in calls}

    def take(call: int, weights: Tensor) -> Tensor:
        rows = shares[call][:, None, None] @ weights.double()  # (B, H, 1, T)
        by_head = [text.at_tokens(call, head) for head in rows[:, :, 0].unbind(1)]  # (B, T) each
        return nn.functional.pad(torch.stack(by_head, dim=1), (0, 0, 0, most - len(by_head)))

    return text.collect(calls, take)
