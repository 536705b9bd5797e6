"""The section of an appendix about the tests: what each number is, from the table of definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attn_faithful.records.scores import ALL, MetricFacts
from attn_faithful.reports.appendix.definitions import DEFINITIONS, NOTATION, SOURCE_WORKS
from attn_faithful.reports.appendix.document import Cited, Grid, Line, Maths, Paragraph, Section
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ATTENTION, Run

_ARROWS = {"lower": r"\downarrow", "higher": r"\uparrow"}
_LN_2 = math.log(2)
# a summary tells the numbers of twins without these; the same stands in the metric table
OF_TWINS = (
    MetricFacts("attefa", "AtteFa", low=0.0, high=1.0, direction="higher", test="attefa"),
    MetricFacts("tvd", "TVD", low=0.0, high=1.0, test="attefa"),
    MetricFacts("jsd", "JSD", low=0.0, high=_LN_2, test="attefa"),
    MetricFacts("jsd_at_tvd", "JSD at TVD", low=0.0, high=_LN_2, direction="lower", test="attefa"),
)


def defined_metrics(runs: Sequence[Run]) -> dict[str, MetricFacts]:
    """The metrics of some runs that have a definition, in the order of the summaries."""
    metrics: dict[str, MetricFacts] = {}
    for run in runs:
        measured = {record.metric for record in run.records if record.n}
        for name, facts in run.metrics.items():
            if name in DEFINITIONS and name in measured:
                metrics.setdefault(name, facts)
        for twin in run.twins.values():
            for facts in OF_TWINS:
                if facts.name in twin.numbers:
                    metrics.setdefault(facts.name, facts)
    return metrics


def tests_and_definitions(runs: Sequence[Run]) -> Section | None:
    """Every number that was measured; None where no test ran."""
    metrics = defined_metrics(runs)
    if not metrics:
        return None
    rows = [_row(name, facts) for name, facts in metrics.items()]
    grid = Grid(("Test", "Number", "Of one text", "Range", "From"), tuple(rows), (0.11, 0.18, 0.47, 0.12, 0.06))
    blocks = [Paragraph(tuple(_notation())), grid]
    sources = tuple(_sources(runs))
    if sources:
        blocks.insert(1, Paragraph(sources))
    return Section("Tests and definitions", tuple(blocks))


def _row(name: str, facts: MetricFacts) -> tuple[Line, ...]:
    definition = DEFINITIONS[name]
    works: Line = (Cited(definition.works),) if definition.works else ("ours",)
    return ((facts.test,), (facts.title,), (Maths(definition.formula),), _range(facts), works)


def _range(facts: MetricFacts) -> Line:
    """From where to where, and an arrow to the end that speaks for faithful attention."""
    if facts.low is None or facts.high is None:
        low, high = facts.low, facts.high
        ends = "any" if low is None and high is None else _one_end(low, high)
    else:
        ends = f"{_end(facts.low)} to {_end(facts.high)}"
    if facts.direction is None:
        return (ends,)
    return (f"{ends} ", Maths(_ARROWS[facts.direction]))


def _one_end(low: float | None, high: float | None) -> str:
    if low is not None:
        return f"from {_end(low)}"
    return f"to {_end(high or 0.0)}"


def _end(value: float) -> str:
    """An end of a range.

    Example:
        >>> _end(1.0), _end(-1.0), _end(0.6931471805599453)
        ('1', '-1', 'ln 2')
    """
    for sign in (1, -1):
        if math.isclose(value, sign * _LN_2):
            return f"{'-' if sign < 0 else ''}ln 2"
    return f"{value:g}"


def _notation() -> Iterator[str | Maths]:
    yield "A text "
    yield Maths("x")
    yield " has "
    yield Maths("n")
    yield " items (words, tokens or sentences) with attention "
    yield Maths("a")
    yield "; the model decides for "
    yield Maths("y")
    yield " with probability "
    yield Maths("p_y(x,a)")
    yield ". "
    yield Maths("b")
    yield " is another attention on the same items, "
    yield Maths(r"\pi")
    yield " a permutation, "
    yield Maths("g")
    yield " another importance, "
    yield Maths("r_{1..k}")
    yield " the first "
    yield Maths("k")
    yield " items of a ranking; "
    yield Maths(r"x\setminus S")
    yield " is the text without the items "
    yield Maths("S")
    yield ", "
    yield Maths(r"a\setminus S")
    yield " the attention without them, renormalised. "
    for formula, meaning in NOTATION:
        yield Maths(formula)
        yield f" {meaning}. "
    yield "An arrow points to the end that speaks for faithful attention; square brackets are 1 where they hold, "
    yield "else 0; ours: attn_faithful defines the number."


def _sources(runs: Sequence[Run]) -> Iterator[str | Cited]:
    """The sources of importance beside attention that numbers are of."""
    used: dict[str, None] = {}
    for run in runs:
        for record in run.records:
            if record.group == ALL:
                used.update(dict.fromkeys(record.source.split("~")))
    named = [source for source in used if source in SOURCE_WORKS and source != ATTENTION]
    for place, source in enumerate(named):
        yield "Importance beside attention: " if place == 0 else "; "
        yield f"{title_of(source)} "
        yield Cited(SOURCE_WORKS[source])
    if named:
        yield "."
