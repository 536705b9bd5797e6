"""The section of an appendix with the numbers: those of the summaries, in three digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.records.scores import ALL, ScoreRecord
from attn_faithful.records.twins import Measured
from attn_faithful.reports.appendix.document import Grid, Line, Name, Paragraph, Section
from attn_faithful.reports.appendix.shared import title_of_run
from attn_faithful.reports.appendix.tests_run import OF_TWINS, defined_metrics
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ATTENTION, Run

MANY = 4  # runs, above which each has one number a test
_OWN = ("certified_core", "given")  # sources that stand for attention where there is no row of it
_CHANCE = ("random", "random_ranking")  # what stands beside attention, the first that there is
_HEAD = ("Number", "Mean", "SD", "95%", "n", "Undefined", "Random")
_WIDTHS = (0.42, None, None, None, None, None, None)


def numbers_of(runs: Sequence[Run]) -> Section | None:
    """A table a run with one row a number; None where there are no numbers."""
    blocks: list[Paragraph | Grid] = []
    for run in runs:
        rows = [*_rows(run, len(runs) > MANY), *_twin_rows(run)]
        if not rows:
            continue
        if len(runs) > 1:
            blocks.append(Paragraph((Name(title_of_run(run)), ":")))
        blocks.append(Grid(_HEAD, tuple(rows), _WIDTHS))
        reasons = _reasons(run)
        if reasons:
            blocks.append(Paragraph((f"Undefined, by reason. {'; '.join(reasons)}.",)))
    if not blocks:
        return None
    blocks.append(Paragraph((_below(runs),)))
    return Section("Numbers", tuple(blocks))


def shown_records(run: Run, one_a_test: bool = False) -> list[ScoreRecord]:
    """The records of attention that have a definition, at the site nearest to the output."""
    records: list[ScoreRecord] = []
    tests: set[str | None] = set()
    for metric, facts in defined_metrics([run]).items():
        if one_a_test and facts.test in tests:
            continue
        found = [record for record in run.records if record.metric == metric and _is_of_attention(record, run)]
        if found:
            tests.add(facts.test)
            records += found
    return records


def _is_of_attention(record: ScoreRecord, run: Run) -> bool:
    first = record.source.partition("~")[0]
    return record.group == ALL and record.site == run.main_site and first in (ATTENTION, *_OWN)


def _rows(run: Run, one_a_test: bool) -> Iterator[tuple[Line, ...]]:
    by_place = {record.place: record for record in run.records}
    for record in shown_records(run, one_a_test):
        title: Line = (run.metrics[record.metric].title,)
        first, _, other = record.source.partition("~")
        if other:
            title = (f"{run.metrics[record.metric].title} with {title_of(other)}",)
        elif first != ATTENTION:
            title = (f"{run.metrics[record.metric].title}, {title_of(first)}",)
        yield (
            title,
            (number(record.mean),),
            (number(record.std),),
            (interval(record.low, record.high),),
            (f"{record.n:,}",),
            (f"{record.n_undefined:,}",),
            (_chance(record, by_place),),
        )


def _chance(record: ScoreRecord, by_place: dict[tuple[str, str, str, str], ScoreRecord]) -> str:
    """The mean of the same number under random attention, or of random rankings."""
    _, sign, other = record.source.partition("~")
    for control in _CHANCE:
        beside = by_place.get((record.metric, record.site, f"{control}{sign}{other}", record.group))
        if beside is not None:
            return number(beside.mean)
    return "-"


def _twin_rows(run: Run) -> Iterator[tuple[Line, ...]]:
    """AtteFa, TVD and JSD of each twin."""
    for name, twin in run.twins.items():
        for facts in OF_TWINS:
            measured = twin.numbers.get(facts.name)
            if measured is not None:
                note = ", collapsed" if facts.name == "attefa" and twin.collapsed else ""
                yield ((f"{facts.title} of the twin ", Name(name), note), *_cells(measured))


def _cells(measured: Measured) -> tuple[Line, ...]:
    ends = "-"
    if measured.low is not None and measured.high is not None:
        ends = interval(measured.low, measured.high)
    n = "-" if measured.n is None else f"{measured.n:,}"
    undefined = "-" if measured.n_undefined is None else f"{measured.n_undefined:,}"
    return ((number(measured.value),), (number(measured.std),), (ends,), (n,), (undefined,), ("-",))


def _reasons(run: Run) -> list[str]:
    """Why numbers are undefined: each reason with the numbers and how many texts."""
    by_reason: dict[str, dict[str, int]] = {}
    for record in shown_records(run):
        for reason, count in record.reasons.items():
            title = run.metrics[record.metric].title
            numbers = by_reason.setdefault(reason, {})
            numbers[title] = max(count, numbers.get(title, 0))
    lines = []
    for reason, numbers in by_reason.items():
        told = ", ".join(f"{title} {count:,}" for title, count in numbers.items())
        lines.append(f"{reason}: {told}")
    return lines


def _below(runs: Sequence[Run]) -> str:
    text = "Random: the same number under random attention, or of random rankings, where that was run."
    if any(len(run.sites) > 1 for run in runs):
        text += " Of several sites that nearest to the output."
    if len(runs) > MANY:
        text += f" Of more than {MANY} runs one number a test."
    return f"{text} All numbers, sources and sites are in the tables of the report."
