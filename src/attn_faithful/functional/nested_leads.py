"""By how much the greatest leads of sets of every size exceed those of nested sets: branch and bound.

The sets of two sizes that have the greatest leads need not be nested. An item that is in the smaller one alone divides
all orders in two: those that keep it in the smaller size, and so in all larger ones, and those that have removed it by
then, and so in all smaller ones. Each part has its own greatest leads; what no part reaches, no order does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attn_faithful.functional.kept_leads import greatest_lead_with

_ROUNDS = 40  # in each of which the part of a text that reaches furthest is divided
_NEAR = 1e-9  # of what is left to close: not worth another round


@dataclass(frozen=True)
class NestedLeads:
    """What nested sets can have.

    Attributes:
        beyond: (B,), float64, 0 and above: no nested sets come nearer to the sum of the greatest leads.
        kept_by: (B, T), int64: how many sets of the furthest part each item is in. Where these are nested, an order
            that keeps items the longer the more they are in comes as near as can be.
    """

    beyond: Tensor
    kept_by: Tensor


def nested_leads(log_weights: Tensor, margins: Tensor, gap: Tensor) -> NestedLeads:
    r"""How near nested sets come to ``sum over sizes 1 ... n - 1 of sigmoid(greatest lead)``.

    Args:
        log_weights: (B, T), float64, of n items each of which has weight; -inf outside them.
        margins: (B, T), float64, finite, the lead that each item alone gives.
        gap: (B,), how far below that sum some nested sets are known to be.

    Returns:
        :class:`NestedLeads`; ``beyond`` is at most ``gap``.

    Example:
        >>> weights, margins = torch.tensor([[0.5, 0.3, 0.2]]).double(), torch.tensor([[1.0, 2.0, -2.0]]).double()
        >>> nested_leads(weights.log(), margins, torch.tensor([0.1]).double())
        NestedLeads(beyond=tensor([0.], dtype=torch.float64), kept_by=tensor([[1, 2, 0]]))
    """
    texts = torch.arange(len(margins), device=margins.device)
    never = torch.full_like(margins, margins.shape[1] + 1, dtype=torch.long)
    problem = _Problem(log_weights, margins)
    parts = problem.solved(texts, never, torch.zeros_like(never))
    total = parts.total
    floor = total - gap
    for _ in range(_ROUNDS):
        furthest = parts.furthest()
        is_open = (parts.size > 0) & (parts.total > floor[parts.text] + _NEAR)
        divided = furthest[is_open[furthest]]
        if not len(divided):
            break
        stays = torch.ones_like(parts.text, dtype=torch.bool)
        stays[divided] = False
        halves = problem.halves(parts.take(divided))
        parts = parts.take(stays.nonzero()[:, 0]).joined(halves)
    best = parts.take(parts.furthest())  # texts rise
    reached = torch.maximum(floor, best.total)
    return NestedLeads((total - reached).clamp(min=0), best.kept_by)


@dataclass(frozen=True)
class _Parts:
    """Some of the orders of texts, P parts.

    Attributes:
        text: (P,), int64.
        kept_from: (P, T), int64: in sets of so many items and more an item is kept.
        gone_until: (P, T), int64: in sets of so many items and fewer it is not.
        total: (P,), sum over sizes of sigmoid(greatest lead); -inf where there is no such order.
        size: (P,), int64, the least size whose set is not in that of one more; 0 where all are nested.
        item: (P,), int64, an item that is in the smaller of these two alone.
        kept_by: (P, T), int64, how many of the sets each item is in.
    """

    text: Tensor
    kept_from: Tensor
    gone_until: Tensor
    total: Tensor
    size: Tensor
    item: Tensor
    kept_by: Tensor

    def take(self, rows: Tensor) -> _Parts:
        return _Parts(*(column[rows] for column in self._columns()))

    def joined(self, other: _Parts) -> _Parts:
        pairs = zip(self._columns(), other._columns(), strict=True)
        return _Parts(*(torch.cat(pair) for pair in pairs))

    def furthest(self) -> Tensor:
        """Of each text the part (R,) with the greatest total."""
        text = self.text.cpu().numpy()
        order = np.lexsort((-self.total.cpu().numpy(), text))
        _, first = np.unique(text[order], return_index=True)
        return torch.from_numpy(order[first]).to(self.text.device)

    def _columns(self) -> tuple[Tensor, ...]:
        return (self.text, self.kept_from, self.gone_until, self.total, self.size, self.item, self.kept_by)


@dataclass(frozen=True)
class _Problem:
    """Texts by their weights and margins, (B, T) each."""

    log_weights: Tensor
    margins: Tensor

    def solved(self, text: Tensor, kept_from: Tensor, gone_until: Tensor) -> _Parts:
        """Parts of texts (P,), with the greatest leads of every size."""
        tokens = self.margins.shape[1]
        count = (self.log_weights[text] > -math.inf).sum(1)  # (P,)
        sizes = torch.arange(1, tokens + 1, device=text.device)
        part, place = (sizes < count[:, None]).nonzero().unbind(1)  # (R,) each
        size = place + 1
        forced = kept_from[part] <= size[:, None]  # (R, T)
        excluded = gone_until[part] >= size[:, None]
        rows = text[part]
        lead, kept = greatest_lead_with(self.log_weights[rows], self.margins[rows], size, forced, excluded)
        total = torch.zeros(text.shape, dtype=torch.float64, device=text.device)
        possible = torch.where(lead > -math.inf, lead.sigmoid(), -math.inf)
        total.index_add_(0, part, possible)
        sets = torch.ones(len(text), tokens + 1, tokens, dtype=torch.bool, device=text.device)  # (P, T + 1, T)
        sets[part, place] = kept
        lost = sets[:, :-1] & ~sets[:, 1:]  # (P, T, T): in the set of a size, and not in that of one more
        in_conflict = lost.any(-1)  # (P, T)
        at = in_conflict.int().argmax(1)
        conflict = torch.where(in_conflict.any(1), at + 1, 0)
        item = lost[torch.arange(len(text), device=text.device), at].int().argmax(1)
        kept_by = torch.zeros_like(kept_from).index_add_(0, part, kept.long())
        return _Parts(text, kept_from, gone_until, total, conflict, item, kept_by)

    def halves(self, parts: _Parts) -> _Parts:
        """Both halves of every part: the item of its conflict is in both sets, or not in the smaller one."""
        row = torch.arange(len(parts.text), device=parts.text.device)
        kept_from, gone_until = parts.kept_from.clone(), parts.gone_until.clone()
        kept_from[row, parts.item] = torch.minimum(kept_from[row, parts.item], parts.size)
        gone_until[row, parts.item] = torch.maximum(gone_until[row, parts.item], parts.size)
        with_item = self.solved(parts.text, kept_from, parts.gone_until)
        without = self.solved(parts.text, parts.kept_from, gone_until)
        return with_item.joined(without)
