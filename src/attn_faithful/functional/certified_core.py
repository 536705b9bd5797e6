"""The fewest items whose attention must be believed for the decision to stand, for a read-out affine in the attention.

With logits ``sum_t a_t z_t + b`` and the decision y, class c overtakes y where ``sum_t a_t m_t < 0`` with the margins
``m_t = z_ty - z_tc + b_y - b_c``. A set S is a core if no class does so under any attention that equals the model's on
S, however what is left is dealt to the items outside S. The worst of these puts all of it on the item outside whose
margin ``mu`` is the smallest, so S is a core if ``mu + sum over S of a_t (m_t - mu) >= 0`` for every c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.readout import (
    as_distributions,
    checked_readout,
    decided,
    defined_rows,
    first_true,
    leads,
    min_or_infinity,
    total,
)
from attn_faithful.functional.reasons import Reasons


@dataclass(frozen=True)
class CertifiedCore:
    """A set of items whose attention proves the decision, one an example.

    Attributes:
        size: (B,), float64, items in the core that is given, 0 to the number of items less one; NaN where undefined.
        lower: (B,), float64, no core has fewer items; equal to ``size`` for two classes.
        core: (B, T), bool, the items; none where ``size`` is 0 or NaN.
        reason: why ``size`` is NaN: "no content token", "nan in scores"; None where it is defined.
    """

    size: Tensor
    lower: Tensor
    core: Tensor
    reason: Reasons


def certified_core(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> CertifiedCore:
    r"""The fewest items whose attention proves the decision; exact for two classes, bounded for more.

    ``min |S|`` over sets S of which the decision stands for every attention a' with ``a'_t = a_t`` for t in S. With the
    k items of the smallest margins in S the worst item outside is the next, ``mu``; of the others those with the
    largest ``a_t (m_t - mu)`` join until ``mu + sum over S of a_t (m_t - mu) >= 0``. The best k gives the smallest core
    against one other class, in O(T^2 log T). Against several the largest of these sizes is a lower bound; their union,
    without items that it can do without, is a core and gives the upper one.

    The decision is the argmax of the logits, the lowest index on ties; as in :func:`~.flip_distance.flip_distance` a
    tie alone does not change it, so a core of 0 items is an attention-proof decision. All items but one are always a
    core. Of equal terms the first positions join.

    Args:
        attention: (B, T), distributions over ``allowed``; ignored elsewhere. What other positions keep belongs into
            the bias.
        allowed: (B, T), bool: the items.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); classes with -inf (masked candidates) never count.

    Returns:
        :class:`CertifiedCore`: sizes from 0; lower says that the decision needs less of the attention.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool, attention that is negative or does not sum to 1.

    Reference:
        The question of Jain and Wallace, section 4.2.2, turned round: which part of the attention is no choice.

    Example:
        >>> attention, allowed = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 3.0], [0.0, 1.0], [0.0, -2.0]]])
        >>> found = certified_core(attention, allowed, token_logits, torch.zeros(1, 2))
        >>> found.size.item(), found.lower.item(), found.core.tolist()
        (1.0, 1.0, [[True, False, False]])
    """
    rivals = _Rivals.of(attention, allowed, token_logits, bias)
    of_rival = rivals.smallest_cores()  # (P, T)
    lower = torch.zeros(rivals.examples, dtype=torch.long, device=allowed.device)
    lower = lower.scatter_reduce(0, rivals.row, of_rival.sum(1), "amax")
    none = torch.zeros(allowed.shape, dtype=torch.long, device=allowed.device)
    times = none.index_add(0, rivals.row, of_rival.long())  # (B, T), in how many of these cores each item is
    defined = defined_rows(rivals.reasons, bias)
    weights = torch.where(allowed & defined[:, None], attention, 0.0)
    core = _without_needless(rivals, times, weights, lower)
    return CertifiedCore(
        size=torch.where(defined, core.sum(1).double(), math.nan),
        lower=torch.where(defined, lower.double(), math.nan),
        core=core,
        reason=rivals.reasons,
    )


def is_core(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, believed: Tensor) -> Tensor:
    r"""Whether the decision stands for every attention that equals the model's on a set of items.

    Args:
        attention, allowed, token_logits, bias: as for :func:`certified_core`.
        believed: (B, T), bool: the set; ignored outside ``allowed``.

    Returns:
        (B,) bool; False too where no token is allowed or a score is not finite.

    Raises:
        InputError: as :func:`certified_core`, and a set of another shape or type.

    Reference:
        As :func:`certified_core`.

    Example:
        >>> attention, allowed = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 3.0], [0.0, 1.0], [0.0, -2.0]]])
        >>> for believed in ([[True, False, False]], [[False, True, False]]):
        ...     is_core(attention, allowed, token_logits, torch.zeros(1, 2), torch.tensor(believed)).item()
        True
        False
    """
    check_items(believed, tuple(allowed.shape))
    rivals = _Rivals.of(attention, allowed, token_logits, bias)
    return rivals.stands(believed) & defined_rows(rivals.reasons, bias)


def core_is_top(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor, order: Tensor, size: Tensor
) -> Tensor:
    r"""Whether the first items of a ranking are a core, as many as the smallest core has.

    Args:
        attention, allowed, token_logits, bias: as for :func:`certified_core`.
        order: (B, T), places of the items from the most important on, then the others.
        size: (B,), items of the smallest core that is known.

    Returns:
        (B,) 0 or 1, float64, higher says that the ranking puts first what must be believed; NaN where the size is 0,
        since then no item must be, or NaN.

    Raises:
        InputError: as :func:`certified_core`.

    Reference:
        As :func:`certified_core`.

    Example:
        >>> attention, allowed = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> readout = attention, allowed, torch.tensor([[[0.0, 3.0], [0.0, 1.0], [0.0, -2.0]]]), torch.zeros(1, 2)
        >>> size = certified_core(*readout).size
        >>> [core_is_top(*readout, torch.tensor([order]), size).item() for order in ([0, 1, 2], [1, 0, 2])]
        [1.0, 0.0]
    """
    rank = order.argsort(-1)
    first = rank < size[:, None]  # (B, T), False for NaN
    is_top = is_core(attention, allowed, token_logits, bias, allowed & first)
    return torch.where(size > 0, is_top.double(), math.nan)


@dataclass(frozen=True)
class _Rivals:
    """P pairs of a defined example and a class that its decision may lose to.

    Attributes:
        examples: B.
        row: (P,), the example of each pair.
        weights: (P, T), its attention, 0 outside its items.
        margins: (P, T), by how much each token alone puts the decision before the class.
        items: (P, T), bool.
        reasons: of each example why it is undefined, or None.
    """

    examples: int
    row: Tensor
    weights: Tensor
    margins: Tensor
    items: Tensor
    reasons: Reasons

    @classmethod
    def of(cls, attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> _Rivals:
        weights, token_logits, bias, reasons = checked_readout(attention, allowed, token_logits, bias)
        defined = defined_rows(reasons, weights)
        weights = as_distributions(weights, defined)
        decision = decided(weights, token_logits, bias)
        margins, others = leads(token_logits, bias, decision, math.inf)  # (B, C, T), (B, C)
        row, rival = (others & defined[:, None]).nonzero(as_tuple=True)
        return cls(len(bias), row, weights[row], margins[row, rival], allowed[row], reasons)

    def of_examples(self, chosen: Tensor) -> _Rivals:
        """The pairs of the examples that are chosen, (B,) bool."""
        kept = chosen[self.row]
        return _Rivals(
            self.examples, self.row[kept], self.weights[kept], self.margins[kept], self.items[kept], self.reasons
        )

    def stands(self, believed: Tensor) -> Tensor:
        """Whether no pair's class overtakes with the attention of a set (B, T) believed, (B,) bool."""
        inside = believed[self.row]
        outside = self.items & ~inside
        margins_outside = torch.where(outside, self.margins, math.inf)
        worst = min_or_infinity(margins_outside)  # (P,)
        mu = torch.where(outside.any(1), worst, 0.0)
        excess = self.weights * (self.margins - mu[:, None])  # (P, T)
        losses = torch.where(inside, excess.clamp(max=0), 0.0)
        gains = torch.where(inside, excess.clamp(min=0), 0.0)
        largest_first = gains.sort(dim=1, descending=True).values
        lead = mu + total(losses) + total(largest_first)  # in the order of the smallest cores, so that both round alike
        # what is left may lie as badly as it can already: then it is the decision itself
        nothing_to_lose = ~(outside & (excess > 0)).any(1)
        overtakes = ~(nothing_to_lose | (lead >= 0))
        lost = torch.zeros(self.examples, dtype=torch.long, device=believed.device)
        return lost.index_add(0, self.row, overtakes.long()) == 0

    def smallest_cores(self) -> Tensor:
        """A smallest core (P, T) bool of each pair by itself."""
        pairs, tokens = self.weights.shape
        margins_of_items = torch.where(self.items, self.margins, math.inf)
        worst_first = margins_of_items.sort(dim=1, stable=True)
        rank = worst_first.indices.argsort(1)  # (P, T)
        core = torch.zeros_like(self.items)
        size = torch.full((pairs,), tokens, device=core.device)
        # with nothing forced all items but the worst do, so that some item is always outside below
        for forced in range(tokens):
            row = (size > forced).nonzero()[:, 0]  # (R,), a core of more forced items may be smaller
            if not len(row):
                break
            is_forced = rank[row] < forced
            mu = worst_first.values[row, forced]
            size_now, core_now = _completed(self.weights[row], self.margins[row], mu, is_forced)
            smaller = size_now < size[row]
            size[row[smaller]] = size_now[smaller]
            core[row[smaller]] = core_now[smaller]
        return core


