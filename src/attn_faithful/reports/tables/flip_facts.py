"""Tables of the facts of the test "flips": outcomes of single removals, and rankings in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.tables.table import Table, number, p_value

Fact = Mapping[str, Any]


def tables_of_flips(facts: Sequence[Fact], title: str = "") -> list[Table]:
    """What there is of contingency, bins and pairs, a table each.

    Args:
        facts: of `evaluators.flip_facts`.
        title: what was tested.
    """
    lead = f"{title}, " if title else ""
    several = len({fact["site"] for fact in facts}) > 1
    facts = [{**fact, "ranking": f"{fact['site']} {fact['source']}" if several else fact["source"]} for fact in facts]
    makers = {
        "flip_fractions": _fractions,
        "flip_contingency": _contingency,
        "negative_js": _bins,
        "paired_rankings": _pairs,
    }
    found = {kind: [fact for fact in facts if fact["fact"] == kind] for kind in makers}
    return [makers[kind](listed, lead) for kind, listed in found.items() if listed]


def _fractions(facts: Sequence[Fact], lead: str) -> Table:
    rows = [
        [
            fact["ranking"],
            number(fact["fraction"][1]),
            *(number(fact["fraction"][i]) for i in (0, 2)),
            number(fact["mass"][1]),
            _percent(fact["optimal"]),
            _percent(fact["at_last"]),
            _percent(fact["never"]),
            str(fact["n"]),
        ]
        for fact in facts
    ]
    return Table(
        f"{lead}flips: how much must be removed until the decision changes (figures 10 and 11)",
        ["ranking", "Median", "25%", "75%", "Mass", "Optimal", "At last", "Never", "n"],
        rows,
        [
            "Median, 25%, 75%: fraction of the items removed, over the n texts whose decision changes; mass: median of "
            "the attention removed; percent of texts: optimal: no fewer items would do; at last: only once nothing is "
            "left; never: not counted in n."
        ],
        "flip_fractions",
    )


def _contingency(facts: Sequence[Fact], lead: str) -> Table:
    names = ("flip_both", "flip_top_only", "flip_random_only", "flip_neither")
    rows = [[fact["ranking"], *(_percent(fact[name]) for name in names), str(fact["n"])] for fact in facts]
    return Table(
        f"{lead}flips: the top item removed alone, and a random other one (Serrano and Smith, table 2)",
        ["ranking", "Both flip", "Top only", "Random only", "Neither", "n"],
        rows,
        ["Percent of the texts with two items or more. Attention that explains has a large second and a small third."],
        "flip_contingency",
    )


def _bins(facts: Sequence[Fact], lead: str) -> Table:
    rows = [
        [fact["ranking"], f"{low:.1f} to {high:.1f}", str(negative), str(of), _percent(negative / of)]
        for fact in facts
        if fact["source"].startswith("attention") and "_" not in fact["source"]
        for low, high, negative, of in zip(fact["low"], fact["high"], fact["negative"], fact["of"], strict=True)
    ]
    return Table(
        f"{lead}flips: texts in which a random item mattered more than the top one (figures 4 and 8)",
        ["ranking", "Delta attention", "Delta JS < 0", "Of", "Percent"],
        rows,
        ["Delta attention: the top item's weight minus the random one's."],
        "negative_js",
    )


def _pairs(facts: Sequence[Fact], lead: str) -> Table:
    rows = [
        [
            fact["ranking"].replace("~", " against "),
            _percent(fact["sooner"]),
            _percent(fact["later"]),
            number(fact["mean"]),
            f"[{number(fact['low'])}, {number(fact['high'])}]" if fact["n"] > 1 else "-",
            p_value(fact["p"]),
            p_value(fact["p_holm"]),
            str(fact["n"]),
            str(fact["n_undefined"]),
        ]
        for fact in facts
    ]
    return Table(
        f"{lead}flips: rankings in pairs",
        ["pair", "Fewer", "More", "Difference", "95%", "p", "p (Holm)", "n", "undefined"],
        rows,
        [
            "Fewer, More: percent of the texts in which the first needs fewer or more items than the second; "
            "difference: mean fraction removed by the first minus by the second; p: Wilcoxon signed-rank, two-sided."
        ],
        "paired_rankings",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None or share != share else f"{100 * share:.1f}"
