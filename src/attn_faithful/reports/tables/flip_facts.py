"""Tables of the facts of the test "flips": outcomes of single removals, and rankings in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from attn_faithful.records.facts import Fact, FlipContingency, FlipFractions, NegativeJS, PairedRankings
from attn_faithful.reports.numbers import interval, number, p_value
from attn_faithful.reports.tables.table import Table

Named = Sequence[tuple[str, Any]]  # the ranking, or the pair of them, as the table names it, and the fact


def tables_of_flips(facts: Sequence[Fact], title: str = "") -> list[Table]:
    """What there is of fractions, contingency, bins and pairs, a table each.

    Args:
        facts: of one model.
        title: what was tested.
    """
    sites = {fact.site for fact in facts}
    tables = []
    for kind, make in _TABLES.items():
        named = []
        for fact in facts:
            if isinstance(fact, kind):
                name = f"{fact.site} {fact.source}" if len(sites) > 1 else fact.source
                named.append((name, fact))
        if not named:
            continue
        table = make(named)
        table.name = kind.KIND
        if title:
            table.title = f"{title}, {table.title}"
        tables.append(table)
    return tables


def _fractions(facts: Named) -> Table:
    rows = []
    for ranking, fact in facts:
        low, median, high = map(number, fact.fraction)
        _, median_mass, _ = map(number, fact.mass)
        shares = map(_percent, (fact.optimal, fact.at_last, fact.never))
        rows.append([ranking, median, low, high, median_mass, *shares, str(fact.n)])
    return Table(
        "flips: how much must be removed until the decision changes (figures 10 and 11)",
        ["ranking", "Median", "25%", "75%", "Mass", "Optimal", "At last", "Never", "n"],
        rows,
        [
            "Median, 25%, 75%: fraction of the items removed, over the n texts whose decision changes; mass: median of "
            "the attention removed; percent of texts: optimal: no fewer items would do; at last: only once nothing is "
            "left; never: not counted in n."
        ],
    )


def _contingency(facts: Named) -> Table:
    rows = []
    for ranking, fact in facts:
        outcomes = (fact.flip_both, fact.flip_top_only, fact.flip_random_only, fact.flip_neither)
        rows.append([ranking, *map(_percent, outcomes), str(fact.n)])
    return Table(
        "flips: the top item removed alone, and a random other one (Serrano and Smith, table 2)",
        ["ranking", "Both flip", "Top only", "Random only", "Neither", "n"],
        rows,
        ["Percent of the texts with two items or more. Attention that explains has a large second and a small third."],
    )


def _bins(facts: Named) -> Table:
    rows = []
    for ranking, fact in facts:
        if not fact.source.startswith("attention") or "_" in fact.source:
            continue
        for low, high, negative, of in zip(fact.low, fact.high, fact.negative, fact.of, strict=True):
            ends = f"{low:.1f} to {high:.1f}"
            rows.append([ranking, ends, str(negative), str(of), _percent(negative / of)])
    return Table(
        "flips: texts in which a random item mattered more than the top one (figures 4 and 8)",
        ["ranking", "Delta attention", "Delta JS < 0", "Of", "Percent"],
        rows,
        ["Delta attention: the top item's weight minus the random one's."],
    )


def _pairs(facts: Named) -> Table:
    rows = []
    for ranking, fact in facts:
        pair = ranking.replace("~", " against ")
        shares = [_percent(fact.sooner), _percent(fact.later)]
        ends = interval(fact.low, fact.high) if fact.n > 1 else "-"
        tested = [p_value(fact.p), p_value(fact.p_holm)]
        counts = [str(fact.n), str(fact.n_undefined)]
        rows.append([pair, *shares, number(fact.mean), ends, *tested, *counts])
    return Table(
        "flips: rankings in pairs",
        ["pair", "Fewer", "More", "Difference", "95%", "p", "p (Holm)", "n", "undefined"],
        rows,
        [
            "Fewer, More: percent of the texts in which the first needs fewer or more items than the second; "
            "difference: mean fraction removed by the first minus by the second; p: Wilcoxon signed-rank, two-sided."
        ],
    )


_TABLES: dict[type[Fact], Callable[[Named], Table]] = {
    FlipFractions: _fractions,
    FlipContingency: _contingency,
    NegativeJS: _bins,
    PairedRankings: _pairs,
}


def _percent(share: float) -> str:
    if math.isnan(share):
        return "-"
    return f"{100 * share:.1f}"
