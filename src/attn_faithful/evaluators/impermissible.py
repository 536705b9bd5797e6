"""How much attention is on words that it must not show? (Pruthi et al. 2020)

Attention that was trained to deceive has little there, while the prediction rests on them: compare the other sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec, check_rankings, sources_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.concentration import distribution
from attn_faithful.functional.marked_attention import marked_mass
from attn_faithful.functional.reasons import NO_IMPERMISSIBLE_WORDS, first_reasons, or_else
from attn_faithful.schema import IMPERMISSIBLE

MASS = MetricSpec(
    "impermissible_mass",
    "impermissible",
    "share of the importance, by magnitude, that is on impermissible items",
)
SHARE = MetricSpec(
    "impermissible_share",
    "impermissible items",
    "share of the items that are impermissible, which is the mass of importance that is equal everywhere",
)


@dataclass(frozen=True)
class ImpermissibleSettings:
    """Whose mass is measured.

    Attributes:
        rankings: sources, signed ones by their magnitudes; "attention" may be among them.
    """

    rankings: list[str] = field(default_factory=lambda: ["attention", "input_x_gradient", "leave_one_out"])

    def __post_init__(self) -> None:
        check_rankings(self.rankings)


def run(block: Block, settings: ImpermissibleSettings) -> ScoreRows:
    """Measure how much of each importance is on the impermissible items of each example.

    The share of impermissible items does not depend on the ranking and stands under attention alone.

    Args:
        block: examples at a site; the slots of an example are one set of items.
        settings: see `ImpermissibleSettings`.
    """
    if block.marked is None:
        return _nothing_marked(block, settings)
    rows = ScoreRows()
    content = block.encoded.content
    marked = block.marked.to(content.device) & content
    for name in settings.rankings:
        shares, reasons = distribution(block.importance(name).to(content.device), content)
        mass, flags = marked_mass(shares, marked, content)
        rows.add(block, {MASS: mass}, or_else(first_reasons(flags), reasons), source=name)
    equal = content.double() / content.sum(-1, keepdim=True).clamp(min=1)  # (B, T)
    share, flags = marked_mass(equal, marked, content)
    rows.add(block, {SHARE: share}, first_reasons(flags))
    return rows


def _nothing_marked(block: Block, settings: ImpermissibleSettings) -> ScoreRows:
    """Undefined values of data that does not say what is impermissible."""
    rows = ScoreRows()
    nothing = torch.full((len(block),), math.nan)
    for name in settings.rankings:
        rows.add(block, {MASS: nothing}, source=name, otherwise=NO_IMPERMISSIBLE_WORDS)
    rows.add(block, {SHARE: nothing}, otherwise=NO_IMPERMISSIBLE_WORDS)
    return rows


EVALUATORS.register("impermissible")(
    Evaluator(
        "impermissible",
        "Pruthi et al. 2020, section 3",
        metrics=(MASS, SHARE),
        run=run,
        settings=ImpermissibleSettings,
        sources=sources_of,
        needs_marks=IMPERMISSIBLE,
        under_controls=False,
    )
)
