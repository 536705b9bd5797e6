"""Does the item that a ranking puts first speak for the decision? (Liu et al. 2022)

Attention has no sign, and a reader takes its darkest word for a reason. Where the decision is surer without that word,
the word spoke against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.base import (
    EVALUATORS,
    RANKED,
    Block,
    Evaluator,
    LabelTest,
    MetricSpec,
    check_rankings,
    sources_of,
)
from attn_faithful.evaluators.score_rows import ScoreRows, nan_where
from attn_faithful.functional.polarity import first_support, polarity_violation
from attn_faithful.functional.reasons import (
    CANNOT_DELETE,
    MULTI_LABEL,
    NAN_PROBABILITIES,
    NO_SUPPORT,
    NO_TOKEN,
    ONE_ITEM,
    Reasons,
    first_reasons,
)

VIOLATION = MetricSpec(
    "polarity_violation",
    "polarity violated",
    "whether the item that is ranked first, as support, does not speak for the decision: the decision is as sure or "
    "surer once the item is deleted from the text",
    direction="lower",
)
REMOVAL_VIOLATION = MetricSpec(
    "polarity_violation_removal",
    "polarity violated by removal",
    "the same once the item is removed from the attention",
    direction="lower",
)
METRICS = (VIOLATION, REMOVAL_VIOLATION)


@dataclass(frozen=True)
class PolaritySettings:
    """Which rankings are judged.

    Attributes:
        rankings: sources whose largest value is taken for support; "attention" may be among them, and "random" is the
            control.
    """

    rankings: list[str] = field(default_factory=lambda: [*RANKED, "random"])

    def __post_init__(self) -> None:
        check_rankings(self.rankings)


def run(block: Block, settings: PolaritySettings) -> ScoreRows:
    """Take the first item of every ranking away, once from the text and once from the attention.

    A text of one item has nothing to rank, and a ranking without a positive value names no support: both are NaN with
    their reason. The decision is that of the whole text.

    Args:
        block: examples at a site; an item is removed from all slots of an example at once.
        settings: see `PolaritySettings`.
    """
    rows = ScoreRows()
    if block.encoded.multi_label:
        nothing = torch.full((len(block),), torch.nan)
        for name in settings.rankings:
            rows.add(block, {VIOLATION: nothing, REMOVAL_VIOLATION: nothing}, source=name, otherwise=MULTI_LABEL)
        return rows
    items = block.items.any(1)  # (B, T)
    first, undefined = [], []
    for name in settings.rankings:
        place, is_support = first_support(block.importance(name), items)
        first.append(place)
        undefined.append(_undefined(items, is_support))
    places = torch.stack(first, dim=1)  # (B, rankings)
    deleted = _by_deletion(block, places)
    removed = _by_removal(block, places)
    no_deletion = CANNOT_DELETE if block.without is None else NAN_PROBABILITIES
    for column, (name, reasons) in enumerate(zip(settings.rankings, undefined, strict=True)):
        by_deletion = nan_where(reasons, deleted[:, column])
        by_removal = nan_where(reasons, removed[:, column])
        rows.add(block, {VIOLATION: by_deletion}, reasons, name, otherwise=no_deletion)
        rows.add(block, {REMOVAL_VIOLATION: by_removal}, reasons, name, otherwise=NAN_PROBABILITIES)
    return rows


def _undefined(items: Tensor, is_support: Tensor) -> Reasons:
    """Why a ranking of each example names no support among several items (B, T); None where it does."""
    counts = items.sum(1)
    return first_reasons({NO_TOKEN: counts == 0, ONE_ITEM: counts == 1, NO_SUPPORT: ~is_support})


def _by_deletion(block: Block, places: Tensor) -> Tensor:
    """Whether each item at ``places`` (B, K), deleted from the text, leaves the decision as sure; NaN where unknown."""
    if block.without is None:
        return torch.full(places.shape, torch.nan)
    position = torch.arange(block.encoded.content.shape[1], device=places.device)
    # the whole text stands beside the others, so that what changes nothing changes no bit
    keep = F.pad(position != places[..., None], (0, 0, 1, 0), value=True)  # (B, 1 + K, T)
    logits = block.without(keep | ~block.encoded.content[:, None])
    decision = block.encoded.logits.argmax(-1).to(logits.device)
    return polarity_violation(logits[:, 0], logits[:, 1:], decision)


def _by_removal(block: Block, places: Tensor) -> Tensor:
    """The same without the item's attention."""
    removal = Removal(block, "renormalize")
    return polarity_violation(removal.in_full(), removal.without(places), removal.decided())


EVALUATORS.register("polarity")(
    Evaluator(
        "polarity",
        "Liu et al. 2022, section 3.1",
        metrics=METRICS,
        run=run,
        settings=PolaritySettings,
        sources=sources_of,
        under_controls=False,
        by_label=LabelTest(METRICS, run),
    )
)
