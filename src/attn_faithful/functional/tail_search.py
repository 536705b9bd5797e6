"""The moves of which the attacks through a tail are made: each lowers the decision's lead from points of its texts.

A point is one item for each slot (a vertex, given by indices) or shares of all items. All candidates of a move, of all
points and texts, go through the tail in one batch. No text's move depends on another text but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful.functional.readout import first_least
from attn_faithful.functional.search_space import Space

_PREFIXES = 12  # numbers of slots that are tried to move at once
_ASKED = 96  # moves of a single slot that are tried from a vertex
_STEPS = 7  # step sizes: 1, 1/2, ... 1/64
_PIECES = 16  # a line is cut into, to see where it first flips
_RATE = 1.0  # of gradient steps of scores
_LITTLE = 1e-4  # a share that scores begin with, at least

# vertices, leads -> targets of slots and their gains
Proposal = Callable[[Space, Tensor, Tensor], tuple[Tensor, Tensor]]


def jumped(space: Space, index: Tensor, rounds: int, prefixes: int = _PREFIXES) -> Tensor:
    """Vertices (B, K, S) after rounds in which slots jump to the item that the slopes name.

    Of the slots that promise most, as many jump at once as leave the decision the least lead.

    Args:
        space: of the texts.
        index: vertices (B, K, S).
        rounds: at most.
        prefixes: how many numbers of slots are tried.
    """
    return _ascended(space, index, rounds, _promised, prefixes)


def swapped(space: Space, index: Tensor, rounds: int) -> Tensor:
    """Vertices (B, K, S) after rounds of ascent by slots: single moves that the slopes rank first are asked.

    The best move of each slot counts; of the slots that gain most, as many move at once as is best.
    """
    return _ascended(space, index, rounds, _asked_for, _PREFIXES)


def _ascended(space: Space, index: Tensor, rounds: int, proposal: Proposal, prefixes: int) -> Tensor:
    """Vertices (B, K, S) after rounds of moves, as long as they gain."""
    least = space.leads_at_vertices(index)
    for _ in range(rounds):
        target, gain = proposal(space, index, least)
        improved, found = _together(space, index, target, gain, prefixes)
        gains = found < least
        if not bool(gains.any()):
            break
        index = torch.where(gains[..., None], improved, index)
        least = torch.where(gains, found, least)
    return index


def _promised(space: Space, index: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """The item (B, K, S) that the slopes name in each slot, and what they promise of it."""
    slopes = space.slopes(space.at_vertices(index))  # (B, K, S, T)
    target = first_least(slopes)
    before = slopes.gather(3, index[..., None])[..., 0]
    after = slopes.gather(3, target[..., None])[..., 0]
    return target, torch.where(target == index, 0.0, before - after)


def _asked_for(space: Space, index: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """The best single move (B, K, S) of each slot among those that are asked, and what it gains."""
    slots, items = space.items.shape[1:]
    asked = min(_ASKED, slots * items)
    slopes = space.slopes(space.at_vertices(index))  # (B, K, S, T)
    change = slopes - slopes.gather(3, index[..., None]).nan_to_num(posinf=0.0)
    move = change.flatten(2).topk(asked, largest=False).indices  # (B, K, A)
    candidates = index[:, :, None].repeat(1, 1, asked, 1)  # (B, K, A, S)
    candidates.scatter_(3, (move // items)[..., None], (move % items)[..., None])
    asked_leads = space.leads_at_vertices(candidates.flatten(1, 2)).view_as(move).to(slopes)
    leads = torch.full_like(slopes, torch.inf).flatten(2).scatter(2, move, asked_leads)
    leads = leads.view_as(slopes).masked_fill(~space.items[:, None], torch.inf)
    target = first_least(leads)  # (B, K, S)
    gain = least[..., None] - leads.gather(3, target[..., None])[..., 0]
    return torch.where(gain > 0, target, index), gain


def _together(space: Space, index: Tensor, target: Tensor, gain: Tensor, prefixes: int) -> tuple[Tensor, Tensor]:
    """The best vertices (B, K, S) that have the targets of the slots of most gain, and their leads (B, K)."""
    slots = index.shape[2]
    order = gain.argsort(descending=True, stable=True)
    rank = order.argsort()  # (B, K, S)
    sizes = torch.linspace(1, slots, min(slots, prefixes), device=index.device).round()  # (P,)
    moves = rank[:, :, None] < sizes[:, None]  # (B, K, P, S)
    candidates = torch.where(moves, target[:, :, None], index[:, :, None])
    leads = space.leads_at_vertices(candidates.flatten(1, 2)).view(moves.shape[:3])  # (B, K, P)
    best = first_least(leads)[..., None]  # (B, K, 1)
    return picked(candidates, best), leads.gather(2, best)[..., 0]


def settled(space: Space, shares: Tensor, free: Tensor, rounds: int) -> Tensor:
    """Shares (B, K, S, T) after Frank-Wolfe steps of the free slots (K, S), with pairwise steps and a line search.

    A step goes towards the best vertex from the point, or from each slot's worst item to its best one.
    """
    sizes = 0.5 ** torch.arange(_STEPS, device=shares.device).to(space.origin.dtype)  # (J,)
    vectors = space.vectors(shares)  # (B, K, D)
    least = space.leads(vectors)
    for _ in range(rounds):
        slopes = space.slopes(vectors)  # (B, K, S, T)
        best = space.shares_of(first_least(slopes))
        held_slopes = torch.where(shares > 0, slopes, -torch.inf)
        worst = first_least(-held_slopes)  # (B, K, S)
        of_worst = shares.gather(3, worst[..., None])  # (B, K, S, 1)
        pairwise = (best - space.shares_of(worst)) * of_worst
        directions = torch.stack([best - shares, pairwise], dim=2) * free[:, None, :, None]  # (B, K, 2, S, T)
        changes = space.moves.total(directions.flatten(1, 2)).view(*directions.shape[:3], -1)  # (B, K, 2, D)
        candidates = vectors[:, :, None, None] + sizes[:, None] * changes[:, :, :, None]  # (B, K, 2, J, D)
        leads = space.leads(candidates.flatten(1, 3)).view(*least.shape, -1)  # (B, K, 2 J)
        choice = first_least(leads)[..., None]  # (B, K, 1)
        found = leads.gather(2, choice)[..., 0]
        gains = found < least
        if not bool(gains.any()):
            break
        size = torch.where(gains, sizes[choice[..., 0] % _STEPS], 0.0).double()
        shares = shares + size[..., None, None] * picked(directions, choice // _STEPS)
        vectors = space.vectors(shares)
        least = torch.where(gains, found, least)
    return shares


def descended(space: Space, shares: Tensor, steps: int) -> Tensor:
    """The shares (B, K, S, T) of least lead that gradient steps from shares pass: Adam's, of scores of a softmax."""
    is_item = space.items[:, None]
    scores = shares.clamp(min=_LITTLE).log()
    optimizer = torch.optim.Adam([scores], lr=_RATE, amsgrad=True)
    found = shares
    least = torch.full(shares.shape[:2], torch.inf, device=shares.device)
    for _ in range(steps):
        point = scores.masked_fill(~is_item, -torch.inf).softmax(-1)
        point = torch.where(is_item, point, 0.0)  # of a slot without items it is NaN
        lead, slopes = space.leads_and_slopes(space.vectors(point))
        gains = lead < least
        found = torch.where(gains[..., None, None], point, found)
        least = torch.where(gains, lead, least)
        slopes = torch.where(is_item, slopes, 0.0)
        at_point = (point * slopes).sum(-1, keepdim=True)
        scores.grad = point * (slopes - at_point)
        optimizer.step()
    return found


