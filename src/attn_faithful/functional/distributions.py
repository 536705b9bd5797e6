"""Whether tensors hold distributions: the one rule of what this package takes for one, and what it says otherwise."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError

SUM_TOLERANCE = 1e-3  # of a sum of float32 probabilities of many classes or tokens


def check_distributions(name: str, values: Tensor, zero_rows: bool = False) -> None:
    r"""Raise unless every row (last axis) is at least 0 and sums to 1 within 1e-3.

    Nothing is normalized: weights that do not sum to 1 are more often logits, scores or a part of the attention than a
    distribution. Half precision has its own rounding beside the 1e-3: 0.008 in bfloat16, 0.001 in float16. A row that
    holds NaN is undefined, no mistake, and is let pass; its divergence is NaN.

    Args:
        name: of the argument, for the message.
        values: (..., T).
        zero_rows: whether a row of zeros is legal, which says nothing.

    Raises:
        InputError: it names the first row that is none, and what it is.

    Example:
        >>> check_distributions("p", torch.tensor([[0.7, 0.3], [0.7, 0.7]]))
        Traceback (most recent call last):
        ...
        attn_faithful._checks.InputError: Expected rows of `p` that are distributions (at least 0, sum 1), but row 1 sums to 1.4; pass probabilities, not logits or scores, over all items, or divide by the sum.
    """  # noqa: E501
    if not values.numel():
        return
    with torch.no_grad():
        sums = values.double().sum(-1)
        least = values.amin(-1)
        off = (sums - 1).abs() > SUM_TOLERANCE + _rounding(values)  # False for NaN
        if zero_rows:
            off &= sums != 0
        wrong = off | (least < 0)
        if not bool(wrong.any()):
            return
        row = tuple(wrong.nonzero()[0].tolist())
        came = f"sums to {float(sums[row]):.6g}"
        if float(least[row]) < 0:
            came = f"holds {float(least[row]):.6g}"
    raise InputError(
        f"Expected rows of `{name}` that are distributions (at least 0, sum 1), but {_place(row)} {came}; pass "
        "probabilities, not logits or scores, over all items, or divide by the sum."
    )


def _place(row: tuple[int, ...]) -> str:
    """A row in words; the empty place is that of a single distribution."""
    if not row:
        return "it"
    return f"row {row[0]}" if len(row) == 1 else f"row {row}"


def check_probabilities(name: str, values: Tensor) -> None:
    """Raise unless every number is a probability, 0 to 1 within 1e-3; NaN is let pass.

    Raises:
        InputError: it names the first number that is none.

    Example:
        >>> check_probabilities("p", torch.tensor([0.7, 0.7, float("nan")]))
    """
    with torch.no_grad():
        wrong = (values < 0) | (values > 1 + SUM_TOLERANCE)
        if not bool(wrong.any()):
            return
        came = float(values[wrong][0])
    raise InputError(f"Expected `{name}` of probabilities, 0 to 1, but got {came:.6g}; pass probabilities, not logits.")


def check_part(name: str, values: Tensor, allowed: Tensor) -> None:
    """Raise unless the weights inside ``allowed`` are at least 0 and no more than 1 in all: a part of a distribution.

    Raises:
        InputError: it says what the first row outside is.

    Example:
        >>> check_part("attention", torch.tensor([0.3, 0.2, 0.5]), torch.tensor([True, True, False]))
    """
    with torch.no_grad():
        zero = torch.zeros((), dtype=values.dtype, device=values.device)
        weights = torch.where(allowed, values, zero).double()
        sums = weights.sum(-1)
        largest_sum = 1 + SUM_TOLERANCE + _rounding(values)
        wrong = (weights < 0).any(-1) | (sums > largest_sum)
        if not bool(wrong.any()):
            return
        first_sum = float(sums[wrong][0])
        first_least = float(weights[wrong][0].min())
        came = f"one that sums to {first_sum:.6g} with a least weight of {first_least:.6g}"
    raise InputError(
        f"Expected rows of `{name}` of at least 0 that sum to at most 1, but got {came}; pass probabilities, not "
        "logits or scores."
    )


def _rounding(values: Tensor) -> float:
    """What half precision may be off by."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return torch.finfo(values.dtype).eps
    return 0.0
