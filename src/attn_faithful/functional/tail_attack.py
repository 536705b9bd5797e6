"""The attention under which the decision leads least, searched through a tail: an upper bound of any that is proved.

What is searched is a product of simplices: in each slot the items share the mass that they have together, in any way,
and all else is fixed. The search is in float32, and what it ends with is ranked and told in float64, a text at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.readout import check_decision, first_least, flipped
from attn_faithful.functional.search_space import Space, TailReadout, VectorMoves
from attn_faithful.functional.simplices import Simplices
from attn_faithful.functional.tail import Tail
from attn_faithful.functional.tail_search import first_flips, jumped, picked, settled, swapped

_CELLS = 2**21  # numbers of moves in memory at once: 8 MB in float32
_STARTS = 3  # vertices from which jumps are tried, at least
_MOST_STARTS = 24  # of a tail so small that they cost nothing
_WEIGHTS = 2**21  # of a tail times its starts
_JUMPS = 3  # rounds
_SWAPS = 2
_FRANK_WOLFE = 12
_REPEATS = 4  # attacks at smaller and smaller radii
_GAIN = 1e-3  # of the radius that is worth another attack
_CORNERS = 3  # vertices of a slot between which points are tried
_COARSE = 3  # levels of 16 pieces to compare lines: 1/4096
_FINE = 8  # to tell the radius: 2e-10


@dataclass(frozen=True)
class Found:
    """The shares of least lead that were found.

    Attributes:
        shares: float64, (B, S, T); of single heads (B, S, S, T), all slots with one head changed.
        lead: float64, by how much the decision leads its best rival there, (B,) or (B, S); infinite without a rival.
        flips: bool, whether the decision changes there; a tie goes to the lower class.
    """

    shares: Tensor
    lead: Tensor
    flips: Tensor


@dataclass(frozen=True)
class Radius:
    """The smallest mixture with other shares that was seen to change the decision.

    Attributes:
        radius: rho (B,), float64, above 0 and up to 1; NaN where none was found.
        shares: q (B, S, T), float64, with which ``(1 - rho) own + rho q`` changes the decision; the own ones elsewhere.
    """

    radius: Tensor
    shares: Tensor


def joint_attack(tail: Tail, simplices: Simplices, decision: Tensor) -> Found:
    """Shares of all slots together with the least lead of the decision that a search finds.

    Starts are the vertices that linear guesses name, at the model's own shares for each rival and on the way, and each
    item in all slots; then jumps along slopes, ascent by slots, and Frank-Wolfe for points between. Exact for a
    read-out that is affine in the attention.

    Args:
        tail: what comes after the attention; its ``base`` and ``values`` are not read.
        simplices: what may be shared.
        decision: (B,), the class decided.

    Returns:
        :class:`Found` with a lead no larger than the model's own.

    Raises:
        InputError: a decision that is no class.

    Example:
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.tensor([[[[3.0, 0.0], [0.0, 1.0]]]]).double(), ())
        >>> everything = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> simplices = Simplices.of(tail, torch.tensor([[[0.5, 0.5]]]), everything)
        >>> joint_attack(tail, simplices, torch.tensor([0])).lead
        tensor([-1.], dtype=torch.float64)
    """
    problem = _Problem.of(tail, simplices, decision)
    found = problem.found(1, partial(_joint_finalists, count=problem.starts))
    return Found(found.shares[:, 0], found.lead[:, 0], found.flips[:, 0])


def head_attack(tail: Tail, simplices: Simplices, decision: Tensor) -> Found:
    """For each slot, its shares with the least lead of the decision while the others keep their own.

    Every vertex is asked, then the edges between the best three and the model's own shares, then Frank-Wolfe steps.

    Args:
        tail: what comes after the attention; its ``base`` and ``values`` are not read.
        simplices: what may be shared.
        decision: (B,), the class decided.

    Returns:
        :class:`Found` with a lead of each slot, no larger than the model's own.

    Raises:
        InputError: a decision that is no class.

    Example:
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.tensor([[[[3.0, 0.0], [0.0, 1.0]]]]).double(), ())
        >>> everything = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> simplices = Simplices.of(tail, torch.tensor([[[0.5, 0.5]]]), everything)
        >>> head_attack(tail, simplices, torch.tensor([0])).shares
        tensor([[[[0., 1.]]]], dtype=torch.float64)
    """
    slots = simplices.items.shape[1]
    problem = _Problem.of(tail, simplices, decision)
    return problem.found(slots, _head_finalists, problem.moves)


def attack_radius(tail: Tail, simplices: Simplices, decision: Tensor, found: Found) -> Radius:
    """The smallest rho in (0, 1] at which ``(1 - rho) own + rho q`` was seen to change the decision, for any q.

    Lines to what the joint attack found are cut where they first flip; then the attack is repeated among the mixtures
    of that rho, as long as another q flips earlier. Exact to 1e-9 for a read-out that is affine in the attention.

    Args:
        tail: what comes after the attention; its ``base`` and ``values`` are not read.
        simplices: what may be shared.
        decision: (B,), the class decided.
        found: of :func:`joint_attack`.

    Returns:
        :class:`Radius`; the decision at each was asked in float64.

    Raises:
        InputError: a decision that is no class.

    Example:
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.tensor([[[[3.0, 0.0], [0.0, 1.0]]]]).double(), ())
        >>> everything = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> simplices = Simplices.of(tail, torch.tensor([[[0.5, 0.5]]]), everything)
        >>> found = joint_attack(tail, simplices, torch.tensor([0]))
        >>> attack_radius(tail, simplices, torch.tensor([0]), found).radius.round(decimals=6)
        tensor([0.5000], dtype=torch.float64)
    """
    problem = _Problem.of(tail, simplices, decision)
    shares = problem.exact.own.clone()
    radius = shares.new_full((len(shares),), math.nan)
    for text, lines in enumerate(problem.searched(_radius_lines, found.shares)):
        columns = problem.columns(text)
        rho = first_flips(problem.alone(text), lines[None][..., columns], _FINE)[0]  # (K,)
        best = first_least(rho)
        if bool(rho[best].isfinite()):
            radius[text] = rho[best]
            shares[text] = lines[best]
    return Radius(radius, shares)


@dataclass(frozen=True)
class _Problem:
    """Texts with their decisions, in float64, and what is searched.

    Attributes:
        exact: in float64.
        moves: of it, (B, S, T, D), float64.
        searched_readout: in the precision of the search: float64 where the logits are affine in the shares, which is
            cheap.
    """

    exact: Space
    moves: Tensor
    searched_readout: TailReadout

    @classmethod
    def of(cls, tail: Tail, simplices: Simplices, decision: Tensor) -> _Problem:
        tail = tail.rows(decision[:0]).to(torch.float64)  # the steps alone
        classes = tail.after(simplices.origin[:1].double()).shape[1]
        check_decision(decision, len(simplices.items), classes)
        moves = torch.where(simplices.items[..., None], simplices.moves.double(), 0.0)
        readout = TailReadout(tail)
        exact = Space(
            readout, decision, simplices.origin.double(), VectorMoves(moves), simplices.items, simplices.shares.double()
        )
        if readout.is_affine:
            return cls(exact, moves, readout)
        return cls(exact, moves, TailReadout(tail.to(torch.float32)))

    @property
    def starts(self) -> int:
        """From how many vertices a joint attack is tried."""
        return min(max(_STARTS, _WEIGHTS // self.searched_readout.weights), _MOST_STARTS)

    def searched(self, search: Callable[..., Tensor], *by_text: Tensor) -> Iterator[Tensor]:
        """What a search of texts finds, (R, ...) of ``search(space, *rows)``, one text after another."""
        texts = torch.arange(len(self.exact.items), device=self.exact.items.device)
        moves_of_text = self.moves[0].numel() if len(texts) else 1
        dtype = self.searched_readout.tail.base.dtype
        for part in torch.split(texts, max(1, _CELLS // max(1, moves_of_text))):
            space = replace(
                self.exact.rows(part),
                readout=self.searched_readout,
                origin=self.exact.origin[part].to(dtype),
                moves=VectorMoves(self.moves[part].to(dtype)),
            )
            yield from search(space, *(values[part] for values in by_text))

    def found(self, groups: int, finalists: Callable[..., Tensor], *by_text: Tensor) -> Found:
        """Of each group of a text's finalists (B, G, F, S, T) those of least lead, (B, G, ...)."""
        shares = self.exact.own[:, None].repeat(1, groups, 1, 1)  # (B, G, S, T)
        leads = shares.new_zeros(shares.shape[:2])
        flips = torch.zeros_like(leads, dtype=torch.bool)
        for text, candidates in enumerate(self.searched(finalists, *by_text)):
            shares[text], leads[text], flips[text] = self.least(text, candidates)
        return Found(shares, leads, flips)

    def columns(self, text: int) -> Tensor:
        """Which columns (T) are items of any slot of a text."""
        return self.exact.items[text].any(0)

    def alone(self, text: int) -> Space:
        """A text by itself without its padding, so that no other one shares its rounding."""
        columns = self.columns(text)
        space = self.exact.rows(slice(text, text + 1))
        moves = VectorMoves(self.moves[text : text + 1, :, columns])
        return replace(space, moves=moves, items=space.items[..., columns], own=space.own[..., columns])

    def least(self, text: int, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of each group (G, F, S, T) the shares of least lead, their lead (G,), whether they flip; flips go first."""
        space = self.alone(text)
        vectors = space.vectors(shares[..., self.columns(text)].flatten(0, 1)[None])  # (1, G * F, D)
        logits = space.logits(vectors)
        leads = space.lead(logits).view(shares.shape[:2])
        flips = flipped(logits, space.decision).view_as(leads)
        flip_leads = torch.where(flips, leads, torch.inf)
        best = first_least(torch.where(flips.any(1, keepdim=True), flip_leads, leads))[:, None]
        return picked(shares[None], best[None])[0], leads.gather(1, best)[:, 0], flips.gather(1, best)[:, 0]


def _joint_finalists(space: Space, count: int) -> Tensor:
    """Shares (B, 1, F, S, T) among which the least lead is looked for in the end, the model's own first.

    Args:
        space: what is searched.
        count: from how many vertices.
    """
    own = space.own[:, None]
    if not bool(space.items.any()):
        return own[:, None]
    by_rival = first_least(space.slopes_by_rival())  # (B, C - 1, S)
    guesses = torch.cat([own, space.shares_of(by_rival)], dim=1)
    if space.readout.is_affine or not by_rival.shape[1]:
        return guesses[:, None]
    starts = torch.cat([by_rival, _on_the_way(space, by_rival), _one_item(space, by_rival)], dim=1)
    index = jumped(space, _best(space, starts, count), _JUMPS)
    index = swapped(space, _best(space, index, count - 1), _SWAPS)
    vertices = space.shares_of(index)
    points = vertices
    if count > _STARTS:
        points = torch.cat([vertices, _sampled(space, count), own], dim=1)
    free = torch.ones(points.shape[1:3], dtype=torch.bool, device=index.device)
    between = settled(space, points, free, _FRANK_WOLFE * count // _STARTS)
    return torch.cat([guesses, vertices, between], dim=1)[:, None]


def _on_the_way(space: Space, index: Tensor) -> Tensor:
    """Vertices (B, 2 K, S) that linear guesses name at points between the own shares and vertices (B, K, S)."""
    own = space.own[:, None]
    change = space.shares_of(index) - own
    points = torch.cat([own + change / 3, own + change * 2 / 3], dim=1)
    return first_least(space.slopes(space.vectors(points)))


def _one_item(space: Space, by_rival: Tensor) -> Tensor:
    """Vertices (B, T, S) with the same item in all slots; that of the first rival where a slot does not have it."""
    is_item = space.items.transpose(1, 2)  # (B, T, S)
    item = torch.arange(is_item.shape[1], device=is_item.device)[:, None]  # (T, 1)
    return torch.where(is_item, item, by_rival[:, :1])


def _sampled(space: Space, count: int) -> Tensor:
    """The best shares (B, count, S, T) among sixteen times as many from a fixed seed, most of them near few items."""
    slots, items = space.items.shape[1:]
    generator = torch.Generator().manual_seed(0)
    by_item = torch.empty(items, 16 * count, slots, dtype=torch.float64)  # item first: the same however many follow
    raw = by_item.exponential_(generator=generator).pow(3).permute(1, 2, 0).to(space.own.device)  # (N, S, T)
    raw = raw * space.items[:, None]  # (B, N, S, T)
    mass = raw.sum(-1, keepdim=True)
    shares = raw / torch.where(mass > 0, mass, 1.0)
    order = space.leads(space.vectors(shares)).argsort(dim=1, stable=True)[:, :count]
    return shares.take_along_dim(order[..., None, None], dim=1)


def _best(space: Space, index: Tensor, count: int) -> Tensor:
    """The ``count`` distinct vertices (B, count, S) of least lead among (B, K, S)."""
    leads = space.leads_at_vertices(index)
    is_equal = (index[:, :, None] == index[:, None]).all(-1)  # (B, K, K)
    is_repeated = is_equal.tril(-1).any(-1)
    order = leads.masked_fill(is_repeated, torch.inf).argsort(dim=1, stable=True)
    return index.take_along_dim(order[:, :count, None], dim=1)


def _head_finalists(space: Space, moves: Tensor) -> Tensor:
    """Of each slot, shares (B, S, F, S, T) that differ from the own ones in that slot alone; those first.

    Args:
        space: what is searched.
        moves: its moves (B, S, T, D).
    """
    slots, items = space.items.shape[1:]
    own = space.own
    alone = own[:, None, None].expand(-1, slots, 1, slots, items)
    if not bool(space.items.any()):
        return alone
    moves = moves.to(space.origin)
    of_slot = torch.einsum("bst,bstd->bsd", own.to(moves), moves)
    without_slot = space.vectors(own[:, None]) - of_slot  # (B, S, D)
    vectors = without_slot[:, :, None] + moves  # (B, S, T, D), of all vertices
    leads = space.leads(vectors.flatten(1, 2)).view_as(own).masked_fill(~space.items, torch.inf)
    order = leads.argsort(dim=2, stable=True)[..., :_CORNERS]  # (B, S, K)
    is_item = space.items.gather(2, order)[..., None]
    corners = torch.where(is_item, F.one_hot(order, items).double(), own[:, :, None])  # (B, S, K, T)
    vertices = _replaced(own, corners)  # (B, S, K, S, T)
    if space.readout.is_affine:
        return torch.cat([alone, vertices], dim=2)
    start = _on_edges(space, torch.cat([corners, own[:, :, None]], dim=2))  # (B, S, S, T)
    free = torch.eye(slots, dtype=torch.bool, device=own.device)
    starts = torch.cat([start, vertices[:, :, 0], vertices[:, :, -1], alone[:, :, 0]], dim=1)  # (B, 4 S, S, T)
    between = settled(space, starts, free.repeat(4, 1), _FRANK_WOLFE)
    between = between.view(-1, 4, slots, slots, items).transpose(1, 2)  # (B, S, 4, S, T)
    return torch.cat([alone, vertices, start[:, :, None], between], dim=2)


def _replaced(own: Tensor, rows: Tensor) -> Tensor:
    """Shares (B, S, K, S, T): the own ones (B, S, T) with those of each slot replaced by its rows (B, S, K, T)."""
    b, slots, count, items = rows.shape
    own = own[:, None, None].expand(b, slots, count, slots, items)
    here = torch.eye(slots, dtype=torch.bool, device=own.device)[:, None, :, None]
    return torch.where(here, rows[:, :, :, None], own)


def _on_edges(space: Space, corners: Tensor) -> Tensor:
    """The best point (B, S, S, T) of each slot on the lines between its corners (B, S, K, T), ends included."""
    pairs = torch.combinations(torch.arange(corners.shape[2], device=corners.device))  # (P, 2)
    one, other = corners[:, :, pairs[:, 0]], corners[:, :, pairs[:, 1]]  # (B, S, P, T)
    parts = torch.linspace(0, 1, 9, dtype=torch.float64, device=corners.device)[:, None]
    points = one[:, :, :, None] + parts * (other - one)[:, :, :, None]  # (B, S, P, 9, T)
    shares = _replaced(space.own, points.flatten(2, 3))  # (B, S, 9 P, S, T)
    leads = space.leads(space.vectors(shares.flatten(1, 2))).view(shares.shape[:3])
    best = first_least(leads)  # (B, S)
    return picked(shares, best[..., None])


def _radius_lines(space: Space, found: Tensor) -> Tensor:
    """Shares (B, K, S, T) to which lines from the own ones may flip early, from those (B, S, T) of a joint attack."""
    lines = found[:, None]
    if not bool(space.items.any()):
        return lines
    guesses = first_least(space.slopes_by_rival())  # (B, C - 1, S)
    lines = torch.cat([lines, space.shares_of(guesses)], dim=1)
    if space.readout.is_affine:
        return lines
    rho = first_flips(space, lines, _COARSE)  # (B, K)
    choice = first_least(rho)[:, None]
    best, radius = lines.take_along_dim(choice[..., None, None], dim=1), rho.gather(1, choice)[:, 0]
    goes_on = radius.isfinite()  # (B,)
    for _ in range(_REPEATS):
        texts = goes_on.nonzero()[:, 0]
        if not len(texts):
            break
        ends = _again(space.rows(texts).near(radius[texts]), best[texts], guesses[texts])
        rho = first_flips(space.rows(texts), ends, _COARSE)
        choice = first_least(rho)[:, None]
        found_rho = rho.gather(1, choice)[:, 0]
        gains = found_rho < radius[texts]
        goes_on[texts] = found_rho < (1 - _GAIN) * radius[texts]
        best[texts[gains]] = ends.take_along_dim(choice[..., None, None], dim=1)[gains]
        radius[texts[gains]] = found_rho[gains]
    return torch.cat([best, found[:, None]], dim=1)


def _again(near: Space, best: Tensor, guesses: Tensor) -> Tensor:
    """Shares (B, K, S, T) of an attack among mixtures of a smaller radius, from the best so far (B, 1, S, T)."""
    guess = first_least(near.slopes(near.vectors(best)))  # (B, 1, S)
    starts = torch.cat([guesses, guess, first_least(-best)], dim=1)
    index = jumped(near, _best(near, starts, _STARTS), _JUMPS)
    index = swapped(near, _best(near, index, 1), 1)
    return near.shares_of(index)
