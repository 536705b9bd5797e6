"""Limits of AOPC of any model, by beam search over the orders in which items can be removed: a search, no proof.

Every step removes one item more from each set that is kept in the beam, asks the model for all of these, and keeps the
few that lost most (or least) so far. What it finds some order reaches; a better one may exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.attention_removal import removal_order
from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.naopc import AopcLimits
from attn_faithful.functional.readout import check_decision, defined_rows
from attn_faithful.functional.reasons import (
    NAN_PROBABILITIES,
    NO_TOKEN,
    ONE_ITEM,
    OVER_BUDGET,
    first_reasons,
)
from attn_faithful.functional.removal_rounds import After


@dataclass(frozen=True)
class SearchedAopc:
    """AOPC of given orders, and the limits that were found.

    Attributes:
        aopc: (O, B), float64, probability, -1 to 1, of each order; NaN where the limits are.
        limits: the best and the worst order that were found, these orders among them.
    """

    aopc: Tensor
    limits: AopcLimits


def searched_aopc(
    after: After, orders: Tensor, items: Tensor, decision: Tensor, width: int, budget: int
) -> SearchedAopc:
    r"""AOPC of orders of removals, and of the best and the worst order that a beam search finds, for any model.

    ``AOPC = mean over k = 1 ... n - 1 of p_y(all) - p_y(without the first k)``. A beam of one set in each direction
    asks for about n^2 sets of n items; a text gets the widest beam up to ``width`` that its budget holds.

    Args:
        after: ``after(keep (R, T) bool, text (R,)) -> logits (R, C)`` of rows of some texts; ``keep`` is True outside
            ``items``. It may be asked for a set again: one that remembers answers from memory.
        orders: (O, B, T), int64, of each order the positions of a text, the items first.
        items: (B, T), bool: what may be removed.
        decision: (B,), the class y.
        width: most sets that are kept of each size and direction, at least 1.
        budget: most sets that are asked of a text, those of the orders among them, at least 1.

    Returns:
        :class:`SearchedAopc`; NaN with a reason for fewer than two items, for a text that not even a beam of one set
        fits the budget of ("too long for the beam's budget"), which the model is asked nothing of, and where a
        probability is NaN.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a width or a budget below 1.

    Reference:
        Edin et al. (2024), section 3, after Zhou and Shah (2022), "The solvability of interpretability evaluation
        metrics".

    Example:
        >>> values = torch.tensor([3.0, 1.0, -1.0])
        >>> after = lambda keep, text: torch.stack([torch.zeros(len(keep)), (keep * values).sum(-1)], -1)
        >>> orders, items = torch.tensor([[[1, 0, 2]]]), torch.ones(1, 3, dtype=torch.bool)
        >>> found = searched_aopc(after, orders, items, torch.tensor([1]), width=1, budget=50)
        >>> found.limits.best_order.tolist(), found.limits.worst_order.tolist()
        ([[0, 1, 2]], [[2, 1, 0]])
        >>> found.aopc.round(decimals=4), found.limits.best.round(decimals=4)
        (tensor([[0.3777]], dtype=torch.float64), tensor([0.5681], dtype=torch.float64))
    """
    check_items(items, tuple(orders.shape[1:]))
    check_widths(width, budget)
    count = items.sum(1)  # (B,)
    widths = beam_widths(count, len(orders), width, budget)
    fits = widths > 0
    asked = _Asked(after, items & fits[:, None], decision)
    aopc = asked.aopc(orders)
    best = asked.end(widths, 1.0)
    worst = asked.end(widths, -1.0)
    reasons = first_reasons(
        {NO_TOKEN: count == 0, ONE_ITEM: count == 1, OVER_BUDGET: ~fits, NAN_PROBABILITIES: asked.with_nan}
    )
    undefined = ~defined_rows(reasons, items)
    aopc = aopc.masked_fill(undefined, math.nan)
    best_found = best.value.masked_fill(undefined, math.nan)
    worst_found = worst.value.masked_fill(undefined, math.nan)
    limits = AopcLimits(best_found, worst_found, best_found, worst_found, best.order, worst.order, reasons)
    return SearchedAopc(aopc, limits.including(aopc))


def check_widths(width: int, budget: int) -> None:
    """Raise unless both are at least 1."""
    if width < 1 or budget < 1:
        raise InputError(f"Expected `width` and `budget` of at least 1, but got {width} and {budget}.")


def beam_widths(count: Tensor, orders: int, width: int, budget: int) -> Tensor:
    """The widest beam (B,) up to ``width`` with which a text of so many items (B,) keeps to its budget; 0 if none does.

    All items, each single one, and in each direction from each of w sets of k = 2 ... n - 1 items one of k fewer; the
    orders ask for n - 1 sets each.

    Example:
        >>> beam_widths(torch.tensor([2, 10, 20, 40]), orders=4, width=5, budget=1000)
        tensor([5, 5, 2, 0])
    """
    n = count.long()
    left = budget - 1 - n - orders * (n - 1)
    a_set = (n * (n - 1) - 2).clamp(min=1)
    widest = torch.where(left >= 0, left // a_set, 0)
    return widest.clamp(min=0, max=width)


@dataclass(frozen=True)
class _End:
    """The best order that a beam found, or the worst.

    Attributes:
        value: (B,), its AOPC.
        order: (B, T), int64, the items first.
    """

    value: Tensor
    order: Tensor


@dataclass(frozen=True)
class _Beam:
    """Sets that are kept, R of all texts: those of a text together, the best first.

    Attributes:
        text: (R,), int64, rising.
        keep: (R, T), bool.
        turn: (R, T), int64: after how many others an item was removed; T where it is kept.
        lost: (R,), what the prediction lost on the way to this set, added up, in the beam's direction.
    """

    text: Tensor
    keep: Tensor
    turn: Tensor
    lost: Tensor

    def take(self, rows: Tensor) -> _Beam:
        return _Beam(self.text[rows], self.keep[rows], self.turn[rows], self.lost[rows])

    def without_one_more(self, items: Tensor, step: int) -> _Beam:
        """Every set without each of its items (B, T), as the one removed after so many."""
        row, item = (self.keep & items[self.text]).nonzero().unbind(1)
        sets = self.take(row)
        place = item[:, None]
        return _Beam(sets.text, sets.keep.scatter(1, place, False), sets.turn.scatter(1, place, step), sets.lost)

    def narrowed(self, widths: Tensor) -> _Beam:
        """As many different sets of a text as its width (B,) says: those on the way to which most was lost."""
        by_loss = torch.from_numpy(np.lexsort((-self.lost.cpu().numpy(), self.text.cpu().numpy())))
        ranked = self.take(by_loss.to(self.text.device))
        # a set that was reached on several ways stands where the best of them put it
        text = ranked.text.cpu().numpy()
        names = np.concatenate([text[:, None].view(np.uint8), np.packbits(ranked.keep.cpu().numpy(), axis=1)], axis=1)
        _, first = np.unique(names, axis=0, return_index=True)
        first.sort()
        text = text[first]
        place = np.arange(len(text)) - np.searchsorted(text, text)
        narrow = first[place < widths.cpu().numpy()[text]]
        return ranked.take(torch.from_numpy(narrow).to(self.text.device))


class _Asked:
    """Texts whose model is asked for sets of items.

    Args:
        after: as of `searched_aopc`.
        items: (B, T), bool; none of a text that is asked nothing of.
        decision: (B,).

    Attributes:
        p_all: (B,), float64, probability of the decision with everything kept; 0 of a text that is not asked.
        with_nan: (B,), bool: whether one of the probabilities was NaN.
    """

    def __init__(self, after: After, items: Tensor, decision: Tensor) -> None:
        self.after = after
        self.items = items
        self.decision = decision
        self.count = items.sum(1)  # (B,)
        self.with_nan = torch.zeros_like(self.count, dtype=torch.bool)
        self.p_all = torch.zeros(self.count.shape, dtype=torch.float64, device=items.device)
        text = (self.count > 1).nonzero()[:, 0]  # (R,)
        self.p_all[text] = self.p(torch.ones_like(items)[text], text)

    def p(self, keep: Tensor, text: Tensor) -> Tensor:
        """The decision's probability (R,) of texts (R,) with ``keep`` (R, T) alone."""
        if not len(text):
            return torch.zeros(0, dtype=torch.float64, device=text.device)
        logits = self.after(keep, text).detach().double()
        if bool((self.decision >= logits.shape[1]).any()):
            check_decision(self.decision, len(self.items), logits.shape[1])
        p = logits.softmax(-1).gather(1, self.decision[text][:, None])[:, 0]
        self.with_nan[text[p.isnan()]] = True
        return p

    def aopc(self, orders: Tensor) -> Tensor:
        """AOPC (O, B) of orders (O, B, T); 0 of a text that is not asked."""
        rank = orders.argsort(-1).transpose(0, 1)  # (B, O, T)
        removed = torch.arange(1, max(1, self.items.shape[1]), device=orders.device)  # (K,)
        is_asked = (removed < self.count[:, None])[:, None].expand(-1, len(orders), -1)  # (B, O, K)
        text, order, place = is_asked.nonzero().unbind(1)  # (R,) each
        keep = (rank[text, order] >= removed[place][:, None]) | ~self.items[text]
        lost = torch.zeros(is_asked.shape, dtype=torch.float64, device=orders.device)
        lost[is_asked] = self.p_all[text] - self.p(keep, text)
        return (lost.sum(-1) / (self.count - 1).clamp(min=1)[:, None]).T

    def end(self, widths: Tensor, sign: float) -> _End:
        """What a beam of these widths (B,) finds; ``sign`` is 1 for the best order, -1 for the worst."""
        texts, tokens = self.items.shape
        value = torch.zeros_like(self.p_all)
        last_turn = torch.full((texts, tokens), tokens, device=self.items.device)  # (B, T)
        text = torch.arange(texts, device=self.items.device)
        beam = _Beam(text, torch.ones_like(self.items), last_turn.clone(), torch.zeros_like(self.p_all))
        most = int(self.count.max()) if texts else 0
        for step in range(1, most):
            goes_on = self.count[beam.text] > step
            sets = beam.take(goes_on.nonzero()[:, 0]).without_one_more(self.items, step)
            lost = sets.lost + sign * (self.p_all[sets.text] - self.p(sets.keep, sets.text))
            beam = replace(sets, lost=lost).narrowed(widths)
            is_first = torch.ones_like(beam.text, dtype=torch.bool)
            is_first[1:] = beam.text[1:] != beam.text[:-1]
            best = beam.take(is_first.nonzero()[:, 0])
            value[best.text] = sign * best.lost / (self.count[best.text] - 1)
            last_turn[best.text] = best.turn
        return _End(value, removal_order(-last_turn.double(), self.items))
