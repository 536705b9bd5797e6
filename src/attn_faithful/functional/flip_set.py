"""The smallest set of attention weights without which the decision changes, exactly, for an affine read-out.

With logits ``sum_t a_t z_t + b`` over what is kept and renormalized, class c overtakes the decision y where
``sum over kept t of a_t m_t`` is below 0, with the margins ``m_t = z_ty - z_tc + b_y - b_c``. Of all sets of one size
the one with the largest ``a_t m_t`` leaves the least, so one sort for each class finds the smallest set of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.flip_distance import checked_readout, decided, total
from attn_faithful.functional.reasons import NEVER

_SPREAD = 600.0  # of log weights: exp(-600) is a normal number with 1e47 to spare for what it multiplies


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
    reason: list[str | None]


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
    w, z, b, reason = checked_weights(log_weights, items, token_logits, bias)
    held = w > -math.inf
    n = held.sum(1)
    decision = _decided(w, z, b)
    margins, others = _margins(z, b, decision)
    order, sums = _largest_first(w, margins)
    lower = torch.arange(b.shape[1], device=w.device) < decision[:, None]
    k = torch.arange(w.shape[1] + 1, device=w.device)
    changes = (sums < 0) | ((sums == 0) & lower[..., None])  # (B, C, T + 1)
    changes &= others[..., None] & (k >= 1) & (k < n[:, None, None])
    sizes = first_true(changes).nan_to_num(math.inf)  # (B, C)

    size = sizes.amin(1)
    nothing = torch.zeros_like(w)
    without_any = decided(nothing, z, b)
    size = torch.where(size.isinf() & (without_any != decision) & (n > 0), n.double(), size)
    first = first_true(sizes == sizes.amin(1, keepdim=True)).long()
    rank = order.gather(1, first[:, None, None].expand(-1, 1, w.shape[1]))[:, 0].argsort(1)
    flips = torch.tensor([r is None for r in reason], dtype=torch.bool, device=w.device) & size.isfinite()
    removed = held & (rank < size[:, None]) & flips[:, None]
    # Another class may lead the one that overtakes first.
    kept = _weights(w.masked_fill(removed, -math.inf))
    after = torch.where(others, total(kept[..., None] * margins.transpose(1, 2)), math.inf)
    winner = first_true(after == after.amin(1, keepdim=True)).long()
    winner = torch.where(size < n, winner, without_any)
    reason = [NEVER if r is None and not f else r for f, r in zip(flips.tolist(), reason, strict=True)]
    return FlipSet(torch.where(flips, size, math.nan), removed, torch.where(flips, winner, -1), reason)


def running_sums(log_weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    r"""``sum over the first k of exp(log_weights_t) values_t`` for every k, scaled so that nothing underflows.

    Rows whose weights span more than float64 are summed step by step, relative to the largest weight so far; the
    others at once. Weights of 0 between others change no bit.

    Args:
        log_weights: (R, T), float64, -inf for a weight of 0.
        values: (R, T, V), float64, finite.

    Returns:
        sums (R, T + 1, V) and the logarithms (R, T + 1) of what they are to be multiplied with.

    Example:
        >>> sums, scale = running_sums(torch.tensor([[-2000.0, 0.0]]).double(), torch.ones(1, 2, 1).double())
        >>> sums[0, :, 0].tolist(), scale[0].tolist()
        ([0.0, 1.0, 1.0], [-inf, -2000.0, 0.0])
    """
    held = log_weights > -math.inf
    top = F.pad(log_weights, (0, 1), value=-math.inf).amax(1, keepdim=True)
    lowest = F.pad(torch.where(held, log_weights, math.inf), (0, 1), value=math.inf).amin(1, keepdim=True)
    weights = torch.where(held, (log_weights - top).exp(), 0.0)
    sums = F.pad((weights[:, :, None] * values).cumsum(1), (0, 0, 1, 0))
    scale = top.expand(-1, log_weights.shape[1] + 1)
    wide = (top - lowest > _SPREAD)[:, 0]
    if bool(wide.any()):
        scale = scale.clone()
        sums[wide], scale[wide] = _step_by_step(log_weights[wide], values[wide])
    return sums, scale


def checked_weights(
    log_weights: Tensor, items: Tensor, token_logits: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, list[str | None]]:
    """The same in float64, with weights of -inf outside ``items``, and why an example is undefined, or None.

    Raises:
        InputError: other shapes, ``items`` that is not bool.
    """
    check_shape("token_logits", token_logits, "B T C")
    b, t, _ = token_logits.shape
    if tuple(log_weights.shape) != (b, t):
        raise InputError(
            f"Expected `log_weights` of shape {(b, t)} beside `token_logits` {tuple(token_logits.shape)}, but got "
            f"{tuple(log_weights.shape)}; pass one slot of attention for each example."
        )
    check_items(items, (b, t))
    none = items & (log_weights == -math.inf)
    w, z, bias, reason = checked_readout(log_weights.masked_fill(none, 0.0), items, token_logits, bias)
    return torch.where(items & ~none, w, -math.inf), z, bias, reason


def check_items(items: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless ``items`` is bool and has this shape."""
    if tuple(items.shape) != shape:
        raise InputError(f"Expected `items` of shape {shape}, but got {tuple(items.shape)}.")
    if items.dtype != torch.bool:
        raise InputError(f"Expected `items` of type torch.bool, but got {items.dtype}; pass items.bool().")


