"""Does attention rank the tokens as other measures of importance do? (Jain and Wallace 2019, section 4.1)"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec
from attn_faithful.evaluators.score_rows import CellColumns, ScoreRows
from attn_faithful.functional.rankings import LONG, SIGNIFICANT, TIE_TOLERANCE, Correlation, kendall_tau_b, spearman
from attn_faithful.functional.top_k import TopK, overlap, top_k_kendall, top_k_tau

TAU = MetricSpec(
    "attention_correlation",
    "tau-b",
    "Kendall's rank correlation of two importances over a text's tokens",
    low=-1.0,
    direction="higher",
)
P_VALUE = MetricSpec("correlation_p", "p", "two-sided p-value of tau-b", shown=False)
SIGNIFICANT_SHARE = MetricSpec(
    "significant",
    "sig.",
    f"whether p <= {SIGNIFICANT}, over all texts as in the paper: an undefined tau is not",
    direction="higher",
)
SIGNIFICANT_LONG = MetricSpec(
    "significant_n5",
    f"sig. n>={LONG}",
    f"whether p <= {SIGNIFICANT}, texts of {LONG} tokens or more",
    direction="higher",
)
SPEARMAN = MetricSpec("spearman", "Spearman", "rank correlation of Spearman", low=-1.0, direction="higher")
TOP_K_TAU = MetricSpec(
    "top_k_tau",
    "top-k tau",
    "Kendall's correlation of the two top-k lists",
    low=-1.0,
    direction="higher",
)
TOP_K_DISTANCE = MetricSpec(
    "top_k_distance",
    "top-k distance",
    "distance of the two top-k lists as in the paper's code",
    direction="lower",
)
OVERLAP = MetricSpec(
    "top_k_overlap",
    "top-k overlap",
    "share of the k highest tokens in common",
    direction="higher",
)
TIES = MetricSpec("tied_pairs", "tied", "share of the token pairs that tie in the first of the two")
DIFFERENCE = MetricSpec(
    "tau_difference",
    "tau - tau(attention)",
    "how much closer another importance is to the second than attention is",
    low=-2.0,
    high=2.0,
    direction="lower",
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
    attention = block.encoded.attention.double().cpu().numpy()  # (B, S, T)
    items = block.items.cpu().numpy()
    importances = {name: block.sources[name].double().cpu().numpy() for name in settings.against}
    columns = CellColumns(*items.shape[:2])
    for row, slot in np.ndindex(*items.shape[:2]):
        columns.next_slot()
        inside = items[row, slot]
        own_attention = attention[row, slot][inside]
        vectors = {name: values[row][inside] for name, values in importances.items()}
        pairs = PairScores(columns, block.example[row], settings)
        taus = {}
        for name, vector in vectors.items():
            taus[block.attention, name] = pairs.compare(block.attention, own_attention, name, vector)
        if block.is_control:
            continue
        for a, b in combinations(vectors, 2):
            taus[a, b] = taus[b, a] = pairs.compare(a, vectors[a], b, vectors[b])
        for a, b in permutations(vectors, 2):
            of_attention, of_source = taus[block.attention, b], taus[a, b]
            source = f"{a}-{block.attention}~{b}"
            difference = of_source.value - of_attention.value
            columns.put(source, DIFFERENCE, difference, of_source.reason or of_attention.reason)
    rows = ScoreRows()
    rows.add_columns(block, columns.columns())
    return rows


@dataclass(frozen=True)
class PairScores:
    """Scores pairs of importances in one slot of an example.

    Attributes:
        columns: where the scores go.
        example: its id, for errors.
        settings: of the test.
    """

    columns: CellColumns
    example: str
    settings: CorrelationSettings

    def compare(
        self,
        a: str,
        x: np.ndarray,
        b: str,
        y: np.ndarray,
    ) -> Correlation:
        """Score one pair by all measures; returns tau-b."""
        source, k = f"{a}~{b}", self.settings.k
        options: dict[str, Any] = {
            "names": (a, b),
            "example": self.example,
            "tie_tolerance": self.settings.tie_tolerance,
        }
        tau = kendall_tau_b(x, y, **options)
        significant = float(tau.p_value <= SIGNIFICANT)  # NaN is not below it
        reason_long = f"n<{LONG}" if tau.n < LONG else tau.reason
        significant_long = math.nan if reason_long else significant
        put = self.columns.put
        put(source, TAU, tau.value, tau.reason)
        put(source, P_VALUE, tau.p_value, tau.reason)
        put(source, SIGNIFICANT_SHARE, significant, None)
        put(source, SIGNIFICANT_LONG, significant_long, reason_long)
        self._put(source, SPEARMAN, spearman(x, y, **options))
        self._put(source, TOP_K_TAU, top_k_tau(x, y, k=k, **options))
        self._put(source, TOP_K_DISTANCE, top_k_kendall(x, y, k=k, **options))
        self._put(source, OVERLAP, overlap(x, y, k=k, **options))
        put(source, TIES, tau.ties_x, tau.reason)
        return tau

    def _put(self, source: str, metric: MetricSpec, measured: Correlation | TopK) -> None:
        self.columns.put(source, metric, measured.value, measured.reason)


def _sources(settings: CorrelationSettings) -> list[str]:
    return settings.against


EVALUATORS.register("correlation")(
    Evaluator(
        "correlation",
        "Jain and Wallace 2019, section 4.1",
        metrics=METRICS,
        run=run,
        settings=CorrelationSettings,
        sources=_sources,
    )
)