def _completed(weights: Tensor, margins: Tensor, mu: Tensor, forced: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest core (R, T) that holds the forced items, and its size (R,).

    Args:
        weights: (R, T).
        margins: (R, T).
        mu: (R,), the smallest margin of an item that is not forced.
        forced: (R, T), bool: the items whose margins are smaller, and some that are as small.
    """
    excess = weights * (margins - mu[:, None])  # (R, T)
    losses = total(torch.where(forced, excess, 0.0))  # (R,)
    gains = torch.where(forced, 0.0, excess)
    largest_first = gains.sort(dim=1, descending=True, stable=True)
    gained = F.pad(largest_first.values.cumsum(1), (1, 0))  # (R, T + 1), by the first 0, 1, 2, ... items
    lead = (mu + losses)[:, None] + gained
    # without more to gain what is left lies as badly as it can already: then it is the decision itself
    n_gains = (gains > 0).sum(1)
    count = torch.arange(lead.shape[1], device=lead.device)
    enough = (lead >= 0) | (count >= n_gains[:, None])
    n_joined = first_true(enough).long()
    joined = largest_first.indices.argsort(1) < n_joined[:, None]
    return forced.sum(1) + n_joined, forced | joined


def _without_needless(rivals: _Rivals, times: Tensor, weights: Tensor, lower: Tensor) -> Tensor:
    """The union of the rivals' cores (B, T) without items that it can do without, down to ``lower`` (B,) items.

    Those that the fewest rivals need are tried first, of these those of the smallest weights, then the last ones.

    Args:
        rivals: all pairs.
        times: (B, T), in how many cores of the rivals each item is; at least 1 in the union.
        weights: (B, T), 0 to 1.
        lower: (B,).
    """
    core = times > 0
    larger = core.sum(1) > lower  # (B,)
    of_larger = rivals.of_examples(larger)
    needed = times + 0.5 * weights  # the weights decide among equal times
    most_needed_first = torch.where(core, needed, 0.0).sort(dim=1, descending=True, stable=True).indices
    rank = most_needed_first.argsort(1)  # (B, T)
    most = int(core[larger].sum(1).amax()) if bool(larger.any()) else 0
    for place in reversed(range(most)):
        smaller = core & (rank != place)
        drops = larger & of_larger.stands(smaller) & (core.sum(1) > lower)
        core = torch.where(drops[:, None], smaller, core)
    return core
