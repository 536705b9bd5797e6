"""The top item of a ranking removed alone, beside a random other one (Serrano and Smith 2019, section 4)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attn_faithful.evaluators.flip_case import FlipCase
from attn_faithful.evaluators.flip_metrics import (
    ATTENTION_DIFFERENCE,
    BOTH,
    JS_DIFFERENCE,
    NEGATIVE,
    NEITHER,
    RANDOM_ONLY,
    SINGLE_JS,
    TOP_ONLY,
)
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.readout import flipped
from attn_faithful.models.protocol import probabilities


def add_single_removals(rows: ScoreRows, case: FlipCase, orders: Mapping[str, Tensor]) -> None:
    """Add what removing the top item of each ranking does, beside a random other one.

    Args:
        rows: where the scores go.
        case: the block.
        orders: ranking -> places (B, T) of the items.
    """
    if not orders or not case.items.shape[1]:
        return
    pairs = {name: _top_and_other(case, name, order) for name, order in orders.items()}
    places_of_all = torch.cat(list(pairs.values()), dim=1)  # (B, 2 a ranking)
    logits = case.removal.without(places_of_all)  # (B, 2 a ranking, C)
    parts = logits.split(2, dim=1)
    for (name, places), after in zip(pairs.items(), parts, strict=True):
        _add(rows, case, name, places, after)


def _top_and_other(case: FlipCase, name: str, order: Tensor) -> Tensor:
    """Places (B, 2) of the top item and of any other, each as likely."""
    rank = torch.zeros(len(case.block), dtype=torch.long)
    for row, count in enumerate(case.counts.tolist()):
        if count > 1:
            generator = case.block.generator(row, "other item", name)
            rank[row] = 1 + int(torch.randint(count - 1, (), generator=generator))
    other = order.gather(1, rank.to(order.device)[:, None])  # (B, 1)
    return torch.stack([order[:, 0], other[:, 0]], dim=1)


def _add(
    rows: ScoreRows,
    case: FlipCase,
    name: str,
    places: Tensor,
    after: Tensor,
) -> None:
    """Add the metrics of a ranking, from the logits (B, 2, C) without the items at ``places`` (B, 2)."""
    flips = flipped(after, case.decision)  # (B, 2)
    observed = probabilities(case.block.encoded.logits.double(), False)[:, None]  # (B, 1, C)
    removed = probabilities(after.nan_to_num(), False)  # (B, 2, C)
    js = jsd(removed, observed.expand(after.shape), validate_args=False)  # (B, 2)
    weights = case.removal.weights.gather(1, places)  # (B, 2)
    # (B,) each
    top_flips, other_flips = flips.unbind(1)
    top_js, other_js = js.unbind(1)
    top_weight, other_weight = weights.unbind(1)
    values = {
        SINGLE_JS: top_js,
        JS_DIFFERENCE: top_js - other_js,
        NEGATIVE: top_js < other_js,
        ATTENTION_DIFFERENCE: top_weight - other_weight,
        BOTH: top_flips & other_flips,
        TOP_ONLY: top_flips & ~other_flips,
        RANDOM_ONLY: ~top_flips & other_flips,
        NEITHER: ~top_flips & ~other_flips,
    }
    case.add(rows, values, source=name)
