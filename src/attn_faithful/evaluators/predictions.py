"""What a model predicts under another attention, and how far that lies from its own prediction."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.functional.divergences import multilabel_tvd, tvd
from attn_faithful.models.protocol import probabilities


def predictions_under(block: Block, attention: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities (B, K, C) under other attention (B, K, S, T), and their distance (B, K) from the prediction."""
    encoded = block.encoded
    with torch.no_grad():
        logits = encoded.decode(attention.to(encoded.attention.dtype))  # (B, K, C)
    after = probabilities(logits.double(), encoded.multi_label)  # (B, K, C)
    before = encoded.probabilities.double()[:, None]  # (B, 1, C)
    change = output_change(after, before, encoded.multi_label)
    return after, change


def output_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """TVD (...) of class probabilities; the mean over labels where they are independent."""
    distance = multilabel_tvd if multi_label else tvd
    return distance(after, before, validate_args=False)


def weights_on_items(attention: Tensor, items: Tensor) -> list[list[float]]:
    """The weights of each example's items, from attention (B, ...) and the items (B, ...) bool."""
    pairs = zip(attention.cpu(), items.cpu(), strict=True)  # one transfer from a device, and not one a text
    return [weights[inside].tolist() for weights, inside in pairs]


def variant_name(block: Block, name: str) -> str:
    """What an alternative is called: under a control with the control's name before."""
    if block.is_control:
        return f"{block.attention} {name}"
    return name
