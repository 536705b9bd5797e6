"""Does attention rank the tokens as other measures of importance do? (Jain and Wallace 2019, section 4.1)"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations, permutations

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows
from attn_faithful.functional.block_correlations import BlockTau, block_rho, block_tau, block_top_k
from attn_faithful.functional.block_ranks import BlockRanks, Items
from attn_faithful.functional.rankings import LONG, SIGNIFICANT, TIE_TOLERANCE
from attn_faithful.functional.reasons import or_else

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
    shape = tuple(block.items.shape[:2])
    ranks = _ranks(block, settings)
    of_attention = ranks.pop(block.attention)
    columns: list[ScoreColumn] = []
    taus: dict[tuple[str, str], BlockTau] = {}
    for name, of_source in ranks.items():
        tau, found = _compared(of_attention, of_source, settings.k, shape)
        taus[block.attention, name] = tau
        columns += found
    if not block.is_control:
        for a, b in combinations(ranks, 2):
            tau, found = _compared(ranks[a], ranks[b], settings.k, shape)
            taus[a, b] = taus[b, a] = tau
            columns += found
        for a, b in permutations(ranks, 2):
            of_a, of_the_attention = taus[a, b], taus[block.attention, b]
            difference = (of_a.value - of_the_attention.value).reshape(shape)
            reasons = or_else(of_a.reasons, of_the_attention.reasons)
            columns.append(ScoreColumn(DIFFERENCE.name, difference, reasons, source=f"{a}-{block.attention}~{b}"))
    rows = ScoreRows()
    rows.add_columns(block, columns)
    return rows


def _ranks(block: Block, settings: CorrelationSettings) -> dict[str, BlockRanks]:
    """Ranks of the items of every slot, a row a slot of an example: of attention, and of the sources."""
    shape = block.items.shape  # (B, S, T)
    items = Items.of(block.items.flatten(0, 1).cpu().numpy())
    vectors = {block.attention: block.encoded.attention}  # (B, S, T) each
    for name in settings.against:
        vectors[name] = block.sources[name][:, None].expand(shape)
    ranks = {}
    for name, vector in vectors.items():
        values = vector.double().flatten(0, 1).cpu().numpy()  # (B S, T)
        ranks[name] = BlockRanks.of(name, values, items, settings.tie_tolerance)
    return ranks


def _compared(x: BlockRanks, y: BlockRanks, k: int, shape: tuple[int, int]) -> tuple[BlockTau, list[ScoreColumn]]:
    """tau-b of two importances, and the columns of all measures."""
    tau = block_tau(x, y)
    top = block_top_k(x, y, k)
    is_significant = (tau.p_value <= SIGNIFICANT).astype(np.float64)  # NaN is not below it
    is_long = x.n >= LONG
    reasons_long = or_else([None if enough else f"n<{LONG}" for enough in is_long.tolist()], tau.reasons)
    is_defined = np.array([reason is None for reason in reasons_long], dtype=bool)
    significant_long = np.where(is_defined, is_significant, math.nan)
    values = {
        TAU: tau.value,
        P_VALUE: tau.p_value,
        SIGNIFICANT_SHARE: is_significant,
        SIGNIFICANT_LONG: significant_long,
        SPEARMAN: block_rho(x, y),
        TOP_K_TAU: top.top_k_tau,
        TOP_K_DISTANCE: top.top_k_kendall,
        OVERLAP: top.overlap,
        TIES: x.tied_share,
    }
    columns = []
    for metric, column in values.items():
        reasons = reasons_long if metric is SIGNIFICANT_LONG else tau.reasons
        columns.append(ScoreColumn(metric.name, column.reshape(shape), reasons, source=f"{x.name}~{y.name}"))
    return tau, columns


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
