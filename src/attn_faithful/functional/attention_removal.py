"""What is decided when attention weights are removed: along a ranking, or one at a time.

Weights come as logarithms of any scale (the scores of a softmax; the log of sparse attention, -inf for 0). What is
left is renormalized; where nothing is left, or nothing with weight, the context is the zero vector and the logits are
the bias. Sums run over what is kept and are never differences: what a large weight hid is as exact as the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.log_weights import check_items, checked_weights, relative_weights, running_sums
from attn_faithful.functional.readout import check_decision, first_true, flipped
from attn_faithful.functional.reasons import NAN_SCORES, Reasons


def removal_order(importance: Tensor, items: Tensor) -> Tensor:
    r"""The positions in the order in which a ranking removes them: the most important item first.

    Equal items go in order of position. An importance of NaN says nothing about its item: it goes behind all others,
    -inf included. What is no item stands last, in order of position.

    Args:
        importance: (B, T), any numbers, higher is more important; ignored outside ``items``.
        items: (B, T), bool.

    Returns:
        (B, T), int64: a permutation of the positions.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        Serrano and Smith, section 5.1.

    Example:
        >>> items = torch.tensor([[True, True, False, True]])
        >>> removal_order(torch.tensor([[0.1, 0.5, 9.0, 0.5]]), items)
        tensor([[1, 3, 0, 2]])
    """
    check_shape("importance", importance, "B T")
    check_items(items, tuple(importance.shape))
    known = items & ~importance.isnan()
    ranked = torch.where(known, importance.detach().double(), -math.inf)
    order = ranked.argsort(dim=1, descending=True, stable=True)
    group = torch.where(items, (~known).long(), 2)  # 0 ranked items, 1 items without importance, 2 no items
    group_in_order = group.gather(1, order)
    by_group = group_in_order.argsort(dim=1, stable=True)
    return order.gather(1, by_group)


def prefix_logits(
    log_weights: Tensor,
    order: Tensor,
    items: Tensor,
    token_logits: Tensor,
    bias: Tensor,
) -> Tensor:
    r"""Logits after the first k items of a ranking are removed and the rest is renormalized, for all k at once.

    ``sum over kept t of a_t z_t / sum over kept t of a_t + b``. The same text gives the same bits in any batch and
    with any padding.

    Args:
        log_weights: (B, T), unnormalized logarithms of attention, -inf for a weight of 0; ignored outside ``items``.
        order: (B, T), from :func:`removal_order`: the items first.
        items: (B, T), bool: the positions that attention has, each of which can be removed.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); -inf for a class that never counts.

    Returns:
        (B, T + 1, C), float64: logits without the first k = 0 ... n items; the bias where no weight is left. NaN for
        k > n, and everywhere if a score is not finite.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        Serrano and Smith, section 5.1; section 5.3 for the zero vector.

    Example:
        >>> scores, items = torch.tensor([[0.0, -120.0, -121.0]]), torch.ones(1, 3, dtype=torch.bool)
        >>> logits = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]])
        >>> prefix_logits(scores, torch.tensor([[0, 1, 2]]), items, logits, torch.zeros(1, 2)).round(decimals=4)[0]
        tensor([[0.0000, 1.0000],
                [0.7311, 0.2689],
                [0.0000, 1.0000],
                [0.0000, 0.0000]], dtype=torch.float64)
    """
    w, z, b, reasons = checked_weights(log_weights, items, token_logits, bias)
    _check_order(order, items)
    # without the first k is with the rest: running sums from the last item to the first
    last_first = order.to(w.device).flip(1)  # (B, T)
    row = torch.arange(len(w), device=w.device)[:, None]
    places = last_first + row * w.shape[1]
    values = _with_mass(z, b).flatten(0, 1)  # (B T, C + 1)
    values = values.index_select(0, places.flatten())
    values = values.reshape(*w.shape, b.shape[1] + 1)
    sums, _ = running_sums(w.gather(1, last_first), values)
    logits = _renormalized(sums.flip(1), b)  # (B, T + 1, C)
    return _only_prefixes(logits, items, reasons)


def recompute_prefix_logits(
    scores: Tensor,
    project: Callable[[Tensor, Tensor], Tensor],
    order: Tensor,
    items: Tensor,
    token_logits: Tensor,
    bias: Tensor,
    chunk: int = 64,
) -> Tensor:
    r"""Logits after the first k items of a ranking are removed and the remaining scores are projected again.

    ``project(scores, kept) @ z + b``. For softmax it is what :func:`prefix_logits` gives, at T times the work; for
    sparse projections other items may enter the support.

    Args:
        scores: (B, T), before the projection; ignored outside ``items``.
        project: ``project(scores (B, K, T), allowed (B, K, T)) -> attention``, zeros where nothing is allowed.
        order: (B, T), from :func:`removal_order`: the items first.
        items: (B, T), bool.
        token_logits: (B, T, C), without the bias.
        bias: (B, C).
        chunk: prefixes projected at once: memory is a few times ``B chunk T`` numbers.

    Returns:
        (B, T + 1, C), float64, as of :func:`prefix_logits`.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a chunk below 1.

    Reference:
        Serrano and Smith, section 5.1, for projections that are not softmax.

    Example:
        >>> from attn_faithful.functional.projections import sparsemax
        >>> scores, items = torch.tensor([[2.0, 0.5, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
        >>> logits = torch.tensor([[[4.0], [2.0], [1.0]]])
        >>> recompute_prefix_logits(scores, sparsemax, torch.tensor([[0, 1, 2]]), items, logits, torch.zeros(1, 1))
        tensor([[[4.0000],
                 [1.7500],
                 [1.0000],
                 [0.0000]]], dtype=torch.float64)
    """
    s, z, b, reasons = checked_weights(scores, items, token_logits, bias)
    _check_order(order, items)
    if chunk < 1:
        raise InputError(f"Expected `chunk` of at least 1, but got {chunk}.")
    rank = order.to(s.device).argsort(1)  # (B, T), of each position
    scored = s > -math.inf
    s = torch.where(scored, s, 0.0)
    prefixes = torch.arange(s.shape[1] + 1, device=s.device)
    logits = []
    for start in range(0, len(prefixes), chunk):
        k = prefixes[start : start + chunk]
        kept = rank[:, None] >= k[:, None]  # (B, K, T)
        allowed = scored[:, None] & kept
        attention = project(s[:, None].expand_as(allowed), allowed)
        context_logits = attention.detach().double() @ z  # (B, K, C)
        logits.append(context_logits + b[:, None])
    return _only_prefixes(torch.cat(logits, 1), items, reasons)


def first_flip(logits_after: Tensor, decision: Tensor) -> Tensor:
    r"""How many items of a ranking are removed until the decision changes.

    Args:
        logits_after: (B, T + 1, C), logits without the first k items; NaN where there are fewer than k.
        decision: (B,), the class decided for k = 0: the argmax, the lowest index on ties.

    Returns:
        (B,), float64: the smallest k >= 1 whose argmax (the lowest index on ties) is another class; NaN where there is
        none. Lower says that the ranking finds what the decision rests on.

    Raises:
        InputError: other shapes, a decision that is not a class.

    Reference:
        Serrano and Smith, section 5.1.

    Example:
        >>> first_flip(torch.tensor([[[0.0, 2.0], [0.0, 1.0], [1.0, 1.0]]]), torch.tensor([1]))
        tensor([2.], dtype=torch.float64)
    """
    check_shape("logits_after", logits_after, "B K C")
    check_decision(decision, logits_after.shape[0], logits_after.shape[2])
    changed = flipped(logits_after, decision)
    k = torch.arange(logits_after.shape[1], device=changed.device)
    return first_true(changed & (k >= 1))


def removed_mass(log_weights: Tensor, order: Tensor, items: Tensor, size: Tensor) -> Tensor:
    r"""Which share of the attention on all items the first ``size`` items of a ranking hold.

    Args:
        log_weights: (B, T), unnormalized logarithms of attention, -inf for a weight of 0; ignored outside ``items``.
        order: (B, T), from :func:`removal_order`: the items first.
        items: (B, T), bool.
        size: (B,), a number of items, for example from :func:`first_flip`; NaN where there is none.

    Returns:
        (B,), float64, probability, 0 to 1: their weight over that of all items, so what other positions (special
        tokens) keep is no part of it. NaN where ``size`` is, where no
        item has weight, and where a weight is not a number.

    Raises:
        InputError: other shapes, ``items`` that is not bool, a size below 0 or above T.

    Reference:
        Serrano and Smith, appendix A.3, figure 11.

    Example:
        >>> weights, items = torch.tensor([[0.5, 0.3, 0.2]]), torch.ones(1, 3, dtype=torch.bool)
        >>> removed_mass(weights.log(), torch.tensor([[2, 0, 1]]), items, torch.tensor([2.0])).round(decimals=4)
        tensor([0.7000], dtype=torch.float64)
    """
    check_shape("log_weights", log_weights, "B T")
    check_items(items, tuple(log_weights.shape))
    _check_order(order, items)
    outside = (size < 0) | (size > items.shape[1])
    if tuple(size.shape) != (len(items),) or bool(outside.any()):
        raise InputError(
            f"Expected `size` with a number from 0 to {items.shape[1]}, or NaN, for each of {len(items)} examples, "
            f"but got {size.tolist()}."
        )
    w = torch.where(items, log_weights.detach().double(), -math.inf)
    w_in_order = w.gather(1, order)
    weights = relative_weights(w_in_order)
    mass = F.pad(weights.cumsum(1), (1, 0))  # (B, T + 1), of the first k
    n_removed = size.double().nan_to_num().long()
    mass_of_first = mass.gather(1, n_removed[:, None])[:, 0]
    share = mass_of_first / mass[:, -1]
    return torch.where(size.isnan(), math.nan, share)


def single_removals(log_weights: Tensor, items: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    r"""Logits without each single item, the rest renormalized.

    The sum over the items before it plus the sum over those behind it: exact however near to 1 its weight is.

    Args:
        log_weights: (B, T), unnormalized logarithms of attention, -inf for a weight of 0; ignored outside ``items``.
        items: (B, T), bool.
        token_logits: (B, T, C), without the bias.
        bias: (B, C).

    Returns:
        (B, T, C), float64; the bias where no weight is left. NaN at what is no item, and everywhere if a score is not
        finite.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        Serrano and Smith, section 4.

    Example:
        >>> scores, items = torch.tensor([[0.0, -120.0, -121.0]]), torch.ones(1, 3, dtype=torch.bool)
        >>> logits = torch.tensor([[[5.0], [1.0], [0.0]]])
        >>> single_removals(scores, items, logits, torch.zeros(1, 1))[0, :, 0].round(decimals=4)
        tensor([0.7311, 5.0000, 5.0000], dtype=torch.float64)
    """
    w, z, b, reasons = checked_weights(log_weights, items, token_logits, bias)
    values = _with_mass(z, b)  # (B, T, C + 1)
    sums_before, tops_before = running_sums(w, values)
    sums_behind, tops_behind = running_sums(w.flip(1), values.flip(1))
    before = sums_before[:, :-1]
    top_before = tops_before[:, :-1]
    behind = sums_behind[:, :-1].flip(1)
    top_behind = tops_behind[:, :-1].flip(1)
    top = torch.maximum(top_before, top_behind)
    origin = torch.where(top > -math.inf, top, 0.0)  # (B, T)
    scale_before = (top_before - origin).exp()
    scale_behind = (top_behind - origin).exp()
    sums = before * scale_before[..., None] + behind * scale_behind[..., None]
    logits = _renormalized(sums, b)  # (B, T, C)
    with_nan = _with_nan(reasons, w)
    single = items & ~with_nan[:, None]
    return torch.where(single[..., None], logits, math.nan)


def _with_mass(token_logits: Tensor, bias: Tensor) -> Tensor:
    """What is summed (B, T, C + 1): logits with the bias, so that equal sums stay equal when divided, and 1."""
    finite_bias = torch.where(bias > -math.inf, bias, 0.0)
    logits_with_bias = token_logits + finite_bias[:, None]
    return F.pad(logits_with_bias, (0, 1), value=1.0)


def _renormalized(sums: Tensor, bias: Tensor) -> Tensor:
    """Logits (B, K, C) from sums (B, K, C + 1) whose last column is the mass."""
    mass = sums[..., -1:]
    divisor = torch.where(mass > 0, mass, 1.0)
    renormalized = sums[..., :-1] / divisor
    counts = bias > -math.inf  # (B, C)
    some = (mass > 0) & counts[:, None]
    return torch.where(some, renormalized, bias[:, None])


def _only_prefixes(logits: Tensor, items: Tensor, reasons: Reasons) -> Tensor:
    """NaN for k > n, and for all k where the scores are not finite."""
    k = torch.arange(logits.shape[1], device=logits.device)
    exists = k <= items.sum(1, keepdim=True)  # (B, T + 1)
    with_nan = _with_nan(reasons, logits)
    exists = exists & ~with_nan[:, None]
    return torch.where(exists[..., None], logits, math.nan)


def _with_nan(reasons: Reasons, like: Tensor) -> Tensor:
    """Which examples (B,) have scores that are not finite."""
    with_nan = [reason == NAN_SCORES for reason in reasons]
    return torch.tensor(with_nan, dtype=torch.bool, device=like.device)


def _check_order(order: Tensor, items: Tensor) -> None:
    if order.shape != items.shape or order.dtype != torch.long:
        raise InputError(
            f"Expected `order` of shape {tuple(items.shape)} and type torch.int64, but got {tuple(order.shape)} and "
            f"{order.dtype}; pass what removal_order gives."
        )
