"""Numbers that summary.json lacks: shares of certified cores, what may be shown, tau between sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attn_faithful.functional.rankings import kendall_tau_b
from attn_faithful.functional.summaries import summarize, wilson
from attn_faithful.reports.run import Run
from evidence.cells import ALL, Number

CORE = "certified_core"
_FEW = 5  # words of a core that a reader takes in
_NO_SOURCES = ("example", "site", "slot", "tokens", "offsets", "informative")


def core_numbers(run: Run) -> Iterator[Number]:
    """Of certified cores: core_none, the share of the texts whose core is empty; core_few, the share with one of at
    most five words; core_median, the median size of the cores that are not empty."""
    sizes = np.array(run.scores("core_size", CORE), dtype=float)
    known = sizes[~np.isnan(sizes)]  # (n,)
    yield _share("core_none", CORE, known == 0, len(sizes))
    yield _share("core_few", CORE, known <= _FEW, len(sizes))
    some = known[known > 0]
    yield Number("core_median", CORE, value=float(np.median(some)), n=len(some), n_undefined=len(sizes) - len(some))


def _share(metric: str, source: str, holds: np.ndarray, n: int) -> Number:
    """A share of the texts with Wilson's interval."""
    share = float(holds.mean())
    low, high = wilson(share, len(holds))
    return Number(metric, source, value=share, low=low, high=high, n=len(holds), n_undefined=n - len(holds))


def shown_numbers(run: Run) -> Iterator[Number]:
    """Of each source that was compared: may_be_shown, 1 or 0 with the lines that it missed, and polarity_violation
    with Wilson's interval; recommended, 1 of the source that is."""
    for advice in run.summary.recommendation:
        if advice.source is not None:
            yield Number("recommended", advice.source, site=advice.site, value=1.0, n=advice.n)
        for ranked in advice.sources:
            passes = float(not ranked.fails)
            reasons = dict.fromkeys(ranked.fails, 1)
            yield Number("may_be_shown", ranked.source, site=advice.site, value=passes, n=advice.n, reasons=reasons)
            share = ranked.polarity
            yield Number(
                "polarity_violation", ranked.source, ALL, advice.site, share.mean, share.low, share.high, share.n
            )


def agreement_numbers(run: Run, references: Sequence[str], beside: Run) -> Iterator[Number]:
    """Mean over texts of Kendall's tau-b between the sources of a run and references, from the tables of tokens.

    Args:
        run: whose sources are compared.
        references: sources that they are compared with.
        beside: a run over the same texts that holds the references; may be the run itself.
    """
    known = _columns(beside)
    for source, importance in _columns(run).items():
        if source in references:
            continue
        for reference in references:
            taus = [_tau(first, second) for first, second in zip(importance, known[reference], strict=True)]
            (summary,) = summarize(np.array(taus)[:, None])
            yield Number(
                "tau",
                f"{source}~{reference}",
                value=summary.mean,
                low=summary.low,
                high=summary.high,
                n=summary.n,
                n_undefined=summary.n_undefined,
            )


def _columns(run: Run) -> dict[str, list[Sequence[float]]]:
    """Source -> the importance of the words of each text."""
    table = run.read("tokens")
    return {name: table.column(name).to_pylist() for name in table.column_names if name not in _NO_SOURCES}


def _tau(first: Sequence[float], second: Sequence[float]) -> float:
    """tau-b of the importance of a text's words; NaN where it is undefined."""
    if len(first) < 2:
        return math.nan
    return float(kendall_tau_b(np.array(first, dtype=float), np.array(second, dtype=float)).value)
