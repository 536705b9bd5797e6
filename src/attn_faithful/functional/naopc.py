"""AOPC of an order of removals between the worst and the best that any order of the same items has (NAOPC).

What a model can lose without its items, and how soon, is a property of the model and the text: AOPC of two models, or
of two texts, cannot be compared. Its place between its limits can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.attention_removal import removal_order
from attn_faithful.functional.erasure import ROUNDING
from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.readout import check_decision
from attn_faithful.functional.reasons import ALIKE, Reasons, first_reasons, or_else


@dataclass(frozen=True)
class AopcLimits:
    """Between which limits AOPC lies over all orders in which the items of a text can be removed.

    Attributes:
        best, worst: (B,), float64, probability, -1 to 1: no order has a greater AOPC than ``best``, and none a smaller
            one than ``worst``; of a search the greatest and the smallest that were found. NaN with a reason.
        best_found, worst_found: (B,), what some order reaches: within the limits, and equal to them where these are
            reached.
        best_order, worst_order: (B, T), int64: such orders, the items first.
        reason: why the limits are NaN; None where they are numbers.
    """

    best: Tensor
    worst: Tensor
    best_found: Tensor
    worst_found: Tensor
    best_order: Tensor
    worst_order: Tensor
    reason: Reasons

    @classmethod
    def undefined(cls, items: Tensor, reason: Reasons) -> AopcLimits:
        """Limits of texts (B, T) that have none, each with its reason."""
        nothing = torch.full((len(items),), math.nan, dtype=torch.float64, device=items.device)
        order = removal_order(torch.zeros_like(items, dtype=torch.float64), items)
        return cls(nothing, nothing, nothing, nothing, order, order, reason)

    @classmethod
    def reached(cls, best: Tensor, worst: Tensor, reason: Reasons) -> AopcLimits:
        """Limits (B,) that orders reach which are not told."""
        none = torch.zeros(len(best), 0, dtype=torch.long, device=best.device)
        return cls(best, worst, best, worst, none, none, reason)

    def including(self, aopc: Tensor) -> AopcLimits:
        """The same limits, or what one of some orders reaches where that lies outside.

        Args:
            aopc: (O, B), of O orders; NaN of one without any.
        """
        if not len(aopc):
            return self
        greatest = aopc.nan_to_num(-math.inf).amax(0)  # (B,)
        smallest = aopc.nan_to_num(math.inf).amin(0)
        return replace(
            self,
            best=torch.maximum(self.best, greatest),
            worst=torch.minimum(self.worst, smallest),
            best_found=torch.maximum(self.best_found, greatest),
            worst_found=torch.minimum(self.worst_found, smallest),
        )


@dataclass(frozen=True)
class NormalizedAopc:
    """AOPC between its limits, one an example.

    Attributes:
        value: (B,), float64, 0 (the worst order) to 1 (the best); NaN with a reason.
        width: (B,), how far apart the values are that the limits leave possible, 0 where both are reached.
        reason: why they are NaN; None where they are numbers.
    """

    value: Tensor
    width: Tensor
    reason: Reasons


def order_aopc(logits_after: Tensor, items: Tensor, decision: Tensor) -> Tensor:
    r"""``mean over k = 1 ... n - 1 of p_y(all) - p_y(without the first k)``, for an order of n items.

    Without all n items every order leaves the same, so k = n is left out.

    Args:
        logits_after: (B, T + 1, C), logits without the first k = 0, 1, ... items; ignored past n - 1.
        items: (B, T), bool.
        decision: (B,), the class y.

    Returns:
        (B,), float64, probability, -1 to 1; higher says that the order removes first what the prediction rests on. NaN
        for fewer than two items, and where one of the logits is.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a decision that is not a class.

    Reference:
        Samek et al. (2017); Edin et al. (2024), section 2.

    Example:
        >>> after = torch.tensor([[0.75, 0.5, 0.25, 0.5]]).logit()
        >>> logits = torch.stack([torch.zeros_like(after), after], -1)
        >>> order_aopc(logits, torch.ones(1, 3, dtype=torch.bool), torch.tensor([1])).round(decimals=4)
        tensor([0.3750], dtype=torch.float64)
    """
    check_shape("logits_after", logits_after, "B K C")
    b, k, c = logits_after.shape
    check_items(items, (b, k - 1))
    check_decision(decision, b, c)
    index = decision[:, None, None].expand(-1, k, 1)
    p = logits_after.double().softmax(-1).gather(2, index)[..., 0]  # (B, T + 1)
    count = items.sum(1)  # (B,)
    removed = torch.arange(k, device=p.device)
    is_counted = (removed >= 1) & (removed < count[:, None])
    lost = torch.where(is_counted, p[:, :1] - p, 0.0)
    mean = lost.cumsum(1)[:, -1] / (count - 1).clamp(min=1)
    return torch.where(count > 1, mean, math.nan)


def normalized_aopc(aopc: Tensor, limits: AopcLimits, alike: float = 1e-12) -> NormalizedAopc:
    r"""``(AOPC - worst) / (best - worst)``.

    The limits may lie outside what orders reach. The true value then lies between those that the limits and what was
    found, this order among it, leave possible; ``width`` is their difference.

    Args:
        aopc: (B,), of an order of the same items; NaN where undefined.
        limits: over all orders.
        alike: limits that are apart by no more than this differ by rounding alone.

    Returns:
        :class:`NormalizedAopc`: 0 to 1, higher is more faithful. NaN, "all orders alike", where the limits are one,
        and for the reason of the limits.

    Raises:
        InputError: other shapes, an AOPC outside the limits.

    Reference:
        Edin et al. (2024), "Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attribution
        Explainability", section 3.

    Example:
        >>> order = torch.tensor([[0, 1, 2]])
        >>> limits = AopcLimits(*torch.tensor([[0.5], [-0.5], [0.5], [-0.5]]).double(), order, order, [None])
        >>> found = normalized_aopc(torch.tensor([0.25]), limits)
        >>> found.value.item(), found.width.item(), found.reason
        (0.75, 0.0, [None])
    """
    check_shape("aopc", aopc, "B")
    if aopc.shape != limits.best.shape:
        raise InputError(f"Expected as many `aopc` as limits, but got {len(aopc)} and {len(limits.best)}.")
    aopc = aopc.double()
    best, worst = limits.best, limits.worst
    outside = (aopc > best + ROUNDING) | (aopc < worst - ROUNDING)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        raise InputError(
            f"Expected `aopc` between its limits {worst[row]:.6g} and {best[row]:.6g}, but example {row} has "
            f"{aopc[row]:.6g}; pass that of an order of the same items."
        )
    is_alike = best - worst <= alike
    reason = or_else(limits.reason, first_reasons({ALIKE: is_alike}))
    reached_best = torch.maximum(limits.best_found, aopc)
    reached_worst = torch.minimum(limits.worst_found, aopc)
    value = _share(aopc, worst, best, 1.0)
    lowest = _share(aopc, reached_worst, best, 1.0)
    highest = _share(aopc, worst, reached_best, 0.0)
    width = (highest - lowest).clamp(min=0)
    return NormalizedAopc(
        value=torch.where(is_alike, math.nan, value),
        width=torch.where(is_alike, math.nan, width),
        reason=reason,
    )


def _share(value: Tensor, low: Tensor, high: Tensor, otherwise: float) -> Tensor:
    """Where a value (B,) lies between two others, 0 to 1; ``otherwise`` where these are one."""
    distance = high - low
    share = (value - low) / torch.where(distance > 0, distance, 1.0)
    share = torch.where(distance > 0, share, otherwise)
    unknown = value.isnan() | distance.isnan()
    return torch.where(unknown, math.nan, share.clamp(0, 1))
