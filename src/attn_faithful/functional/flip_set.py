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

from .erasure import checked_weights, first_true, suffix_sums
from .flip_distance import decided, total

NEVER = "never flips"


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
        (1.0, [[False, True, False]], -1)
    """
    w, z, b, reason = checked_weights(log_weights, items, token_logits, bias)
    held = w > -math.inf
    n = held.sum(1)
    decision = _decided(w, z, b)
    margins, others = _margins(z, b, decision)  # (B, C, T), (B, C)
    order, sums = _largest_first(w, margins)
    index = torch.arange(b.shape[1], device=w.device)
    k = torch.arange(w.shape[1] + 1, device=w.device)
    lower = (index < decision[:, None])[..., None]
    changes = ((sums < 0) | ((sums == 0) & lower)) & others[..., None] & (k >= 1) & (k < n[:, None, None])
    sizes = first_true(changes).nan_to_num(math.inf)  # (B, C)
    size, best = sizes.min(1) if False else (sizes.amin(1), _first(sizes == sizes.amin(1, keepdim=True)))
    raise NotImplementedError
