"""How many items of rankings go until a decision changes, asked of any model in rounds: only what decides is asked."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.log_weights import check_items
from attn_faithful.functional.readout import first_true, flipped

After = Callable[[Tensor, Tensor], Tensor]  # (keep (R, T) bool, text (R,)) -> logits (R, C); rows of a text together

ROWS = 64  # asked together at least, as far as texts have them: fewer take as long, for what a call itself takes
_AHEAD = 4  # of so many items that have gone one more is asked for in a round: an eighth is asked in vain on average


def first_flips(after: After, orders: Tensor, items: Tensor, decision: Tensor) -> Tensor:
    r"""How many items of each ranking are removed until the decision changes.

    All rankings go on together, a few items more in each round, and no ranking past the round in which it changes the
    decision. What removing more items does follows from nothing that is known, so every number up to it is asked.

    Args:
        after: ``after(keep (R, T) bool, text (R,)) -> logits (R, C)`` of rows of some texts; ``keep`` is True outside
            ``items``. Logits that are NaN change no decision.
        orders: (O, B, T), int64, of each ranking the positions of a text, the items first.
        items: (B, T), bool.
        decision: (B,), the class decided with everything kept.

    Returns:
        (O, B), float64: the smallest number, at least 1; NaN where the ranking never changes the decision.

    Raises:
        InputError: other shapes, ``items`` that is not bool.

    Reference:
        Serrano and Smith, section 5.1.

    Example:
        >>> values = torch.tensor([3.0, 1.0, -1.0])
        >>> after = lambda keep, text: torch.stack([torch.zeros(len(keep)), (keep * values).sum(-1)], -1)
        >>> orders = torch.tensor([[[0, 1, 2]], [[1, 0, 2]]])
        >>> first_flips(after, orders, torch.ones(1, 3, dtype=torch.bool), torch.tensor([1]))
        tensor([[1.],
                [2.]], dtype=torch.float64)
    """
    check_items(items, tuple(orders.shape[1:]))
    if orders.dim() != 3 or orders.dtype != torch.long:
        axes = orders.dim()
        raise InputError(f"Expected `orders` (O, B, T) of type torch.int64, but got {axes} axes and {orders.dtype}.")
    count = items.sum(1)  # (B,)
    rank = orders.argsort(-1)  # (O, B, T)
    size = torch.full(orders.shape[:2], torch.nan, dtype=torch.float64, device=orders.device)  # (O, B)
    asked = torch.zeros(orders.shape[:2], dtype=torch.long, device=orders.device)  # (O, B), items removed so far
    sought = asked < count
    while bool(sought.any()):
        text, ranking = sought.T.nonzero().unbind(1)  # (P,) each, the rankings of a text together
        so_far = asked[ranking, text]  # (P,)
        more = int(so_far.max()) // _AHEAD
        more = max(1, more, ROWS // len(text))
        removed = so_far[:, None] + torch.arange(1, more + 1, device=items.device)  # (P, K)
        exists = removed <= count[text][:, None]
        pair, _ = exists.nonzero().unbind(1)  # (R,)
        text_of_row = text[pair]
        stays = rank[ranking[pair], text_of_row] >= removed[exists][:, None]  # (R, T)
        logits = after(stays | ~items[text_of_row], text_of_row)  # (R, C)
        flips = torch.zeros_like(exists)
        flips[exists] = flipped(logits[:, None], decision[text_of_row])[:, 0]
        first = first_true(flips)  # (P,)
        size[ranking, text] = so_far + 1 + first
        asked[ranking, text] = so_far + more
        sought[ranking, text] = first.isnan() & (so_far + more < count[text])
    return size
