"""The attention farthest from the model's that keeps a two-class prediction, exactly.

For a read-out that is affine in the attention, keeping the probability within eps bounds one linear form of it. JSD is
convex, so its maximum over the simplex between two such bounds lies on a vertex: one token whose margin lies between
them, or two tokens mixed so that their margin lies on a bound. All of these are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.adversary_vertices import best_vertex
from attn_faithful.functional.divergences import largest_jsd
from attn_faithful.functional.readout import LARGEST, defined_rows
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, Reasons, first_reasons


@dataclass(frozen=True)
class Adversary:
    """The farthest attention that keeps a prediction, and further ones that share no token with it.

    Attributes:
        attention: (B, k, T); NaN where there is no further one.
        jsd: (B, k), nats, from the observed attention; NaN where there is none.
        margin: (B, k), of class 1 over class 0 under it.
        reachable: (B,), the largest JSD that any attention on these tokens has.
        found: (B,), how many of the k there are.
        reason: why an example is undefined: "no content token", "nan in scores"; None where it is defined.
    """

    attention: Tensor
    jsd: Tensor
    margin: Tensor
    reachable: Tensor
    found: Tensor
    reason: Reasons


def exact_adversary(
    attention: Tensor,
    allowed: Tensor,
    margins: Tensor,
    eps: float,
    k: int = 1,
) -> Adversary:
    r"""The attention with the largest JSD that moves the probability of a class by at most eps; the global maximum.

    ``max_a JSD(a, attention)`` over distributions ``a`` on the allowed tokens with ``|sigmoid(a @ margins) -
    sigmoid(attention @ margins)| <= eps``, in closed form over ``n + n^2 / 2`` vertices at most.

    Args:
        attention: (B, T), distributions over ``allowed``.
        allowed: (B, T), bool.
        margins: (B, T), logit of class 1 less that of class 0 that each token alone gives, the bias included.
        eps: largest change of the probability, 0 to below 1; it is the TVD of the two-class prediction.
        k: alternatives; each shares no token of its support with an earlier one.

    Returns:
        :class:`Adversary`; jsd 0 to ln 2, lower speaks for the attention. One token: itself, at 0.

    Raises:
        InputError: other shapes, eps or k out of range, rows that are not distributions.

    Reference:
        Jain and Wallace (2019), section 4.2.2, whose search it replaces where the read-out is affine.

    Example:
        >>> best = exact_adversary(torch.tensor([[0.6, 0.3, 0.1]]), torch.ones(1, 3, dtype=torch.bool),
        ...                        torch.tensor([[1.0, 1.0, 1.0]]), eps=0.01)
        >>> best.attention[0, 0].tolist(), round(float(best.jsd), 6)
        ([0.0, 0.0, 1.0], 0.525597)
    """
    if not 0 <= eps < 1:
        raise InputError(f"Expected `eps` of at least 0 and below 1, but got {eps}.")
    weights, margins, reasons = _checked(attention, allowed, margins)
    bounds = _bounds_within(eps, (weights * margins).sum(-1))
    return _farthest(weights, allowed, margins, bounds, k, reasons)


def decision_keeping_adversary(attention: Tensor, allowed: Tensor, margins: Tensor, k: int = 1) -> Adversary:
    r"""The attention with the largest JSD under which the decision between two classes stays; a supremum.

    As :func:`exact_adversary`, with the margin anywhere on its own side of 0, a tie included.

    Args:
        attention, allowed, margins, k: as there.

    Returns:
        :class:`Adversary`; at the bound the two classes tie, and any nearer attention keeps the decision.

    Raises:
        InputError: other shapes, k out of range, rows that are not distributions.

    Reference:
        Jain and Wallace (2019), section 4.2.2, with the decision in place of eps.

    Example:
        >>> best = decision_keeping_adversary(torch.tensor([[0.5, 0.5]]), torch.ones(1, 2, dtype=torch.bool),
        ...                                   torch.tensor([[3.0, -1.0]]))
        >>> best.attention[0, 0].tolist()
        [1.0, 0.0]
    """
    weights, margins, reasons = _checked(attention, allowed, margins)
    observed = (weights * margins).sum(-1)
    unbounded = torch.full_like(observed, math.inf)
    low = torch.where(observed > 0, 0.0, -unbounded)
    high = torch.where(observed > 0, unbounded, 0.0)
    return _farthest(weights, allowed, margins, (low, high), k, reasons)


def vertex_between(
    weights: Tensor,
    allowed: Tensor,
    margins: Tensor,
    low: Tensor,
    high: Tensor,
    reasons: Reasons,
) -> Tensor:
    """The largest JSD (B,) from checked weights (B, T) with ``low <= a @ margins <= high``; NaN where undefined."""
    adversary = _farthest(weights, allowed, margins, (low, high), 1, reasons)
    return adversary.jsd[:, 0]


def _checked(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor, Reasons]:
    """Weights that sum to 1 and margins in float64, 0 where nothing counts, and why an example is undefined."""
    check_shape("attention", attention, "B T", "pass attention[:, 0] of a site with one slot")
    for name, value in (("allowed", allowed), ("margins", margins)):
        if value.shape != attention.shape:
            raise InputError(f"Expected `{name}` of shape {tuple(attention.shape)}, but got {tuple(value.shape)}.")
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` to be bool, but got {allowed.dtype}.")
    weights = torch.where(allowed, attention.double(), 0.0)
    margins = torch.where(allowed, margins.double(), 0.0)
    small = margins.abs() <= LARGEST  # False for NaN
    finite = (weights.isfinite() & small).all(-1)
    some = allowed.any(-1)
    reasons = first_reasons({NO_TOKEN: ~some, NAN_SCORES: ~finite})

    defined = finite & some
    mass = weights.sum(-1, keepdim=True)
    off = (mass[:, 0] - 1).abs() > 1e-3
    negative = (weights < 0).any(-1)
    wrong = defined & (off | negative)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"Expected rows of `attention` that are distributions, but row {row} sums to {float(mass[row]):.6g}; pass "
            "the weights over the allowed tokens."
        )
    normalized = weights / mass.clamp(min=1e-300)
    weights = torch.where(defined[:, None], normalized, 0.0)
    margins = torch.where(defined[:, None], margins, 0.0)
    return weights, margins, reasons


def _bounds_within(eps: float, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Between which margins (B,) the probability of class 1 lies within eps of that at the observed margins (B,)."""
    if eps == 0:
        return observed, observed
    up = observed.sigmoid()
    down = (-observed).sigmoid()
    unbounded = torch.full_like(observed, math.inf)
    least_up = (up - eps).clamp(min=0)
    least_down = (down - eps).clamp(min=0)
    log_odds_low = least_up.log() - (down + eps).log()
    log_odds_high = (up + eps).log() - least_down.log()
    low = torch.where(up > eps, log_odds_low, -unbounded)
    high = torch.where(down > eps, log_odds_high, unbounded)
    return low, high


def _farthest(
    weights: Tensor,
    allowed: Tensor,
    margins: Tensor,
    bounds: tuple[Tensor, Tensor],
    k: int,
    reasons: Reasons,
) -> Adversary:
    if k < 1:
        raise InputError(f"Expected `k` of at least 1, but got {k}.")
    defined = defined_rows(reasons, weights)
    free = allowed & defined[:, None]
    alternatives, distances = [], []
    for _ in range(k):
        alternative, distance = best_vertex(weights, free, margins, bounds)
        alternatives.append(alternative)
        distances.append(distance)
        free = free & ~(alternative > 0)
    attention = torch.stack(alternatives, 1)  # (B, k, T)
    jsd = torch.stack(distances, 1)  # (B, k)
    reachable = largest_jsd(weights, allowed)
    return Adversary(
        attention=attention,
        jsd=jsd,
        margin=(attention * margins[:, None]).sum(-1),
        reachable=torch.where(defined, reachable, math.nan),
        found=(~jsd.isnan()).sum(1),
        reason=reasons,
    )
