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
from attn_faithful.functional.readout import LARGEST, defined_rows
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
    weights: Tensor, allowed: Tensor, margins: Tensor, low: Tensor, high: Tensor, reasons: list[str | None]
) -> Tensor:
    """The largest JSD (B,) from checked weights (B, T) with ``low <= a @ margins <= high``; NaN where undefined."""
    return _farthest(weights, allowed, margins, (low, high), 1, reasons).jsd[:, 0]


def _checked(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor, list[str | None]]:
    """Weights that sum to 1 and margins in float64, 0 where nothing counts, and why an example is undefined."""
    check_shape("attention", attention, "B T", "pass attention[:, 0] of a site with one slot")
    for name, value in (("allowed", allowed), ("margins", margins)):
        if value.shape != attention.shape:
            raise InputError(f"Expected `{name}` of shape {tuple(attention.shape)}, but got {tuple(value.shape)}.")
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` to be bool, but got {allowed.dtype}.")
    weights = torch.where(allowed, attention.double(), 0.0)
    margins = torch.where(allowed, margins.double(), 0.0)
    finite = (weights.isfinite() & (margins.abs() <= LARGEST)).all(-1)
    some = allowed.any(-1)
    reasons = first_reasons({NO_TOKEN: ~some, NAN_SCORES: ~finite})

    defined = finite & some
    mass = weights.sum(-1, keepdim=True)
    wrong = defined & (((mass[:, 0] - 1).abs() > 1e-3) | (weights < 0).any(-1))
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"Expected rows of `attention` that are distributions, but row {row} sums to {float(mass[row]):.6g}; pass "
            "the weights over the allowed tokens."
        )
    weights = torch.where(defined[:, None], weights / mass.clamp(min=1e-300), 0.0)
    margins = torch.where(defined[:, None], margins, 0.0)
    return weights, margins, reasons


def _bounds_within(eps: float, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Between which margins (B,) the probability of class 1 lies within eps of that at the observed margins (B,)."""
    if eps == 0:
        return observed, observed
    up, down = observed.sigmoid(), (-observed).sigmoid()
    unbounded = torch.full_like(observed, math.inf)
    log_odds_low = (up - eps).clamp(min=0).log() - (down + eps).log()
    log_odds_high = (up + eps).log() - (down - eps).clamp(min=0).log()
    low = torch.where(up > eps, log_odds_low, -unbounded)
    high = torch.where(down > eps, log_odds_high, unbounded)
    return low, high


def _farthest(
    weights: Tensor,
    allowed: Tensor,
    margins: Tensor,
    bounds: tuple[Tensor, Tensor],
    k: int,
    reasons: list[str | None],
) -> Adversary:
    if k < 1:
        raise InputError(f"Expected `k` of at least 1, but got {k}.")
    defined = defined_rows(reasons, weights)
    free = allowed & defined[:, None]
    alternatives, distances = [], []
    for _ in range(k):
        alternative, distance = _best_vertex(weights, free, margins, bounds)
        alternatives.append(alternative)
        distances.append(distance)
        free = free & ~(alternative > 0)
    attention = torch.stack(alternatives, 1)  # (B, k, T)
    jsd = torch.stack(distances, 1)  # (B, k)
    return Adversary(
        attention=attention,
        jsd=jsd,
        margin=(attention * margins[:, None]).sum(-1),
        reachable=torch.where(defined, largest_jsd(weights, allowed), math.nan),
        found=(~jsd.isnan()).sum(1),
        reason=reasons,
    )


@dataclass(eq=False)
class _Vertices:
    """One mixture of two tokens an example; both places are one where it is a single token.

    Attributes:
        jsd: (B,), -inf where there is none.
        first, second: (B,), places of the tokens.
        share: (B,), of the first.
    """

    jsd: Tensor
    first: Tensor
    second: Tensor
    share: Tensor

    def replace_where_better(self, part: slice, other: _Vertices) -> None:
        """Take over, among the examples of ``part``, what lies farther."""
        better = other.jsd > self.jsd[part]
        for name in ("jsd", "first", "second", "share"):
            values = getattr(self, name)
            values[part] = torch.where(better, getattr(other, name), values[part])


def _best_vertex(
    weights: Tensor, free: Tensor, margins: Tensor, bounds: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The best vertex on the free tokens: attention (B, T) and JSD (B,); NaN where there is none."""
    size, length = weights.shape
    best = _best_token(weights, free, margins, bounds)
    step = max(1, _CELLS // max(1, length**2))
    for bound in bounds:
        for start in range(0, size, step):
            part = slice(start, start + step)
            pair = _best_pair(weights[part], free[part], margins[part], bound[part])
            best.replace_where_better(part, pair)
    none = best.jsd.isinf()
    attention = _as_attention(best, weights)
    attention[none] = math.nan
    return attention, torch.where(none, math.nan, best.jsd.clamp(min=0.0, max=LN2))


def _as_attention(vertices: _Vertices, weights: Tensor) -> Tensor:
    """The distributions (B, T) that mixtures stand for."""
    attention = torch.zeros_like(weights)
    if not weights.shape[1]:
        return attention
    first, second = vertices.first, vertices.second
    row = torch.arange(len(weights), device=weights.device)
    attention[row, second] = 1 - vertices.share
    attention[row, first] += vertices.share
    single = first == second
    attention[row[single], first[single]] = 1.0
    return attention


def _best_token(weights: Tensor, free: Tensor, margins: Tensor, bounds: tuple[Tensor, Tensor]) -> _Vertices:
    """The single free token within the bounds that lies farthest, the first of equals."""
    low, high = bounds
    slack = margins.new_zeros(len(weights), 1)
    if weights.shape[1]:
        slack = (_SLACK * margins.abs().amax(-1, keepdim=True)).clamp(min=_NOTHING)
    within = free & (margins >= low[:, None] - slack) & (margins <= high[:, None] + slack)
    distances = torch.where(within, _jsd_of_token(torch.ones_like(weights), weights), -math.inf)
    best, place = _first_largest(distances)
    return _Vertices(jsd=best, first=place, second=place.clone(), share=torch.ones_like(best))


def _best_pair(weights: Tensor, free: Tensor, margins: Tensor, bound: Tensor) -> _Vertices:
    """The best mixture of a token below the bound with one above; ``share`` is of the lower."""
    finite = bound.isfinite()[:, None]
    below = free & finite & (margins < bound[:, None])
    above = free & finite & (margins > bound[:, None])
    lower, is_lower = _places(below)  # (B, I)
    upper, is_upper = _places(above)  # (B, J)
    nowhere = weights.new_full((len(weights),), -math.inf)
    no_place = lower.new_zeros(len(weights))
    best = _Vertices(nowhere, no_place, no_place.clone(), torch.ones_like(nowhere))
    if not lower.shape[1] or not upper.shape[1]:
        return best

    every = slice(0, len(weights))
    step = max(1, _CELLS // (len(weights) * upper.shape[1]))
    upper_margins = margins.gather(1, upper)[:, None]
    upper_weights = weights.gather(1, upper)[:, None]
    target = torch.where(finite, bound[:, None], 0.0)[:, :, None]
    for start in range(0, lower.shape[1], step):
        chunk = lower[:, start : start + step]
        lower_margins = margins.gather(1, chunk)[:, :, None]
        lower_weights = weights.gather(1, chunk)[:, :, None]
        x = ((upper_margins - target) / (upper_margins - lower_margins)).clamp(0.0, 1.0)  # on the lower one
        distances = _jsd_of_pair(x, lower_weights, 1 - x, upper_weights)  # (B, i, J)
        exists = is_lower[:, start : start + step, None] & is_upper[:, None]
        distances = distances.masked_fill(~exists, -math.inf)
        distance, place = _first_largest(distances.flatten(1))
        row, column = place // upper.shape[1], place % upper.shape[1]
        of_chunk = _Vertices(
            jsd=distance,
            first=chunk.gather(1, row[:, None])[:, 0],
            second=upper.gather(1, column[:, None])[:, 0],
            share=x.flatten(1).gather(1, place[:, None])[:, 0],
        )
        best.replace_where_better(every, of_chunk)
    return best


def _places(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Places of the chosen tokens, in order, as wide as the most that a row has, and which of them count."""
    width = int(chosen.sum(1).max()) if chosen.numel() else 0
    order = torch.argsort(~chosen, dim=1, stable=True)[:, :width]
    return order, chosen.gather(1, order)


def _first_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value of each row and the first place that has it."""
    if not values.shape[1]:
        nothing = values.new_full((len(values),), -math.inf)
        return nothing, torch.zeros(len(values), dtype=torch.long)
    largest = values.amax(1)
    place = torch.arange(values.shape[1], device=values.device)
    first = torch.where(values == largest[:, None], place, values.shape[1] - 1).amin(1)
    return largest, first


def _jsd_of_token(x: Tensor, a: Tensor) -> Tensor:
    """JSD from the observed attention of a distribution with weight x on one token, where the observed is a."""
    return 0.5 * (LN2 * (1 - a) + _touched(x, a))


def _jsd_of_pair(x: Tensor, a: Tensor, other_x: Tensor, other_a: Tensor) -> Tensor:
    """As :func:`_jsd_of_token`, with weight on a second token too."""
    first = LN2 * (1 - a) + _touched(x, a)
    return 0.5 * (first - LN2 * other_a + _touched(other_x, other_a))


def _touched(x: Tensor, a: Tensor) -> Tensor:
    """``x ln(2x / (x + a)) + a ln(2a / (x + a))``."""
    both = x + a
    return _x_log(x) + _x_log(a) - _x_log(both) + both * LN2


def _x_log(x: Tensor) -> Tensor:
    """``x ln x``, 0 at 0; several times faster than xlogy, which is not vectorised."""
    return x * x.clamp(min=1e-300).log()
