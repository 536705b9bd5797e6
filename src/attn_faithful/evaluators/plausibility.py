"""Does importance point at the words that people marked as the reason? (DeYoung et al. 2020)

Plausible is not faithful: importance may agree with people and say nothing about the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec, check_rankings, sources_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.erasure import erasure_counts
from attn_faithful.functional.plausibility import auprc, iou_f1, rationale_share, select_top, token_f1
from attn_faithful.functional.reasons import NOTHING_MARKED
from attn_faithful.schema import RATIONALE

AUPRC = MetricSpec(
    "plausibility",
    "AUPRC",
    "area under the precision-recall curve of finding the marked items by their importance",
)
TOKEN_F1 = MetricSpec(
    "plausibility_f1",
    "token F1",
    "F1 of the most important items against the marked ones",
)
IOU_F1 = MetricSpec(
    "plausibility_iou",
    "IOU F1",
    "F1 of runs of the most important items against marked runs, which count as found from half an overlap on",
)
SHARE = MetricSpec(
    "rationale_share",
    "marked",
    "share of the items that are marked, which is the AUPRC of constant importance",
)
METRICS = (AUPRC, TOKEN_F1, IOU_F1, SHARE)


@dataclass(frozen=True)
class PlausibilitySettings:
    """Which rankings are compared with people's, and what is selected of them.

    Attributes:
        rankings: sources whose largest values come first, signed ones as they are; "attention" may be among them, and
            "random" is the control.
        share: of a text's items that is selected for the F1 scores, rounded up; None for as many as are marked.
        threshold: 0.5 to 1, the overlap from which a run of selected items is found.
    """

    rankings: list[str] = field(default_factory=lambda: ["attention", "input_x_gradient", "leave_one_out", "random"])
    share: float | None = None
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_rankings(self.rankings)
        if self.share is not None:
            erasure_counts(torch.zeros(1), (self.share,))  # refuses a bad share
        if not 0.5 <= self.threshold <= 1:
            raise InputError(f"threshold must be 0.5 to 1, but is {self.threshold}.")


def run(block: Block, settings: PlausibilitySettings) -> ScoreRows:
    """Compare every ranking with the rationale of each example.

    Items that tie enter the AUPRC together, and are selected from the first position on. The share of marked items
    does not depend on the ranking and stands under attention alone.

    Args:
        block: examples at a site; the slots of an example are one set of items.
        settings: see `PlausibilitySettings`.
    """
    if block.marked is None:
        return _nothing_marked(block, settings)
    rows = ScoreRows()
    content = block.encoded.content
    marked = block.marked.to(content.device) & content
    counts = _selected_counts(marked, content, settings)
    for name in settings.rankings:
        importance = block.importance(name)
        area, reasons = auprc(importance, marked, content)
        selected, _ = select_top(importance, content, counts)
        rows.add(block, {AUPRC: area}, reasons, source=name)
        rows.add(block, {TOKEN_F1: token_f1(selected, marked).f1}, reasons, source=name)
        rows.add(block, {IOU_F1: iou_f1(selected, marked, settings.threshold).f1}, reasons, source=name)
    share_marked, reasons = rationale_share(marked, content)
    rows.add(block, {SHARE: share_marked}, reasons)
    return rows


def _nothing_marked(block: Block, settings: PlausibilitySettings) -> ScoreRows:
    """Undefined values of data without rationales."""
    rows = ScoreRows()
    nothing = torch.full((len(block),), math.nan)
    for name in settings.rankings:
        for metric in (AUPRC, TOKEN_F1, IOU_F1):
            rows.add(block, {metric: nothing}, source=name, otherwise=NOTHING_MARKED)
    rows.add(block, {SHARE: nothing}, otherwise=NOTHING_MARKED)
    return rows


def _selected_counts(marked: Tensor, content: Tensor, settings: PlausibilitySettings) -> Tensor:
    """How many items of each example are selected for the F1 scores, (B,)."""
    if settings.share is None:
        return marked.sum(-1)
    return erasure_counts(content.sum(-1), (settings.share,))[:, 0]


EVALUATORS.register("plausibility")(
    Evaluator(
        "plausibility",
        "DeYoung et al. 2020, section 4.1",
        metrics=METRICS,
        run=run,
        settings=PlausibilitySettings,
        sources=sources_of,
        needs_marks=RATIONALE,
        under_controls=False,
    )
)
