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
from attn_faithful.functional.divergences import LN2, largest_jsd
from attn_faithful.functional.flip_distance import LARGEST
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, first_reasons

_CELLS = 2**19  # pairs held at once: 4 MB a temporary
_SLACK = 1e-12  # of the largest margin: what counts as on a bound
_NOTHING = 1e-300  # differences of margins as small as this are rounding, whatever the largest is


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
    reason: list[str | None]


def exact_adversary(attention: Tensor, allowed: Tensor, margins: Tensor, eps: float, k: int = 1) -> Adversary:
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
    weights, values, reason = _checked(attention, allowed, margins)
    now = (weights * values).sum(-1)
    if eps == 0:
        return _farthest(weights, allowed, values, now, now, k, reason)
    up, down = now.sigmoid(), (-now).sigmoid()
    nothing = torch.full_like(now, math.inf)
    low = torch.where(up > eps, (up - eps).clamp(min=0).log() - (down + eps).log(), -nothing)
    high = torch.where(down > eps, (up + eps).log() - (down - eps).clamp(min=0).log(), nothing)
    return _farthest(weights, allowed, values, low, high, k, reason)


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
    weights, values, reason = _checked(attention, allowed, margins)
    now = (weights * values).sum(-1)
    nothing = torch.full_like(now, math.inf)
    low, high = torch.where(now > 0, 0.0, -nothing), torch.where(now > 0, nothing, 0.0)
    return _farthest(weights, allowed, values, low, high, k, reason)


def vertex_between(
    weights: Tensor, allowed: Tensor, margins: Tensor, low: Tensor, high: Tensor, reason: list[str | None]
) -> Tensor:
    """The largest JSD (B,) from checked weights (B, T) with ``low <= a @ margins <= high``; NaN where undefined."""
    return _farthest(weights, allowed, margins, low, high, 1, reason).jsd[:, 0]


