"""Tying: how far the states of a text lie from the embeddings of its tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.reasons import NO_TOKEN


def tying_distance(states: Tensor, embedded: Tensor, content: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean squared distance of states to embeddings: ``mean_t ||h_t - e_t||^2``, differentiable.

    Args:
        states: (B, T, N), of the encoder; ignored outside ``content``.
        embedded: (B, T, N), of the same tokens.
        content: (B, T), bool.

    Returns:
        (B,) in the type of ``states``, from 0, where each state is its token's embedding; NaN where undefined, with the
        texts (B,) of each reason ("no content token"). No gradient comes from an undefined text.

    Raises:
        InputError: other shapes, ``content`` that is not bool.

    Reference:
        Tutek and Snajder (2020), section 3, the loss "tying".

    Example:
        >>> states, embedded = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.zeros(1, 2, 2)
        >>> tying_distance(states, embedded, torch.ones(1, 2, dtype=torch.bool))[0].tolist()
        [1.0]
    """
    if states.dim() != 3 or embedded.shape != states.shape:
        raise InputError(
            f"Expected `states` and `embedded` of one shape (B, T, N), but got {tuple(states.shape)} and "
            f"{tuple(embedded.shape)}."
        )
    if content.shape != states.shape[:2] or content.dtype != torch.bool:
        raise InputError(
            f"Expected bool `content` of shape {tuple(states.shape[:2])}, but got {tuple(content.shape)} of "
            f"{content.dtype}."
        )
    counts = content.sum(-1)  # (B,)
    difference = torch.where(content[:, :, None], states - embedded, 0.0)  # (B, T, N)
    total = difference.square().sum((1, 2))  # (B,)
    empty = counts == 0
    return torch.where(empty, torch.nan, total / counts.clamp(min=1)), {NO_TOKEN: empty}
