"""Correlation distance: how far two attentions over a text are from one pattern, whatever its contrast."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.reasons import CONSTANT_ATTENTION, NO_TOKEN, TOO_SHORT

ROUNDING = 1e-6  # differences of weights, as a share of their size, that may be nothing but rounding in float32


def correlation_distance(one: Tensor, other: Tensor, content: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    r"""One less Pearson's correlation of two attentions over a text's items: ``1 - r``, differentiable.

    It knows neither scale nor level, so that attention which is nearly uniform is not near another for that.

    Args:
        one, other: (B, T), any numbers; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B,) in the type of the two, 0 (one is the other, stretched and moved) to 2 (turned over); NaN where undefined,
        with the texts of each reason ("no content token", "n<2", "constant attention": the weights of either differ by
        rounding alone). No gradient comes from an undefined text. NaN weights give NaN, which no reason explains.

    Raises:
        InputError: other shapes, ``content`` that is not bool.

    Example:
        >>> one, other = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.36, 0.33, 0.31]])
        >>> distance, _ = correlation_distance(one, other, torch.ones(1, 3, dtype=torch.bool))
        >>> round(float(distance), 4)
        0.0317
    """
    if one.dim() != 2 or one.shape != other.shape or content.shape != one.shape or content.dtype != torch.bool:
        raise InputError(
            f"Expected `one`, `other` and bool `content` of one shape (B, T), but got {tuple(one.shape)}, "
            f"{tuple(other.shape)} and {tuple(content.shape)} of {content.dtype}."
        )
    counts = content.sum(-1)  # (B,)
    constant = counts < 2  # (B,)
    units = []
    for values in (one, other):
        kept = torch.where(content, values, 0.0)  # (B, T)
        mean = kept.sum(-1, keepdim=True) / counts.clamp(min=1)[:, None]  # (B, 1)
        deviation = torch.where(content, kept - mean, 0.0)  # (B, T)
        square = deviation.square().sum(-1)  # (B,)
        flat = square <= ROUNDING**2 * kept.square().sum(-1)
        length = torch.where(flat, 1.0, square).sqrt()  # a root has no gradient at 0
        units.append(deviation / length[:, None])
        constant = constant | flat
    first, second = units
    distance = 0.5 * (first - second).square().sum(-1)  # 1 - r, with all digits of a small one
    return torch.where(constant, torch.nan, distance), {
        NO_TOKEN: counts == 0,
        TOO_SHORT: counts < 2,
        CONSTANT_ATTENTION: constant,
    }
