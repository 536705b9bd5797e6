"""Texts turned round within their own lengths: what the backward network of a recurrent encoder reads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reversal(mask: Tensor) -> Tensor:
    """Index (B, T) that turns the first ``mask.sum(1)`` positions round and leaves the padding where it is."""
    lengths = mask.sum(1, keepdim=True)  # (B, 1)
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)  # (B, T)
    return torch.where(positions < lengths, lengths - 1 - positions, positions)


class Turn(torch.autograd.Function):
    """Rows of `states` (B, T, N) at the positions (B, T) of a reversal, which is its own inverse: so is its gradient.

    The gradient of an index adds rows up one by one, since it cannot know that none is taken twice.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(states: Tensor, index: Tensor) -> Tensor:
        return _turned(states, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _turned(gradient, index), None


def _turned(states: Tensor, index: Tensor) -> Tensor:
    return states.gather(1, wide(index, states.shape[-1]))


def wide(index: Tensor, width: int) -> Tensor:
    """An index (B, T) for `gather` along the tokens of (B, T, width)."""
    return index[:, :, None].expand(-1, -1, width)
