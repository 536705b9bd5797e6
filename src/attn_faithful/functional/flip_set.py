"""The smallest set of attention weights without which the decision changes: exactly for an affine read-out, or bounded.

With logits ``sum_t a_t z_t + b`` over what is kept and renormalized, class c overtakes the decision y where
``sum over kept t of a_t m_t`` is below 0, with the margins ``m_t = z_ty - z_tc + b_y - b_c``. Of all sets of one size
the one with the largest ``a_t m_t`` leaves the least, so one sort for each class finds the smallest set of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.log_weights import (
    check_items,
    checked_weights,
    relative_weights,
    running_sums,
    signed_keys,
)
from attn_faithful.functional.readout import (
    check_decision,
    decided,
    defined_rows,
    first_least,
    first_true,
    flipped,
    lead,
    leads,
    total,
)
from attn_faithful.functional.reasons import NEVER, Reasons, first_reasons, or_else

_ALTERNATIVES = 64  # asked of a model at once


@dataclass(frozen=True)
class FlipSet:
    """The smallest set whose removal changes the decision, one an example.

    Attributes:
        size: (B,), float64, at least 1; NaN where no set does.
        removed: (B, T), bool: such a set; empty where there is none.
        flips_to: (B,), the class that is decided without it; -1 where there is none.
        reason: why ``size`` is NaN: "never flips", "no content token", "nan in scores"; None where it is defined.
    """

    size: Tensor
    removed: Tensor
    flips_to: Tensor
    reason: Reasons


def smallest_flip_set(log_weights: Tensor, items: Tensor, token_logits: Tensor, bias: Tensor) -> FlipSet:
    r"""The fewest items whose removal, with the rest renormalized, changes the decision; exact for any C.

    The decision is the argmax of the logits, the lowest index on ties, so a tie with a lower class changes it. Where
    no weight is kept the logits are the bias; items without weight never need to be removed. Of equally small sets
    that of the lowest class that overtakes is given, and of equal terms the first positions. Sums that rounding alone
    keeps from a tie are taken as float64 has them.

    Args:
        log_weights: (B, T), unnormalized logarithms of attention, -inf for a weight of 0; ignored outside ``items``.
        items: (B, T), bool: the positions that attention has, each of which can be removed.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); classes with -inf (masked candidates) never count.

    Returns:
        :class:`FlipSet`: sizes 1 to the number of items; lower says that the decision rests on less.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        The "gold standard" of Serrano and Smith, sections 5.1 and 5.2.

    Example:
        >>> attention, items = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 1.0], [0.0, 2.0], [0.0, -2.0]]])
        >>> found = smallest_flip_set(attention.log(), items, token_logits, torch.zeros(1, 2))
        >>> found.size.item(), found.removed.tolist(), found.flips_to.item()
        (2.0, [[True, True, False]], 0)
    """
    w, z, b, reasons = checked_weights(log_weights, items, token_logits, bias)
    weighted = w > -math.inf
    n_weighted = weighted.sum(1)
    decision = _decided(w, z, b)
    margins, others = leads(z, b, decision, 0.0)
    # for each class alone the greedy order is the best: items that speak most for the decision leave first
    order, sums = _largest_first(w, margins)
    sizes = _sizes_by_class(sums, others, decision, n_weighted)  # (B, C)

    # without any weight the bias decides
    decided_by_bias = decided(torch.zeros_like(w), z, b)
    bias_flips = (decided_by_bias != decision) & (n_weighted > 0)
    size = sizes.amin(1)
    size = torch.where(size.isinf() & bias_flips, n_weighted.double(), size)
    flips = defined_rows(reasons, w) & size.isfinite()

    first_class = first_least(sizes)
    every_token = first_class[:, None, None].expand(-1, 1, w.shape[1])
    order_of_class = order.gather(1, every_token)[:, 0]  # (B, T)
    rank = order_of_class.argsort(1)
    removed = weighted & (rank < size[:, None]) & flips[:, None]

    # Another class may lead the one that overtakes first.
    log_weights_left = w.masked_fill(removed, -math.inf)
    weights_left = relative_weights(log_weights_left)
    lead_over = total(weights_left[..., None] * margins.transpose(1, 2))  # (B, C)
    lead_over = torch.where(others, lead_over, math.inf)
    winner = first_least(lead_over)
    winner = torch.where(size < n_weighted, winner, decided_by_bias)
    return FlipSet(
        size=torch.where(flips, size, math.nan),
        removed=removed,
        flips_to=torch.where(flips, winner, -1),
        reason=or_else(reasons, first_reasons({NEVER: ~flips})),
    )


def _sizes_by_class(sums: Tensor, others: Tensor, decision: Tensor, n_weighted: Tensor) -> Tensor:
    """How many items (B, C) each class needs removed to overtake, with some weight left; infinite where it cannot.

    Args:
        sums: (B, C, T + 1), the decision's lead without the first k items, of :func:`_largest_first`.
        others: (B, C), bool, the classes that the decision can lose to.
        decision: (B,).
        n_weighted: (B,), items with weight.
    """
    classes = torch.arange(others.shape[1], device=sums.device)
    wins_ties = classes < decision[:, None]  # (B, C)
    k = torch.arange(sums.shape[-1], device=sums.device)
    overtakes = (sums < 0) | ((sums == 0) & wins_ties[..., None])  # (B, C, T + 1)
    some_is_left = (k >= 1) & (k < n_weighted[:, None, None])
    overtakes &= others[..., None] & some_is_left
    return first_true(overtakes).nan_to_num(math.inf)


def greedy_flip_size(
    after: Callable[[Tensor], Tensor], items: Tensor, decision: Tensor, limit: int | Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""An upper bound of the smallest set whose removal changes the decision, for any model.

    Each step removes the item without which the decision's logit leads that of the best other class least (the first
    position on ties), until another class is decided (the lowest index on ties). It asks for up to n^2 / 2 removals of
    a text of n items.

    Args:
        after: ``after(keep (B, K, T) bool) -> logits (B, K, C)``; ``keep`` is True outside ``items``.
        items: (B, T), bool: what may be removed.
        decision: (B,), the class decided with everything kept.
        limit: most items removed from a text, or (B,) of each text; None removes up to all.

    Returns:
        size: (B,), float64, at least 1; NaN where the decision never changes, or only past ``limit``. Logits that are
        NaN are passed over.
        removed: (B, T), bool, the set; empty where there is none.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a decision that is not a class, a limit below 1.

    Reference:
        A bound of what Serrano and Smith, section 5.1, call computationally prohibitive.

    Example:
        >>> values = torch.tensor([3.0, 1.0, -1.0])
        >>> after = lambda keep: torch.stack([torch.zeros(keep.shape[:2]), (keep * values).sum(-1)], -1)
        >>> greedy_flip_size(after, torch.ones(1, 3, dtype=torch.bool), torch.tensor([1]))
        (tensor([1.], dtype=torch.float64), tensor([[ True, False, False]]))
    """
    check_shape("items", items, "B T")
    check_items(items, tuple(items.shape))
    b, t = items.shape
    most = max(1, t) if limit is None else limit
    limits = torch.as_tensor(most, device=items.device).expand(b)  # (B,)
    if bool((limits < 1).any()):
        raise InputError(f"Expected `limit` of at least 1 or None, but got {limit}.")
    rows = torch.arange(b, device=items.device)
    removed = torch.zeros_like(items)
    searching = items.any(1)  # (B,)
    flips = torch.zeros_like(searching)  # (B,)
    steps = min(t, int(limits.amax())) if b else 0
    for step in range(steps):
        searching = searching & (step < limits)
        candidates = items & ~removed & searching[:, None]  # (B, T)
        lead_without, changes = _without_one_more(after, items, removed, candidates, decision)
        known = candidates & ~lead_without.isnan()
        lead_without = torch.where(known, lead_without, math.inf)
        searching = searching & (lead_without < math.inf).any(1)
        if not bool(searching.any()):
            break
        place = first_least(lead_without)
        removed[rows[searching], place[searching]] = True
        flips_now = searching & changes[rows, place]
        flips = flips | flips_now
        searching = searching & ~flips_now
    removed = removed & flips[:, None]
    size = removed.sum(1).double()
    return torch.where(flips, size, math.nan), removed


