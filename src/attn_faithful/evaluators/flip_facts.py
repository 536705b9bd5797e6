"""What the removals of a data set say together: contingency, bins, paired comparisons of rankings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_faithful.functional.summaries import holm, paired

Key = tuple[str, str, str]  # site, source, metric
Column = tuple[np.ndarray, Sequence[str | None]]

WIDTH = 0.1  # of the bins of the difference in attention
CELLS = ("flip_both", "flip_top_only", "flip_random_only", "flip_neither")


def flip_facts(columns: Mapping[Key, Column]) -> list[dict[str, Any]]:
    """The tables and counts of Serrano and Smith, sections 4 and 5, from the scores of every example.

    Args:
        columns: (site, source, metric) -> values (n,), NaN where undefined, and reasons.

    Returns:
        "flip_fractions" a ranking: quartiles of the fraction and of the mass removed (figures 10 and 11), and shares of
        texts that flip only at the last item, with as few items as possible, and never.
        "flip_contingency" a ranking: shares of the four outcomes of removing the top item and a random other one
        (table 2, figures 9, 12 and 13).
        "negative_js" a ranking: how often the random one mattered more, by bins of the difference in attention
        (figures 4 and 8).
        "paired_rankings": how often one ranking needs fewer items than another, the mean difference of their fractions
        with its 95% interval, and a Wilcoxon signed-rank test, two-sided, corrected for the number of pairs (Holm).
    """
    found: list[dict[str, Any]] = []
    for site, source, metric in columns:
        where = {"site": site, "source": source}
        if metric == CELLS[0]:
            cells = [columns[site, source, name][0] for name in CELLS]
            known = ~np.isnan(cells[0])
            shares = {name: _share(values, known) for name, values in zip(CELLS, cells, strict=True)}
            found.append({"fact": "flip_contingency", **where, **shares, "n": int(known.sum())})
        if metric == "js_difference":
            found.append({"fact": "negative_js", **where, **_bins(columns, site, source)})
        if metric == "decision_flip":
            found.append({"fact": "flip_fractions", **where, **_spread(columns, site, source)})
    pairs = [_pair(columns, site, source) for site, source, metric in columns if metric == "flip_difference"]
    return [*found, *_corrected(pairs)]


def _share(values: np.ndarray, known: np.ndarray) -> float:
    return float(values[known].mean()) if known.any() else math.nan


def _spread(columns: Mapping[Key, Column], site: str, source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, metric in (("fraction", "decision_flip"), ("mass", "flip_mass")):
        values = columns[site, source, metric][0]
        known = values[~np.isnan(values)]
        quartiles = np.quantile(known, [0.25, 0.5, 0.75]).tolist() if len(known) else [math.nan] * 3
        found |= {name: quartiles, "n": len(known)}
    for name, metric in (("at_last", "flip_at_last"), ("optimal", "flip_optimal"), ("never", "flip_never")):
        values = columns.get((site, source, metric), (np.zeros(0), ()))[0]
        found[name] = _share(values, ~np.isnan(values))
    return found


def _bins(columns: Mapping[Key, Column], site: str, source: str) -> dict[str, Any]:
    change, gap = (columns[site, source, name][0] for name in ("js_difference", "attention_difference"))
    known = ~(np.isnan(change) | np.isnan(gap))
    # 0.3 must fall into the bin that begins there, which its division by 0.1 would miss
    place = np.floor(np.round(gap[known] / WIDTH, 9)).clip(-1 / WIDTH, 1 / WIDTH - 1).astype(int)
    negative = change[known] < 0
    bins = sorted(set(place.tolist()))
    return {
        "low": [round(b * WIDTH, 10) for b in bins],
        "high": [round((b + 1) * WIDTH, 10) for b in bins],
        "negative": [int(negative[place == b].sum()) for b in bins],
        "of": [int((place == b).sum()) for b in bins],
        "n": int(known.sum()),
    }


def _pair(columns: Mapping[Key, Column], site: str, source: str) -> dict[str, Any]:
    difference = columns[site, source, "flip_difference"][0]
    (test,) = paired(difference[:, None])
    known = ~np.isnan(difference)
    shares = {name: _share(columns[site, source, f"flips_{name}"][0], known) for name in ("sooner", "later")}
    return {
        "fact": "paired_rankings",
        "site": site,
        "source": source,
        **shares,
        "mean": test.mean,
        "low": test.low,
        "high": test.high,
        "n": test.n,
        "n_undefined": len(difference) - test.n,
        "p": test.p,
    }


def _corrected(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With Holm's correction over the pairs that have a p."""
    corrected = holm([pair["p"] for pair in pairs])
    return [{**pair, "p_holm": p_holm} for pair, p_holm in zip(pairs, corrected, strict=True)]
