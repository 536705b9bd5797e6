"""How the numbers of a grid's cells move with a setting that is a number, such as sparsegen's lambda."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.tables.by_test import ALL
from attn_faithful.reports.tables.table import Table, number

_NUMBER = re.compile(r"(?:(.*?)\s+)?(-?\d+(?:\.\d+)?(?:e-?\d+)?)")
_NO_SETTING = (
    "data",
    "encoder",
    "model",
    "model from",
    "folder",
    "split",
    "numbers",
)  # axes whose labels may end in a number that measures nothing
FEW = 3  # cells, below which an order says nothing


def trends(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every family of cells that differ in one number alone, with Kendall's tau-b between it and each result.

    The number is an axis's label, or stands at its end: "0.5", "sparsegen -10".

    Args:
        records: of `aggregate`.

    Returns:
        a fact a family of three cells or more: ``axis``, ``family`` (the other axes' labels, and the words before the
        number), ``x`` in order, and ``rows``, each with ``metric``, ``source``, ``values`` (NaN where undefined),
        ``tau``, ``p`` and ``n``. The metrics are accuracy, each twin's AtteFa and F1, and all
        that the tests tabulate.
    """
    return [_trend(axis, family, x, cells) for axis, family, x, cells in families(records) if len(set(x)) >= FEW]


def families(records: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[float], list[dict[str, Any]]]]:
    """Cells that differ in one number alone: the axis, what they share, the number in order, and the cells."""
    found: dict[tuple[str, str], list[tuple[float, dict[str, Any]]]] = {}
    for record in records:
        for axis, label in record["axes"].items():
            match = None if axis in _NO_SETTING else _NUMBER.fullmatch(label)
            if match:
                others = [name for other, name in record["axes"].items() if other != axis]
                key = (axis, " ".join([*others, *([match[1]] if match[1] else [])]))
                found.setdefault(key, []).append((float(match[2]), record))
    ordered = {key: sorted(cells, key=lambda cell: cell[0]) for key, cells in found.items()}
    return [(*key, [x for x, _ in cells], [record for _, record in cells]) for key, cells in ordered.items()]


def _trend(axis: str, family: str, x: list[float], cells: list[dict[str, Any]]) -> dict[str, Any]:
    results = [_results(record) for record in cells]
    rows = []
    for metric, source in dict.fromkeys(key for result in results for key in result):
        values = [result.get((metric, source), math.nan) for result in results]
        rows.append({"metric": metric, "source": source, "values": values, **_tau(x, values)})
    return {"axis": axis, "family": family, "x": x, "rows": rows}


def _results(record: dict[str, Any]) -> dict[tuple[str, str], float]:
    found = {("accuracy", "base"): record["base"]["accuracy"]["mean"]}
    for variant, twin in record["twins"].items():
        found |= {(name, variant): twin[name]["mean"] for name in ("attefa", "f1") if name in twin}
    for r in record["tests"]:
        shown = record["metrics"].get(r["metric"], {}).get("shown", False)
        # of two sources those with attention alone, and no control
        own = "~" not in r["source"] or r["source"].startswith("attention~")
        if r["class"] == ALL and shown and own and not any(c in r["source"] for c in ("uniform", "random")):
            found[r["metric"], r["source"]] = r["mean"]
    return found


def _tau(x: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    from scipy.stats import kendalltau

    pairs = [(a, b) for a, b in zip(x, values, strict=True) if not math.isnan(b)]
    if len(pairs) < FEW or len({b for _, b in pairs}) < 2:
        return {"tau": math.nan, "p": math.nan, "n": len(pairs)}
    found = kendalltau(*zip(*pairs, strict=True))
    return {"tau": float(found.statistic), "p": float(found.pvalue), "n": len(pairs)}


def trend_tables(trends: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[Table]:
    """One table a family of cells.

    Args:
        trends: of `trends`.
        titles: of the tests' metrics.
    """
    return [_table(trend, titles) for trend in trends]


def _table(trend: Mapping[str, Any], titles: Mapping[str, str]) -> Table:
    rows = [
        [
            titles.get(row["metric"], row["metric"]),
            row["source"].replace("~", " ~ "),
            *(_value(v) for v in row["values"]),
            _value(row["tau"]),
            _value(row["p"]),
            str(row["n"]),
        ]
        for row in trend["rows"]
    ]
    head = ["metric", "source", *(f"{x:g}" for x in trend["x"]), "Tau", "p", "n"]
    note = f"Columns: {trend['axis']}; tau: Kendall's tau-b between it and the means over texts; n: cells with a mean."
    title = f"{trend['family']}: results against {trend['axis']}"
    return Table(title, head, rows, [note], f"{trend['axis']} {trend['family']}")


def _value(value: float) -> str:
    return "-" if value != value else number(value)
