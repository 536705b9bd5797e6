"""AOPC of rankings by removal from the attention, between the best and the worst order of removals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attn_faithful.evaluators.aopc_scores import AopcScores, add_undefined
from attn_faithful.evaluators.asked_sets import AskedSets
from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.flip_case import FlipCase
from attn_faithful.evaluators.flip_metrics import REMOVAL_AOPC
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.aopc_beam import searched_aopc
from attn_faithful.functional.aopc_limits import aopc_limits
from attn_faithful.functional.naopc import order_aopc


def add_aopc(
    rows: ScoreRows,
    case: FlipCase,
    orders: Mapping[str, Sequence[Tensor]],
    beam: int,
    budget: int,
) -> None:
    """Add AOPC of every ranking, and where it lies between its limits.

    The limits are exact for two classes and a read-out that is affine in one attention, else a beam search finds them.

    Args:
        rows: where the scores go.
        case: the block.
        orders: ranking -> places (B, T) of the items, of each of its draws.
        beam: most sets of each size that are kept; 0 where limits that must be searched are left out.
        budget: most sets that the model is asked for, of a text.
    """
    names: list[str] = []
    all_orders: list[Tensor] = []
    for name, draws in orders.items():
        names += [name] * len(draws)
        all_orders += draws
    removal = case.removal
    if case.block.encoded.multi_label:
        add_undefined(rows, case.block, REMOVAL_AOPC, orders, list(case.reasons))
        return
    if removal.exact and removal.readout[1].shape[1] == 2:
        scores = _exact(removal, names, all_orders, case.decision)
    elif beam:
        # what others have asked already depends on the texts beside, and so is counted again
        after = AskedSets(removal.after, len(removal.items))
        found = searched_aopc(after, torch.stack(all_orders), removal.items, case.decision, beam, budget)
        scores = AopcScores.of_orders(names, found.aopc, found.limits, after.count.to(case.items.device))
    else:
        return
    scores.add(rows, case.block, REMOVAL_AOPC, list(case.reasons))


def _exact(removal: Removal, names: Sequence[str], orders: Sequence[Tensor], decision: Tensor) -> AopcScores:
    """Of a read-out that is affine in one attention, of two classes."""
    aopc = [order_aopc(removal.path(order), removal.items, decision) for order in orders]
    limits = aopc_limits(removal.log_weights, removal.items, *removal.readout, decision)
    return AopcScores.of_orders(names, torch.stack(aopc), limits)
