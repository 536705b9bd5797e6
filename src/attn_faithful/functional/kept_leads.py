"""The least and the greatest lead of a decision among all sets of one size that can be kept of an affine attention.

With the lead ``m_t`` that an item alone gives, the lead of a kept set is ``sum a_t m_t / sum a_t``: a ratio. The
greatest ratio r of any set of j items is the one where the j largest ``a_t (m_t - r)`` add up to 0, and Dinkelbach's
iteration finds it by a few sorts: take the set of the j largest for one r, and its ratio for the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.log_weights import running_sums, signed_keys
from attn_faithful.functional.readout import max_or_infinity, min_or_infinity

_CELLS = 2**22  # numbers of the sets that are sorted together
_SHARED = 16  # ratios of a text that are tried for all sizes
_ROUNDING = 1e-12  # of a mean of some thousand margins, and of a lead that says nothing


@dataclass(frozen=True)
class KeptLeads:
    """The greatest leads of sets of items with weight.

    Attributes:
        lead: (B, T), of 1, 2, ... items; NaN where a text has fewer with weight.
        kept_by: (B, T), int64: how many of these sets each item is in.
    """

    lead: Tensor
    kept_by: Tensor


def greatest_leads(log_weights: Tensor, margins: Tensor) -> KeptLeads:
    r"""``max over K of sum_K a_t m_t / sum_K a_t`` of every number of items in K; that of ``-margins`` is the least.

    Args:
        log_weights: (B, T), float64, unnormalized logarithms of attention, -inf for what cannot be kept.
        margins: (B, T), float64, finite, the lead that each item alone gives.

    Returns:
        :class:`KeptLeads`, exact but for rounding, 1e-12 of 1 and the lead.

    Reference:
        Dinkelbach (1967), "On nonlinear fractional programming".

    Example:
        >>> weights, margins = torch.tensor([[0.5, 0.3, 0.2]]).double(), torch.tensor([[1.0, 2.0, -2.0]]).double()
        >>> greatest_leads(weights.log(), margins).lead.round(decimals=4)
        tensor([[2.0000, 1.3750, 0.7000]], dtype=torch.float64)
    """
    tokens = margins.shape[1]
    lead = torch.full(margins.shape, math.nan, dtype=torch.float64, device=margins.device)
    kept_by = torch.zeros(margins.shape, dtype=torch.long, device=margins.device)
    if not tokens:
        return KeptLeads(lead, kept_by)
    near = _near(log_weights, margins)
    counts = (log_weights > -math.inf).sum(1)  # (B,)
    sizes = torch.arange(1, tokens + 1, device=margins.device)
    text, place = (sizes <= counts[:, None]).nonzero().unbind(1)  # (R,) each, a set a row
    rows = max(1, _CELLS // tokens)
    for start in range(0, len(text), rows):
        texts = text[start : start + rows]
        places = place[start : start + rows]
        none_forced = torch.zeros(len(texts), tokens, dtype=torch.bool, device=margins.device)
        ratio, kept = _dinkelbach(log_weights[texts], margins[texts], places + 1, near[texts, places], none_forced)
        lead[texts, places] = ratio
        kept_by.index_add_(0, texts, kept.long())
    return KeptLeads(lead, kept_by)


def _near(log_weights: Tensor, margins: Tensor) -> Tensor:
    """A ratio (B, T) of some set of every number of items, near the greatest: one sort serves all sizes.

    The first ratios that are sorted for are margins of the text, the next those that a few sizes have by then.
    """
    counts = (log_weights > -math.inf).sum(1, keepdim=True)  # (B, 1)
    share = torch.linspace(0, 1, _SHARED, dtype=torch.float64, device=margins.device)
    place = (share * (counts - 1).clamp(min=0)).long()  # (B, G)
    weighted = log_weights > -math.inf
    sorted_margins = torch.where(weighted, margins, -math.inf).sort(dim=1, descending=True).values
    asked = torch.where(counts > 0, sorted_margins.gather(1, place), 0.0)  # (B, G)
    ratio = _of_all_sizes(log_weights, margins, asked)
    asked = torch.where(counts > 0, ratio.gather(1, place), 0.0)
    return torch.maximum(ratio, _of_all_sizes(log_weights, margins, asked))


def _of_all_sizes(log_weights: Tensor, margins: Tensor, asked: Tensor) -> Tensor:
    """The greatest ratio (B, T) of the sets that the ratios ``asked`` (B, G) lead to."""
    shape = (*asked.shape, margins.shape[1])
    w = log_weights[:, None].expand(shape)  # (B, G, T)
    m = margins[:, None].expand(shape)
    order = signed_keys(w, m - asked[..., None]).argsort(dim=-1, descending=True)
    w, m = w.gather(2, order), m.gather(2, order)
    values = torch.stack([m, torch.ones_like(m)], dim=-1)  # (B, G, T, 2)
    sums, _ = running_sums(w.flatten(0, 1), values.flatten(0, 1))
    value, mass = sums[:, 1:].unbind(-1)  # (B G, T)
    ratio = value / torch.where(mass > 0, mass, 1.0)
    return ratio.view(shape).amax(1)


def greatest_lead_with(
    log_weights: Tensor, margins: Tensor, size: Tensor, forced: Tensor, excluded: Tensor
) -> tuple[Tensor, Tensor]:
    """The greatest lead (R,) of sets of so many items (R,) with some items and without others, and such sets (R, T).

    Args:
        log_weights, margins: (R, T), as of :func:`greatest_leads`.
        size: (R,), int64.
        forced, excluded: (R, T), bool: what is in every set, and what is in none.

    Returns:
        -inf where there is no such set.

    Example:
        >>> weights, margins = torch.tensor([[0.5, 0.3, 0.2]]).double(), torch.tensor([[1.0, 2.0, -2.0]]).double()
        >>> forced, excluded = torch.tensor([[False, False, True]]), torch.tensor([[True, False, False]])
        >>> greatest_lead_with(weights.log(), margins, torch.tensor([2]), forced, excluded)
        (tensor([0.4000], dtype=torch.float64), tensor([[False,  True,  True]]))
    """
    left = log_weights.masked_fill(excluded, -math.inf)
    weighted = left > -math.inf
    forced = forced & weighted
    exists = (forced.sum(1) <= size) & (size <= weighted.sum(1)) & (size > 0)
    # every lead is at least the least margin
    least = min_or_infinity(torch.where(weighted, margins, math.inf))
    lead = torch.full(size.shape, -math.inf, dtype=torch.float64, device=size.device)
    kept = torch.zeros_like(forced)
    lead[exists], kept[exists] = _dinkelbach(left[exists], margins[exists], size[exists], least[exists], forced[exists])
    return lead, kept


def _dinkelbach(
    log_weights: Tensor, margins: Tensor, size: Tensor, ratio: Tensor, forced: Tensor
) -> tuple[Tensor, Tensor]:
    """The greatest ratio (R,) of sets of so many items (R,), and such sets (R, T) bool; ``forced`` (R, T) are in all.

    It begins at ``ratio`` (R,), which is not above the greatest.
    """
    kept = torch.zeros_like(margins, dtype=torch.bool)  # (R, T)
    ratio = ratio.clone()
    reached = torch.full_like(ratio, -math.inf)  # by the set that was met last
    rounding = torch.zeros_like(ratio)
    grows = torch.arange(len(size), device=size.device)
    while len(grows):
        # a heavy item hides what light ones add to a ratio beyond float64: only what is above its rounding is asked
        rounding[grows] = _ROUNDING * (1 + ratio[grows].abs())
        asked = ratio[grows] + rounding[grows]
        rows = (log_weights[grows], margins[grows], size[grows], asked, forced[grows])
        reached[grows], kept[grows] = _largest_terms(*rows)
        grows = grows[reached[grows] > asked]
        ratio[grows] = reached[grows]
    # no set has more; where the last one has less, it is the largest terms at the ratio itself that have as much
    less = (reached < ratio - rounding).nonzero()[:, 0]
    if len(less):
        rows = (log_weights[less], margins[less], size[less], ratio[less], forced[less])
        _, kept[less] = _largest_terms(*rows)
    return ratio, kept


def _largest_terms(
    log_weights: Tensor, margins: Tensor, size: Tensor, ratio: Tensor, forced: Tensor
) -> tuple[Tensor, Tensor]:
    """Of so many items (R,) those with the largest ``a_t (m_t - ratio)``: their own ratios (R,), and these sets."""
    keys = signed_keys(log_weights, margins - ratio[:, None])
    order = keys.masked_fill(forced, math.inf).argsort(dim=1, descending=True, stable=True)  # (R, T)
    place = torch.arange(margins.shape[1], device=margins.device)
    first = place < size[:, None]
    w = torch.where(first, log_weights.gather(1, order), -math.inf)
    m = margins.gather(1, order)
    top = max_or_infinity(w)[:, None]
    weights = (w - top).exp()
    # zeros behind change no bit of running sums
    own_ratio = (weights * m).cumsum(1)[:, -1] / weights.cumsum(1)[:, -1]
    return own_ratio, torch.zeros_like(first).scatter(1, order, first)
