"""Whether the item that a ranking puts first speaks for the decision (Liu et al. 2022)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.readout import check_decision, first_least

ROUNDING = 1e-6  # share of the log-odds' size, 1 at least, up to which float32 alone may move them


def first_support(importance: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    r"""The item that a ranking puts first, and whether it names it as support.

    Args:
        importance: (B, T), any unit, positive for support; NaN says nothing about its item. Ignored outside ``items``.
        items: (B, T), bool.

    Returns:
        place (B,), int64, the first position of the largest importance, 0 where there is no item; and whether that
        importance is above 0 (B,), bool.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        Liu et al. (2022), section 3.1.

    Example:
        >>> items = torch.tensor([[True, True, False], [True, True, True]])
        >>> place, is_support = first_support(torch.tensor([[0.1, 0.4, 0.9], [-1.0, -0.5, -2.0]]), items)
        >>> place.tolist(), is_support.tolist()
        ([1, 1], [True, False])
    """
    check_shape("importance", importance, "B T")
    check_items(items, tuple(importance.shape))
    known = items & ~importance.isnan()
    ranked = torch.where(known, importance.double(), -torch.inf)
    # one more column, so that a text of no position has a place as well
    ranked = F.pad(ranked, (0, 1), value=-torch.inf)  # (B, T + 1)
    place = first_least(-ranked)
    is_support = ranked.gather(1, place[:, None])[:, 0] > 0
    last = max(0, importance.shape[1] - 1)
    return place.clamp(max=last), is_support


def log_odds(logits: Tensor, decision: Tensor) -> Tensor:
    r"""``ln p / (1 - p)`` of the decision's probability p, which no confident model rounds to a constant.

    Args:
        logits: (B, K, C); -inf for a class that never counts.
        decision: (B,).

    Returns:
        (B, K), float64, nats; infinite where no other class counts.

    Raises:
        InputError: other shapes, a decision that is not a class.

    Example:
        >>> log_odds(torch.tensor([[[0.0, 50.0]]]), torch.tensor([1]))
        tensor([[50.]], dtype=torch.float64)
    """
    check_shape("logits", logits, "B K C")
    b, k, c = logits.shape
    check_decision(decision, b, c)
    logits = logits.double()
    index = decision[:, None, None].expand(b, k, 1)
    of_decision = logits.gather(2, index)[..., 0]
    others = logits.scatter(2, index, -torch.inf)
    return of_decision - others.logsumexp(2)


def polarity_violation(before: Tensor, after: Tensor, decision: Tensor) -> Tensor:
    r"""Whether a decision is as sure or surer without an item that was named as its support.

    ``p_y(x) - p_y(x without it) <= 0``, compared by log-odds. A change within rounding of float32 (1e-6 of the
    log-odds' size) is none, and an item without effect is no support.

    Args:
        before: (B, C), logits with everything.
        after: (B, K, C), logits without one item each.
        decision: (B,), the class that is explained.

    Returns:
        (B, K), float64: 1 where it is violated, 0 where the item speaks for the decision; NaN where a logit of a class
        that counts is not finite, or no other class counts. Lower is more faithful.

    Raises:
        InputError: other shapes, a decision that is not a class.

    Reference:
        Liu et al. (2022), section 3.1.

    Example:
        >>> before, after = torch.tensor([[0.0, 2.0]]), torch.tensor([[[0.0, 1.0], [0.0, 2.5], [0.0, 2.0]]])
        >>> polarity_violation(before, after, torch.tensor([1])).tolist()
        [[0.0, 1.0, 1.0]]
    """
    check_shape("before", before, "B C")
    if after.dim() != 3 or (len(after), after.shape[2]) != tuple(before.shape):
        raise InputError(
            f"Expected `after` of shape (B, K, C) beside `before` {tuple(before.shape)}, but got {tuple(after.shape)}; "
            "pass after[:, None] for one item a text."
        )
    own = log_odds(before[:, None], decision)  # (B, 1)
    without = log_odds(after, decision)  # (B, K)
    change = own - without
    rounding = ROUNDING * own.abs().clamp(min=1.0)
    violated = (change <= rounding).double()
    return torch.where(change.isfinite(), violated, torch.nan)
