"""The best and the worst order in which the items of an affine attention can be removed, of two classes.

An order is a row of nested sets. The set of each size that leaves the decision least (or most) is found by itself, see
:mod:`~.kept_leads`: no order does better than the sum over sizes, and orders that are made from these sets reach it on
most texts; on the others the sum is brought down to what nested sets can have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.attention_removal import prefix_logits, removal_order
from attn_faithful.functional.kept_leads import greatest_leads
from attn_faithful.functional.log_weights import checked_weights, relative_weights
from attn_faithful.functional.naopc import AopcLimits, order_aopc
from attn_faithful.functional.nested_leads import nested_leads
from attn_faithful.functional.readout import LARGEST, check_decision, defined_rows, first_least, leads
from attn_faithful.functional.reasons import MORE_CLASSES, ONE_ITEM, first_reasons, or_else
from attn_faithful.functional.searched_flip_set import Tangent

_GAP = 1e-6  # between what no order passes and what one reaches, which is worth a search


def aopc_limits(log_weights: Tensor, items: Tensor, token_logits: Tensor, bias: Tensor, decision: Tensor) -> AopcLimits:
    r"""Between which limits AOPC lies over all orders, of a read-out that is affine in the attention, of two classes.

    ``AOPC = mean over k = 1 ... n - 1 of p_y(all) - p_y(without the first k)``; what is left is renormalized, and the
    logits are the bias where no weight is. Of every number of kept items the least and the greatest p_y are exact, and
    no order passes their means. Where no order is known to come near, which is so on a few texts, branch and bound
    closes the gap, see :mod:`~.nested_leads`. On random texts of up to 12 items the limits are those of all orders, to
    1e-6.

    Args:
        log_weights: (B, T), unnormalized logarithms of attention, -inf for a weight of 0; ignored outside ``items``.
        items: (B, T), bool: the positions that attention has, each of which can be removed.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); -inf for a class that never counts.
        decision: (B,), the class y.

    Returns:
        :class:`~.naopc.AopcLimits`; NaN with a reason for fewer than two items, scores that are not finite, and
        texts of more than two classes that count.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a decision that is not a class.

    Reference:
        Edin et al. (2024), section 3, who try all sets, or search with a beam.

    Example:
        >>> attention, items = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 1.0], [0.0, 2.0], [0.0, -2.0]]])
        >>> limits = aopc_limits(attention.log(), items, token_logits, torch.zeros(1, 2), torch.tensor([1]))
        >>> limits.best.round(decimals=4), limits.best_order.tolist()
        (tensor([0.3408], dtype=torch.float64), [[1, 0, 2]])
        >>> limits.worst.round(decimals=4), limits.worst_order.tolist()
        (tensor([-0.1713], dtype=torch.float64), [[2, 0, 1]])
    """
    w, z, b, reasons = checked_weights(log_weights, items, token_logits, bias)
    check_decision(decision, *b.shape)
    _, others = leads(z, b, decision, 0.0)  # (B, C)
    if not items.shape[1]:
        return AopcLimits.undefined(items, reasons)
    case = _TwoClasses.of(w, items, z, b, decision, first_least((~others).long()))
    best = case.limit(least=True)
    worst = case.limit(least=False)
    undefined = first_reasons({ONE_ITEM: items.sum(1) == 1, MORE_CLASSES: others.sum(1) > 1})
    reasons = or_else(reasons, undefined)
    defined = defined_rows(reasons, w)
    return AopcLimits(
        best=torch.where(defined, best.bound, math.nan),
        worst=torch.where(defined, worst.bound, math.nan),
        best_found=torch.where(defined, best.found, math.nan),
        worst_found=torch.where(defined, worst.found, math.nan),
        best_order=best.order,
        worst_order=worst.order,
        reason=reasons,
    )


@dataclass(frozen=True)
class _Limit:
    """One of the limits of AOPC.

    Attributes:
        bound: (B,), which no order passes.
        found: (B,), which ``order`` (B, T) reaches.
    """

    bound: Tensor
    found: Tensor
    order: Tensor


@dataclass(frozen=True)
class _TwoClasses:
    """Read-outs of the decision and one other class.

    Attributes:
        log_weights: (B, T), -inf for a weight of 0 and outside the items.
        items: (B, T), bool.
        token_logits: (B, T, 2), of the other class and of the decision.
        bias: (B, 2), -inf for the other class where there is none.
        margins: (B, T), the lead that each item alone gives, bias included.
        bias_lead: (B,), the lead without any weight.
    """

    log_weights: Tensor
    items: Tensor
    token_logits: Tensor
    bias: Tensor
    margins: Tensor
    bias_lead: Tensor

    @classmethod
    def of(
        cls,
        log_weights: Tensor,
        items: Tensor,
        token_logits: Tensor,
        bias: Tensor,
        decision: Tensor,
        other: Tensor,
    ) -> _TwoClasses:
        """Of the columns of ``other`` (B,) and ``decision`` (B,)."""
        columns = torch.stack([other, decision], dim=1)  # (B, 2)
        of_tokens = columns[:, None].expand(-1, token_logits.shape[1], -1)
        logits = token_logits.gather(2, of_tokens)  # (B, T, 2)
        bias = bias.gather(1, columns)
        only_class = (other == decision)[:, None] & torch.tensor([True, False], device=bias.device)
        bias = bias.masked_fill(only_class, -math.inf)
        # a class that never counts is as far behind as can be
        margins, others = leads(logits, bias, torch.ones_like(decision), LARGEST)
        bias_lead = torch.where(others[:, 0], bias[:, 1] - bias[:, 0], LARGEST)
        return cls(log_weights, items, logits, bias, margins[:, 0], bias_lead)

    @property
    def weighted(self) -> Tensor:
        """(B, T), bool: the items with weight."""
        return self.log_weights > -math.inf

    def limit(self, least: bool) -> _Limit:
        """The best AOPC, of the least leads that are left, or the worst, of the greatest."""
        sign = -1.0 if least else 1.0
        kept = greatest_leads(self.log_weights, sign * self.margins)
        bound = self._bound(sign * self._with_weightless(kept.lead, sign * self.bias_lead))
        leads_of_items = (self.log_weights, sign * self.margins)
        ranks = [kept.kept_by, _grown(*leads_of_items), _shrunk(*leads_of_items)]
        found, order = self._furthest(ranks, sign)
        bound, kept_by = self._nested(bound, found, sign)
        if kept_by is not None:
            found, order = self._furthest([*ranks, kept_by], sign)
        return _Limit(bound, found, order)

    def _furthest(self, ranks: Sequence[Tensor], sign: float) -> tuple[Tensor, Tensor]:
        """The least AOPC (B,) of orders by some ranks (B, T), the greatest if ``sign`` is -1, and its order (B, T)."""
        orders = torch.stack([order for rank in ranks for order in self._orders(rank)])  # (O, B, T)
        found = torch.stack([self._aopc(order) for order in orders])  # (O, B)
        place = first_least((sign * found.T).nan_to_num(math.inf))  # (B,); NaN of all orders or of none
        text = torch.arange(len(place), device=place.device)
        return found[place, text], orders[place, text]

    def _nested(self, bound: Tensor, found: Tensor, sign: float) -> tuple[Tensor, Tensor | None]:
        """The bound (B,), less what sets that are not nested have beyond nested ones, and ranks (B, T) of these.

        Of texts without such a gap the bound stays and the ranks are 0; of none with one they are None.
        """
        steps = (self.items.sum(1) - 1).clamp(min=1)
        gap = sign * (found - bound)  # (B,)
        all_weighted = (self.weighted == self.items).all(1)
        text = (all_weighted & (gap > _GAP)).nonzero()[:, 0]
        if not len(text):
            return bound, None
        nested = nested_leads(self.log_weights[text], sign * self.margins[text], gap[text] * steps[text])
        bound = bound.index_add(0, text, sign * nested.beyond / steps[text])
        ranks = torch.zeros_like(self.items, dtype=torch.long).index_copy(0, text, nested.kept_by)
        return bound, ranks

    def _with_weightless(self, lead: Tensor, bias_lead: Tensor) -> Tensor:
        """The greatest lead of 1, 2, ... items of all kinds (B, T), from that of so many items with weight (B, T).

        The fewer items with weight are kept the greater their greatest lead; without any it is the bias that leads.
        """
        n_weighted = self.weighted.sum(1, keepdim=True)  # (B, 1)
        n_weightless = self.items.sum(1, keepdim=True) - n_weighted
        size = torch.arange(1, lead.shape[1] + 1, device=lead.device)
        fewest = (size - n_weightless).clamp(min=1)  # (B, T), with weight among so many
        with_weight = lead.gather(1, fewest - 1)
        with_weight = torch.where(n_weighted > 0, with_weight, -math.inf)
        without = torch.where(size <= n_weightless, bias_lead[:, None], -math.inf)
        return torch.maximum(with_weight, without)

    def _bound(self, leads_by_size: Tensor) -> Tensor:
        """AOPC (B,) where sets of 1, 2, ... items leave these leads (B, T)."""
        p = leads_by_size.sigmoid()
        count = self.items.sum(1, keepdim=True)  # (B, 1)
        p_of_all = p.gather(1, (count - 1).clamp(min=0))
        size = torch.arange(1, p.shape[1] + 1, device=p.device)
        lost = torch.where(size < count, p_of_all - p, 0.0)
        return lost.cumsum(1)[:, -1] / (count[:, 0] - 1).clamp(min=1)

    def _orders(self, rank: Tensor) -> list[Tensor]:
        """Orders (B, T) that keep the items with weight the longer the greater their rank (B, T) is.

        Those without weight go last; or before the last one with weight, since nothing says then what the bias says.
        """
        by_rank = removal_order(-rank.double(), self.weighted)
        place = by_rank.argsort(1)  # (B, T)
        n_weighted = self.weighted.sum(1, keepdim=True)
        last = self.weighted & (place == n_weighted - 1)
        before_last = torch.where(last, self.items.shape[1], place)
        return [removal_order(-key.double(), self.items) for key in (place, before_last)]

    def _aopc(self, order: Tensor) -> Tensor:
        """AOPC (B,) of an order (B, T)."""
        after = prefix_logits(self.log_weights, order, self.items, self.token_logits, self.bias)
        return order_aopc(after, self.items, torch.ones_like(order[:, 0]))


def _shrunk(log_weights: Tensor, margins: Tensor) -> Tensor:
    """Ranks (B, T) of items removed one by one, each the one without which the lead is greatest; of the first 0."""
    weighted = log_weights > -math.inf
    tokens = weighted.shape[1]
    tangent = Tangent(relative_weights(log_weights)[:, None], -margins[:, None])
    order, _ = tangent.order(weighted, tokens)  # (B, T)
    turn = torch.arange(tokens, device=order.device).expand_as(order)
    # past the items with weight the order says nothing
    place = torch.where(turn < weighted.sum(1, keepdim=True), order, tokens)
    rank = torch.zeros(len(order), tokens + 1, dtype=torch.long, device=order.device)
    return rank.scatter(1, place, turn)[:, :-1]


def _grown(log_weights: Tensor, margins: Tensor) -> Tensor:
    """Ranks (B, T) of items added one by one, each the one with which the lead is greatest; of the first T."""
    weights = relative_weights(log_weights)
    products = weights * margins
    mass = torch.zeros_like(weights[:, :1])
    value = torch.zeros_like(mass)
    left = log_weights > -math.inf
    rank = torch.zeros_like(left, dtype=torch.long)
    for turn in range(weights.shape[1], 0, -1):
        mass_with = mass + weights
        lead_with = torch.where(mass_with > 0, (value + products) / mass_with, margins)
        place = first_least(torch.where(left, -lead_with, math.inf))[:, None]
        rank.scatter_(1, place, turn)
        left = left.scatter(1, place, False)
        mass = mass + weights.gather(1, place)
        value = value + products.gather(1, place)
    return rank
