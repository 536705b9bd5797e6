"""Does attention rank the tokens as other measures of importance do? (Jain and Wallace 2019, section 4.1)"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.rankings import LONG, SIGNIFICANT, TIE_TOLERANCE, Correlation, kendall_tau_b, spearman
from attn_faithful.functional.top_k import TopK, overlap, top_k_kendall, top_k_tau

TAU = MetricSpec(
    "attention_correlation",
    "tau-b",
    "Kendall's rank correlation of two importances over a text's tokens",
    -1.0,
    1.0,
    "higher",
)
P_VALUE = MetricSpec("correlation_p", "p", "two-sided p-value of tau-b", 0.0, 1.0, shown=False)
SIGNIFICANT_SHARE = MetricSpec(
    "significant",
    "sig.",
    f"whether p <= {SIGNIFICANT}, over all texts as in the paper: an undefined tau is not",
    0.0,
    1.0,
    "higher",
)
SIGNIFICANT_LONG = MetricSpec(
    "significant_n5",
    f"sig. n>={LONG}",
    f"whether p <= {SIGNIFICANT}, texts of {LONG} tokens or more",
    0.0,
    1.0,
    "higher",
)
SPEARMAN = MetricSpec("spearman", "Spearman", "rank correlation of Spearman", -1.0, 1.0, "higher")
TOP_K_TAU = MetricSpec("top_k_tau", "top-k tau", "Kendall's correlation of the two top-k lists", -1.0, 1.0, "higher")
TOP_K_DISTANCE = MetricSpec(
    "top_k_distance", "top-k distance", "distance of the two top-k lists as in the paper's code", 0.0, 1.0, "lower"
)
OVERLAP = MetricSpec("top_k_overlap", "top-k overlap", "share of the k highest tokens in common", 0.0, 1.0, "higher")
TIES = MetricSpec("tied_pairs", "tied", "share of the token pairs that tie in the first of the two", 0.0, 1.0)
DIFFERENCE = MetricSpec(
    "tau_difference",
    "tau - tau(attention)",
    "how much closer another importance is to the second than attention is",
    -2.0,
    2.0,
    "lower",
)

METRICS = (
    TAU,
    P_VALUE,
    SIGNIFICANT_SHARE,
    SIGNIFICANT_LONG,
    SPEARMAN,
    TOP_K_TAU,
    TOP_K_DISTANCE,
    OVERLAP,
    TIES,
    DIFFERENCE,
)


@dataclass(frozen=True)
class CorrelationSettings:
    """What attention is compared with, and how.

    Attributes:
        against: sources of importance; also compared with one another.
        k: of the top-k measures, cut to a text's tokens; the paper's code takes max(10, a tenth of the mean length).
        tie_tolerance: relative gap up to which sorted neighbours count as tied; 0 repeats the papers.
    """

    against: list[str] = field(default_factory=lambda: ["input_x_gradient", "leave_one_out"])
    k: int = 10
    tie_tolerance: float = TIE_TOLERANCE

    def __post_init__(self) -> None:
        if not self.against or len(set(self.against)) != len(self.against):
            raise InputError(f"against must name different sources of importance, but is {self.against}.")
        if self.k < 2:
            raise InputError(f"k must be at least 2, but is {self.k}.")


def run(block: Block, settings: CorrelationSettings) -> ScoreRows:
    """Compare attention with every source, and the sources with one another, in each example and slot.

    Args:
        block: `sources` holds the importances; under a control only attention is compared, not the sources again.
        settings: see `CorrelationSettings`.

    Returns:
        scores whose source is "attention~<source>" and so on; `tau_difference` of "a-attention~b" is tau(a, b) minus
        tau(attention, b), as in the paper's figures 3 and 4.
    """
    found = ScoreRows()
    attention, items = block.encoded.attention.double().cpu().numpy(), block.items.cpu().numpy()
    arrays = {name: block.sources[name].double().cpu().numpy() for name in settings.against}
    own = block.attention == "attention"
    for row in range(len(block)):
        for slot, held in enumerate(items[row]):
            vectors = {name: values[row][held] for name, values in arrays.items()}
            here = PairScores(found, block, row, slot, settings)
            taus = {
                (block.attention, name): here.compare(block.attention, attention[row, slot][held], name, values)
                for name, values in vectors.items()
            }
            if own:
                for a, b in combinations(vectors, 2):
                    taus[a, b] = taus[b, a] = here.compare(a, vectors[a], b, vectors[b])
                for a, b in permutations(vectors, 2):
                    here.difference(a, b, taus[a, b], taus[block.attention, b])
    return found


@dataclass(frozen=True)
class PairScores:
    """Where the scores of one example and slot go."""

    found: ScoreRows
    block: Block
    row: int
    slot: int
    settings: CorrelationSettings

    def score(self, source: str, metric: MetricSpec, value: float, reason: str | None) -> None:
        self.found.score(self.block, self.row, metric.name, value, reason, source, self.slot)

    def compare(self, a: str, x: Sequence[float], b: str, y: Sequence[float]) -> Correlation:
        """All measures of one pair; returns tau-b."""
        source, settings = f"{a}~{b}", self.settings
        common = {"names": (a, b), "example": self.block.example[self.row], "tie_tolerance": settings.tie_tolerance}
        tau = kendall_tau_b(x, y, **common)
        self.score(source, TAU, tau.value, tau.reason)
        self.score(source, P_VALUE, tau.p_value, tau.reason)
        self.score(source, SIGNIFICANT_SHARE, float(tau.p_value <= SIGNIFICANT), None)  # NaN is not below it
        reason = f"n<{LONG}" if tau.n < LONG else tau.reason
        self.score(source, SIGNIFICANT_LONG, math.nan if reason else float(tau.p_value <= SIGNIFICANT), reason)
        rho = spearman(x, y, **common)
        self.score(source, SPEARMAN, rho.value, rho.reason)
        measures: list[tuple[MetricSpec, Callable[..., TopK]]] = [
            (TOP_K_TAU, top_k_tau),
            (TOP_K_DISTANCE, top_k_kendall),
            (OVERLAP, overlap),
        ]
        for metric, measure in measures:
            first = measure(x, y, k=settings.k, **common)
            self.score(source, metric, first.value, first.reason)
        self.score(source, TIES, tau.ties_x, tau.reason if np.isnan(tau.ties_x) else None)
        return tau

    def difference(self, a: str, b: str, other: Correlation, own: Correlation) -> None:
        reason = other.reason or own.reason
        self.score(f"{a}-{self.block.attention}~{b}", DIFFERENCE, other.value - own.value, reason)


EVALUATORS.register("correlation")(
    Evaluator(
        "correlation",
        "Jain and Wallace 2019, section 4.1",
        METRICS,
        run=run,
        settings=CorrelationSettings,
        sources=lambda settings: settings.against,
    )
)