def _without_one_more(
    after: Callable[[Tensor], Tensor],
    items: Tensor,
    removed: Tensor,
    candidates: Tensor,
    decision: Tensor,
) -> tuple[Tensor, Tensor]:
    """Without what is removed and one candidate more: the decision's lead (B, T), and whether it changes (B, T)."""
    b, t = items.shape
    lead_without = torch.full((b, t), math.inf, dtype=torch.float64, device=items.device)
    changes = torch.zeros_like(items)
    places = candidates.any(0).nonzero()[:, 0]
    for start in range(0, len(places), _ALTERNATIVES):
        columns = places[start : start + _ALTERNATIVES]
        one_more = removed[:, None] | F.one_hot(columns, t).bool()  # (B, K, T)
        # nothing is removed from a text that has no candidate at this place
        one_more = one_more & candidates[:, columns, None]
        keep = ~(one_more & items[:, None])
        logits = after(keep).detach().double()
        check_decision(decision, b, logits.shape[-1])
        lead_without[:, columns] = lead(logits, decision[:, None])
        changes[:, columns] = flipped(logits, decision)
    return lead_without, changes


def _decided(log_weights: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    """The class decided with everything kept; without a division, which could break ties."""
    some_weight = (log_weights > -math.inf).any(1, keepdim=True)
    in_logits = some_weight & (bias > -math.inf)  # (B, C)
    bias_in_logits = torch.where(in_logits, bias, 0.0)
    logits_with_bias = token_logits + bias_in_logits[:, None]  # (B, T, C)
    bias_apart = torch.where(in_logits, 0.0, bias)
    return decided(relative_weights(log_weights), logits_with_bias, bias_apart)


def _largest_first(log_weights: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (B, C, T) in the order of ``a_t m_t``, those without weight last, and scaled sums (B, C, T + 1) of what
    is left without the first k.
    """
    key = signed_keys(log_weights[:, None], margins)  # (B, C, T)
    order = key.argsort(dim=-1, descending=True, stable=True)

    # Only what adds to the sum sets its scale.
    last_first = order.flip(-1)
    weights = torch.where(margins != 0, log_weights[:, None], -math.inf)
    weights_of_classes = weights.gather(2, last_first).flatten(0, 1)  # (B C, T)
    margins_of_classes = margins.gather(2, last_first).flatten(0, 1)
    sums, _ = running_sums(weights_of_classes, margins_of_classes[..., None])
    sums = sums.reshape(*margins.shape[:2], sums.shape[1])
    return order, sums.flip(-1)