def _checked(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor, list[str | None]]:
    """Weights that sum to 1 and margins in float64, 0 where nothing counts, and why an example is undefined."""
    check_shape("attention", attention, "B T", "pass attention[:, 0] of a site with one slot")
    for name, value in (("allowed", allowed), ("margins", margins)):
        if value.shape != attention.shape:
            raise InputError(f"Expected `{name}` of shape {tuple(attention.shape)}, but got {tuple(value.shape)}.")
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` to be bool, but got {allowed.dtype}.")
    weights = torch.where(allowed, attention.double(), 0.0)
    values = torch.where(allowed, margins.double(), 0.0)
    finite = (weights.isfinite() & (values.abs() <= LARGEST)).all(-1)
    some = allowed.any(-1)
    reason = first_reasons({NO_TOKEN: ~some, NAN_SCORES: ~finite})
    defined = finite & some
    mass = weights.sum(-1, keepdim=True)
    off = defined & (((mass[:, 0] - 1).abs() > 1e-3) | (weights < 0).any(-1))
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise InputError(
            f"Expected rows of `attention` that are distributions, but row {row} sums to {float(mass[row]):.6g}; pass "
            "the weights over the allowed tokens."
        )
    weights = torch.where(defined[:, None], weights / mass.clamp(min=1e-300), 0.0)
    return weights, torch.where(defined[:, None], values, 0.0), reason


def _farthest(
    weights: Tensor, allowed: Tensor, margins: Tensor, low: Tensor, high: Tensor, k: int, reason: list[str | None]
) -> Adversary:
    if k < 1:
        raise InputError(f"Expected `k` of at least 1, but got {k}.")
    defined = torch.tensor([why is None for why in reason], dtype=torch.bool, device=weights.device)
    free = allowed & defined[:, None]
    alternatives, distances = [], []
    for _ in range(k):
        found, distance = _best_vertex(weights, free, margins, low, high)
        alternatives.append(found)
        distances.append(distance)
        free = free & ~(found > 0)
    attention, jsd = torch.stack(alternatives, 1), torch.stack(distances, 1)
    reach = torch.where(defined, largest_jsd(weights, allowed), math.nan)
    margin = (attention * margins[:, None]).sum(-1)
    return Adversary(attention, jsd, margin, reach, (~jsd.isnan()).sum(1), reason)


def _best_vertex(weights: Tensor, free: Tensor, margins: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The best vertex on the free tokens: attention (B, T) and JSD (B,); NaN where there is none."""
    size, length = weights.shape
    slack = margins.new_zeros(size, 1)
    if length:
        slack = (_SLACK * margins.abs().amax(-1, keepdim=True)).clamp(min=_NOTHING)
    inside = free & (margins >= low[:, None] - slack) & (margins <= high[:, None] + slack)
    alone = torch.where(inside, _jsd(torch.ones_like(weights), weights, None), -math.inf)
    best, first = _first_largest(alone)
    second, share = first.clone(), torch.ones_like(best)
    rows = max(1, _CELLS // max(1, length**2))
    for bound in (low, high):
        for start in range(0, size, rows):
            part = slice(start, start + rows)
            found = _best_pair(weights[part], free[part], margins[part], bound[part])
            better = found[0] > best[part]
            for held, new in zip((best, first, second, share), found, strict=True):
                held[part] = torch.where(better, new, held[part])
    none = best.isinf()
    row = torch.arange(size, device=weights.device)
    attention = torch.zeros_like(weights)
    if length:
        attention[row, second] = 1 - share
        attention[row, first] += share
        attention[row[first == second], first[first == second]] = 1.0
    attention[none] = math.nan
    return attention, torch.where(none, math.nan, best.clamp(min=0.0, max=LN2))


def _best_pair(weights: Tensor, free: Tensor, margins: Tensor, bound: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best mixture of a token below the bound with one above: JSD, their places, the share of the lower."""
    finite = bound.isfinite()[:, None]
    below, above = (free & finite & (margins < bound[:, None])), (free & finite & (margins > bound[:, None]))
    i, held_i = _places(below)
    j, held_j = _places(above)
    best = weights.new_full((len(weights),), -math.inf)
    first, second, share = i.new_zeros(len(weights)), i.new_zeros(len(weights)), torch.ones_like(best)
    if not i.shape[1] or not j.shape[1]:
        return best, first, second, share
    step = max(1, _CELLS // (len(weights) * j.shape[1]))
    high, a_j = margins.gather(1, j)[:, None], weights.gather(1, j)[:, None]
    target = torch.where(finite, bound[:, None], 0.0)[:, :, None]
    for start in range(0, i.shape[1], step):
        at = i[:, start : start + step]
        low = margins.gather(1, at)[:, :, None]
        x = ((high - target) / (high - low)).clamp(0.0, 1.0)  # on the lower one
        found = _jsd(x, weights.gather(1, at)[:, :, None], (1 - x, a_j))
        found = found.masked_fill(~(held_i[:, start : start + step, None] & held_j[:, None]), -math.inf)
        value, place = _first_largest(found.flatten(1))
        better = value > best
        best = torch.where(better, value, best)
        row, column = place // j.shape[1], place % j.shape[1]
        first = torch.where(better, at.gather(1, row[:, None])[:, 0], first)
        second = torch.where(better, j.gather(1, column[:, None])[:, 0], second)
        share = torch.where(better, x.flatten(1).gather(1, place[:, None])[:, 0], share)
    return best, first, second, share


def _places(held: Tensor) -> tuple[Tensor, Tensor]:
    """Places of the held tokens, in order, as wide as the most that a row has, and which of them count."""
    width = int(held.sum(1).max()) if held.numel() else 0
    order = torch.argsort(~held, dim=1, stable=True)[:, :width]
    return order, held.gather(1, order)


def _first_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value of each row and the first place that has it."""
    if not values.shape[1]:
        return values.new_full((len(values),), -math.inf), torch.zeros(len(values), dtype=torch.long)
    largest = values.amax(1)
    place = torch.arange(values.shape[1], device=values.device)
    return largest, torch.where(values == largest[:, None], place, values.shape[1] - 1).amin(1)


def _jsd(x: Tensor, a: Tensor, other: tuple[Tensor, Tensor] | None) -> Tensor:
    """JSD of a distribution with weight x on one token (and ``other``: weight and attention on a second) from a."""
    value = LN2 * (1 - a) + _touched(x, a)
    if other is not None:
        value = value - LN2 * other[1] + _touched(*other)
    return 0.5 * value


def _touched(x: Tensor, a: Tensor) -> Tensor:
    """``x ln(2x / (x + a)) + a ln(2a / (x + a))``."""
    both = x + a
    return _x_log(x) + _x_log(a) - _x_log(both) + both * LN2


def _x_log(x: Tensor) -> Tensor:
    """``x ln x``, 0 at 0; several times faster than xlogy, which is not vectorised."""
    return x * x.clamp(min=1e-300).log()
