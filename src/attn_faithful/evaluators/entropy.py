"""Is the importance of the items concentrated on a few, as sparse attention is? (Meister et al. 2021)"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.concentration import distribution, gini, normalized_entropy, support_size

ENTROPY = MetricSpec(
    "importance_entropy",
    "entropy",
    "entropy of the shares of importance, of its largest value: 0 where one item has all, 1 where all have the same",
    0.0,
    1.0,
)
SUPPORT = MetricSpec("importance_support", "support", "number of items with importance above 0", 1.0, math.inf)
GINI = MetricSpec(
    "importance_gini", "Gini", "Gini's coefficient of the importance: 0 where all items have the same", 0.0, 1.0
)
ZERO = MetricSpec("zero_attention", "zero attention", "share of the items that attention leaves out entirely", 0.0, 1.0)
HIDDEN = MetricSpec(
    "hidden_entropy",
    "hidden entropy",
    "normalized entropy of what a state depends on, averaged over the states (with "
    "the source hidden_gradient, which tells it): 1 where each depends on all tokens alike",
    0.0,
    1.0,
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
            attention's place is measured, as the sources do not depend on it.
        settings: see `EntropySettings`.
    """
    found = ScoreRows()
    _score(found, block, block.attention, block.encoded.over_items)
    for name in settings.of if block.attention == "attention" else ():
        _score(found, block, name, block.sources[name])
    return found


def _score(found: ScoreRows, block: Block, source: str, importance: Tensor) -> None:
    content = block.encoded.content
    shares, reasons = distribution(importance.to(content.device), content)
    values, short = normalized_entropy(shares, content)
    columns = (
        (ENTROPY, values, [first or second for first, second in zip(reasons, short, strict=True)]),
        (SUPPORT, support_size(shares), reasons),
        (GINI, gini(shares, content), reasons),
    )
    if source == block.attention:
        left_out = 1 - support_size(shares) / content.sum(1).clamp(min=1)
        columns = (*columns, (ZERO, left_out, reasons))
    for metric, column, why in columns:
        for row, value in enumerate(column.tolist()):
            found.score(block, row, metric.name, value, why[row], source=source)


EVALUATORS.register("entropy")(
    Evaluator(
        "entropy",
        "Meister et al. 2021, section 4",
        (ENTROPY, SUPPORT, GINI, ZERO, HIDDEN),
        run=run,
        settings=EntropySettings,
        sources=lambda settings: settings.of,
    )
)
