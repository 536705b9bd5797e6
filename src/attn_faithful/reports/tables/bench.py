"""Tables of AttentionBench: the AUC of every number by kind of model and by length of text, and the best lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful.records.bench import (
    EVERY,
    EXPLANATION,
    MODEL,
    TEST,
    TEXT,
    TOKEN,
    BenchLine,
    BenchResult,
    BenchScore,
)
from attn_faithful.reports.characters import visible
from attn_faithful.reports.leaderboard import TELLS, Cell, kinds_of, title_of_number
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.tables.table import Table

_NUMBERS = ("auc", "low", "high", "n_explains", "n_other", "n_undefined")
_LINES = ("line", "faithful", "balanced_accuracy", "low", "high", "missed", "n_explains", "n_other")
_IN_BRACKETS = "In brackets the 95% interval; n: those with a number on either side, and how many have none."
_AUC_OF_TESTS = (
    "AUC: share of the pairs in which the number of the one that explains is the more faithful one, ties counted half; "
    "0.5 tells nothing, 1 all. Of a number of which neither direction speaks for attention it is the higher one: 0 "
    "tells as much as 1, the other way round."
)
_AUC_OF_EXPLANATIONS = (
    "AUC: share of the pairs of a decisive token and another one of the same text in which the decisive one has the "
    "larger importance, ties counted half, the mean over texts; 0.5 tells nothing, 1 all."
)
_LINE_NOTE = (
    "Line: the value with the best balanced accuracy, the mean of the shares of the models that explain and of the "
    "others on their own side. Accuracy, missed (models that explain on the wrong side) and the shares of each kind "
    "that pass for explaining are of models that the line was not chosen on."
)

_VERDICT_NOTE = (
    "Models of which it is said that attention is no faithful explanation (against), that nothing speaks against it "
    "(for), or neither (open, mixed, nothing)."
)

Column = tuple[str, str, str]  # level, length, kind
Place = tuple[str, str, Column]  # metric, source, column


@dataclass(frozen=True)
class _Row:
    """A number of a submission with a cell a column."""

    names: list[str]
    cells: list[Cell]

    @property
    def first_auc(self) -> float:
        """-1 where it is undefined, so that it comes last."""
        auc = self.cells[0].auc
        return -1.0 if math.isnan(auc) else auc


def tables_of_bench(results: Sequence[BenchResult], n_rows: int | None = None) -> list[Table]:
    """What submissions reached, the best number first.

    Tests have tables of models by kind, of texts by kind, of texts by length, of lines and of verdicts;
    explanations one by kind of model and one by length. Tables without a row are left out.

    Args:
        results: of one set; several have a column with their names.
        n_rows: at most so many are shown; None for all. The CSV has all, unrounded.
    """
    tests = [result for result in results if result.entry == TEST]
    explanations = [result for result in results if result.entry == EXPLANATION]
    auc_tables = [
        _auc_table("Models that explain against each kind", "bench-models", tests, MODEL, by_kind=True),
        _auc_table("Texts of models that explain against those of each kind", "bench-texts", tests, TEXT, by_kind=True),
        _auc_table("Texts by their length, all kinds", "bench-lengths", tests, TEXT, by_kind=False),
        _line_table(tests),
        _verdict_table(tests),
        _auc_table("Explanations by kind of model", "bench-explanations", explanations, TOKEN, by_kind=True),
        _auc_table(
            "Explanations by length of the texts", "bench-explanations-lengths", explanations, TOKEN, by_kind=False
        ),
    ]
    return [_shortened(table, n_rows) for table in auc_tables if table.rows]


def _auc_table(title: str, name: str, results: Sequence[BenchResult], level: str, *, by_kind: bool) -> Table:
    scores = [score for result in results for score in result.scores if score.level == level]
    if by_kind:
        columns = {kind: (level, EVERY, kind) for kind in kinds_of(results)}
    else:
        columns = {length: (level, length, EVERY) for length in dict.fromkeys(score.length for score in scores)}
    rows = _best_first(_rows(results, list(columns.values())))
    cells = []
    for row in rows:
        score = row.cells[0].score
        counts = ["-", "-"] if score is None else [f"{score.n_explains}/{score.n_other}", str(score.n_undefined)]
        cells.append([*row.names, *map(_cell, row.cells), *counts])
    several = len(results) > 1
    names = ["submission"] * several + ["explanation" if level == TOKEN else "number"]
    notes = [_AUC_OF_EXPLANATIONS if level == TOKEN else _AUC_OF_TESTS, _IN_BRACKETS]
    table = Table(title, [*names, *map(visible, columns), "n", "undefined"], cells, notes, name, named=len(names))
    for j in range(len(columns)):
        table.best |= {(i, len(names) + j) for i in _largest([row.cells[j] for row in rows])}
    table.data = _data(results, level)
    return table


def _rows(results: Sequence[BenchResult], columns: Sequence[Column]) -> list[_Row]:
    """A row a number that has a score in one of the columns."""
    rows = []
    for result in results:
        by_place = _by_place(result)
        submission = [visible(result.name)] if len(results) > 1 else []
        for metric, source in dict.fromkeys((score.metric, score.source) for score in result.scores):
            cells = [Cell(by_place.get((metric, source, column))) for column in columns]
            if any(cell.score is not None for cell in cells):
                title = visible(title_of(source)) if result.entry == EXPLANATION else title_of_number(metric, source)
                rows.append(_Row([*submission, title], cells))
    return rows


def _by_place(result: BenchResult) -> Mapping[Place, BenchScore]:
    places = {}
    for score in result.scores:
        places[score.metric, score.source, (score.level, score.length, score.kind)] = score
    return places


def _best_first(rows: Sequence[_Row]) -> list[_Row]:
    return sorted(rows, key=lambda row: -row.first_auc)


def _largest(column: Sequence[Cell]) -> list[int]:
    """Where the largest AUC of a column stands, if it tells something."""
    telling = [cell.auc for cell in column if cell.says == TELLS]
    return [i for i, cell in enumerate(column) if cell.says == TELLS and cell.auc == max(telling)]


def _cell(cell: Cell) -> str:
    """The AUC and its interval; a dash where it is undefined."""
    score = cell.score
    if score is None or math.isnan(score.auc):
        return "-"
    return _with_interval(score.auc, score.low, score.high)


def _with_interval(value: float, low: float, high: float) -> str:
    if math.isnan(low):
        return _share(value)
    return f"{_share(value)} [{_share(low)}, {_share(high)}]"


def _share(value: float) -> str:
    """Two digits; three where two would make it 0 or 1, which stand only for none and all.

    Example:
        >>> _share(0.914), _share(0.998), _share(0.9999), _share(1.0), _share(0.0001)
        ('0.91', '0.998', '0.999', '1.00', '0.001')
    """
    if 0 < value < 0.005:
        return number(max(value, 0.001))
    if 0.995 <= value < 1:
        return number(min(value, 0.999))
    return number(value, 2)


def _line_table(results: Sequence[BenchResult]) -> Table:
    """The lines of all submissions, the most accurate first."""
    lines = [(result, line) for result in results for line in result.lines]
    lines.sort(key=lambda pair: -_or_least(pair[1].balanced_accuracy))
    kinds = list(dict.fromkeys(kind for _, line in lines for kind in line.passed))
    several = len(results) > 1
    rows, data = [], []
    for result, line in lines:
        submission = [visible(result.name)] if several else []
        passed = [line.passed.get(kind, math.nan) for kind in kinds]
        rows.append([*submission, *_line_cells(line), *(_share(share) for share in passed)])
        data.append([result.name, line.metric, line.source, *(getattr(line, name) for name in _LINES), *passed])
    names = ["submission"] * several + ["number"]
    heads = ["line", "explains", "balanced accuracy", "n", "missed", *(f"{visible(kind)} passes" for kind in kinds)]
    title = "The best line on each number"
    table = Table(title, [*names, *heads], rows, [_LINE_NOTE, _IN_BRACKETS], "bench-lines", named=len(names))
    table.data = ["submission", "metric", "source", *_LINES, *(f"passed_{kind}" for kind in kinds)], data
    return table


def _line_cells(line: BenchLine) -> list[str]:
    return [
        title_of_number(line.metric, line.source),
        number(line.line),
        line.faithful,
        _with_interval(line.balanced_accuracy, line.low, line.high),
        f"{line.n_explains}/{line.n_other}",
        _share(line.missed),
    ]


def _verdict_table(results: Sequence[BenchResult]) -> Table:
    """What the verdict and its tests say of the models of each kind."""
    said: dict[str, dict[str, str]] = {}
    for result in results:
        for verdict in result.verdicts:
            parts = [f"{count} {word}" for word, count in sorted(verdict.says.items(), key=lambda pair: -pair[1])]
            said.setdefault(verdict.test, {})[verdict.kind] = ", ".join(parts)
    kinds = list(dict.fromkeys(kind for by_kind in said.values() for kind in by_kind))
    rows = [[test, *(by_kind.get(kind, "-") for kind in kinds)] for test, by_kind in said.items()]
    title = "What the verdict and its tests say of each kind of model"
    return Table(title, ["test", *map(visible, kinds)], rows, [_VERDICT_NOTE], "bench-verdicts", named=1)


def _or_least(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _data(results: Sequence[BenchResult], level: str) -> tuple[list[str], list[list[Any]]]:
    """Every score of a level unrounded, a row each."""
    rows = []
    for result in results:
        for score in result.scores:
            if score.level == level:
                place = [result.name, score.metric, score.source, score.kind, score.level, score.length]
                rows.append([*place, *(getattr(score, name) for name in _NUMBERS)])
    return ["submission", "metric", "source", "kind", "level", "length", *_NUMBERS], rows


def _shortened(table: Table, n_rows: int | None) -> Table:
    """At most so many of its rows."""
    n = len(table.rows)
    if n_rows is None or n <= n_rows:
        return table
    table.rows = table.rows[:n_rows]
    table.best = {(i, j) for i, j in table.best if i < n_rows}
    table.notes.append(f"The first {n_rows} of {n}; the CSV has all.")
    return table
