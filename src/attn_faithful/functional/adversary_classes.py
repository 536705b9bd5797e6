"""How far attention can move with a prediction over more than two classes kept: an interval, never called exact.

Every pair of classes alone is a two-class problem whose exact answer no attention can exceed: the least of them is an
upper bound. Branch and bound over all classes together gives a lower one (`adversary_bounds`), and the lower bound: an
attention that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.adversary import vertex_between
from attn_faithful.functional.adversary_bounds import NODES, Farthest, farthest
from attn_faithful.functional.adversary_region import Array, DecisionRegion, Region, TvdRegion
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.readout import as_distributions, checked_readout, decided, defined_rows
from attn_faithful.functional.reasons import Reasons


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
    reason: Reasons


def adversary_interval(
    attention: Tensor,
    allowed: Tensor,
    token_logits: Tensor,
    bias: Tensor,
    eps: float,
    nodes: int = NODES,
) -> Interval:
    r"""Bounds on the largest JSD from the attention with a TVD of at most eps between the predictions.

    Upper: the least over pairs of classes of the exact two-class answer with ``ln((q_c - eps)/(q_d + eps)) <= z_c -
    z_d <= ln((q_c + eps)/(q_d - eps))``, or what branch and bound leaves over the linear forms of all sets of classes
    that no attention within eps exceeds (:class:`~.adversary_region.TvdRegion`), whichever is lower. Neither can be
    below the maximum: both relax its constraints, the second also replaces JSD by chords above it, and its bound is
    that of weak duality, which holds for any multipliers. Lower: the best of what was found from each box of the
    branching, by steps along the tangent that end where the TVD reaches eps.

    Args:
        attention: (B, T), distributions over ``allowed``.
        allowed: (B, T), bool.
        token_logits: (B, T, C), without the bias.
        bias: (B, C); classes with -inf are left out.
        eps: 0 to below 1.
        nodes: boxes that are split at most; 0 for the upper bound over pairs alone.

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
    checked = _checked(attention, allowed, token_logits, bias)
    upper = _least_over_pairs(checked, eps)

    def region(row: int, tokens: NDArray[np.bool_], classes: NDArray[np.bool_]) -> Region:
        observed = checked.weights[row].numpy()[tokens]
        logits, bias = checked.readout_of(row, tokens, classes)
        return TvdRegion.of(observed, logits, bias, eps)

    return _searched(checked, upper, nodes, region)