def first_flips(space: Space, shares: Tensor, levels: int, pieces: int = _PIECES) -> Tensor:
    """The smallest rho (B, K), float64, at which ``(1 - rho) own + rho shares`` was seen to flip; infinite for none.

    Each level cuts the piece before the first flip: on lines that flip once rho is exact to ``pieces ** -levels``.

    Args:
        space: of the texts.
        shares: (B, K, S, T).
        levels: 1 or more.
        pieces: into which each level cuts.
    """
    own = space.own[:, None]
    start = space.vectors(own)[:, :, None]  # (B, 1, 1, D)
    changes = space.moves.total(shares - own)[:, :, None]  # (B, K, 1, D)
    parts = torch.arange(1, pieces + 1, device=own.device, dtype=torch.float64) / pieces  # (J,)
    low = torch.zeros(*shares.shape[:2], 1, device=own.device, dtype=torch.float64)
    high = torch.ones_like(low)
    ever = torch.zeros_like(low, dtype=torch.bool)
    for _ in range(levels):
        rho = torch.lerp(low, high, parts)  # (B, K, J)
        vectors = start + rho.to(start.dtype)[..., None] * changes  # (B, K, J, D)
        flips = space.flips(vectors.flatten(1, 2)).view_as(rho)
        first = first_least((~flips).long())[..., None]  # (B, K, 1)
        found = flips.any(2, keepdim=True)
        ever |= found
        before = torch.cat([low, rho], dim=2).gather(2, first)
        high = torch.where(found, rho.gather(2, first), high)
        low = torch.where(found, before, low)
    return torch.where(ever, high, torch.inf)[..., 0]


def picked(values: Tensor, choice: Tensor) -> Tensor:
    """Of values (B, K, P, ...) those (B, K, ...) of a choice (B, K, 1).

    Example:
        >>> picked(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), torch.tensor([[[1]]]))
        tensor([[[3., 4.]]])
    """
    trailing = (1,) * (values.ndim - 3)
    index = choice.view(*choice.shape, *trailing)
    return torch.take_along_dim(values, index, dim=2)[:, :, 0]
