"""Attention weights as logarithms of any scale, -inf for a weight of 0: checks, and sums that do not underflow."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.readout import checked_readout, max_or_infinity, min_or_infinity
from attn_faithful.functional.reasons import Reasons

_SPREAD = 600.0  # of log weights: exp(-600) is a normal number with 1e47 to spare for what it multiplies


def running_sums(log_weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    r"""``sum over the first k of exp(log_weights_t) values_t`` for every k, scaled so that nothing underflows.

    Rows whose weights span more than float64 are summed step by step, relative to the largest weight so far; the
    others at once. Weights of 0 between others change no bit.

    Args:
        log_weights: (R, T), float64, -inf for a weight of 0.
        values: (R, T, V), float64, finite.

    Returns:
        sums (R, T + 1, V) and the logarithms (R, T + 1) of what they are to be multiplied with.

    Example:
        >>> sums, scale = running_sums(torch.tensor([[-2000.0, 0.0]]).double(), torch.ones(1, 2, 1).double())
        >>> sums[0, :, 0].tolist(), scale[0].tolist()
        ([0.0, 1.0, 1.0], [-inf, -2000.0, 0.0])
    """
    weighted = log_weights > -math.inf
    finite_weights = torch.where(weighted, log_weights, math.inf)
    lowest = min_or_infinity(finite_weights)[:, None]
    top = max_or_infinity(log_weights)[:, None]
    weights = torch.where(weighted, (log_weights - top).exp(), 0.0)
    terms = weights[:, :, None] * values  # (R, T, V)
    sums = F.pad(terms.cumsum(1), (0, 0, 1, 0))  # (R, T + 1, V)
    scale = top.expand(-1, log_weights.shape[1] + 1)
    # relative to the largest weight of such a row its smallest ones are 0
    wide = (top - lowest > _SPREAD)[:, 0]
    if bool(wide.any()):
        scale = scale.clone()
        sums[wide], scale[wide] = _step_by_step(log_weights[wide], values[wide])
    return sums, scale


def checked_weights(
    log_weights: Tensor, items: Tensor, token_logits: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Reasons]:
    """The same in float64, with weights of -inf outside ``items``, and why an example is undefined, or None.

    Raises:
        InputError: other shapes, ``items`` that is not bool.
    """
    check_shape("token_logits", token_logits, "B T C")
    b, t, _ = token_logits.shape
    if tuple(log_weights.shape) != (b, t):
        raise InputError(
            f"Expected `log_weights` of shape {(b, t)} beside `token_logits` {tuple(token_logits.shape)}, but got "
            f"{tuple(log_weights.shape)}; pass one slot of attention for each example."
        )
    check_items(items, (b, t))
    weightless = items & (log_weights == -math.inf)
    finite_weights = log_weights.masked_fill(weightless, 0.0)
    w, z, bias, reasons = checked_readout(finite_weights, items, token_logits, bias)
    w = torch.where(items & ~weightless, w, -math.inf)
    return w, z, bias, reasons


def check_items(items: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless ``items`` is bool and has this shape."""
    if tuple(items.shape) != shape:
        raise InputError(f"Expected `items` of shape {shape}, but got {tuple(items.shape)}.")
    if items.dtype != torch.bool:
        raise InputError(f"Expected `items` of type torch.bool, but got {items.dtype}; pass items.bool().")


def relative_weights(log_weights: Tensor) -> Tensor:
    """Weights (B, T) of which the largest is 1; zeros where there is none.

    Example:
        >>> relative_weights(torch.tensor([[-1000.0, -1000.0, -math.inf]]))
        tensor([[1., 1., 0.]])
    """
    top = max_or_infinity(log_weights)[:, None]
    origin = torch.where(top > -math.inf, top, 0.0)
    return (log_weights - origin).exp()


def signed_keys(log_weights: Tensor, values: Tensor) -> Tensor:
    """Numbers (..., T) in the order of ``exp(log_weights_t) values_t``, -inf without weight; nothing underflows.

    Terms are compared by sign and logarithm. The keys of one row say nothing about those of another.

    Args:
        log_weights: (..., T), -inf for a weight of 0.
        values: (..., T), finite.

    Example:
        >>> signed_keys(torch.tensor([[-2000.0, 0.0, -math.inf]]), torch.tensor([[3.0, -1.0, 9.0]]))[0].argsort()
        tensor([2, 1, 0])
    """
    weighted = log_weights > -math.inf
    counts = weighted & (values != 0)
    size = log_weights + values.abs().log()
    size = torch.where(counts, size, math.inf)
    smallest = min_or_infinity(size)
    size = size - smallest[..., None] + 1
    signed_size = torch.where(counts, values.sign() * size, 0.0)
    return torch.where(weighted, signed_size, -math.inf)


def _step_by_step(log_weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Running sums (R, T + 1, V) relative to the largest weight so far, and the logarithms (R, T + 1) of that one."""
    top = torch.full_like(log_weights[:, 0], -math.inf)
    running = torch.zeros_like(values[:, 0])
    sums, tops = [running], [top]
    for weight, value in zip(log_weights.unbind(1), values.unbind(1), strict=True):
        next_top = torch.maximum(top, weight)
        origin = torch.where(next_top > -math.inf, next_top, 0.0)
        rescale = (top - origin).exp()[:, None]
        relative = (weight - origin).exp()[:, None]
        running = running * rescale + value * relative
        top = next_top
        sums.append(running)
        tops.append(top)
    return torch.stack(sums, 1), torch.stack(tops, 1)
