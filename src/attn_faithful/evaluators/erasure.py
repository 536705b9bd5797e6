"""Does the prediction need the items that a ranking puts first, and are they enough for it? (DeYoung et al. 2020)

Items are deleted from the text and the model run again, so attention is judged as a ranking of the text like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful.evaluators.aopc_scores import add_undefined, check_beam
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
from attn_faithful.evaluators.erasure_aopc import DELETION_AOPC, add_aopc
from attn_faithful.evaluators.score_rows import ScoreRows, VariantColumns, is_defined, nan_where
from attn_faithful.functional.erasure import (
    SHARES,
    aopc,
    comprehensiveness,
    erasure_counts,
    sufficiency,
    top_masks,
)
from attn_faithful.functional.reasons import CANNOT_DELETE, MULTI_LABEL, NAN_PROBABILITIES, first_reasons, or_else
from attn_faithful.models.protocol import probabilities

COMPREHENSIVENESS = MetricSpec(
    "comprehensiveness",
    "comprehensiveness",
    "what the predicted class loses without the top items, mean over shares",
    low=-1.0,
    direction="higher",
    unit="probability",
)
SUFFICIENCY = MetricSpec(
    "sufficiency",
    "sufficiency",
    "what the predicted class loses with the top items alone, mean over shares",
    low=-1.0,
    direction="lower",
    unit="probability",
)
METRICS = (COMPREHENSIVENESS, SUFFICIENCY, *DELETION_AOPC.all)

# A shortened text is a run of the model: a MiniLM takes a second for as many. With six rankings a text of 28 items has
# a beam of one set.
BEAM_BUDGET = 1000


@dataclass(frozen=True)
class ErasureSettings:
    """Which rankings are compared, and how much of a text is erased.

    Attributes:
        rankings: sources whose largest values come first, signed ones as they are; "attention" may be among them, and
            "random" is the control.
        shares: of a text's items, each rounded up; the defaults are ERASER's.
        beam: where the limits of AOPC are not exact, the sets of each size that a beam search for them keeps; 0 for no
            AOPC there.
        beam_budget: shortened texts that this search runs, of a text, at most; n items take about n^2.
    """

    rankings: list[str] = field(default_factory=lambda: [*RANKED, "random"])
    shares: list[float] = field(default_factory=lambda: list(SHARES))
    beam: int = 1
    beam_budget: int = BEAM_BUDGET

    def __post_init__(self) -> None:
        check_rankings(self.rankings)
        erasure_counts(torch.zeros(1), self.shares)  # refuses bad shares
        check_beam(self.beam, self.beam_budget)


@dataclass(frozen=True)
class Curve:
    """What one ranking's top items do at each share.

    Attributes:
        without, only: (B, K) over the shares: the loss without the top items, and with them alone; NaN with a reason.
        reasons: why the values of an example are NaN; None where they are numbers.
    """

    without: Tensor
    only: Tensor
    reasons: Sequence[str | None]


def run(block: Block, settings: ErasureSettings) -> ScoreRows:
    """Delete the top items of every ranking from the text, then all others.

    The target is the predicted class of the whole text, whatever the sources' target is. Alternatives hold the
    comprehensiveness at each share. Items that tie are taken from the first position on.

    Args:
        block: examples at a site; the slots of an example are one set of items.
        settings: see `ErasureSettings`.
    """
    rows = ScoreRows()
    refused = _refusal(block)
    if refused is not None:
        nothing = torch.full((len(block),), math.nan)
        for name in settings.rankings:
            rows.add(block, {COMPREHENSIVENESS: nothing, SUFFICIENCY: nothing}, source=name, otherwise=refused)
        add_undefined(rows, block, DELETION_AOPC, settings.rankings, [refused] * len(block))
        return rows
    for name, curve in _curves(block, settings).items():
        values = {COMPREHENSIVENESS: aopc(curve.without), SUFFICIENCY: aopc(curve.only)}
        rows.add(block, values, curve.reasons, source=name)
        alternative = VariantColumns("erasure", name, is_defined(curve.reasons), {"changes": curve.without})
        rows.add_variants(block, [alternative])
    add_aopc(rows, block, block.without, settings.rankings, settings.beam, settings.beam_budget)
    return rows


def _refusal(block: Block) -> str | None:
    """Why a model's texts cannot be judged by deletion."""
    if block.encoded.multi_label:
        return MULTI_LABEL
    return CANNOT_DELETE if block.without is None else None


def _curves(block: Block, settings: ErasureSettings) -> Mapping[str, Curve]:
    """The curve of every ranking; all texts of all rankings are run together."""
    content = block.encoded.content  # (B, T)
    counts = erasure_counts(content.sum(1), settings.shares)  # (B, K)
    reasons_of = {}
    # the whole text stands beside the others, so that what removes nothing changes nothing, to the last bit
    keep = [torch.ones_like(content)[:, None]]
    for name in settings.rankings:
        top, reasons_of[name] = top_masks(block.importance(name).double(), content, counts)  # (B, K, T)
        keep += [~top, top | ~content[:, None]]
    logits = block.without(torch.cat(keep, dim=1)).double()  # (B, 1 + 2 K a ranking, C)
    predicted = block.encoded.logits.argmax(-1).to(logits.device)  # (B,)
    index = predicted[:, None, None].expand(-1, logits.shape[1], 1)
    target = probabilities(logits).gather(2, index)[..., 0]  # (B, 1 + 2 K a ranking)
    full = target[:, 0]
    parts = target[:, 1:].split(counts.shape[1], dim=1)  # (B, K) each: without and with the top items of each ranking
    curves = {}
    for place, (name, reasons) in enumerate(reasons_of.items()):
        without, only = parts[2 * place : 2 * place + 2]
        curves[name] = _curve(full, without, only, reasons)
    return curves


def _curve(
    full: Tensor,
    without: Tensor,
    only: Tensor,
    reasons: Sequence[str | None],
) -> Curve:
    """One ranking's curve, from the target's probability for the full text (B,) and for its parts (B, K)."""
    has_nan = full.isnan() | without.isnan().any(1) | only.isnan().any(1)
    reasons = or_else(reasons, first_reasons({NAN_PROBABILITIES: has_nan}))
    lost_without = nan_where(reasons, comprehensiveness(full, without))
    lost_alone = nan_where(reasons, sufficiency(full, only))
    return Curve(lost_without, lost_alone, reasons)


EVALUATORS.register("erasure")(
    Evaluator(
        "erasure",
        "DeYoung et al. 2020, section 4.2",
        metrics=METRICS,
        run=run,
        settings=ErasureSettings,
        sources=sources_of,
        under_controls=False,
        by_label=LabelTest(METRICS, run),
    )
)
