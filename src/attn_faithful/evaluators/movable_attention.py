"""The part of an affine read-out's attention that a test may move, as a distribution over the items."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block


@dataclass(frozen=True)
class Movable:
    """The movable attention of a read-out that is affine in one attention, as if the items held all of it.

    Where other positions (special tokens) keep weight, their logits are part of the bias, and an item's logits are
    those at all the weight that the items hold. A JSD between shares is then a JSD of attention over that weight.

    Attributes:
        shares: (B, T), of the items' weight, a distribution over them.
        items: (B, T), bool.
        token_logits: (B, T, C), what all of the weight on a token would add.
        bias: (B, C).
        weight: (B,), what the items hold together; 1 where nothing else holds any.
        fixed: (B, T), the weight that other positions keep.
    """

    shares: Tensor
    items: Tensor
    token_logits: Tensor
    bias: Tensor
    weight: Tensor
    fixed: Tensor

    @property
    def classes(self) -> int:
        return self.token_logits.shape[-1]

    @property
    def margins(self) -> Tensor:
        """Margin of class 1 over class 0 that each token alone gives, (B, T)."""
        logits = self.token_logits + self.bias[:, None]
        return logits[..., 1] - logits[..., 0]

    def attention(self, shares: Tensor) -> Tensor:
        """The attention (B, K, T) in which the items hold these shares (B, K, T) of their weight."""
        return shares * self.weight[:, None, None] + self.fixed[:, None]


def movable_of(block: Block) -> Movable | None:
    """The movable attention of an affine read-out of one attention and one label a text; None for others."""
    encoded = block.encoded
    affine = encoded.affine
    if affine is None or encoded.multi_label or encoded.attention.shape[1] != 1:
        return None
    # (B, T) each
    attention = encoded.attention[:, 0].double()
    items = block.items[:, 0]
    fixed = torch.where(items, 0.0, attention)
    on_items = torch.where(items, attention, 0.0)
    something_is_fixed = (fixed > 0).any(-1)  # (B,)
    weight = torch.where(something_is_fixed, on_items.sum(-1), 1.0)  # (B,)
    # of no weight any shares will do
    even = items / items.sum(-1, keepdim=True).clamp(min=1)
    shares = on_items / torch.where(weight == 0, 1.0, weight)[:, None]
    shares = torch.where(weight[:, None] == 0, even, shares)
    token_logits = affine.token_logits.double()  # (B, T, C)
    logits_of_fixed = torch.where(fixed[..., None] > 0, token_logits, 0.0)  # 0 times infinity would be NaN
    fixed_logits = fixed[:, None] @ logits_of_fixed  # (B, 1, C)
    bias = affine.bias.double() + fixed_logits[:, 0]
    logits_at_weight = token_logits * weight[:, None, None]
    return Movable(shares, items, logits_at_weight, bias, weight, fixed)
