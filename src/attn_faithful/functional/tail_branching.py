"""Branch and bound: a set is cut into smaller ones until the proven least lead meets one that is found."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.tail import last_value
from attn_faithful.functional.tail_bounds import lowest_leads
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.functional.tail_forms import UNIT, Sets, largest

_AT_ONCE = 64  # boxes that are cut in one round, but for the first ones
_WAIT = 6  # cuts of a box after which tangents are tried again however far behind they were
_WORTH = 10  # times as far behind the least lead found as intervals may tangents be and be tried


@dataclass(frozen=True)
class Least:
    """The least lead over a set, between two numbers.

    Attributes:
        lower: proven.
        upper: found, at ``shares``.
        shares: (F, V), of the vertices of each group.
        boxes: how many were bounded.
    """

    lower: float
    upper: float
    shares: Tensor
    boxes: int


@dataclass
class _Boxes:
    """Products of simplices inside one of F groups.

    Attributes:
        shares: of the vertices of each, in those of the whole set, (K, F, V, V).
        lower: proven bounds (K,).
        behind: how far bounds by tangents are behind those by intervals, or are thought to be, (K,).
    """

    shares: Tensor
    lower: Tensor
    behind: Tensor

    def rows(self, index: Tensor) -> _Boxes:
        return _Boxes(self.shares[index], self.lower[index], self.behind[index])

    def and_also(self, other: _Boxes) -> _Boxes:
        pairs = ((self.shares, other.shares), (self.lower, other.lower), (self.behind, other.behind))
        return _Boxes(*(torch.cat(pair) for pair in pairs))


def least_lead(
    sets: Sets, chain: Chain, margins: Tensor, boxes: int, gap: float = 0.0, line: float | None = None
) -> Least:
    """The least of ``margins @ logits`` over one set and all margins.

    The longest edge of a box is cut in the middle; the boxes of the lowest bounds first.

    Args:
        sets: one set, see `Sets`.
        chain: the steps.
        margins: rows (R, C) of the logits, such as the decision's less each rival's.
        boxes: how many are bounded at most, but for the last round.
        gap: the difference of upper and lower at which the search ends.
        line: ends as soon as the least lead is known to be above or found to be at most this; None to end with the gap.

    Example:
        >>> from attn_faithful.functional.tail import Activation
        >>> sets = Sets(torch.zeros(1, 2).double(), 2 * torch.eye(2).double()[None, None] - 1)
        >>> chain = Chain([Activation(0, "relu")])
        >>> least = least_lead(sets, chain, torch.tensor([[-1.0, -1.0]]).double(), 100, gap=1e-6)
        >>> round(least.lower, 5), round(least.upper, 5)
        (-1.0, -1.0)
    """
    search = _Search(sets, chain, margins)
    _, groups, vertices, _ = sets.vertices.shape
    whole = torch.eye(vertices, dtype=torch.float64).expand(1, groups, -1, -1)
    pending = search.bounded(_Boxes(whole, torch.full((1,), -torch.inf).double(), torch.zeros(1).double()))
    settled = torch.inf  # the least bound of boxes that need no more cutting
    while len(pending.lower):
        done = pending.lower >= search.upper - gap
        if line is not None:
            done |= pending.lower > line
        if bool(done.any()):
            settled = min(settled, float(pending.lower[done].min()))
            pending = pending.rows(~done)
        found = line is not None and search.upper <= line
        if not len(pending.lower) or found or search.count >= boxes:
            break
        order = pending.lower.argsort()
        at_once = min(_AT_ONCE, max(1, search.count // 4))
        cut = search.cut(pending.rows(order[:at_once]))
        pending = pending.rows(order[at_once:]).and_also(cut)
    lower = min(settled, float(pending.lower.min())) if len(pending.lower) else settled
    return Least(min(lower, search.upper), search.upper, search.shares, search.count)


class _Search:
    """What boxes of one set are bounded with, and the least lead found so far.

    Args:
        sets: one.
        chain: the steps.
        margins: (R, C).
    """

    def __init__(self, sets: Sets, chain: Chain, margins: Tensor) -> None:
        self.sets = sets
        self.chain = chain
        self.margins = margins
        self.upper = torch.inf
        self.shares = torch.empty(0)
        self.count = 0

    def bounded(self, boxes: _Boxes) -> _Boxes:
        """Boxes with better bounds than those that hold for the boxes of which they are parts."""
        shares = boxes.shares
        self.count += len(shares)
        vertices = shares @ self.sets.vertices  # (K, F, V, D)
        rounding = (shares.shape[-1] + 2) * UNIT * largest(self.sets.vertices)
        sets = Sets(self.sets.centre.expand(len(shares), -1), vertices, self.sets.noise + rounding)
        margins = self.margins.expand(len(shares), -1, -1)
        self._look(shares)
        by_intervals = lowest_leads(sets, self.chain, margins).amin(-1)  # (K,)
        lower = torch.fmax(boxes.lower, by_intervals)
        behind = boxes.behind / 2
        worth = behind <= _WORTH * (self.upper - lower)
        if bool(worth.any()):
            by_tangents = lowest_leads(sets.rows(worth), self.chain, margins[worth], tangents=True).amin(-1)
            most = 2**_WAIT * _WORTH * (self.upper - lower[worth])
            behind[worth] = torch.fmin(by_intervals[worth] - by_tangents, most)
            lower[worth] = torch.fmax(lower[worth], by_tangents)
        return _Boxes(shares, lower, behind)

    def cut(self, boxes: _Boxes) -> _Boxes:
        """The halves (2 K) of boxes (K), across the longest edge of each."""
        vertices = boxes.shares @ self.sets.vertices  # (K, F, V, D)
        k, _, count, _ = vertices.shape
        longest = torch.cdist(vertices, vertices).flatten(1).argmax(1)  # (K,)
        group = longest // count**2
        one = longest // count % count
        other = longest % count
        every = torch.arange(k)
        own = boxes.shares[every, group]  # (K, V, V)
        middle = (own[every, one] + own[every, other]) / 2  # (K, V)
        halves = []
        for end in (one, other):
            # a vertex that is there several times goes everywhere
            of_group = vertices[every, group]
            same = (of_group == of_group[every, end][:, None]).all(-1)  # (K, V)
            half = boxes.shares.clone()
            half[every, group] = torch.where(same[..., None], middle[:, None], own)
            halves.append(half)
        return self.bounded(_Boxes(torch.cat(halves), boxes.lower.repeat(2), boxes.behind.repeat(2)))

    def _look(self, shares: Tensor) -> None:
        """Leads at the middle of each box and at the vertices that its slope there names."""
        middle = shares.mean(2, keepdim=False)  # (K, F, V)
        given = middle.clone().requires_grad_(True)
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self._leads(given).sum(), given)
        along = (shares @ slope[..., None])[..., 0]  # (K, F, V)
        named = along.argmin(-1)[..., None, None].expand(-1, -1, 1, shares.shape[-1])
        places = torch.cat([middle, shares.gather(2, named)[:, :, 0]])
        leads = self._leads(places)
        best = int(leads.nan_to_num(nan=torch.inf).argmin())
        if float(leads[best]) < self.upper:
            self.upper = float(leads[best])
            self.shares = places[best]

    def _leads(self, shares: Tensor) -> Tensor:
        """The least lead (K,) at shares (K, F, V)."""
        vectors = self.sets.centre + shares.flatten(1) @ self.sets.vertices[0].flatten(0, 1)
        return (last_value(self.chain.steps, vectors) @ self.margins.T).amin(-1)
