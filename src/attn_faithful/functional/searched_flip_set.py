"""A small set of items without which the decision changes, for any model: proposed by tangents, verified by asking.

Near an attention the decision's lead is about linear in it. Of a linear lead the greedy order of removals costs the
model nothing; its prefixes are then asked of the model, and the next tangent is taken where the lead was least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.flip_set import greedy_flip_size
from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.readout import first_least, flipped, lead
from attn_faithful.functional.removal_rounds import After

BUDGET = 1000  # removals that are tried for a text
_TANGENTS = 4  # at most; the second finds what all further ones do on nearly every text
_CHEAP = 64  # removals that the greedy search over every item may take in the end
_GAIN = 1e-6  # of the lead that is worth another tangent
_NOTHING = 1e-12  # of a slot's weight that is left: as good as none


@dataclass(frozen=True)
class SearchedFlipSet:
    """The smallest set that was found, one an example.

    Attributes:
        size: (B,), float64, at least 1; NaN where none was found.
        removed: (B, T), bool, the set; empty where there is none.
        tried: (B,), int64, how many removals were tried, a tangent counted as one.
    """

    size: Tensor
    removed: Tensor
    tried: Tensor


def searched_flip_set(
    after: After,
    slopes: Callable[[Tensor, Tensor], Tensor],
    weights: Tensor,
    items: Tensor,
    decision: Tensor,
    known: Tensor | None = None,
    budget: int = BUDGET,
) -> SearchedFlipSet:
    r"""An upper bound of the smallest set whose removal changes the decision, by about 2 n removals of n items.

    With the lead's slopes ``g_st`` at one attention, the lead without a set is about
    ``sum_s (sum over kept t of a_st g_st / sum over kept t of a_st)`` up to a constant. Its greedy order, the item
    without which it is least first, is followed as far as a smaller set than any known could be, and each prefix is
    asked of the model. The first tangent is that of the model's own attention; each further one is taken at the prefix
    of the least lead, as long as that gains, and only prefixes of which it predicts less are asked. Where a smaller
    set could be found in 64 removals by asking every item at every step (:func:`~.flip_set.greedy_flip_size`), that is
    done in the end.

    Args:
        after: ``after(keep (R, T) bool, text (R,)) -> logits (R, C)``; ``keep`` is True outside ``items``.
        slopes: ``slopes(keep (R, T) bool, text (R,)) -> (R, S, T)``, of the decision's lead over the best other class,
            by each weight.
        weights: (B, S, T), the model's own attention.
        items: (B, T), bool: what may be removed.
        decision: (B,), the class decided with everything kept.
        known: (B, T), bool: a set that changes the decision, which is given where none smaller is found; empty where
            none is known.
        budget: most removals that are tried for a text, without these 64.

    Returns:
        :class:`SearchedFlipSet`; each set is verified: ``after`` changed the decision without it.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a budget below 1.

    Reference:
        A bound of what Serrano and Smith, section 5.1, call computationally prohibitive.

    Example:
        >>> values = torch.tensor([3.0, 1.0, -1.0])
        >>> after = lambda keep, text: torch.stack([torch.zeros(len(keep)), (keep * values).sum(-1)], -1)
        >>> slopes = lambda keep, text: values.expand(len(text), 1, -1)
        >>> even, items = torch.full((1, 1, 3), 1 / 3), torch.ones(1, 3, dtype=torch.bool)
        >>> searched_flip_set(after, slopes, even, items, torch.tensor([1])).removed
        tensor([[ True, False, False]])
    """
    check_shape("weights", weights, "B S T")
    check_items(items, (weights.shape[0], weights.shape[2]))
    if budget < 1:
        raise InputError(f"Expected `budget` of at least 1, but got {budget}.")
    search = _Search.of(items, known)
    for _ in range(_TANGENTS):
        left = budget - search.tried - 1  # (B,), beside the tangent
        limit = torch.minimum(search.bound - 1, left)  # (B,)
        search.goes_on &= limit > 0
        text = search.goes_on.nonzero()[:, 0]  # (R,)
        if not len(text):
            break
        keep = ~search.point[text]
        tangent = Tangent(weights[text], slopes(keep, text))
        order, predicted = tangent.order(items[text], int(limit.max()))  # (R, L) each
        predicted = predicted - tangent.lead(keep)[:, None] + search.lead_at_point[text][:, None]
        is_asked = predicted < search.least[text][:, None]
        is_asked &= torch.arange(order.shape[1], device=items.device) < limit[text][:, None]
        search.follow(after, text, order, is_asked, decision)
    _ask_every_item(search, after, decision)
    removed = search.removed
    size = removed.sum(1).double()
    return SearchedFlipSet(torch.where(removed.any(1), size, torch.nan), removed, search.tried)


@dataclass
class _Search:
    """Where the search of each text is.

    Attributes:
        items: (B, T), bool.
        removed: (B, T), bool, the smallest set that changes the decision; empty where none is known.
        bound: (B,), the size that the next set must fall below.
        point: (B, T), bool: what is removed where the next tangent is taken.
        lead_at_point: (B,), the decision's lead there; 0 for the first, where no other lead is known.
        least: (B,), the least lead that was met with the decision unchanged.
        tried: (B,), removals and tangents.
        goes_on: (B,), bool: whether the last tangent gained.
    """

    items: Tensor
    removed: Tensor
    bound: Tensor
    point: Tensor
    lead_at_point: Tensor
    least: Tensor
    tried: Tensor
    goes_on: Tensor

    @classmethod
    def of(cls, items: Tensor, known: Tensor | None) -> _Search:
        removed = torch.zeros_like(items) if known is None else known & items
        counts = items.sum(1)  # (B,)
        bound = torch.where(removed.any(1), removed.sum(1), counts + 1)
        least = torch.full(counts.shape, torch.inf, dtype=torch.float64, device=items.device)
        return cls(
            items=items,
            removed=removed,
            bound=bound,
            point=torch.zeros_like(items),
            lead_at_point=torch.zeros_like(least),
            least=least,
            tried=torch.zeros_like(counts),
            goes_on=counts > 0,
        )

    def follow(self, after: After, text: Tensor, order: Tensor, is_asked: Tensor, decision: Tensor) -> None:
        """Ask for prefixes of an order (R, L) of texts (R,), and note what they give.

        Args:
            after: as of `searched_flip_set`.
            text: R of them.
            order: positions.
            is_asked: (R, L), bool: whether the prefix that ends with this position is asked.
            decision: (B,).
        """
        rank = torch.full((len(text), self.items.shape[1]), order.shape[1], device=order.device)  # (R, T)
        places = torch.arange(order.shape[1], device=order.device)  # (L,)
        rank.scatter_(1, order, places.expand_as(order))
        self.tried[text] += 1 + is_asked.sum(1)
        self.goes_on[text] = is_asked.any(1)
        row, last = is_asked.nonzero().unbind(1)
        if not len(row):
            return
        keep = rank[row] > last[:, None]
        logits = after(keep, text[row]).double()
        decided = decision[text[row]]
        flips = torch.zeros_like(is_asked)
        flips[is_asked] = flipped(logits[:, None], decided)[:, 0]
        leads = torch.full(is_asked.shape, torch.inf, dtype=torch.float64, device=order.device)  # (R, L)
        leads[is_asked] = lead(logits, decided).nan_to_num(torch.inf)
        before_flip = flips.cumsum(1) == 0
        leads = torch.where(before_flip, leads, torch.inf)
        lowest = first_least(leads)  # (R,)
        least = leads.gather(1, lowest[:, None])[:, 0]
        shorter = flips.any(1)
        gains = shorter | (least < self.least[text] - _GAIN)
        self.goes_on[text] = gains & least.isfinite()
        self.point[text] = rank <= lowest[:, None]
        self.lead_at_point[text] = least
        self.least[text] = torch.minimum(self.least[text], least)
        size = before_flip.sum(1) + 1  # (R,), of the first prefix that flips
        smaller = text[shorter]
        self.bound[smaller] = size[shorter]
        self.removed[smaller] = rank[shorter] < size[shorter][:, None]


@dataclass(frozen=True)
class Tangent:
    """A lead that is linear in the attention, up to a constant.

    Attributes:
        weights: (R, S, T), attention.
        slopes: (R, S, T), of the lead by each weight.
    """

    weights: Tensor
    slopes: Tensor

    def lead(self, keep: Tensor) -> Tensor:
        """The lead (R,) with ``keep`` (R, T) alone; a slot of which nothing is left counts as 0."""
        weights = self.weights.double() * keep[:, None]  # (R, S, T)
        mass = weights.sum(-1)  # (R, S)
        value = (weights * self.slopes).sum(-1)
        return (value / torch.where(mass > 0, mass, torch.inf)).sum(1)

    def order(self, items: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """The greedy order of removals: each step removes the item without which the lead is least, the first on ties.

        Args:
            items: (R, T), bool: what may be removed.
            steps: how many items to name; past a row's items they are of no meaning.

        Returns:
            positions (R, steps), int64, and the lead (R, steps) after each step.

        Example:
            >>> tangent = Tangent(torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[[1.0, 2.0, -2.0]]]))
            >>> tangent.order(torch.ones(1, 3, dtype=torch.bool), 2)[0]
            tensor([[1, 0]])
        """
        weights = self.weights.double()
        products = weights * self.slopes  # (R, S, T)
        mass = weights.sum(-1, keepdim=True)  # (R, S, 1), what is left
        value = products.sum(-1, keepdim=True)
        floor = _NOTHING * mass
        candidates = items.clone()
        order = []
        leads = []
        for _ in range(steps):
            mass_without = mass - weights  # (R, S, T)
            by_slot = (value - products) / torch.where(mass_without > floor, mass_without, torch.inf)
            lead_without = by_slot.sum(1).nan_to_num(torch.inf)  # (R, T)
            lead_without = torch.where(candidates, lead_without, torch.inf)
            place = first_least(lead_without)[:, None]  # (R, 1)
            order.append(place)
            leads.append(lead_without.gather(1, place))
            candidates.scatter_(1, place, False)
            of_place = place[:, None].expand(-1, weights.shape[1], -1)  # (R, S, 1)
            mass = mass - weights.gather(2, of_place)
            value = value - products.gather(2, of_place)
        return torch.cat(order, dim=1), torch.cat(leads, dim=1)


def _ask_every_item(search: _Search, after: After, decision: Tensor) -> None:
    """Search a smaller set by asking every item at every step, of texts for which that takes few removals."""
    counts = search.items.sum(1)  # (B,)
    limit = torch.minimum(search.bound - 1, counts)  # (B,), steps
    removals = limit * (2 * counts - limit + 1) // 2
    text = ((removals > 0) & (removals <= _CHEAP)).nonzero()[:, 0]  # (R,)
    if not len(text):
        return

    def after_each(keep: Tensor) -> Tensor:
        """Logits (R, K, C) of alternatives (R, K, T)."""
        rows = text.repeat_interleave(keep.shape[1])
        logits = after(keep.flatten(0, 1), rows)
        return logits.view(*keep.shape[:2], -1)

    _, removed = greedy_flip_size(after_each, search.items[text], decision[text], limit[text])
    found = removed.any(1)
    search.removed[text[found]] = removed[found]
    search.tried[text] += removals[text]
