"""Two models over the same texts as tables: how far they are apart, and every number of both with a paired test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attn_faithful.functional.summaries import wilson
from attn_faithful.reports.compare.differences import DECISIONS, Difference, Distance
from attn_faithful.reports.numbers import counted, interval, number, p_value, small
from attn_faithful.reports.tables.by_metric import unrounded
from attn_faithful.reports.tables.sources import UndefinedReasons, shown, speaks
from attn_faithful.reports.tables.table import Table

_READING = (
    "A, B: means over the n texts in which both are defined. A - B: the mean difference with its 95% bootstrap "
    "interval. Effect: rank-biserial correlation, -1 to 1. p: Wilcoxon signed-rank, two-sided, 1 where no text "
    "differs; p (Holm): corrected for all {n} numbers that were compared."
)
_DIRECTION = "Faithful: which direction speaks for faithful attention, where one does."
_CSV = ["metric", "source", "first", "second", "mean", "low", "high", "effect", "p", "p_holm", "n", "n_undefined"]


def difference_table(found: Sequence[Difference], title: str = "Differences, A - B", corrected: int = 0) -> Table:
    """Every number of both models that some text has in both: a row each.

    Args:
        found: the numbers.
        title: of the table.
        corrected: how many tests p is corrected for, where these rows are some of them; 0 for these alone.
    """
    rows, data = [], []
    undefined = UndefinedReasons()
    for each in found:
        data.append(_unrounded_row(each))
        if each.test.n:
            rows.append(difference_row(each))
            undefined.add(each.reasons)
    head = ["metric", "source", "A", "B", "A - B", "p (Holm)", "95%", "n", "undefined", "Effect", "p", "Faithful"]
    n_tests = corrected or sum(each.test.n > 0 for each in found)
    notes = [_READING.format(n=n_tests), _DIRECTION, *undefined.notes]
    n_left_out = len(found) - len(rows)
    if n_left_out:
        notes.append(f"{counted(n_left_out, 'number')} that no text has in both models: not shown.")
    return Table(title, head, rows, notes, "differences", data=(_CSV, data), named=2)


def difference_row(each: Difference) -> list[str]:
    """One number of both models as cells."""
    test, metric = each.test, each.numbers.metric
    source = each.numbers.source
    means = [number(each.first), number(each.second), number(test.mean)]
    first_of_all = [metric.title, shown(source) or "-", *means, p_value(each.p_holm), interval(test.low, test.high)]
    direction = speaks(source, metric) if source else "-"
    tests = [number(test.effect, 2), p_value(test.p), direction]
    return [*first_of_all, str(test.n), str(each.n_undefined), *tests]


def _unrounded_row(each: Difference) -> list[Any]:
    metric, source, *numbers, n, n_undefined = _numbers(each)
    return [metric, source, *map(unrounded, numbers), n, n_undefined]


def _numbers(each: Difference) -> list[Any]:
    """One number of both models, by the columns of `_CSV`."""
    test = each.test
    means = [each.first, each.second, test.mean, test.low, test.high]
    tests = [test.effect, test.p, each.p_holm, test.n, each.n_undefined]
    return [each.numbers.metric.name, each.numbers.source, *means, *tests]


def difference_frame(found: Sequence[Difference]) -> Any:
    """A data frame with one row a number of both models."""
    import pandas as pd

    return pd.DataFrame([_numbers(each) for each in found], columns=_CSV)


def distance_table(found: Sequence[Distance]) -> Table:
    """How far the models are apart: a row each for attention, predictions and decisions."""
    rows = []
    undefined = UndefinedReasons()
    for each in found:
        summary = each.summary
        low, high = _ends(each)
        ends = interval(low, high)
        rows.append([each.metric.title, number(summary.mean), ends, str(summary.n), str(summary.n_undefined)])
        undefined.add(summary.reasons)
    meanings = [f"{each.metric.title}: {each.metric.meaning}." for each in found]
    head = ["distance", "Mean", "95%", "n", "undefined"]
    return Table("How far A and B are apart", head, rows, [*meanings, *undefined.notes], "distances", named=1)


def _ends(each: Distance) -> tuple[float, float]:
    """The 95% interval: Wilson's of a share, else by bootstrap."""
    summary = each.summary
    if each.metric is DECISIONS and summary.n:
        return wilson(summary.mean, summary.n)
    return summary.low, summary.high


def settings_table(settings: Sequence[tuple[str, str, str]]) -> Table | None:
    """What the runs differ in; None where that is nothing."""
    if not settings:
        return None
    rows = [list(row) for row in settings]
    return Table("What differs in model and settings", ["setting", "A", "B"], rows, name="settings", named=3)


def values_frame(found: Sequence[Difference], apart: Sequence[Distance], ids: Sequence[str]) -> Any:
    """A data frame with one row a text: how far the models are apart, and each number of both."""
    import pandas as pd

    columns: dict[str, Any] = {"example": list(ids)}
    for distance in apart:
        columns[distance.metric.name] = distance.values
    for each in found:
        name = f"{each.numbers.metric.name} {each.numbers.source}".strip()
        columns[f"{name} A"] = each.numbers.first
        columns[f"{name} B"] = each.numbers.second
    return pd.DataFrame(columns)


def lead(found: Sequence[Difference], apart: Sequence[Distance]) -> list[str]:
    """The comparison in sentences: attention, decisions, and how many numbers differ."""
    jsd, _, changed, decisions = apart
    sentences = []
    if jsd.summary.n:
        sentences.append(
            f"Their attention is {small(jsd.summary.mean)} nats apart on average (JSD; 0 the same, 0.69 no word in "
            f"common; n {jsd.summary.n:,})."
        )
    if decisions.summary.n:
        n_other = round(decisions.summary.mean * decisions.summary.n)
        sentences.append(
            f"They decide differently in {n_other:,} of {counted(decisions.summary.n, 'text')}; the mean TVD of their "
            f"predictions is {small(changed.summary.mean)}."
        )
    corrected = [each.p_holm for each in found if not math.isnan(each.p_holm)]
    if corrected:
        n_differ = sum(p < 0.05 for p in corrected) or "none"
        sentences.append(f"Of {len(corrected)} numbers {n_differ} differ (p below 0.05 after Holm's correction).")
    return sentences
