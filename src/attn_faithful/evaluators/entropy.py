"""Is the importance of the items concentrated on a few, as sparse attention is? (Meister et al. 2021)"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.concentration import distribution, gini, normalized_entropy, support_size
from attn_faithful.functional.conicity import mean_conicity
from attn_faithful.functional.reasons import NAN_STATES, first_reasons, or_else

ENTROPY = MetricSpec(
    "importance_entropy",
    "entropy",
    "entropy of the shares of importance, of its largest value: 0 where one item has all, 1 where all have the same",
)
SUPPORT = MetricSpec(
    "importance_support",
    "support",
    "number of items with importance above 0",
    low=1.0,
    high=math.inf,
)
GINI = MetricSpec(
    "importance_gini",
    "Gini",
    "Gini's coefficient of the importance: 0 where all items have the same",
)
ZERO = MetricSpec(
    "zero_attention",
    "zero attention",
    "share of the items that attention leaves out entirely",
)
HIDDEN = MetricSpec(
    "hidden_entropy",
    "hidden entropy",
    "normalized entropy of what a state depends on, averaged over the states (with "
    "the source hidden_gradient, which tells it): 1 where each depends on all tokens alike",
)
CONICITY = MetricSpec(
    "conicity",
    "conicity",
    "mean alignment of the states that attention weighs to their mean (of models of our own; mean over the sentences "
    "where each has an attention): near 1 they all point the same way, and it matters little which is attended to",
    direction="lower",
)


@dataclass(frozen=True)
class EntropySettings:
    """Whose concentration is measured beside that of attention.

    Attributes:
        of: sources of importance, signed ones by their magnitudes. The paper's is saliency, of the evaluation's
            sources with reduction l2 and attention_path attached.
    """

    of: list[str] = field(default_factory=lambda: ["saliency"])

    def __post_init__(self) -> None:
        if len(set(self.of)) != len(self.of) or "attention" in self.of:
            raise InputError(f"of must name different sources beside attention, which is always there: {self.of}.")


def run(block: Block, settings: EntropySettings) -> ScoreRows:
    """Measure how concentrated attention and each source are over the items of each example.

    Args:
        block: examples at a site; the slots of an example are one set of items. Under a control only what stands in
            attention's place is measured, as the sources and the states do not depend on it.
        settings: see `EntropySettings`.
    """
    rows = ScoreRows()
    _add(rows, block, block.attention, block.encoded.over_items)
    if block.is_control:
        return rows
    for name in settings.of:
        _add(rows, block, name, block.sources[name])
    states = block.encoded.states
    if states is not None:
        slots = block.encoded.allowed & block.encoded.content[:, None]  # (B, S, T)
        value, flags = mean_conicity(states.detach().double(), slots)
        rows.add(block, {CONICITY: value}, first_reasons(flags), otherwise=NAN_STATES)
    return rows


def _add(rows: ScoreRows, block: Block, source: str, importance: Tensor) -> None:
    """Add how concentrated one importance is, metric by metric."""
    content = block.encoded.content
    shares, reasons = distribution(importance.to(content.device), content)
    entropy, entropy_reasons = normalized_entropy(shares, content)
    support = support_size(shares)
    rows.add(block, {ENTROPY: entropy}, or_else(reasons, entropy_reasons), source)
    rows.add(block, {SUPPORT: support}, reasons, source)
    rows.add(block, {GINI: gini(shares, content)}, reasons, source)
    if source == block.attention:
        without_attention = 1 - support / content.sum(1).clamp(min=1)
        rows.add(block, {ZERO: without_attention}, reasons, source)


def _sources(settings: EntropySettings) -> list[str]:
    return settings.of


EVALUATORS.register("entropy")(
    Evaluator(
        "entropy",
        "Meister et al. 2021, section 4",
        metrics=(ENTROPY, SUPPORT, GINI, ZERO, HIDDEN, CONICITY),
        run=run,
        settings=EntropySettings,
        sources=_sources,
    )
)
