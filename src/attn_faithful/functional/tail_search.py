"""The moves of which the attacks through a tail are made: each lowers the decision's lead from points of its texts.

A point is one item for each slot (a vertex, given by indices) or shares of all items. All candidates of a move, of all
points and texts, go through the tail in one batch. No text's move depends on another text but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.readout import first_least, flipped, max_or_infinity
from attn_faithful.functional.tail import Linear, Sum, Tail

_CELLS = 2**22  # numbers of a value in memory at once: 32 MB in float64
_PREFIXES = 12  # numbers of slots that are tried to move at once
_ASKED = 96  # moves of a single slot that are tried from a vertex
_STEPS = 7  # step sizes: 1, 1/2, ... 1/64
_PIECES = 16  # a line is cut into, to see where it first flips


@dataclass(frozen=True)
class Space:
    """All vectors ``origin + sum_s sum_t q_st moves_st`` of each text, q in a product of simplices over the items.

    Attributes:
        tail: of which the steps are used.
        decision: (B,).
        origin: (B, D).
        moves: (B, S, T, D), 0 outside ``items``.
        items: (B, S, T), bool; a slot may have none.
        own: (B, S, T), float64, the model's own q.
    """

    tail: Tail
    decision: Tensor
    origin: Tensor
    moves: Tensor
    items: Tensor
    own: Tensor

    @property
    def is_affine(self) -> bool:
        """Whether the logits are affine in the shares."""
        return all(isinstance(step, Linear | Sum) for step in self.tail.steps)

    def to(self, dtype: torch.dtype, tail: Tail) -> Space:
        """The same in another precision, in which the tail is given."""
        return replace(self, tail=tail, origin=self.origin.to(dtype), moves=self.moves.to(dtype))

    def rows(self, texts: Tensor | slice) -> Space:
        """That of some texts (R,)."""
        one = replace(self, decision=self.decision[texts], origin=self.origin[texts], moves=self.moves[texts])
        return replace(one, items=self.items[texts], own=self.own[texts])

    def near(self, rho: Tensor) -> Space:
        """The vectors of ``(1 - rho) own + rho q`` for rho (B,)."""
        rho = rho.to(self.origin.dtype)[:, None]
        of_own = self.vectors(self.own[:, None])[:, 0] - self.origin
        return replace(self, origin=self.origin + (1 - rho) * of_own, moves=rho[..., None, None] * self.moves)

    def displacements(self, shares: Tensor) -> Tensor:
        """What shares (B, K, S, T), or differences of shares, add to the vector, (B, K, D)."""
        return shares.to(self.moves.dtype).flatten(2) @ self.moves.flatten(1, 2)

    def vectors(self, shares: Tensor) -> Tensor:
        """Vectors (B, K, D) of shares (B, K, S, T)."""
        return self.origin[:, None] + self.displacements(shares)

    def at_vertices(self, index: Tensor) -> Tensor:
        """Vectors (B, K, D) of vertices (B, K, S)."""
        b, s, t = self.items.shape
        first = t * torch.arange(b * s, device=index.device).view(b, 1, s)  # of each slot's moves
        return self.origin[:, None] + self.moves.flatten(0, 2)[first + index].sum(2)

    def shares_of(self, index: Tensor) -> Tensor:
        """Shares (B, K, S, T), float64, of vertices (B, K, S); 0 in slots without items."""
        one_hot = F.one_hot(index, self.items.shape[2]).double()
        return one_hot * self.items[:, None]

    def logits(self, vectors: Tensor) -> Tensor:
        """Logits (B, K, C) of vectors (B, K, D)."""
        parts = torch.split(vectors.flatten(0, 1), self.rows_at_once)
        logits = torch.cat([self.tail.after(part) for part in parts])
        return logits.view(*vectors.shape[:2], -1)

    def leads(self, vectors: Tensor) -> Tensor:
        """By how much the decision leads its best rival (B, K) at vectors (B, K, D)."""
        return self.lead(self.logits(vectors))

    def lead(self, logits: Tensor) -> Tensor:
        """By how much the decision leads its best rival (B, K) in logits (B, K, C); infinite without a rival."""
        decision = self.decision[:, None, None].expand(-1, logits.shape[1], 1)
        of_rivals = logits.scatter(2, decision, -torch.inf)
        return logits.gather(2, decision)[..., 0] - max_or_infinity(of_rivals)

    def flips(self, vectors: Tensor) -> Tensor:
        """Whether the decision changes (B, K) at vectors (B, K, D)."""
        return flipped(self.logits(vectors), self.decision)

    def leads_at_vertices(self, index: Tensor) -> Tensor:
        """By how much the decision leads (B, K) at vertices (B, K, S)."""
        points = max(1, self.rows_at_once // len(index))
        parts = [self.leads(self.at_vertices(part)) for part in torch.split(index, points, dim=1)]
        return torch.cat(parts, dim=1)

    def slopes(self, vectors: Tensor) -> Tensor:
        """Slopes (B, K, S, T) of the lead over the best rival by each share at vectors (B, K, D); infinite outside."""
        points = max(1, self.rows_at_once // len(vectors))
        gradients = [self._gradient(part) for part in torch.split(vectors, points, dim=1)]
        return self._by_share(torch.cat(gradients, dim=1))

    def _gradient(self, vectors: Tensor) -> Tensor:
        vectors = vectors.detach().requires_grad_()
        with torch.enable_grad():
            lead = self.lead(self.tail.after(vectors)).sum()
        (gradient,) = torch.autograd.grad(lead, vectors)
        return gradient

    def slopes_by_rival(self) -> Tensor:
        """Slopes (B, C - 1, S, T) of the lead over each other class at the own shares; infinite outside items."""
        own = self.vectors(self.own[:, None])  # (B, 1, D)
        classes = torch.arange(self.logits(own).shape[2], device=own.device)
        is_rival = classes != self.decision[:, None]  # (B, C)
        rivals = classes.expand_as(is_rival)[is_rival].view(len(own), -1, 1)  # (B, C - 1, 1)
        vectors = own.detach().repeat(1, rivals.shape[1], 1).requires_grad_()
        with torch.enable_grad():
            logits = self.tail.after(vectors)  # (B, C - 1, C)
            of_decision = logits.gather(2, self.decision[:, None, None].expand_as(rivals))
            lead = (of_decision - logits.gather(2, rivals)).sum()
        (gradient,) = torch.autograd.grad(lead, vectors)
        return self._by_share(gradient)

    def _by_share(self, gradient: Tensor) -> Tensor:
        slopes = gradient @ self.moves.flatten(1, 2).transpose(1, 2)  # (B, K, S * T)
        slopes = slopes.view(*slopes.shape[:2], *self.items.shape[1:])
        return slopes.masked_fill(~self.items[:, None], torch.inf)

    @property
    def weights(self) -> int:
        """How many weights the tail has, 1 at least."""
        return 1 + sum(step.weight.numel() for step in self.tail.steps if isinstance(step, Linear))

    @property
    def rows_at_once(self) -> int:
        """How many vectors are asked at once, so that memory is bounded."""
        slots, _, width = self.moves.shape[1:]
        widths = [len(step.bias) for step in self.tail.steps if isinstance(step, Linear)]
        return max(1, _CELLS // max(slots * width, *widths, 1))


Moves = Callable[[Space, Tensor, Tensor], tuple[Tensor, Tensor]]  # vertices, leads -> targets of slots and their gains


def jumped(space: Space, index: Tensor, rounds: int) -> Tensor:
    """Vertices (B, K, S) after rounds in which slots jump to the item that the slopes name.

    Of the slots that promise most, as many jump at once as leave the decision the least lead.
    """
    return _ascended(space, index, rounds, _promised)


def swapped(space: Space, index: Tensor, rounds: int) -> Tensor:
    """Vertices (B, K, S) after rounds of ascent by slots: single moves that the slopes rank first are asked.

    The best move of each slot counts; of the slots that gain most, as many move at once as is best.
    """
    return _ascended(space, index, rounds, _asked_for)


def _ascended(space: Space, index: Tensor, rounds: int, moves: Moves) -> Tensor:
    """Vertices (B, K, S) after rounds of moves, as long as they gain."""
    least = space.leads_at_vertices(index)
    for _ in range(rounds):
        target, gain = moves(space, index, least)
        improved, found = _together(space, index, target, gain)
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


def _together(space: Space, index: Tensor, target: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """The best vertices (B, K, S) that have the targets of the slots of most gain, and their leads (B, K)."""
    slots = index.shape[2]
    order = gain.argsort(descending=True, stable=True)
    rank = order.argsort()  # (B, K, S)
    sizes = torch.linspace(1, slots, min(slots, _PREFIXES), device=index.device).round()  # (P,)
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
        changes = space.displacements(directions.flatten(1, 2)).view(*directions.shape[:3], -1)  # (B, K, 2, D)
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


def first_flips(space: Space, shares: Tensor, levels: int) -> Tensor:
    """The smallest rho (B, K), float64, at which ``(1 - rho) own + rho shares`` was seen to flip; infinite for none.

    Each level cuts the piece before the first flip into 16: on lines that flip once rho is exact to ``16 ** -levels``.

    Args:
        space: of the texts.
        shares: (B, K, S, T).
        levels: 1 or more.
    """
    own = space.own[:, None]
    start = space.vectors(own)[:, :, None]  # (B, 1, 1, D)
    changes = space.displacements(shares - own)[:, :, None]  # (B, K, 1, D)
    pieces = torch.arange(1, _PIECES + 1, device=own.device, dtype=torch.float64) / _PIECES  # (J,)
    low = torch.zeros(*shares.shape[:2], 1, device=own.device, dtype=torch.float64)
    high = torch.ones_like(low)
    ever = torch.zeros_like(low, dtype=torch.bool)
    for _ in range(levels):
        rho = torch.lerp(low, high, pieces)  # (B, K, J)
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
