"""The sources that were ranked for showing, and what speaks for and against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_faithful.records.recommendation import (
    CHANCE,
    ORDER,
    POLARITY,
    STABILITY,
    UNMEASURED,
    RankedSource,
    Recommendation,
)
from attn_faithful.reports.numbers import interval, number, p_value, percent
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.table import Table

_HEAD = [
    "source",
    "NAOPC",
    "95%",
    "n",
    "p (random)",
    "p (best)",
    "optimal",
    "polarity violated",
    "stability",
    "ms a text",
    "May be shown",
]
_CSV = [
    "site",
    "source",
    "naopc",
    "low",
    "high",
    "n",
    "above_random",
    "p_random",
    "p_best",
    "optimal",
    "polarity_violation",
    "stability",
    "seconds",
    "fails",
]
_WAYS = {
    "naopc_removal": "by removal from the attention",
    "naopc": "by deletion from the text",
    "naopc_mask": "by masks in the text",
}
_WHY = {
    ORDER: "order too far from the best",
    CHANCE: "no better than random",
    POLARITY: "first item does not speak for the decision",
    STABILITY: "not stable",
    UNMEASURED: "not measured by all tests",
}


def recommendation_table(found: Recommendation, seconds: Mapping[str, float]) -> Table:
    """A row a source, the best first; controls last.

    Args:
        found: what was ranked.
        seconds: a text, of the sources that were timed.
    """
    rows = [_row(source, found, seconds.get(source.source)) for source in found.sources]
    return Table(
        title=f"What may be shown: sources ranked {_WAYS.get(found.measure, '')}",
        head=_HEAD,
        rows=rows,
        notes=[_note(found)],
        name="recommendation",
        best={(row, 0) for row, source in enumerate(found.sources) if source.source == found.source},
        data=(_CSV, [_unrounded(source, found, seconds.get(source.source)) for source in found.sources]),
    )


def recommendation_tables(runs: Sequence[Run], title: str = "") -> list[Table]:
    """One table a run and site.

    Args:
        runs: of one model, over seeds.
        title: what was tested; "" where that is known.
    """
    tables = []
    for run in runs:
        ranked = [found for found in run.summary.recommendation if found.sources]
        for found in ranked:
            table = recommendation_table(found, run.source_seconds)
            names = [title] if title else []
            names += [f"seed {run.seed}"] if len(runs) > 1 else []
            names += [found.site] if len(ranked) > 1 else []
            table.title = ", ".join([*names, table.title])
            tables.append(table)
    return tables


def _row(source: RankedSource, found: Recommendation, seconds: float | None) -> list[str]:
    return [
        title_of(source.source),
        number(source.naopc.mean),
        interval(source.naopc.low, source.naopc.high),
        f"{source.naopc.n:,}",
        p_value(source.p_random),
        p_value(source.p_best),
        _share(source.optimal.mean, source.optimal.n),
        _share(source.polarity.mean, source.polarity.n),
        number(source.stability.mean),
        _milliseconds(seconds),
        _may_be_shown(source, found),
    ]


def _share(share: float, n: int) -> str:
    return percent(share) if n else "-"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.3g}"


def _may_be_shown(source: RankedSource, found: Recommendation) -> str:
    """Yes, or why not; a dash of controls and of few texts."""
    if source.is_control or found.n < found.lines.get("texts", 0):
        return "-"
    if source.fails:
        return "no: " + ", ".join(_WHY[reason] for reason in source.fails)
    return "yes"


def _unrounded(source: RankedSource, found: Recommendation, seconds: float | None) -> list[object]:
    return [
        found.site,
        source.source,
        source.naopc.mean,
        source.naopc.low,
        source.naopc.high,
        source.naopc.n,
        source.above_random,
        source.p_random,
        source.p_best,
        source.optimal.mean,
        source.polarity.mean,
        source.stability.mean,
        seconds,
        " ".join(source.fails),
    ]


def _note(found: Recommendation) -> str:
    lines = found.lines
    return (
        "NAOPC: 1 is the best order of the items, 0 the worst. p: paired tests (Wilcoxon, corrected by Holm's method) "
        "against random orders and against the first source. optimal: of the texts that the order flips, the share "
        "that no smaller set flips. A source may be shown whose interval of NAOPC lies above "
        f"{lines.get('order', 0):g}, that is better than random orders, whose first item does not speak for the "
        f"decision in fewer than {percent(lines.get('polarity', 0))} of the texts (interval), and whose tau-b with "
        f"itself, a word without effect exchanged, lies above {lines.get('stability', 0):g} (interval)."
    )
