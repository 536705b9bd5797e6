"""Does the prediction need the items that a ranking puts first, and are they enough for it? (DeYoung et al. 2020)

Items are deleted from the text and the model run again, so attention is judged as a ranking of the text like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest, MetricSpec, sources_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.erasure import (
    SHARES,
    aopc,
    comprehensiveness,
    erasure_counts,
    sufficiency,
    top_masks,
)
from attn_faithful.functional.reasons import CANNOT_DELETE, MULTI_LABEL, NAN_PROBABILITIES
from attn_faithful.models.protocol import probabilities

COMPREHENSIVENESS = MetricSpec(
    "comprehensiveness",
    "comprehensiveness",
    "what the predicted class loses without the top items, mean over shares",
    -1.0,
    1.0,
    "higher",
    "probability",
)
SUFFICIENCY = MetricSpec(
    "sufficiency",
    "sufficiency",
    "what the predicted class loses with the top items alone, mean over shares",
    -1.0,
    1.0,
    "lower",
    "probability",
)


@dataclass(frozen=True)
class ErasureSettings:
    """Which rankings are compared, and how much of a text is erased.

    Attributes:
        rankings: sources whose largest values come first, signed ones as they are; "attention" may be among them, and
            "random" is the control.
        shares: of a text's items, each rounded up; the defaults are ERASER's.
    """

    rankings: list[str] = field(default_factory=lambda: ["attention", "input_x_gradient", "leave_one_out", "random"])
    shares: list[float] = field(default_factory=lambda: list(SHARES))

    def __post_init__(self) -> None:
        if not self.rankings or len(set(self.rankings)) != len(self.rankings):
            raise InputError(f"rankings must name different sources of importance, but is {self.rankings}.")
        erasure_counts(torch.zeros(1), self.shares)  # refuses bad shares


@dataclass(frozen=True)
class Curve:
    """What one ranking's top items do, (B, K) over the shares, and why an example says nothing."""

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
    found = ScoreRows()
    for name, curve in _curves(block, settings).items():
        columns = {COMPREHENSIVENESS: aopc(curve.without).tolist(), SUFFICIENCY: aopc(curve.only).tolist()}
        for row, reason in enumerate(curve.reasons):
            for metric, values in columns.items():
                found.score(block, row, metric.name, math.nan if reason else values[row], reason, source=name)
            if reason is None:
                found.variant(block, row, "erasure", name, changes=curve.without[row].tolist())
    return found


def _curves(block: Block, settings: ErasureSettings) -> Mapping[str, Curve]:
    encoded, content = block.encoded, block.encoded.content
    refused = MULTI_LABEL if encoded.multi_label else CANNOT_DELETE if block.without is None else None
    if refused is not None:
        nothing = torch.full((len(block), 1), math.nan)
        return {name: Curve(nothing, nothing, [refused] * len(block)) for name in settings.rankings}
    counts = erasure_counts(content.sum(1), settings.shares)
    tops = {name: top_masks(block.importance(name).double(), content, counts) for name in settings.rankings}
    # the whole text stands beside the others, so that what removes nothing changes nothing, to the last bit
    kept = [torch.ones_like(content)[:, None]]
    for chosen, _ in tops.values():
        kept += [~chosen, chosen | ~content[:, None]]
    logits = block.without(torch.cat(kept, dim=1)).double()
    target = encoded.logits.argmax(-1)[:, None, None].expand(-1, logits.shape[1], 1)
    chances = probabilities(logits).gather(2, target.to(logits.device))[..., 0]  # (B, 1 + 2 K a ranking)
    full, parts = chances[:, 0], chances[:, 1:].split(counts.shape[1], dim=1)
    return {
        name: _curve(full, without, only, reasons)
        for (name, (_, reasons)), without, only in zip(tops.items(), parts[::2], parts[1::2], strict=True)
    }


def _curve(full: Tensor, without: Tensor, only: Tensor, reasons: Sequence[str | None]) -> Curve:
    broken = (full.isnan() | without.isnan().any(1) | only.isnan().any(1)).tolist()
    reasons = [reason or (NAN_PROBABILITIES if nan else None) for reason, nan in zip(reasons, broken, strict=True)]
    return Curve(comprehensiveness(full, without), sufficiency(full, only), reasons)


EVALUATORS.register("erasure")(
    Evaluator(
        "erasure",
        "DeYoung et al. 2020, section 4.2",
        (COMPREHENSIVENESS, SUFFICIENCY),
        run=run,
        settings=ErasureSettings,
        sources=sources_of,
        under_controls=False,
        by_label=LabelTest((COMPREHENSIVENESS, SUFFICIENCY), run),
    )
)
