"""Tables of results against a setting that is a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.tables import Table, number


def trend_tables(trends: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[Table]:
    """One table a family of cells.

    Args:
        trends: of `experiments.trends.trends`.
        titles: of the tests' metrics.
    """
    return [_table(trend, titles) for trend in trends]


def _table(trend: Mapping[str, Any], titles: Mapping[str, str]) -> Table:
    rows = [
        [
            titles.get(row["metric"], row["metric"]), row["source"].replace("~", " ~ "),
            *(_value(v) for v in row["values"]), _value(row["tau"]), _value(row["p"]), str(row["n"]),
        ]
        for row in trend["rows"]
    ]  # fmt: skip
    head = ["metric", "source", *(f"{x:g}" for x in trend["x"]), "Tau", "p", "n"]
    note = f"Columns: {trend['axis']}; tau: Kendall's tau-b between it and the means over texts; n: cells with a mean."
    return Table(f"{trend['family']}: results against {trend['axis']}", head, rows, [note])


def _value(value: float) -> str:
    return "-" if value != value else number(value)
