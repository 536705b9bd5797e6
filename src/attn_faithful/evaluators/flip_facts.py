"""Results of the test `flips` over a data set: contingency, bins, paired comparisons of rankings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from attn_faithful.functional.summaries import holm, paired
from attn_faithful.records.facts import Fact, FlipContingency, FlipFractions, NegativeJS, PairedRankings

Key = tuple[str, str, str]  # site, source, metric
Column = tuple[np.ndarray, Sequence[str | None]]
Columns = Mapping[Key, Column]

WIDTH = 0.1  # of the bins of the difference in attention


def flip_facts(columns: Columns) -> list[Fact]:
    """The tables and counts of Serrano and Smith, sections 4 and 5, from the scores of every example.

    Args:
        columns: (site, source, metric) -> values (n,), NaN where undefined, and reasons.

    Returns:
        `FlipFractions` a ranking: quartiles of the fraction and of the mass removed (figures 10 and 11), and shares of
        texts that flip only at the last item, with as few items as possible, and never.
        `FlipContingency` a ranking: shares of the four outcomes of removing the top item and a random other one
        (table 2, figures 9, 12 and 13).
        `NegativeJS` a ranking: how often the random one mattered more, by bins of the difference in attention
        (figures 4 and 8).
        `PairedRankings`: how often one ranking needs fewer items than another, the mean difference of their fractions
        with its 95% interval, and a Wilcoxon signed-rank test, two-sided, corrected for the number of pairs (Holm).
    """
    facts: list[Fact] = []
    pairs: list[PairedRankings] = []
    for site, source, metric in columns:
        if metric == "flip_both":
            facts.append(_contingency(columns, site, source))
        elif metric == "js_difference":
            facts.append(_negative_js(columns, site, source))
        elif metric == "decision_flip":
            facts.append(_fractions(columns, site, source))
        elif metric == "flip_difference":
            pairs.append(_pair(columns, site, source))
    corrected = holm([pair.p for pair in pairs])
    for pair, p_holm in zip(pairs, corrected, strict=True):
        facts.append(replace(pair, p_holm=p_holm))
    return facts


def _values(columns: Columns, site: str, source: str, metric: str) -> np.ndarray:
    """The values of a metric; none of a metric that a ranking does not have."""
    values, _ = columns.get((site, source, metric), (np.zeros(0), ()))
    return values


def _mean(values: np.ndarray, known: np.ndarray) -> float:
    if not known.any():
        return math.nan
    return float(values[known].mean())


def _contingency(columns: Columns, site: str, source: str) -> FlipContingency:
    both = _values(columns, site, source, "flip_both")
    known = ~np.isnan(both)
    return FlipContingency(
        site,
        source,
        flip_both=_mean(both, known),
        flip_top_only=_mean(_values(columns, site, source, "flip_top_only"), known),
        flip_random_only=_mean(_values(columns, site, source, "flip_random_only"), known),
        flip_neither=_mean(_values(columns, site, source, "flip_neither"), known),
        n=int(known.sum()),
    )


def _fractions(columns: Columns, site: str, source: str) -> FlipFractions:
    fraction, _ = _quartiles(_values(columns, site, source, "decision_flip"))
    mass, n = _quartiles(_values(columns, site, source, "flip_mass"))
    return FlipFractions(
        site,
        source,
        fraction=fraction,
        n=n,
        mass=mass,
        at_last=_share(_values(columns, site, source, "flip_at_last")),
        optimal=_share(_values(columns, site, source, "flip_optimal")),
        never=_share(_values(columns, site, source, "flip_never")),
    )


def _quartiles(values: np.ndarray) -> tuple[list[float], int]:
    """Quartiles of the defined values, and how many there are."""
    known = values[~np.isnan(values)]
    if not len(known):
        return [math.nan] * 3, 0
    return np.quantile(known, [0.25, 0.5, 0.75]).tolist(), len(known)


def _share(flags: np.ndarray) -> float:
    return _mean(flags, ~np.isnan(flags))


def _negative_js(columns: Columns, site: str, source: str) -> NegativeJS:
    change = _values(columns, site, source, "js_difference")
    gap = _values(columns, site, source, "attention_difference")
    known = ~(np.isnan(change) | np.isnan(gap))
    # 0.3 must fall into the bin that begins there, which its division by 0.1 would miss
    widths = np.round(gap[known] / WIDTH, 9)
    bin_of_text = np.floor(widths).clip(-1 / WIDTH, 1 / WIDTH - 1).astype(int)
    is_negative = change[known] < 0
    low, high, negative, of = [], [], [], []
    for number in sorted(set(bin_of_text.tolist())):
        inside = bin_of_text == number
        low.append(round(number * WIDTH, 10))
        high.append(round((number + 1) * WIDTH, 10))
        negative.append(int(is_negative[inside].sum()))
        of.append(int(inside.sum()))
    return NegativeJS(
        site,
        source,
        low=low,
        high=high,
        negative=negative,
        of=of,
        n=int(known.sum()),
    )


def _pair(columns: Columns, site: str, source: str) -> PairedRankings:
    """One pair by itself: not yet corrected for the others."""
    difference = _values(columns, site, source, "flip_difference")
    (test,) = paired(difference[:, None])
    known = ~np.isnan(difference)
    return PairedRankings(
        site,
        source,
        sooner=_mean(_values(columns, site, source, "flips_sooner"), known),
        later=_mean(_values(columns, site, source, "flips_later"), known),
        mean=test.mean,
        low=test.low,
        high=test.high,
        n=test.n,
        n_undefined=len(difference) - test.n,
        p=test.p,
        p_holm=math.nan,
    )
