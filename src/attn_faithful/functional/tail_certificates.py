"""Proofs that no attention of a head, or no mixture of all heads up to a radius, changes a decision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.simplices import Simplices
from attn_faithful.functional.tail import last_value
from attn_faithful.functional.tail_bounds import lowest_leads
from attn_faithful.functional.tail_branching import least_lead
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.functional.tail_forms import UNIT, Sets, largest


@dataclass(frozen=True)
class Effort:
    """How hard a proof is tried; the same on every machine, unlike a budget of time.

    Attributes:
        bins: parts of the interval of the first norm's scale, one try after another for the heads still open; without
            any nothing is proved.
        halvings: of the interval in which the largest provable radius lies.
        boxes: parts into which the simplex of a head that is open after that is cut at most, see `least_lead`; 0 for
            none.
    """

    bins: tuple[int, ...] = (1, 4)
    halvings: int = 6
    boxes: int = 0

    @property
    def is_none(self) -> bool:
        """Whether nothing is tried at all."""
        return not self.bins


class Certifier:
    """Proofs about one text.

    Args:
        chain: the steps of the tail.
        simplices: of texts.
        text: which of them.
        decision: the class decided.

    Example:
        >>> from attn_faithful.functional.tail import Tail
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.tensor([[[[3.0, 0.0], [2.0, 1.0]]]]).double(), ())
        >>> items = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> simplices = Simplices.of(tail, torch.tensor([[[0.5, 0.5]]]), items)
        >>> certifier = Certifier(Chain(()), simplices, 0, 0)
        >>> certifier.proved_heads(torch.tensor([True]), Effort()), certifier.proved_radius(1.0, Effort())
        (tensor([True]), 1.0)
    """

    def __init__(self, chain: Chain, simplices: Simplices, text: int, decision: int) -> None:
        self.chain = chain
        self.origin = simplices.origin[text]  # (D,)
        self.moves: list[Tensor] = []  # of each slot, (items, D)
        own = []
        for slot, is_item in enumerate(simplices.items[text]):
            moves = simplices.moves[text, slot][is_item]
            own.append(simplices.shares[text, slot][is_item] @ moves)
            self.moves.append(moves)
        self.own = torch.stack(own)  # (S, D), what each slot adds
        self.noise = self._rounding()
        classes = last_value(chain.steps, self.origin).shape[-1]
        self.margins = margins_of(classes, decision)  # (C - 1, C)

    def _rounding(self) -> float:
        """What rounding may have added to a number of the sets: of sums over items, then over slots."""
        terms = len(self.moves) + max(len(moves) for moves in self.moves) + 4
        size = largest(self.origin) + sum(largest(moves) for moves in self.moves)
        return terms * UNIT * size

    def proved_heads(self, wanted: Tensor, effort: Effort) -> Tensor:
        """Whether no shares at all of a slot, the others keeping theirs, change the decision, (S,) bool.

        Args:
            wanted: slots (S,) for which a proof is tried.
            effort: how hard.
        """
        proved = torch.zeros_like(wanted)
        for bins in effort.bins:
            open_slots = (wanted & ~proved).nonzero()[:, 0]
            if not len(open_slots):
                break
            leads = lowest_leads(self._of_heads(open_slots), self.chain, self._rows(len(open_slots)), bins)
            proved[open_slots] = (leads > 0).all(-1)
        if effort.boxes and len(self.margins):
            for slot in (wanted & ~proved).nonzero():
                least = least_lead(self._of_heads(slot), self.chain, self.margins, effort.boxes, line=0.0)
                proved[slot] = least.lower > 0
        return proved

    def proved_radius(self, limit: float, effort: Effort) -> float:
        """A radius rho up to which no mixture ``(1 - rho) own + rho q`` of all slots changes the decision, q being any.

        Args:
            limit: where the search begins, such as a radius at which the decision was seen to change.
            effort: how hard.
        """
        if effort.is_none:
            return 0.0
        low = 0.0
        high = limit
        if limit == 1.0 and self._holds(1.0):
            return 1.0
        for _ in range(effort.halvings):
            middle = (low + high) / 2
            if self._holds(middle):
                low = middle
            else:
                high = middle
        return low

    def _holds(self, radius: float) -> bool:
        """Whether all mixtures of a radius are proved to keep the decision."""
        centre = self.origin + (1 - radius) * self.own.sum(0)
        groups = [radius * moves for moves in self.moves if len(moves)]
        sets = Sets(centre[None], _stacked(groups, centre)[None], self.noise)
        leads = lowest_leads(sets, self.chain, self._rows(1))
        return bool((leads > 0).all())

    def _of_heads(self, slots: Tensor) -> Sets:
        """The vectors under any shares of each slot (R,), the others keeping theirs."""
        total = self.origin + self.own.sum(0)
        vertices = _stacked([self.moves[slot] for slot in slots.tolist()], total)  # (R, V, D)
        return Sets(total - self.own[slots], vertices[:, None], self.noise)

    def _rows(self, count: int) -> Tensor:
        return self.margins.expand(count, -1, -1)


def margins_of(classes: int, decision: int) -> Tensor:
    """Rows (C - 1, C) of the decision's logit less each other one's, float64.

    Example:
        >>> margins_of(2, 1)
        tensor([[-1.,  1.]], dtype=torch.float64)
    """
    identity = torch.eye(classes, dtype=torch.float64)
    rows = identity[decision] - identity
    return rows[torch.arange(classes) != decision]


def _stacked(groups: list[Tensor], like: Tensor) -> Tensor:
    """Vertices (F, V, D) of groups of different size, the first of each repeated; those of none are 0."""
    if not groups:
        return like.new_zeros(1, 1, len(like))
    longest = max(1, *(len(group) for group in groups))
    rows = []
    for group in groups:
        if not len(group):
            group = like.new_zeros(1, len(like))
        repeated = group[:1].expand(longest - len(group), -1)
        rows.append(torch.cat([group, repeated]))
    return torch.stack(rows)
