"""How far attention can move with a prediction over more than two classes kept: an interval, never called exact.

Every pair of classes alone is a two-class problem whose exact answer no attention can exceed: the least of them is the
upper bound. The lower bound is an attention that was found: sequential linear programs maximise the JSD's tangent over
a polytope inside the feasible set, and the best point is pushed outwards as far as the prediction allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from .._checks import InputError
from .adversary import vertex_between
from .divergences import jsd
from .flip_distance import as_distributions, checked_readout, decided

Array = NDArray[np.float64]

STARTS = 8
_STEPS = 6  # of a sequence of linear programs; it ends earlier where nothing is gained
_WIDENINGS = 12
_FLOOR = 1e-3  # share of the observed attention mixed in where the tangent is taken: at 0 it has none


@dataclass(frozen=True)
class Interval:
    """Bounds on the largest JSD, and the attention of the lower one.

    Attributes:
        lower, upper: (B,), nats; NaN where undefined, the lower one also where it was not searched.
        attention: (B, T), at the lower bound; NaN where there is none.
        reason: why an example is undefined: "no content token", "nan in scores"; None where it is defined.
    """

    lower: Tensor
    upper: Tensor
    attention: Tensor
    reason: list[str | None]


def adversary_interval(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, eps: float, starts: int = STARTS
) -> Interval:
    r"""Bounds on the largest JSD from the attention with a TVD of at most eps between the predictions.

    Upper: the least over pairs of classes of the exact two-class answer with ``ln((q_c - eps)/(q_d + eps)) <= z_c -
    z_d <= ln((q_c + eps)/(q_d - eps))``. Lower: every margin moving at most ``4 artanh(eps)`` implies a TVD of at
    most eps; what is found within is then widened while the TVD allows.

    Args:
        attention: (B, T), distributions over ``allowed``.
        allowed: (B, T), bool.
        token_logits: (B, T, C), without the bias.
        bias: (B, C); classes with -inf are left out.
        eps: 0 to below 1.
        starts: of the search; 0 for the upper bound alone.

    Returns:
        :class:`Interval`; 0 to ln 2, lower speaks for the attention.

    Raises:
        InputError: other shapes, eps out of range, rows that are not distributions.

    Reference:
        Jain and Wallace (2019), section 4.2.2.

    Example:
        >>> found = adversary_interval(torch.tensor([[0.6, 0.3, 0.1]]), torch.ones(1, 3, dtype=torch.bool),
        ...                            torch.zeros(1, 3, 3), torch.zeros(1, 3), eps=0.01)
        >>> round(float(found.lower), 6), round(float(found.upper), 6)
        (0.525597, 0.525597)
    """
    if not 0 <= eps < 1:
        raise InputError(f"Expected `eps` of at least 0 and below 1, but got {eps}.")
    weights, logits, bias, reason = _checked(attention, allowed, token_logits, bias)
    now = ((weights[:, :, None] * logits).sum(1) + bias).softmax(-1)

    def bounds(c: int, d: int) -> tuple[Tensor, Tensor]:
        return _log_ratio(now[:, c] - eps, now[:, d] + eps), _log_ratio(now[:, c] + eps, now[:, d] - eps)

    upper = _upper(weights, allowed, logits, bias, bounds, reason)
    limit = 4 * math.atanh(eps)

    def box(row: int, classes: list[int], factor: float) -> tuple[Array, Array]:
        """Rows of ``A a <= b`` for every pair: the margin moves at most ``factor`` times the limit."""
        values, own = logits[row].numpy(), weights[row].numpy()
        pairs = np.stack([values[:, c] - values[:, d] for c, d in combinations(classes, 2)])
        middle = pairs @ own
        return np.concatenate([pairs, -pairs]), np.concatenate([middle, -middle]) + factor * limit

    def keeps(row: int, found: Array) -> bool:
        after = (torch.from_numpy(found) @ logits[row] + bias[row]).softmax(-1)
        return float((after - now[row]).abs().sum() / 2) <= eps

    return _searched(weights, allowed, bias, upper, reason, box, keeps, starts)


def decision_keeping_interval(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, starts: int = STARTS
) -> Interval:
    r"""Bounds on the largest JSD from the attention that leaves the decision; suprema, a tie at the end point.

    Upper: the least over the other classes c of the exact two-class answer with ``z_y - z_c >= 0``. Lower: found over
    the polytope of all of these, which is the feasible set itself.

    Args:
        attention, allowed, token_logits, bias, starts: as for :func:`adversary_interval`.

    Returns:
        :class:`Interval`; 0 to ln 2, lower speaks for the attention.

    Raises:
        InputError: other shapes, rows that are not distributions.

    Reference:
        Jain and Wallace (2019), section 4.2.2, with the decision in place of eps.

    Example:
        >>> logits = torch.tensor([[[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]])
        >>> found = decision_keeping_interval(torch.tensor([[0.6, 0.4]]), torch.ones(1, 2, dtype=torch.bool), logits,
        ...                                   torch.zeros(1, 3))
        >>> found.attention[0].round(decimals=6).tolist()
        [1.0, 0.0]
    """
    weights, logits, bias, reason = _checked(attention, allowed, token_logits, bias)
    decision = decided(weights, logits, bias)
    row = torch.arange(len(weights))
    own, own_bias = logits[row, :, decision], bias[row, decision]
    infinite = torch.full_like(own_bias, math.inf)
    upper = infinite.clone()
    for c in range(logits.shape[-1]):
        other = (decision != c) & bias[:, c].isfinite()
        lead = torch.where(other, bias[:, c], 0.0)
        margins = own - logits[..., c] + (own_bias - lead)[:, None]
        found = vertex_between(weights, allowed, margins, torch.zeros_like(infinite), infinite, reason)
        upper = torch.where(other & ~(found > upper), found, upper)
    upper = torch.where(upper.isinf(), vertex_between(weights, allowed, own, -infinite, infinite, reason), upper)

    def box(row: int, classes: list[int], factor: float) -> tuple[Array, Array]:
        y = int(decision[row])
        values, shift = logits[row].numpy(), bias[row].numpy()
        others = [c for c in classes if c != y]
        return (
            np.stack([values[:, c] - values[:, y] for c in others]),
            np.array([shift[y] - shift[c] for c in others]),
        )

    return _searched(weights, allowed, bias, upper, reason, box, None, starts)


def _checked(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, list[str | None]]:
    weights, logits, bias, reason = checked_readout(attention, allowed, token_logits, bias)
    defined = torch.tensor([why is None for why in reason], dtype=torch.bool, device=weights.device)
    return as_distributions(weights, defined), logits, bias, reason


def _log_ratio(above: Tensor, below: Tensor) -> Tensor:
    """``ln(above / below)``; -inf where nothing bounds from below, inf where nothing bounds from above."""
    value = above.clamp(min=1e-300).log() - below.clamp(min=1e-300).log()
    value = torch.where(above > 0, value, -math.inf)
    return torch.where(below > 0, value, math.inf)


def _upper(
    weights: Tensor, allowed: Tensor, logits: Tensor, bias: Tensor,
    bounds: Callable[[int, int], tuple[Tensor, Tensor]], reason: list[str | None],
) -> Tensor:  # fmt: skip
    least = torch.full((len(weights),), math.inf, dtype=torch.float64)
    for c, d in combinations(range(logits.shape[-1]), 2):  # (d, c) bounds the same form
        both = bias[:, c].isfinite() & bias[:, d].isfinite()
        shift = torch.where(both, bias[:, c] - bias[:, d], 0.0)
        margins = logits[..., c] - logits[..., d] + shift[:, None]
        found = vertex_between(weights, allowed, margins, *bounds(c, d), reason)
        least = torch.where(both & ~(found > least), found, least)
    infinite = torch.full_like(least, math.inf)
    free = vertex_between(weights, allowed, torch.zeros_like(weights), -infinite, infinite, reason)
    return torch.where(least.isinf(), free, least)  # one class is left: nothing binds


def _searched(
    weights: Tensor, allowed: Tensor, bias: Tensor, upper: Tensor, reason: list[str | None],
    box: Callable[[int, list[int], float], tuple[Array, Array]], keeps: Callable[[int, Array], bool] | None,
    starts: int,
) -> Interval:  # fmt: skip
    attention = torch.full_like(weights, math.nan)
    if starts:
        for row, why in enumerate(reason):
            if why is not None:
                continue
            held = allowed[row].numpy()
            classes = [c for c, finite in enumerate(bias[row].isfinite().tolist()) if finite]
            own = weights[row].numpy()[held]
            best = np.zeros(weights.shape[1])
            best[held] = own
            if len(own) > 1:
                found = _climb(own, held, row, classes, box, keeps, starts)
                best[held] = found if found is not None else own
            attention[row] = torch.from_numpy(best)
    lower = jsd(attention, weights, validate_args=False)  # NaN stays NaN
    return Interval(torch.minimum(lower, upper), upper, attention, reason)


def _climb(
    own: Array, held: NDArray[np.bool_], row: int, classes: list[int],
    box: Callable[[int, list[int], float], tuple[Array, Array]], keeps: Callable[[int, Array], bool] | None,
    starts: int,
) -> Array | None:  # fmt: skip
    """The best end point of several sequences of linear programs, widened; None where no program has one."""
    generator = np.random.default_rng(0)  # the directions depend on the number of tokens alone
    matrix, limits = box(row, classes, 1.0) if len(classes) > 1 else (np.zeros((0, len(held))), np.zeros(0))
    matrix = matrix[:, held]
    best, value, slope = None, -1.0, None
    for start in range(starts):
        # away from where the attention is, towards its peak, then anywhere
        toward = (-own, own)[start] if start < 2 else generator.standard_normal(len(own))
        point = _program(toward, matrix, limits)
        reached = -1.0
        for _ in range(_STEPS):
            if point is None:
                break
            here = _jsd(point, own)
            if here <= reached + 1e-9:
                break
            reached, toward = here, _tangent(point, own)
            if here > value:
                best, value, slope = point, here, toward
            point = _program(toward, matrix, limits)
    if best is None or slope is None or keeps is None:
        return best
    narrow, wide = 1.0, math.inf  # a sure prediction lets margins move far beyond the limit
    for _ in range(_WIDENINGS):
        factor = 4 * narrow if math.isinf(wide) else math.sqrt(narrow * wide)
        matrix, limits = box(row, classes, factor) if len(classes) > 1 else (matrix, limits)
        point = _program(slope, matrix[:, held] if matrix.shape[1] == len(held) else matrix, limits)
        whole = np.zeros(len(held))
        if point is not None:
            whole[held] = point
        if point is not None and keeps(row, whole):
            narrow = factor
            if _jsd(point, own) > value:
                best, value = point, _jsd(point, own)
        else:
            wide = factor
    return best


def _program(toward: Array, matrix: Array, limits: Array) -> Array | None:
    """The distribution that maximises a linear form within the limits."""
    found = linprog(
        -toward, A_ub=matrix if len(matrix) else None, b_ub=limits if len(matrix) else None,
        A_eq=np.ones((1, len(toward))), b_eq=[1.0], bounds=(0, 1), method="highs",
    )  # fmt: skip
    if found.status != 0:
        return None
    point: Array = np.clip(found.x, 0.0, None)
    point /= point.sum()
    return point


def _tangent(point: Array, own: Array) -> Array:
    mixed = (1 - _FLOOR) * point + _FLOOR * own + 1e-12
    slope: Array = np.log(2 * mixed / (mixed + own + 1e-12))
    return slope


def _jsd(p: Array, q: Array) -> float:
    return float(jsd(torch.from_numpy(p), torch.from_numpy(q), validate_args=False))
