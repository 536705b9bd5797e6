"""What reaches a token through many layers of attention: rollout, and relevance where gradients weigh it."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.functional.distributions import check_distributions

HEADS = ("mean", "max", "min")


def over_heads(weights: Tensor, heads: str = "mean") -> Tensor:
    """One weight in place of those of the heads, (..., H, Q, T) -> (..., Q, T): their "mean", "max" or "min".

    Raises:
        InputError: another word.

    Example:
        >>> over_heads(torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]]), "max")
        tensor([[0.9000, 0.5000]])
    """
    check_choice("heads", heads, HEADS)
    if heads == "mean":
        return weights.mean(-3)
    if heads == "max":
        return weights.amax(-3)
    return weights.amin(-3)


def with_residual(attention: Tensor) -> Tensor:
    r"""Attention and the way around it in equal parts: ``(W + I) / 2``, each row divided by its sum.

    Args:
        attention: (..., T, T), one distribution a token; a row of zeros is legal, and leaves the token alone.

    Returns:
        (..., T, T) in float64, rows that sum to 1.

    Raises:
        InputError: no square, a weight below 0.

    Reference:
        Abnar and Zuidema (2020), section 3: ``A = 0.5 W + 0.5 I``, normalized again.

    Example:
        >>> with_residual(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
        [[1.0, 0.0], [0.25, 0.75]]
    """
    if attention.dim() < 2 or attention.shape[-1] != attention.shape[-2]:
        raise InputError(f"Expected `attention` of shape (..., T, T), but got {tuple(attention.shape)}.")
    if bool((attention < 0).any()):
        raise InputError("Expected `attention` of weights of at least 0, but one is below; pass attention, not scores.")
    length = attention.shape[-1]
    identity = torch.eye(length, dtype=torch.float64, device=attention.device)
    mixed = (attention.double() + identity) / 2
    return mixed / mixed.sum(-1, keepdim=True)


def rollout(attention: Tensor, start: Tensor) -> Tensor:
    r"""Attention of the whole stack: ``start A_L ... A_1`` with ``A_l = (W_l + I) / 2``, rows divided by their sums.

    Args:
        attention: (B, L, T, T), the heads' weights as one, the layer nearest to the input first; row i holds what the
            token i takes from each.
        start: (B, T), shares of the tokens whose last states are read: 1 at one, or equal shares of several.

    Returns:
        (B, T) in float64, 0 to 1; sums to 1 as ``start`` does.

    Raises:
        InputError: other shapes, weights below 0, ``start`` that is no distribution.

    Reference:
        Abnar and Zuidema (2020), section 3, equation 1.

    Example:
        >>> layer = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> rollout(torch.stack([layer, layer])[None], torch.tensor([[1.0, 0.0]])).tolist()
        [[0.5625, 0.4375]]
    """
    _checked(attention, start)
    check_distributions("start", start)
    return _through(with_residual(attention), start)


def positive_part(attention: Tensor, gradient: Tensor) -> Tensor:
    r"""What the heads of a layer say for the target: the mean over them of ``max(0, W * dy/dW)``.

    Args:
        attention: (..., H, T, T).
        gradient: of the target's outcome with respect to it, of the same shape.

    Returns:
        (..., T, T) in float64, 0 and up, in the outcome's unit.

    Raises:
        InputError: two shapes.

    Reference:
        Chefer et al. (2021), Generic attention-model explainability, equation 5.

    Example:
        >>> positive_part(torch.tensor([[[0.5]], [[1.0]]]), torch.tensor([[[2.0]], [[-3.0]]])).tolist()
        [[0.5]]
    """
    if attention.shape != gradient.shape or attention.dim() < 3:
        raise InputError(
            f"Expected `attention` and `gradient` of one shape, but got {tuple(attention.shape)} and "
            f"{tuple(gradient.shape)}."
        )
    product = attention.double() * gradient.double()
    return product.clamp(min=0).mean(-3)


def relevance(steps: Tensor, start: Tensor) -> Tensor:
    r"""Relevance that each layer adds to: ``R <- R + A_l R`` from ``R = I``, so ``start (I + A_L) ... (I + A_1)``.

    The token that is read keeps the 1 of the identity beside what it takes.

    Args:
        steps: (B, L, T, T), ``A_l`` of :func:`positive_part`, the layer nearest to the input first.
        start: (B, T), shares of the tokens whose last states are read.

    Returns:
        (B, T) in float64, 0 and up.

    Raises:
        InputError: other shapes.

    Reference:
        Chefer et al. (2021), Generic attention-model explainability, equation 6.

    Example:
        >>> relevance(torch.tensor([[[[2.0, 0.5], [0.0, 3.0]]]]), torch.tensor([[1.0, 0.0]])).tolist()
        [[3.0, 0.5]]
    """
    return _through(_checked(steps, start), start, keep=True)


def _through(steps: Tensor, start: Tensor, keep: bool = False) -> Tensor:
    """The row ``start`` (B, T) times the layers' matrices (B, L, T, T), last first; each added to the row, to keep."""
    row = start.double()[:, None]
    for step in reversed(steps.double().unbind(1)):
        moved = row @ step
        row = row + moved if keep else moved
    return row[:, 0]


def _checked(attention: Tensor, start: Tensor) -> Tensor:
    check_shape("attention", attention, "B L T T")
    check_shape("start", start, "B T")
    b, _, q, t = attention.shape
    if q != t or tuple(start.shape) != (b, t):
        raise InputError(
            f"Expected `attention` (B, L, T, T) and `start` (B, T), but got {tuple(attention.shape)} and "
            f"{tuple(start.shape)}."
        )
    return attention