def decision_keeping_interval(
    attention: Tensor,
    allowed: Tensor,
    token_logits: Tensor,
    bias: Tensor,
    nodes: int = NODES,
) -> Interval:
    r"""Bounds on the largest JSD from the attention that leaves the decision; suprema, a tie at the end point.

    Upper: the least over the other classes c of the exact two-class answer with ``z_y - z_c >= 0``, or what branch and
    bound leaves over the polytope of all of these, which is the feasible set itself. Lower: the best found within.

    Args:
        attention, allowed, token_logits, bias, nodes: as for :func:`adversary_interval`.

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
    checked = _checked(attention, allowed, token_logits, bias)
    decision = decided(checked.weights, checked.logits, checked.bias)
    upper = _least_over_others(checked, decision)

    def region(row: int, tokens: NDArray[np.bool_], classes: NDArray[np.bool_]) -> Region:
        logits, bias = checked.readout_of(row, tokens, classes)
        place = int(classes[: decision[row]].sum())
        return DecisionRegion.of(logits, bias, place)

    return _searched(checked, upper, nodes, region)


# of an example, its allowed tokens (T,) and the classes (C,) that count
RegionOf = Callable[[int, NDArray[np.bool_], NDArray[np.bool_]], Region]


@dataclass(frozen=True)
class _Checked:
    """A read-out in float64, with 0 where nothing counts.

    Attributes:
        weights: (B, T), distributions.
        allowed: (B, T), bool.
        logits: (B, T, C), without the bias.
        bias: (B, C).
        reasons: why an example is undefined, or None.
    """

    weights: Tensor
    allowed: Tensor
    logits: Tensor
    bias: Tensor
    reasons: Reasons

    def farthest_between(self, margins: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The largest JSD (B,) with the mean margin between two bounds (B,)."""
        return vertex_between(self.weights, self.allowed, margins, low, high, self.reasons)

    def readout_of(self, row: int, tokens: NDArray[np.bool_], classes: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Logits (T, C) and bias (C,) of one example, of some tokens and classes alone."""
        logits = self.logits[row].numpy()
        bias = self.bias[row].numpy()
        return logits[np.ix_(tokens, classes)], bias[classes]


def _checked(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> _Checked:
    weights, logits, bias, reasons = checked_readout(attention, allowed, token_logits, bias)
    weights = as_distributions(weights, defined_rows(reasons, weights))
    return _Checked(weights, allowed, logits, bias, reasons)


def _least_over_pairs(checked: _Checked, eps: float) -> Tensor:
    """The least (B,) of the two-class answers over all pairs of classes, each with a TVD of at most eps."""
    logits, bias = checked.logits, checked.bias
    context_logits = (checked.weights[:, :, None] * logits).sum(1)
    observed = (context_logits + bias).softmax(-1)  # (B, C)
    least = torch.full((len(bias),), math.inf, dtype=torch.float64)
    for c, d in combinations(range(logits.shape[-1]), 2):  # (d, c) bounds the same form
        both = bias[:, c].isfinite() & bias[:, d].isfinite()
        shift = torch.where(both, bias[:, c] - bias[:, d], 0.0)
        margins = logits[..., c] - logits[..., d]  # (B, T)
        margins = margins + shift[:, None]
        low = _log_ratio(observed[:, c] - eps, observed[:, d] + eps)
        high = _log_ratio(observed[:, c] + eps, observed[:, d] - eps)
        jsd_of_pair = checked.farthest_between(margins, low, high)  # (B,)
        lower = ~(jsd_of_pair > least)  # True for NaN
        least = torch.where(both & lower, jsd_of_pair, least)
    # where one class is left nothing binds
    infinite = torch.full_like(least, math.inf)
    no_margins = torch.zeros_like(checked.weights)
    unbounded = checked.farthest_between(no_margins, -infinite, infinite)
    return torch.where(least.isinf(), unbounded, least)


def _log_ratio(above: Tensor, below: Tensor) -> Tensor:
    """``ln(above / below)``; -inf where nothing bounds from below, inf where nothing bounds from above."""
    log_above = above.clamp(min=1e-300).log()
    log_below = below.clamp(min=1e-300).log()
    value = torch.where(above > 0, log_above - log_below, -math.inf)
    return torch.where(below > 0, value, math.inf)


def _least_over_others(checked: _Checked, decision: Tensor) -> Tensor:
    """The least (B,) of the two-class answers of the decision with each other class."""
    logits, bias = checked.logits, checked.bias
    row = torch.arange(len(bias))
    decision_logits = logits[row, :, decision]  # (B, T)
    decision_bias = bias[row, decision]
    infinite = torch.full_like(decision_bias, math.inf)
    zero = torch.zeros_like(infinite)
    least = infinite.clone()
    for c in range(logits.shape[-1]):
        other = (decision != c) & bias[:, c].isfinite()
        other_bias = torch.where(other, bias[:, c], 0.0)
        shift = decision_bias - other_bias
        margins = decision_logits - logits[..., c]  # (B, T)
        margins = margins + shift[:, None]
        jsd_of_pair = checked.farthest_between(margins, zero, infinite)  # (B,)
        lower = ~(jsd_of_pair > least)  # True for NaN
        least = torch.where(other & lower, jsd_of_pair, least)
    unbounded = checked.farthest_between(decision_logits, -infinite, infinite)
    return torch.where(least.isinf(), unbounded, least)


def _searched(checked: _Checked, pairs: Tensor, nodes: int, region: RegionOf) -> Interval:
    """Search the region of each example; ``pairs`` (B,) are the upper bounds without a search."""
    weights = checked.weights
    attention = torch.full_like(weights, math.nan)
    upper = pairs.clone()
    for row, reason in enumerate(checked.reasons):
        if nodes == 0 or reason is not None:
            continue
        tokens = checked.allowed[row].numpy()  # (T,), bool
        classes = checked.bias[row].isfinite().numpy()  # (C,), bool
        observed = weights[row].numpy()[tokens]
        best = Farthest(observed, 0.0, 0.0)
        if len(observed) > 1:
            best = farthest(observed, region(row, tokens, classes), nodes)
        attention[row] = 0.0
        attention[row, checked.allowed[row]] = torch.from_numpy(best.point)
        upper[row] = min(best.upper, float(upper[row]))
    lower = jsd(attention, weights, validate_args=False)  # NaN stays NaN
    lower = torch.minimum(lower, upper)  # they may be alike but for rounding
    return Interval(lower, upper, attention, checked.reasons)
