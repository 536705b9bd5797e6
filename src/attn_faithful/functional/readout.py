"""A read-out that is affine in the attention, ``sum_t a_t z_t + b``: its checks, its decision, sums and ties.

What is shared by all kernels that ask which attention changes or keeps such a decision.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, Reasons, first_reasons

LARGEST = 1e300  # a larger score is as good as infinite: differences and sums of several would be

_MASS_TOLERANCE = 1e-3


def checked_readout(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Reasons]:
    """Attention, token logits and bias in float64 with 0 where nothing counts, and why an example is undefined.

    Args:
        attention: (B, T), ignored outside ``allowed``.
        allowed: (B, T), bool.
        token_logits: (B, T, C), without the bias.
        bias: (B, C); classes with -inf never count.

    Raises:
        InputError: other shapes, no class, ``allowed`` that is not bool.

    Example:
        >>> attention, allowed = torch.tensor([[0.5, 0.5]]), torch.tensor([[True, False]])
        >>> weights, _, _, reasons = checked_readout(attention, allowed, torch.zeros(1, 2, 2), torch.zeros(1, 2))
        >>> weights.tolist(), reasons
        ([[0.5, 0.0]], [None])
    """
    _check_shapes(attention, allowed, token_logits, bias)
    counts = bias != -math.inf  # (B, C)
    attention = torch.where(allowed, attention.detach().double(), 0.0)
    in_logits = allowed[:, :, None] & counts[:, None]  # (B, T, C)
    token_logits = torch.where(in_logits, token_logits.detach().double(), 0.0)
    bias = bias.detach().double()

    small_logits = token_logits.abs() <= LARGEST  # False for NaN
    small_bias = (bias.abs() <= LARGEST) | ~counts
    finite = attention.isfinite().all(-1)  # (B,)
    finite &= small_logits.all(-1).all(-1)
    finite &= small_bias.all(-1)
    empty = ~allowed.any(-1)
    reasons = first_reasons({NO_TOKEN: empty, NAN_SCORES: ~finite})

    # undefined examples become zeros: no kernel meets NaN, and each says by itself what it gives for them
    attention = torch.where(finite[:, None], attention, 0.0)
    token_logits = torch.where(finite[:, None, None], token_logits, 0.0)
    bias = torch.where(finite[:, None], bias, 0.0)
    return attention, token_logits, bias, reasons


def _check_shapes(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> None:
    check_shape("token_logits", token_logits, "B T C")
    b, t, c = token_logits.shape
    if not c:
        raise InputError("Expected `token_logits` of one class at least, but got none.")
    for name, value, shape in (
        ("attention", attention, (b, t)),
        ("allowed", allowed, (b, t)),
        ("bias", bias, (b, c)),
    ):
        if tuple(value.shape) != shape:
            raise InputError(
                f"Expected `{name}` of shape {shape} beside `token_logits` {(b, t, c)}, but got {tuple(value.shape)}; "
                "pass one slot of attention for each example."
            )
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` of type torch.bool, but got {allowed.dtype}; pass allowed.bool().")


def defined_rows(reasons: Reasons, like: Tensor) -> Tensor:
    """Which examples (B,) have no reason to be undefined, on the device of ``like``.

    Example:
        >>> defined_rows([None, "n<2"], torch.zeros(2))
        tensor([ True, False])
    """
    defined = [reason is None for reason in reasons]
    return torch.tensor(defined, dtype=torch.bool, device=like.device)


def as_distributions(attention: Tensor, defined: Tensor) -> Tensor:
    """Weights (B, T), 0 where nothing counts, divided by their sums.

    Raises:
        InputError: a defined row is no distribution.

    Example:
        >>> as_distributions(torch.tensor([[0.6, 0.3996]]).double(), torch.tensor([True])).round(decimals=4)
        tensor([[0.6002, 0.3998]], dtype=torch.float64)
    """
    mass = attention.sum(-1)
    off = (mass - 1).abs() > _MASS_TOLERANCE
    negative = (attention < 0).any(-1)
    wrong = defined & (off | negative)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"Expected `attention` of at least 0 that sums to 1 over `allowed`, but example {row} sums to "
            f"{mass[row]:.6g} and has a smallest weight of {attention[row].min():.6g}; put what other "
            "positions keep into the bias."
        )
    mass = total(attention)
    divisor = torch.where(mass > 0, mass, 1.0)
    return attention / divisor[:, None]


def decided(attention: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    """The class (B,) with the highest logit, the lowest index on ties.

    Example:
        >>> decided(torch.ones(1, 1), torch.tensor([[[0.0, 2.0, 2.0]]]), torch.zeros(1, 3))
        tensor([1])
    """
    # A matrix product may round each column in its own way, which would break ties.
    context_logits = total(attention[:, :, None] * token_logits)  # (B, C)
    logits = context_logits + bias
    return first_least(-logits)


def flipped(logits: Tensor, decision: Tensor) -> Tensor:
    """Whether the argmax of the logits (B, K, C), the lowest index on ties, is another class than the decision (B,).

    Example:
        >>> flipped(torch.tensor([[[1.0, 1.0], [0.0, 1.0]]]), torch.tensor([1]))
        tensor([[ True, False]])
    """
    b, k, c = logits.shape
    decision = decision[:, None, None]
    of_decision = logits.gather(-1, decision.expand(b, k, 1))  # (B, K, 1)
    classes = torch.arange(c, device=logits.device)
    wins_tie = (classes < decision) & (logits == of_decision)
    overtakes = (logits > of_decision) | wins_tie  # (B, K, C)
    return overtakes.any(-1)


def lead(logits: Tensor, decision: Tensor) -> Tensor:
    """By how much the decision (...) leads the best other class in logits (..., C); infinite without another class.

    Example:
        >>> lead(torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([1]))
        tensor([2.])
    """
    is_decision = F.one_hot(decision, logits.shape[-1]).bool()  # (..., C)
    of_decision = torch.where(is_decision, logits, 0.0).sum(-1)
    of_best_other = torch.where(is_decision, -math.inf, logits).amax(-1)
    return of_decision - of_best_other


def logits_of(token_logits: Tensor, decision: Tensor) -> Tensor:
    """What each token says for the decision (B,), (B, T, 1).

    Example:
        >>> logits_of(torch.tensor([[[0.0, 3.0], [0.0, -1.0]]]), torch.tensor([1])).tolist()
        [[[3.0], [-1.0]]]
    """
    index = decision[:, None, None].expand(-1, token_logits.shape[1], 1)
    return token_logits.gather(2, index)


def leads(token_logits: Tensor, bias: Tensor, decision: Tensor, filler: float) -> tuple[Tensor, Tensor]:
    """By how much the decision leads each class at each token, bias included.

    Args:
        token_logits: (B, T, C), without the bias.
        bias: (B, C).
        decision: (B,).
        filler: for the decision itself and for classes that never count.

    Returns:
        margins (B, C, T), and which classes the decision can lose to (B, C).

    Example:
        >>> margins, others = leads(torch.tensor([[[0.0, 3.0]]]), torch.zeros(1, 2), torch.tensor([1]), math.inf)
        >>> margins.tolist(), others.tolist()
        ([[[3.0], [inf]]], [[True, False]])
    """
    decision_column = decision[:, None]
    classes = torch.arange(bias.shape[1], device=bias.device)
    others = (bias > -math.inf) & (classes != decision_column)  # (B, C)
    decision_bias = bias.gather(1, decision_column)
    bias_lead = torch.where(others, decision_bias - bias, 0.0)
    margins = logits_of(token_logits, decision) - token_logits  # (B, T, C)
    margins = margins + bias_lead[:, None]
    margins = torch.where(others[:, None], margins, filler)
    return margins.transpose(1, 2), others


def check_decision(decision: Tensor, examples: int, classes: int) -> None:
    """Raise unless ``decision`` holds one class for each example."""
    outside = (decision < 0) | (decision >= classes)
    if tuple(decision.shape) != (examples,) or bool(outside.any()):
        raise InputError(
            f"Expected `decision` with one class from 0 to {classes - 1} for each of {examples} examples, "
            f"but got {decision.tolist()}."
        )


def total(values: Tensor) -> Tensor:
    """Sum over the tokens (axis 1) in their order: zeros between them change no bit, so padding decides no tie.

    Example:
        >>> total(torch.tensor([[1.0, 2.0]]))
        tensor([3.])
    """
    if not values.shape[1]:
        return values.sum(1)
    running = values.cumsum(1)
    return running[:, -1]


def first_least(values: Tensor) -> Tensor:
    """The lowest index of the smallest value; torch leaves open which one argmin takes.

    Example:
        >>> first_least(torch.tensor([2.0, 1.0, 1.0]))
        tensor(1)
    """
    index = torch.arange(values.shape[-1], device=values.device)
    is_least = values == values.amin(-1, keepdim=True)
    place = torch.where(is_least, index, values.shape[-1])
    return place.amin(-1)


def first_true(values: Tensor) -> Tensor:
    """The first index (...) at which ``values`` (..., K) hold, float64; NaN where there is none.

    Example:
        >>> first_true(torch.tensor([[False, True, True], [False, False, False]]))
        tensor([1., nan], dtype=torch.float64)
    """
    index = torch.arange(values.shape[-1], device=values.device, dtype=torch.float64)
    place = torch.where(values, index, math.inf)
    first = min_or_infinity(place)
    return torch.where(first < math.inf, first, math.nan)


def min_or_infinity(values: Tensor) -> Tensor:
    """The smallest value along the last axis, infinite where that is empty.

    Example:
        >>> min_or_infinity(torch.tensor([[2.0, 1.0]])), min_or_infinity(torch.zeros(1, 0))
        (tensor([1.]), tensor([inf]))
    """
    with_infinity = F.pad(values, (0, 1), value=math.inf)
    return with_infinity.amin(-1)


def max_or_infinity(values: Tensor) -> Tensor:
    """The largest value along the last axis, -infinite where that is empty.

    Example:
        >>> max_or_infinity(torch.tensor([[2.0, 1.0]])), max_or_infinity(torch.zeros(1, 0))
        (tensor([2.]), tensor([-inf]))
    """
    with_infinity = F.pad(values, (0, 1), value=-math.inf)
    return with_infinity.amax(-1)
