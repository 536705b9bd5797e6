"""Does importance point at the words that people marked as the reason? (DeYoung et al. 2020)

Plausible is not faithful: importance may agree with people and say nothing about the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec, sources_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.erasure import erasure_counts
from attn_faithful.functional.plausibility import auprc, iou_f1, rationale_share, select_top, token_f1
from attn_faithful.functional.reasons import NOTHING_MARKED

AUPRC = MetricSpec(
    "plausibility",
    "AUPRC",
    "area under the precision-recall curve of finding the marked items by their importance",
    0.0,
    1.0,
)
TOKEN_F1 = MetricSpec("plausibility_f1", "token F1", "F1 of the most important items against the marked ones", 0.0, 1.0)
IOU_F1 = MetricSpec(
    "plausibility_iou",
    "IOU F1",
    "F1 of runs of the most important items against marked runs, which count as found from half an overlap on",
    0.0,
    1.0,
)
SHARE = MetricSpec(
    "rationale_share",
    "marked",
    "share of the items that are marked, which is the AUPRC of constant importance",
    0.0,
    1.0,
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
        if not self.rankings or len(set(self.rankings)) != len(self.rankings):
            raise InputError(f"rankings must name different sources of importance, but is {self.rankings}.")
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
    found = ScoreRows()
    content = block.encoded.content
    if block.rationale is None:
        nothing, reasons = torch.full((len(block),), math.nan), [NOTHING_MARKED] * len(block)
        for name in settings.rankings:
            _score(found, block, name, dict.fromkeys((AUPRC, TOKEN_F1, IOU_F1), nothing), reasons)
        _score(found, block, block.attention, {SHARE: nothing}, reasons)
        return found
    marked = block.rationale.to(content.device) & content
    share = settings.share
    counts = marked.sum(-1) if share is None else erasure_counts(content.sum(-1), (share,))[:, 0]
    for name in settings.rankings:
        importance = block.importance(name)
        area, reasons = auprc(importance, marked, content)
        selected, _ = select_top(importance, content, counts)
        columns = {
            AUPRC: area,
            TOKEN_F1: token_f1(selected, marked).f1,
            IOU_F1: iou_f1(selected, marked, settings.threshold).f1,
        }
        _score(found, block, name, columns, reasons)
    share_marked, reasons = rationale_share(marked, content)
    _score(found, block, block.attention, {SHARE: share_marked}, reasons)
    return found


def _score(
    found: ScoreRows, block: Block, source: str, columns: Mapping[MetricSpec, Tensor], reasons: Sequence[str | None]
) -> None:
    for metric, values in columns.items():
        for row, value in enumerate(values.tolist()):
            found.score(block, row, metric.name, value, reasons[row], source=source)


EVALUATORS.register("plausibility")(
    Evaluator(
        "plausibility",
        "DeYoung et al. 2020, section 4.1",
        METRICS,
        run=run,
        settings=PlausibilitySettings,
        sources=sources_of,
        needs_rationale=True,
        under_controls=False,
    )
)
