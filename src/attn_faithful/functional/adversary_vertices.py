"""The vertex of the simplex that lies farthest from an attention between two bounds of a linear form.

A vertex is one token whose margin lies between the bounds, or two tokens mixed so that their margin lies on a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.divergences import LN2

_CELLS = 2**19  # pairs in memory at once: 4 MB a temporary
_SLACK = 1e-12  # of the largest margin: what counts as on a bound
_NOTHING = 1e-300  # differences of margins as small as this are rounding, whatever the largest is


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


def best_vertex(weights: Tensor, free: Tensor, margins: Tensor, bounds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The farthest vertex of the simplex between two bounds of a linear form.

    Args:
        weights: (B, T), the observed attention.
        free: (B, T), bool, tokens that may get weight.
        margins: (B, T), the form's coefficients.
        bounds: (B,) each, the least and the largest ``a @ margins``.

    Returns:
        attention (B, T) and its JSD from the observed one (B,), nats; NaN where no vertex lies between the bounds.

    Example:
        >>> weights, bounds = torch.tensor([[0.5, 0.5]]).double(), (torch.tensor([0.0]), torch.tensor([math.inf]))
        >>> attention, _ = best_vertex(weights, weights > 0, torch.tensor([[3.0, -1.0]]).double(), bounds)
        >>> attention.tolist()
        [[1.0, 0.0]]
    """
    size, length = weights.shape
    best = _best_token(weights, free, margins, bounds)
    pairs_of_text = max(1, length**2)
    step = max(1, _CELLS // pairs_of_text)
    for bound in bounds:
        for start in range(0, size, step):
            part = slice(start, start + step)
            pair = _best_pair(weights[part], free[part], margins[part], bound[part])
            best.replace_where_better(part, pair)
    none = best.jsd.isinf()
    attention = _as_attention(best, weights)
    attention[none] = math.nan
    jsd = best.jsd.clamp(min=0.0, max=LN2)
    return attention, torch.where(none, math.nan, jsd)


def _as_attention(vertices: _Vertices, weights: Tensor) -> Tensor:
    """The distributions (B, T) that mixtures stand for."""
    attention = torch.zeros_like(weights)
    if not weights.shape[1]:
        return attention
    first, second = vertices.first, vertices.second
    row = torch.arange(len(weights), device=weights.device)
    attention[row, second] = 1 - vertices.share
    attention[row, first] += vertices.share
    # the two parts of one token may miss 1 by rounding
    single = first == second
    attention[row[single], first[single]] = 1.0
    return attention


def _best_token(weights: Tensor, free: Tensor, margins: Tensor, bounds: tuple[Tensor, Tensor]) -> _Vertices:
    """The single free token within the bounds that lies farthest, the first of equals."""
    low, high = bounds
    slack = margins.new_zeros(len(weights), 1)
    if weights.shape[1]:
        largest_margin = margins.abs().amax(-1, keepdim=True)
        slack = (_SLACK * largest_margin).clamp(min=_NOTHING)
    above_low = margins >= low[:, None] - slack
    below_high = margins <= high[:, None] + slack
    within = free & above_low & below_high  # (B, T)
    distances = _jsd_of_token(torch.ones_like(weights), weights)
    distances = torch.where(within, distances, -math.inf)
    best, place = _first_largest(distances)
    return _Vertices(jsd=best, first=place, second=place.clone(), share=torch.ones_like(best))


def _best_pair(weights: Tensor, free: Tensor, margins: Tensor, bound: Tensor) -> _Vertices:
    """The best mixture of a token below the bound with one above; ``share`` is of the lower."""
    finite = bound.isfinite()[:, None]
    below = free & finite & (margins < bound[:, None])
    above = free & finite & (margins > bound[:, None])
    lower, is_lower = _places(below)  # (B, I)
    upper, is_upper = _places(above)  # (B, J)
    n_upper = upper.shape[1]
    nowhere = weights.new_full((len(weights),), -math.inf)
    no_place = lower.new_zeros(len(weights))
    best = _Vertices(nowhere, no_place, no_place.clone(), torch.ones_like(nowhere))
    if not lower.shape[1] or not n_upper:
        return best

    every = slice(0, len(weights))
    step = max(1, _CELLS // (len(weights) * n_upper))
    upper_margins = margins.gather(1, upper)[:, None]  # (B, 1, J)
    upper_weights = weights.gather(1, upper)[:, None]
    target = torch.where(finite, bound[:, None], 0.0)
    upper_leads = upper_margins - target[:, :, None]
    for start in range(0, lower.shape[1], step):
        part = slice(start, start + step)
        chunk = lower[:, part]
        lower_margins = margins.gather(1, chunk)[:, :, None]  # (B, i, 1)
        lower_weights = weights.gather(1, chunk)[:, :, None]
        # the weight on the lower token, with which the mean margin is on the bound
        x = upper_leads / (upper_margins - lower_margins)  # (B, i, J)
        x = x.clamp(0.0, 1.0)
        distances = _jsd_of_pair(x, lower_weights, 1 - x, upper_weights)
        exists = is_lower[:, part, None] & is_upper[:, None]
        distances = distances.masked_fill(~exists, -math.inf)
        distance, place = _first_largest(distances.flatten(1))
        of_chunk = _Vertices(
            jsd=distance,
            first=_at(chunk, place // n_upper),
            second=_at(upper, place % n_upper),
            share=_at(x.flatten(1), place),
        )
        best.replace_where_better(every, of_chunk)
    return best


def _places(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Places of the chosen tokens, in order, as wide as the most that a row has, and which of them count."""
    width = int(chosen.sum(1).max()) if chosen.numel() else 0
    chosen_first = torch.argsort(~chosen, dim=1, stable=True)
    places = chosen_first[:, :width]
    return places, chosen.gather(1, places)


def _at(values: Tensor, place: Tensor) -> Tensor:
    """The value of each row (B, N) at its place (B,)."""
    return values.gather(1, place[:, None])[:, 0]


def _first_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value of each row and the first place that has it."""
    if not values.shape[1]:
        nothing = values.new_full((len(values),), -math.inf)
        return nothing, torch.zeros(len(values), dtype=torch.long)
    largest = values.amax(1)
    is_largest = values == largest[:, None]
    place = torch.arange(values.shape[1], device=values.device)
    place = torch.where(is_largest, place, values.shape[1] - 1)
    return largest, place.amin(1)


def _jsd_of_token(x: Tensor, a: Tensor) -> Tensor:
    """JSD from the observed attention of a distribution with weight x on one token, where the observed is a."""
    twice_jsd = LN2 * (1 - a) + _touched(x, a)
    return 0.5 * twice_jsd


def _jsd_of_pair(x: Tensor, a: Tensor, other_x: Tensor, other_a: Tensor) -> Tensor:
    """As :func:`_jsd_of_token`, with weight on a second token too."""
    twice_jsd = LN2 * (1 - a) + _touched(x, a)
    twice_jsd = twice_jsd - LN2 * other_a + _touched(other_x, other_a)
    return 0.5 * twice_jsd


def _touched(x: Tensor, a: Tensor) -> Tensor:
    """``x ln(2x / (x + a)) + a ln(2a / (x + a))``."""
    both = x + a
    apart = _x_log(x) + _x_log(a)
    return apart - _x_log(both) + both * LN2


def _x_log(x: Tensor) -> Tensor:
    """``x ln x``, 0 at 0; several times faster than xlogy, which is not vectorised."""
    return x * x.clamp(min=1e-300).log()
