"""The rows of AttentionBench's leaderboard: what each submission reached against every kind of model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attn_faithful.records.bench import EVERY, MODEL, TEXT, TOKEN, BenchResult, BenchScore
from attn_faithful.reports.characters import visible
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import title_of

CHANCE = 0.5  # the AUC of a number that tells nothing
TELLS, NOTHING, REVERSED, UNDEFINED = "tells", "nothing", "reversed", "undefined"
SAYS = {
    TELLS: "tells the one from the other",
    NOTHING: "tells nothing: its interval holds 0.5",
    REVERSED: "tells the wrong way round",
    UNDEFINED: "is undefined",
}
_SIDES = {  # of each level: what explains, what does not, and what may be undefined
    MODEL: ("models that explain", "that do not", "models"),
    TEXT: ("texts of models that explain", "of models that do not", "texts"),
    TOKEN: ("decisive tokens", "others", "texts"),
}

Place = tuple[str, str, str, str]  # metric, source, level, length


@dataclass(frozen=True)
class Cell:
    """An AUC in a table.

    Attributes:
        score: None where nothing was measured.
        is_best: whether no other of its column is larger, and it tells something.
    """

    score: BenchScore | None
    is_best: bool = False

    @property
    def auc(self) -> float:
        """NaN where it is undefined."""
        return math.nan if self.score is None else self.score.auc

    @property
    def says(self) -> str:
        """What it says, a key of `SAYS`."""
        if self.score is None or math.isnan(self.score.auc):
            return UNDEFINED
        low, high = self.interval
        if low > CHANCE:
            return TELLS
        if high < CHANCE:
            return REVERSED
        return NOTHING

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95% interval; the number itself where there is none."""
        score = self.score
        if score is None:
            return math.nan, math.nan
        if math.isnan(score.low) or math.isnan(score.high):
            return score.auc, score.auc
        return score.low, score.high

    @property
    def has_interval(self) -> bool:
        return self.score is not None and not math.isnan(self.score.low) and not math.isnan(self.score.high)

    @property
    def about(self) -> str:
        """Its numbers in words."""
        score = self.score
        if score is None:
            return "not measured"
        explaining, others, units = _SIDES[score.level]
        parts = []
        if not math.isnan(score.auc):
            interval = f", 95% interval {number(score.low)} to {number(score.high)}" if self.has_interval else ""
            parts.append(f"AUC {number(score.auc)}{interval}, {SAYS[self.says]}")
        parts.append(f"{score.n_explains:,} {explaining} against {score.n_other:,} {others}")
        if score.n_undefined:
            reasons = ", ".join(f"{visible(reason)} ({n})" for reason, n in score.reasons.items())
            parts.append(f"undefined for {score.n_undefined:,} {units}: {reasons or 'no reason given'}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Row:
    """A number of a submission.

    Attributes:
        result: the submission.
        place: metric, source, level and length of the number.
        cells: one a column.
    """

    result: BenchResult
    place: Place
    cells: Sequence[Cell]

    @property
    def title(self) -> str:
        """The number in words; of an explanation its source alone, for all are of one metric."""
        metric, source, level, _ = self.place
        if level == TOKEN:
            return visible(title_of(source))
        return title_of_number(metric, source)


def title_of_number(metric: str, source: str) -> str:
    """A number's name: its metric, and whose importance or which rankings it is of.

    Example:
        >>> title_of_number("kendall_tau_b", "attention~leave_one_out"), title_of_number("decisive", "mine")
        ('kendall_tau_b, attention ~ leave-one-out', 'decisive, mine')
    """
    return f"{visible(metric)}, {visible(title_of(source))}" if source else visible(metric)


def kinds_of(results: Sequence[BenchResult]) -> list[str]:
    """The kinds that results were measured against: all of them first, the others as they come."""
    kinds = [EVERY]
    for result in results:
        kinds += [score.kind for score in result.scores]
    return list(dict.fromkeys(kinds))


def test_board(results: Sequence[BenchResult], kinds: Sequence[str]) -> list[Row]:
    """A row a test, the best first: of its numbers the one with the largest AUC over all models.

    Args:
        results: of tests.
        kinds: of the columns.

    Returns:
        rows with a cell a kind on model level, and one over all kinds on text level.
    """
    rows = []
    for result in results:
        scores = _by_place(result)
        metric, source = _best_number(result)
        cells = [Cell(scores.get((metric, source, MODEL, EVERY, kind))) for kind in kinds]
        on_texts = Cell(scores.get((metric, source, TEXT, EVERY, EVERY)))
        rows.append(Row(result, (metric, source, MODEL, EVERY), [*cells, on_texts]))
    return _best_first(_with_best(rows))


def explanation_board(results: Sequence[BenchResult], kinds: Sequence[str]) -> list[Row]:
    """A row an explanation, the best first, with a cell a kind on token level; a submission may hold several."""
    rows = []
    for result in results:
        rows += [row for row in _rows(result, kinds) if row.place[3] == EVERY]
    return _best_first(_with_best(rows))


def number_rows(result: BenchResult, kinds: Sequence[str]) -> list[Row]:
    """A row a number, level and length of a submission, as they come; the best of each level and length is marked."""
    return _with_best(_rows(result, kinds))


def _rows(result: BenchResult, kinds: Sequence[str]) -> list[Row]:
    scores = _by_place(result)
    places = dict.fromkeys((score.metric, score.source, score.level, score.length) for score in result.scores)
    rows = []
    for place in places:
        cells = [Cell(scores.get((*place, kind))) for kind in kinds]
        rows.append(Row(result, place, cells))
    return rows


def _by_place(result: BenchResult) -> dict[tuple[str, ...], BenchScore]:
    """Metric, source, level, length and kind -> score."""
    places = {}
    for score in result.scores:
        places[score.metric, score.source, score.level, score.length, score.kind] = score
    return places


def _best_number(result: BenchResult) -> tuple[str, str]:
    """Metric and source with the largest AUC over all models; of equal ones, and where there is none, over all texts.

    Among those that are defined for at least half as many models as any of the submission, and the first of those that
    are equal in both: a number of few models is no answer.
    """
    aucs: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    defined: dict[tuple[str, str], int] = defaultdict(int)
    for score in result.scores:
        number = score.metric, score.source
        of_levels = aucs[number]
        if score.kind == EVERY and score.length == EVERY:
            of_levels[score.level] = _or_least(score.auc)
            if score.level == MODEL:
                defined[number] = score.n_explains + score.n_other
    most = max(defined.values(), default=0)
    common = [number for number in aucs if 2 * defined[number] >= most]
    return max(common, key=lambda number: (aucs[number].get(MODEL, -1.0), aucs[number].get(TEXT, -1.0)))


def _or_least(auc: float) -> float:
    """An AUC, below all others where it is undefined."""
    return -1.0 if math.isnan(auc) else auc


def _best_first(rows: Sequence[Row]) -> list[Row]:
    """Rows by the AUC of their first cell, which is that over all kinds."""
    return sorted(rows, key=lambda row: -_or_least(row.cells[0].auc))


def _with_best(rows: Sequence[Row]) -> list[Row]:
    """The rows with the best cell of each column marked, among those of one level and length."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[_level_and_length(row)].append(row)
    largest = {group: _largest(members) for group, members in groups.items()}
    marked = []
    for row in rows:
        of_columns = largest[_level_and_length(row)]
        cells = []
        for cell, best in zip(row.cells, of_columns, strict=True):
            cells.append(replace(cell, is_best=cell.says == TELLS and cell.auc == best))
        marked.append(replace(row, cells=cells))
    return marked


def _level_and_length(row: Row) -> tuple[str, str]:
    return row.place[2], row.place[3]


def _largest(rows: Sequence[Row]) -> list[float]:
    """The largest AUC of each column."""
    columns = zip(*(row.cells for row in rows), strict=True)
    return [max(_or_least(cell.auc) for cell in column) for column in columns]
