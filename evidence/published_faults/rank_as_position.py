"""The random item beside the top one is drawn as a rank and used as a position (Serrano and Smith 2019, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attn_faithful.attributions.base import Request, attribute
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.flip_case import FlipCase
from attn_faithful.evaluators.score_rows import nan_where
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.readout import flipped
from attn_faithful.models.protocol import probabilities
from evidence.published_faults.comparing import compared_means
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import Trained

FAULT = Fault(
    name="rank_as_position",
    title="A rank used as a position",
    paper="serrano_smith_2019",
    where="serrano-s/attn-tests, test_model.py, get_dec_flip_stats_for_rand_nontop",
    published="draws a number from 1 to n - 1 and removes the item at that position: never the first item, and the top "
    "item as likely as any other",
    printed="removes an item that is drawn evenly from those other than the top one",
    remark="Both numbers are exact over the draw: every item of every text is removed once, and no draw is simulated. "
    "What the top item does alone is the same both ways: 'top only' moves by as much as 'both flip' the other way, and "
    "'neither' by as much as 'random only'.",
)

RANKINGS = ("attention", "attention_x_gradient")
BOTH, RANDOM_ONLY = "both flip", "random only"
SAME_ITEM = "the random item is the top item"
MATTERS_MORE = "the random item moves the output more"
OUTCOMES = (BOTH, RANDOM_ONLY, SAME_ITEM, MATTERS_MORE)
PUBLISHED, PRINTED = "as published", "as printed"


def measure(models: Sequence[Trained]) -> dict[tuple[str, str, str], Comparison]:
    """(metric, unit, texts) -> the shares of texts, in percent, both ways."""
    columns = [model.by_text(shares) for model in models]
    found = {}
    for ranking in RANKINGS:
        for outcome in OUTCOMES:
            published = [100 * of_model[f"{ranking} {outcome} {PUBLISHED}"] for of_model in columns]
            printed = [100 * of_model[f"{ranking} {outcome} {PRINTED}"] for of_model in columns]
            metric = f"{outcome}, top by {ranking}"
            found[metric, "percent", "two items or more"] = compared_means(published, printed)
    return found


def shares(block: Block) -> dict[str, Tensor]:
    """The chance (B,) of each outcome, both ways, for each ranking; NaN for texts of fewer than two items."""
    request = Request(model=None, batch={}, encoded=block.encoded, keys=block.keys)
    sources = {name: attribute(name, request).values for name in RANKINGS if name != "attention"}
    case = FlipCase.of(replace(block, sources=sources), "renormalize")
    tokens = torch.arange(case.items.shape[1]).expand_as(case.items)  # (B, T)
    logits = case.removal.without(tokens)  # (B, T, C)
    flips = flipped(logits, case.decision) & case.items  # (B, T)
    moves = _moves(block, logits)  # (B, T)
    is_first = case.items & (case.items.cumsum(1) == 1)  # (B, T)
    found = {}
    for ranking in RANKINGS:
        top = case.order(ranking)[:, :1]  # (B, 1)
        is_top = case.items & (tokens == top)  # (B, T)
        top_flips = flips.gather(1, top)[:, 0].double()  # (B,)
        is_larger = moves > moves.gather(1, top)  # (B, T)
        drawn_by_way = {PUBLISHED: case.items & ~is_first, PRINTED: case.items & ~is_top}
        for way, drawn in drawn_by_way.items():
            chance = _share(flips, drawn)  # (B,)
            values = {
                BOTH: top_flips * chance,
                RANDOM_ONLY: (1 - top_flips) * chance,
                SAME_ITEM: _share(is_top, drawn),
                MATTERS_MORE: _share(is_larger, drawn),
            }
            for outcome, value in values.items():
                found[f"{ranking} {outcome} {way}"] = nan_where(case.reasons, value)
    return found


def _share(flags: Tensor, drawn: Tensor) -> Tensor:
    """The chance (B,) that an item drawn evenly from some (B, T) is one of those flagged (B, T)."""
    return (flags & drawn).sum(1).double() / drawn.sum(1)


def _moves(block: Block, logits: Tensor) -> Tensor:
    """How far the prediction moves (B, T), JSD in nats, from the logits (B, T, C) without each item."""
    observed = probabilities(block.encoded.logits.double(), False)[:, None]  # (B, 1, C)
    after = probabilities(logits.nan_to_num(), False)  # (B, T, C)
    return jsd(after, observed.expand_as(after), validate_args=False)
