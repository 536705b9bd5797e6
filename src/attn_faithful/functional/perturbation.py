"""Small changes of embeddings: every token of a text moved as far, each its own way."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError


def perturbed_embeddings(embedded: Tensor, directions: Tensor, moved: Tensor, radius: float) -> Tensor:
    r"""Embeddings moved by a share of the text's mean norm: ``e_t + radius * mean_s ||e_s|| * d_t / ||d_t||``.

    Differentiable; as the change grows with the embeddings, longer ones are no shelter from it.

    Args:
        embedded: (B, T, N).
        directions: (B, T, N), of any length; one of 0 moves nothing.
        moved: (B, T) bool, the tokens that are moved, and that the mean is of; the others stay as they are.
        radius: from 0.

    Returns:
        (B, T, N) in the type of ``embedded``.

    Raises:
        InputError: other shapes, ``moved`` that is not bool, a radius below 0 or not finite.

    Example:
        >>> embedded = torch.tensor([[[3.0, 4.0], [0.0, 5.0], [9.0, 9.0]]])
        >>> directions = torch.tensor([[[2.0, 0.0], [0.0, -1.0], [1.0, 1.0]]])
        >>> perturbed_embeddings(embedded, directions, torch.tensor([[True, True, False]]), 0.1).tolist()
        [[[3.5, 4.0], [0.0, 4.5], [9.0, 9.0]]]
    """
    if embedded.dim() != 3 or directions.shape != embedded.shape:
        raise InputError(
            f"Expected `embedded` and `directions` of one shape (B, T, N), but got {tuple(embedded.shape)} and "
            f"{tuple(directions.shape)}."
        )
    if moved.shape != embedded.shape[:2] or moved.dtype != torch.bool:
        raise InputError(
            f"Expected bool `moved` of shape {tuple(embedded.shape[:2])}, but got {tuple(moved.shape)} of "
            f"{moved.dtype}."
        )
    if not 0 <= radius < torch.inf:
        raise InputError(f"Expected a `radius` from 0, but got {radius}.")
    kept = torch.where(moved[:, :, None], embedded, 0.0)  # (B, T, N)
    counts = moved.sum(-1).clamp(min=1)  # (B,)
    mean_norm = torch.linalg.vector_norm(kept, dim=-1).sum(-1) / counts  # (B,)
    unit = torch.nn.functional.normalize(directions, dim=-1, eps=torch.finfo(directions.dtype).tiny)  # (B, T, N)
    change = radius * mean_norm[:, None, None] * unit.to(embedded.dtype)
    return torch.where(moved[:, :, None], embedded + change, embedded)
