"""Rankings compared on the same texts: which one removes fewer items until the decision changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_faithful.functional.summaries import summarize
from attn_faithful.reports.run import Run
from evidence.cells import Number

FRACTION = "decision_flip"  # share of the items that are removed, in the metric table
PRODUCT = "attention_x_gradient"
PAIRS = (
    (PRODUCT, "attention"),
    (PRODUCT, "attention_gradient"),
    (PRODUCT, "random_ranking"),
    ("attention_gradient", "attention"),
    ("attention", "random_ranking"),
)


def comparisons(run: Run) -> Iterator[Number]:
    """Of each pair of rankings (a~b): the mean difference of what they remove, and how often a needs fewer and more.

    A ranking that never changes the decision has removed everything and not done: 1.
    """
    for first, second in PAIRS:
        known = run.sources(FRACTION)
        if first not in known or second not in known:
            continue
        difference = removed(run, first) - removed(run, second)  # (n,)
        columns = np.stack([difference, difference < 0, difference > 0], axis=1)  # (n, 3)
        columns[np.isnan(difference)] = np.nan
        names = ("flip_fraction_difference", "flips_sooner", "flips_later")
        for name, summary in zip(names, summarize(columns), strict=True):
            yield Number(
                name,
                f"{first}~{second}",
                value=summary.mean,
                low=summary.low,
                high=summary.high,
                n=summary.n,
                n_undefined=summary.n_undefined,
            )


def removed(run: Run, source: str) -> np.ndarray:
    """Share of the items removed until the decision changes (n,), 1 where the ranking never changes it."""
    fraction = np.array(run.scores(FRACTION, source), dtype=float)
    never = np.array(run.scores("flip_never", source), dtype=float)
    return np.where(never == 1, 1.0, fraction)