def first_true(values: Tensor) -> Tensor:
    """The first index (...) at which ``values`` (..., K) hold, float64; NaN where there is none."""
    k = torch.arange(values.shape[-1], device=values.device, dtype=torch.float64)
    first = F.pad(torch.where(values, k, math.inf), (0, 1), value=math.inf).amin(-1)
    return torch.where(first < math.inf, first, math.nan)


def _weights(log_weights: Tensor) -> Tensor:
    """Weights (B, T) of which the largest is 1; zeros where there is none."""
    top = F.pad(log_weights, (0, 1), value=-math.inf).amax(1, keepdim=True)
    return (log_weights - torch.where(top > -math.inf, top, 0.0)).exp()


def _decided(log_weights: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    """The class decided with everything kept; without a division, which could break ties."""
    some = (log_weights > -math.inf).any(1, keepdim=True) & (bias > -math.inf)
    said = token_logits + torch.where(some, bias, 0.0)[:, None]
    return decided(_weights(log_weights), said, torch.where(some, 0.0, bias))


def _margins(token_logits: Tensor, bias: Tensor, decision: Tensor) -> tuple[Tensor, Tensor]:
    """By how much the decision leads each class at each token (B, C, T), and which classes it can lose to (B, C)."""
    own = token_logits.gather(2, decision[:, None, None].expand(-1, token_logits.shape[1], 1))
    others = (bias > -math.inf) & (torch.arange(bias.shape[1], device=bias.device) != decision[:, None])
    ahead = torch.where(others, bias.gather(1, decision[:, None]) - bias, 0.0)
    margins = torch.where(others[:, None], own - token_logits + ahead[:, None], 0.0)
    return margins.transpose(1, 2), others


def _largest_first(log_weights: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (B, C, T) in the order of ``a_t m_t``, those without weight last, and scaled sums (B, C, T + 1) of what
    is left without the first k. Terms are compared by sign and logarithm, so none underflows.
    """
    held = (log_weights > -math.inf)[:, None]
    counts = held & (margins != 0)
    size = torch.where(counts, log_weights[:, None] + margins.abs().log(), math.inf)
    size = size - F.pad(size, (0, 1), value=math.inf).amin(-1, keepdim=True) + 1
    key = torch.where(held, torch.where(counts, margins.sign() * size, 0.0), -math.inf)
    order = key.argsort(dim=-1, descending=True, stable=True)
    # Only what adds to the sum sets its scale.
    last_first = order.flip(-1)
    weights = torch.where(counts, log_weights[:, None], -math.inf).gather(2, last_first)
    sums, _ = running_sums(weights.flatten(0, 1), margins.gather(2, last_first).flatten(0, 1)[..., None])
    return order, sums.reshape(*margins.shape[:2], sums.shape[1]).flip(-1)


def _step_by_step(log_weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    top, summed = torch.full_like(log_weights[:, 0], -math.inf), torch.zeros_like(values[:, 0])
    sums, tops = [summed], [top]
    for weight, value in zip(log_weights.unbind(1), values.unbind(1), strict=True):
        above = torch.maximum(top, weight)
        origin = torch.where(above > -math.inf, above, 0.0)
        summed = summed * (top - origin).exp()[:, None] + value * (weight - origin).exp()[:, None]
        top = above
        sums.append(summed)
        tops.append(top)
    return torch.stack(sums, 1), torch.stack(tops, 1)
