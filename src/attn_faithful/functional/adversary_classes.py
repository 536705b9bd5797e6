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
from attn_faithful.functional.adversary_region import DecisionRegion, Region, TvdRegion
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.flip_distance import as_distributions, checked_readout, decided


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
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, eps: float, nodes: int = NODES
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
    weights, logits, bias, reason = _checked(attention, allowed, token_logits, bias)
    now = ((weights[:, :, None] * logits).sum(1) + bias).softmax(-1)

    def bounds(c: int, d: int) -> tuple[Tensor, Tensor]:
        return _log_ratio(now[:, c] - eps, now[:, d] + eps), _log_ratio(now[:, c] + eps, now[:, d] - eps)

    pairs = _pairs(weights, allowed, logits, bias, bounds, reason)

    def region(row: int, tokens: NDArray[np.bool_], classes: NDArray[np.bool_]) -> Region:
        own, values = weights[row].numpy()[tokens], logits[row].numpy()[np.ix_(tokens, classes)]
        return TvdRegion.of(own, values, bias[row].numpy()[classes], eps)

    return _between(weights, allowed, bias, pairs, reason, nodes, region)


def decision_keeping_interval(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, nodes: int = NODES
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

    def region(row: int, tokens: NDArray[np.bool_], classes: NDArray[np.bool_]) -> Region:
        values, place = logits[row].numpy()[np.ix_(tokens, classes)], int(classes[: decision[row]].sum())
        return DecisionRegion.of(values, bias[row].numpy()[classes], place)

    return _between(weights, allowed, bias, upper, reason, nodes, region)


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


def _pairs(
    weights: Tensor,
    allowed: Tensor,
    logits: Tensor,
    bias: Tensor,
    bounds: Callable[[int, int], tuple[Tensor, Tensor]],
    reason: list[str | None],
) -> Tensor:
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


def _between(
    weights: Tensor,
    allowed: Tensor,
    bias: Tensor,
    pairs: Tensor,
    reason: list[str | None],
    nodes: int,
    region: Callable[[int, NDArray[np.bool_], NDArray[np.bool_]], Region],
) -> Interval:
    """Search each example's ``region(row, tokens, classes)``; ``pairs`` (B,) are the upper bounds without a search."""
    attention = torch.full_like(weights, math.nan)
    upper = pairs.clone()
    for row, why in enumerate(reason if nodes else []):
        if why is not None:
            continue
        tokens, classes = allowed[row].numpy(), bias[row].isfinite().numpy()
        own = weights[row].numpy()[tokens]
        found = Farthest(own, 0.0, 0.0)
        if len(own) > 1:
            found = farthest(own, region(row, tokens, classes), nodes)
        attention[row] = 0.0
        attention[row, allowed[row]] = torch.from_numpy(found.point)
        upper[row] = min(found.upper, float(upper[row]))
    lower = jsd(attention, weights, validate_args=False)  # NaN stays NaN
    lower = torch.minimum(lower, upper)  # they may be alike but for rounding
    return Interval(lower, upper, attention, reason)
