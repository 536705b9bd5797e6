"""Does an explanation stay as it is when a word is exchanged that the decision does not depend on?

The word with the least effect gives its place to that with the second least: an altered text of the same words, of the
same length, in which nothing that matters has changed. The other words are ranked in both. A ranking of them that
changes all the same depends on what does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful.evaluators.base import EVALUATORS, RANKED, Block, Evaluator, MetricSpec, check_rankings, sources_of
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows
from attn_faithful.functional.block_correlations import block_tau
from attn_faithful.functional.block_ranks import BlockRanks, Items
from attn_faithful.functional.rankings import TIE_TOLERANCE
from attn_faithful.functional.reasons import (
    CANNOT_DELETE,
    FIXED,
    NO_SECOND_WORD,
    NO_TOKEN,
    ONE_ITEM,
    Reasons,
    first_reasons,
    or_else,
)
from attn_faithful.models.protocol import prediction_change

TAU = MetricSpec(
    "stability_tau",
    "stability",
    "Kendall's tau-b of the ranking with that of the same text in which the word of least effect is another, over all "
    "other words",
    low=-1.0,
    direction="higher",
)
CHANGE = MetricSpec(
    "stability_change",
    "change of the prediction",
    "TVD of the predictions of the two texts, which the exchanged word should not move",
    shown=False,
)
METRICS = (TAU, CHANGE)
_IDS = "input_ids"
_ASKED = 64  # deletions that are asked for at once


@dataclass(frozen=True)
class StabilitySettings:
    """Which rankings are compared with themselves.

    Attributes:
        rankings: sources of importance; "attention" may be among them, and "random" is the control.
    """

    rankings: list[str] = field(default_factory=lambda: [*RANKED, "random"])

    def __post_init__(self) -> None:
        check_rankings(self.rankings)


@dataclass(frozen=True)
class Exchange:
    """The same texts with one word in the place of another.

    Attributes:
        ids: (B, tokens), of the altered texts; as they were where nothing could be exchanged.
        is_exchanged: (B, T) bool, the item that is another; none where nothing could be exchanged.
    """

    ids: Tensor
    is_exchanged: Tensor


def run(block: Block, settings: StabilitySettings) -> ScoreRows:
    """Exchange the word of least effect in every text, and compare each source on both texts.

    Importance on the altered text is about the class that the model decides on the whole one. Random importance is
    drawn anew for it.

    Args:
        block: examples at a site; the slots of an example are one set of items.
        settings: see `StabilitySettings`.
    """
    rows = ScoreRows()
    rereading = block.rereading
    if block.without is None or rereading is None or _IDS not in rereading.batch:
        nothing = torch.full((len(block),), torch.nan)
        for name in settings.rankings:
            rows.add(block, {TAU: nothing, CHANGE: nothing}, source=name, otherwise=CANNOT_DELETE)
        return rows
    exchange = exchanged(rereading.batch[_IDS], block.encoded.content, block.encoded.members, _effects(block))
    batch = {**rereading.batch, _IDS: exchange.ids}
    keys = [f"{key} altered" for key in rereading.keys]
    names = [name for name in settings.rankings if name not in rereading.fixed]
    reading = rereading.read(batch, keys, names)
    undefined = _undefined(block.encoded.content, exchange.is_exchanged.any(1))
    is_defined = torch.tensor([reason is None for reason in undefined])
    change = prediction_change(block.encoded, reading.encoded.logits[:, None])[:, 0].cpu()
    change = torch.where(is_defined, change, torch.nan)
    others = block.encoded.content & ~exchange.is_exchanged  # (B, T)
    items = Items.of(others.cpu().numpy())
    for name in settings.rankings:
        if name in rereading.fixed:
            rows.add(block, {TAU: torch.full((len(block),), torch.nan)}, undefined, name, otherwise=FIXED)
            continue
        before = block.importance(name).cpu().double().numpy()  # (B, T)
        ranks = BlockRanks.of(name, before, items, TIE_TOLERANCE)
        ranks_after = BlockRanks.of(name, reading.sources[name].numpy(), items, TIE_TOLERANCE)
        tau = block_tau(ranks, ranks_after)
        reasons = or_else(undefined, tau.reasons)
        values = torch.where(is_defined, torch.from_numpy(tau.value), torch.nan)
        columns = [
            ScoreColumn(TAU.name, values, reasons, source=name),
            ScoreColumn(CHANGE.name, change, undefined, source=name),
        ]
        rows.add_columns(block, columns)
    return rows


def exchanged(ids: Tensor, content: Tensor, members: Tensor | None, effects: Tensor) -> Exchange:
    """Texts in which the item of least effect has the tokens of that of the second least.

    Both have as many tokens, and not the same ones; where the two of least effect do not fit, those that come next.

    Args:
        ids: (B, tokens).
        content: (B, T) bool, the items.
        members: (B, tokens), which item each token belongs to, -1 for none; None where the items are the tokens.
        effects: (B, T), at least 0, of the items on the prediction.

    Example:
        >>> ids, effects = torch.tensor([[7, 8, 9]]), torch.tensor([[0.5, 0.1, 0.2]])
        >>> exchanged(ids, torch.ones(1, 3, dtype=torch.bool), None, effects).ids
        tensor([[7, 9, 9]])
    """
    altered = ids.clone()
    is_exchanged = torch.zeros_like(content)
    for row, is_item in enumerate(content):
        places = is_item.nonzero()[:, 0]
        by_effect = places[effects[row, places].argsort(stable=True)].tolist()
        tokens = {item: _tokens_of(members, row, item) for item in by_effect}
        pair = _pair(ids[row].tolist(), by_effect, tokens)
        if pair is not None:
            item, other = pair
            altered[row, tokens[item]] = ids[row, tokens[other]]
            is_exchanged[row, item] = True
    return Exchange(altered, is_exchanged)


def _tokens_of(members: Tensor | None, row: int, item: int) -> list[int]:
    """The places of an item's tokens."""
    if members is None:
        return [item]
    places: list[int] = (members[row] == item).nonzero()[:, 0].tolist()
    return places


def _pair(ids: Sequence[int], by_effect: Sequence[int], tokens: dict[int, list[int]]) -> tuple[int, int] | None:
    """The first item by effect that another can stand for, and the first such other; None where there is none."""
    for item in by_effect:
        words = [ids[place] for place in tokens[item]]
        for other in by_effect:
            other_words = [ids[place] for place in tokens[other]]
            if len(other_words) == len(words) and other_words != words:
                return item, other
    return None


def _effects(block: Block) -> Tensor:
    """How far the prediction moves without each item, (B, T)."""
    content = block.encoded.content
    position = torch.arange(content.shape[1], device=content.device)
    parts = []
    for places in position.split(_ASKED):
        deleted = (position == places[:, None])[None] & content[:, None]  # (B, K, T)
        parts.append(prediction_change(block.encoded, block.without(~deleted)))
    if not parts:
        return torch.zeros(content.shape, dtype=torch.float64)
    return torch.cat(parts, dim=1)


def _undefined(content: Tensor, found: Tensor) -> Reasons:
    """Why nothing is compared in a text; None where something is."""
    counts = content.sum(1)
    return first_reasons({NO_TOKEN: counts == 0, ONE_ITEM: counts == 1, NO_SECOND_WORD: ~found})


EVALUATORS.register("stability")(
    Evaluator(
        "stability",
        "Alvarez-Melis and Jaakkola 2018, section 3, for one exchanged word",
        metrics=METRICS,
        run=run,
        settings=StabilitySettings,
        sources=sources_of,
        under_controls=False,
    )
)
