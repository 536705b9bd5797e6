"""The attention under which a decision leads least where every point is asked of the model itself: few are asked.

Behind an attention that is not the last one further layers are run for each point, and a gradient costs as much as two
further points. So slopes name the vertices that are worth asking, gradient steps lead between them, and a text whose
decision has changed is left alone. Of a text 48 points and a gradient are asked for single slots, 21 and 15 at most
for all slots together, and 55 and 14 for a radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.readout import first_least, flipped
from attn_faithful.functional.search_space import Space
from attn_faithful.functional.tail_attack import Found, Radius
from attn_faithful.functional.tail_search import descended, first_flips, jumped, picked

_JUMPS = 1  # rounds
_PREFIXES = 6  # numbers of slots that are tried to jump at once
_STEPS = 12  # along gradients
_HEADS = 48  # attentions of single slots that are asked of a text
_PIECES = 4  # a line is cut into, to see where it first flips
_LEVELS = 4  # of pieces, to tell a radius: 1/256


@dataclass(frozen=True)
class SingleFlips:
    """The least lead that was found with one slot on one item, the others keeping their shares.

    Attributes:
        item: int64, (B, S), the one of a slot's items that leaves the decision the least lead of those asked; where
            none was asked, the one that the slopes name.
        lead: float64, (B, S); infinite where none was asked.
        flips: bool, (B, S), whether the decision changes there.
    """

    item: Tensor
    lead: Tensor
    flips: Tensor


def joint_by_asking(space: Space, heads: SingleFlips) -> Found:
    """Shares of all slots together with the least lead of the decision that a short search finds.

    Jumps from the vertex that the slopes at the own shares name; where they change nothing, from the best items of
    single slots, and gradient steps from half the way to the better of the two.

    Args:
        space: what is searched.
        heads: of :func:`heads_by_asking`.

    Returns:
        :class:`Found` with a lead no larger than the model's own.

    Example:
        >>> from attn_faithful.functional.search_space import TailReadout, WeightMoves
        >>> from attn_faithful.functional.tail import Tail
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.zeros(1, 0, 0, 2).double(), ())  # the weights are the logits
        >>> items, own = torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor([[[0.75, 0.25]]]).double()
        >>> moves = WeightMoves(torch.ones(1, 1, 1).double(), 2)
        >>> space = Space(TailReadout(tail), torch.tensor([0]), torch.zeros(1, 2).double(), moves, items, own)
        >>> joint_by_asking(space, heads_by_asking(space)).lead
        tensor([-1.], dtype=torch.float64)
    """
    own = space.own[:, None]
    if not bool(space.items.any()):
        return _least(space, own)
    vertex = _vertices_from(space, _named(space, own))  # (B, 1, S, T)
    found = _least(space, torch.cat([own, vertex], dim=1))
    texts = (~found.flips).nonzero()[:, 0]  # (R,)
    if not len(texts):
        return found
    part = space.rows(texts)
    of_singles = _vertices_from(part, heads.item[texts, None])
    of_vertices = _least(part, torch.cat([vertex[texts], of_singles], dim=1))
    half_way = torch.lerp(part.own, of_vertices.shares, 0.5)[:, None]
    between = descended(part, half_way, _STEPS)
    known = torch.stack([found.shares[texts], of_vertices.shares], dim=1)
    better = _least(part, torch.cat([known, between], dim=1))
    found.shares[texts], found.lead[texts], found.flips[texts] = better.shares, better.lead, better.flips
    return found


def _named(space: Space, shares: Tensor) -> Tensor:
    """The vertices (B, K, S) that the slopes at shares (B, K, S, T) name."""
    return first_least(space.slopes(space.vectors(shares)))


def _vertices_from(space: Space, index: Tensor) -> Tensor:
    """The shares (B, K, S, T) of the vertices to which jumps lead from vertices (B, K, S)."""
    return space.shares_of(jumped(space, index, _JUMPS, _PREFIXES))


def _least(space: Space, shares: Tensor) -> Found:
    """Of shares (B, F, S, T) those of least lead; such as flip go first."""
    logits = space.logits(space.vectors(shares))
    leads = space.lead(logits)  # (B, F)
    flips = flipped(logits, space.decision)
    flip_leads = torch.where(flips, leads, torch.inf)
    best = first_least(torch.where(flips.any(1, keepdim=True), flip_leads, leads))[:, None]
    found = picked(shares[:, None], best[:, None])[:, 0]  # (B, S, T)
    return Found(found, leads.gather(1, best)[:, 0].double(), flips.gather(1, best)[:, 0])


def radius_by_asking(space: Space, found: Found) -> Radius:
    """The smallest rho in (0, 1] at which ``(1 - rho) own + rho q`` was seen to change the decision, to 1/256.

    The line to what the joint attack found is cut where it first flips, and so are those to what jumps and gradient
    steps among the mixtures of that rho find.

    Args:
        space: what is searched.
        found: of :func:`joint_by_asking`.

    Returns:
        :class:`Radius`, NaN where the joint attack found nothing.

    Example:
        >>> from attn_faithful.functional.search_space import TailReadout, WeightMoves
        >>> from attn_faithful.functional.tail import Tail
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.zeros(1, 0, 0, 2).double(), ())  # the weights are the logits
        >>> items, own = torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor([[[0.75, 0.25]]]).double()
        >>> moves = WeightMoves(torch.ones(1, 1, 1).double(), 2)
        >>> space = Space(TailReadout(tail), torch.tensor([0]), torch.zeros(1, 2).double(), moves, items, own)
        >>> radius_by_asking(space, joint_by_asking(space, heads_by_asking(space))).radius  # a third, rounded up
        tensor([0.3359], dtype=torch.float64)
    """
    shares = space.own.clone()
    radius = shares.new_full((len(shares),), math.nan)
    texts = found.flips.nonzero()[:, 0]  # (R,)
    if not len(texts):
        return Radius(radius, shares)
    part = space.rows(texts)
    best = found.shares[texts, None]  # (R, 1, S, T)
    rho = first_flips(part, best, _LEVELS, _PIECES).clamp(max=1)  # (R, 1): at 1 it was seen
    near = part.near(rho[:, 0])
    vertex = _vertices_from(near, _named(near, best))
    between = descended(near, torch.lerp(part.own[:, None], best, 0.5), _STEPS)
    others = torch.cat([vertex, between], dim=1)  # (R, 2, S, T)
    rho_of_all = torch.cat([rho, first_flips(part, others, _LEVELS, _PIECES)], dim=1)  # (R, 3)
    first = first_least(rho_of_all)[:, None]  # (R, 1)
    shares[texts] = torch.cat([best, others], dim=1).take_along_dim(first[..., None, None], dim=1)[:, 0]
    radius[texts] = rho_of_all.gather(1, first)[:, 0]
    return Radius(radius, shares)


def heads_by_asking(space: Space, asked: int = _HEADS) -> SingleFlips:
    """For each slot the least lead of the decision where it deals all to one item, the others keeping their shares.

    Items are asked for that the slopes at the own shares name: as many of each slot as the number allows, one at least;
    where not even that, of the slots that promise most.

    Args:
        space: what is searched.
        asked: how many points of a text, at most.

    Example:
        >>> from attn_faithful.functional.search_space import TailReadout, WeightMoves
        >>> from attn_faithful.functional.tail import Tail
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.zeros(1, 0, 0, 2).double(), ())  # the weights are the logits
        >>> items, own = torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor([[[0.75, 0.25]]]).double()
        >>> moves = WeightMoves(torch.ones(1, 1, 1).double(), 2)
        >>> space = Space(TailReadout(tail), torch.tensor([0]), torch.zeros(1, 2).double(), moves, items, own)
        >>> heads_by_asking(space).item, heads_by_asking(space).flips
        (tensor([[1]]), tensor([[True]]))
    """
    own = space.own
    slots, items = own.shape[1:]
    slopes = space.slopes(space.vectors(own[:, None]))[:, 0]  # (B, S, T)
    at_own = torch.where(space.items, slopes, 0.0) * own
    promised = slopes - at_own.sum(-1, keepdim=True)  # (B, S, T), of the lead
    each = min(max(1, asked // slots), items)
    is_named = promised.argsort(stable=True).argsort() < each
    open_items = promised.masked_fill(~is_named, torch.inf).flatten(1)  # (B, S * T)
    chosen = open_items.argsort(stable=True)[:, : min(asked, slots * each)]  # (B, N)
    exists = open_items.gather(1, chosen).isfinite()

    of_slot = F.one_hot(chosen // items, slots).bool()[..., None]  # (B, N, S, 1)
    of_item = F.one_hot(chosen % items, items).double()[:, :, None]  # (B, N, 1, T)
    shares = torch.where(of_slot & exists[..., None, None], of_item, own[:, None])  # (B, N, S, T)
    logits = space.logits(space.vectors(shares))
    leads = space.lead(logits).double().masked_fill(~exists, math.inf)
    flips = flipped(logits, space.decision) & exists
    lead_of_item = torch.full_like(own, math.inf).flatten(1).scatter(1, chosen, leads).view_as(own)
    flips_of_item = torch.zeros_like(space.items).flatten(1).scatter(1, chosen, flips).view_as(space.items)
    is_asked = lead_of_item.isfinite().any(-1, keepdim=True)
    item = first_least(torch.where(is_asked, lead_of_item, promised))[..., None]  # (B, S, 1)
    return SingleFlips(item[..., 0], lead_of_item.gather(2, item)[..., 0], flips_of_item.gather(2, item)[..., 0])
