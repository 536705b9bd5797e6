"""The farthest attention that keeps the decision, and the nearest that changes it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_faithful.evaluators.adversarial_metrics import DECISION, DISTANCE, KEEPING, KEEPING_UPPER, PROOF
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.movable_attention import Movable
from attn_faithful.evaluators.predictions import predictions_under, variant_name, weights_on_items
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows, VariantColumns, nan_where
from attn_faithful.functional.adversary import decision_keeping_adversary
from attn_faithful.functional.adversary_classes import decision_keeping_interval
from attn_faithful.functional.flip_distance import flip_distance
from attn_faithful.functional.reasons import (
    MULTI_LABEL,
    NAN_SCORES,
    NO_TOKEN,
    NOT_AFFINE,
    NOT_SEARCHED,
    first_reasons,
)


def add_decision(rows: ScoreRows, block: Block, movable: Movable | None) -> None:
    """Add the exact metrics of the decision, for read-outs that are affine in one attention.

    Args:
        rows: where the scores go.
        block: examples at one site.
        movable: its movable attention; None where the read-out is not affine, and the metrics are NaN.
    """
    if movable is None:
        nothing = torch.full((len(block),), math.nan)
        reason = MULTI_LABEL if block.encoded.multi_label else NOT_AFFINE
        rows.add(block, dict.fromkeys(DECISION, nothing), otherwise=reason)
        return
    nearest = flip_distance(movable.shares, movable.items, movable.token_logits, movable.bias)
    distance = nearest.jsd * movable.weight  # (B,)
    lower, upper, missing = _keeping(block, movable)
    empty = first_reasons({NO_TOKEN: ~movable.items.any(1)})
    unknown = [reason if reason in (NO_TOKEN, NAN_SCORES) else None for reason in nearest.reason]
    proof = nearest.attention_proof.double()
    columns = [
        ScoreColumn(KEEPING.name, lower, empty, missing),
        ScoreColumn(KEEPING_UPPER.name, upper, empty, missing),
        ScoreColumn(DISTANCE.name, distance, nearest.reason),
        ScoreColumn(PROOF.name, nan_where(unknown, proof), unknown),
    ]
    rows.add_columns(block, columns)

    attention = movable.attention(nearest.attention[:, None])  # (B, 1, T)
    after, change = predictions_under(block, attention[:, :, None])
    further = {
        "attention_jsd": distance,
        "output_tvd": change[:, 0],
        "probabilities": after[:, 0],
        "attention": weights_on_items(attention[:, 0], movable.items),
        "exact": [True] * len(block),
    }
    exists = ~distance.isnan()
    alternative = VariantColumns("adversarial", variant_name(block, "flip"), exists, further)
    rows.add_variants(block, [alternative])


def _keeping(block: Block, movable: Movable) -> tuple[Tensor, Tensor, str]:
    """Bounds (B,) of the largest JSD that keeps the decision, and why they are NaN."""
    shares = movable.shares
    items = movable.items
    weight = movable.weight
    if movable.classes == 2:
        farthest = decision_keeping_adversary(shares, items, movable.margins)
        largest = farthest.jsd[:, 0] * weight
        return largest, largest, NAN_SCORES
    if block.is_control:
        nothing = torch.full_like(weight, math.nan)
        return nothing, nothing, NOT_SEARCHED
    bounds = decision_keeping_interval(shares, items, movable.token_logits, movable.bias)
    return bounds.lower * weight, bounds.upper * weight, NAN_SCORES
