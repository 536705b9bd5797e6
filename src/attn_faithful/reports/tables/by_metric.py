"""A table a metric: data sets and models as rows, the best marked; and models in pairs on the examples they share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from attn_faithful.functional.summaries import holm, paired
from attn_faithful.reports.run import ALL, Run
from attn_faithful.reports.tables.by_test import CONTROLS, interval, is_control, mean_beside, speaks, with_control
from attn_faithful.reports.tables.table import Table, attefa_table, base_constant, number, p_value

ALL_PAIRS = 8  # models of one data set, above which each is compared with the best alone
_SAME = 1e-12

Record = Mapping[str, Any]
Place = tuple[str, str, str, str]  # metric, site, source, class


def metric_tables(records: Sequence[Record]) -> list[Table]:
    """One table a metric that the tests tabulate, and AtteFa's.

    Args:
        records: of `aggregate`.
    """
    metrics = {name: facts for record in records for name, facts in record["metrics"].items()}
    found = [_metric_table(name, facts, records) for name, facts in metrics.items() if facts["shown"]]
    twins = attefa_table(list(records))
    return found if twins is None else [_best_twins(twins, records), *found]


def _metric_table(metric: str, facts: Record, records: Sequence[Record]) -> Table:
    found = [{_place(r): r for r in record["tests"] if r["metric"] == metric} for record in records]
    keys = dict.fromkeys(key[1:3] for tests in found for key in tests if key[3] == ALL and not is_control(key[2]))
    sites = list(dict.fromkeys(site for site, _ in keys))
    controls = [c for c in CONTROLS if any(c in _names(key[2]) for tests in found for key in tests)]
    axes = _axes(records)
    rows, best, reasons = [], set(), {}
    for data in dict.fromkeys(record["axes"]["data"] for record in records):
        for site, source in keys:
            block: dict[str | None, list[tuple[int, float]]] = {}
            for record, tests in zip(records, found, strict=True):
                r = tests.get((metric, site, source, ALL))
                if r is None or record["axes"]["data"] != data:
                    continue
                beside = (tests.get((metric, site, with_control(source, c), ALL)) for c in controls)
                block.setdefault(record.get("comparable"), []).append((len(rows), r["mean"] if r["n"] else math.nan))
                rows.append(
                    [
                        data,
                        *([site] if len(sites) > 1 else []),
                        source.replace("~", " ~ "),
                        *(record["axes"].get(axis, "-") for axis in axes[1:]),
                        _over_seeds(r),
                        interval(r),
                        *("-" if c is None or c is r else mean_beside(c, r["n"]) for c in beside),
                        str(r["n"]),
                        str(r["n_undefined"]),
                    ]
                )
                reasons |= {reason: max(n, reasons.get(reason, 0)) for reason, n in r["reasons"].items()}
            if speaks(source, facts) != "-":
                best |= {row for own in block.values() for row in _best(own, facts["direction"])}
    head = [
        "data",
        *(["site"] if len(sites) > 1 else []),
        "source",
        *axes[1:],
        "Mean",
        "95%",
        *(f"({control})" for control in controls),
        "n",
        "undefined",
    ]
    title = f"{facts['title']}: {facts['meaning']} ({facts['test']}, {facts['paper']})"
    notes = _notes(facts, records, controls, bool(best))
    if reasons:
        notes.append("Undefined, left out of the means: " + ", ".join(f"{r} ({n})" for r, n in reasons.items()) + ".")
    marks = {(row, head.index("Mean")) for row in best}
    return Table(title, head, rows, notes, metric, marks, _data(axes, metric, records, found))


def _notes(facts: Record, records: Sequence[Record], controls: Sequence[str], marked: bool) -> list[str]:
    unit = f", in {facts['unit']}" if facts["unit"] else ""
    several = max(len(record["seeds"]) for record in records) > 1
    over = " over seeds ± standard deviation (ddof 0); n: over all seeds" if several else ""
    notes = [f"Mean over texts{unit}{over}; 95%: bootstrap interval{', mean over seeds' if several else ''}."]
    if controls:
        notes.append("In brackets: the same with such attention in the model's place, and its n where it is another.")
    if marked:
        notes.append(
            f"Bold: of the model's own attention, the {facts['direction']} mean speaks for faithful attention; best of "
            "a data set and source."
        )
    return notes


def _data(
    axes: Sequence[str], metric: str, records: Sequence[Record], found: Sequence[Mapping[Place, Record]]
) -> tuple[list[str], list[list[Any]]]:
    """Every number unrounded, controls and classes too."""
    numbers = ("mean", "std", "low", "high", "std_seeds", "n_seeds", "n", "n_undefined")
    head = [*axes, "metric", "site", "source", "class", *numbers, "reasons"]
    rows = []
    for record, tests in zip(records, found, strict=True):
        for (_, site, source, group), r in tests.items():
            values = ("" if r.get(name) is None or r[name] != r[name] else r[name] for name in numbers)
            reasons = "; ".join(f"{reason} ({n})" for reason, n in r["reasons"].items())
            labels = (record["axes"].get(axis, "") for axis in axes)
            rows.append([*labels, metric, site, source, group, *values, reasons])
    return head, rows


def _place(r: Record) -> Place:
    return r["metric"], r["site"], r["source"], r["class"]


def _names(source: str) -> list[str]:
    return source.replace("~", "-").split("-")


def _axes(records: Sequence[Record]) -> list[str]:
    """All axes, "data" first."""
    found = dict.fromkeys(axis for record in records for axis in record["axes"])
    return ["data", *(axis for axis in found if axis != "data")]


def _over_seeds(r: Record) -> str:
    if not r["n"]:
        return "-"
    several = r.get("n_seeds", 1) > 1
    return f"{number(r['mean'])} ±{number(r['std_seeds'])}" if several else number(r["mean"])


def _best(block: Sequence[tuple[int, float]], direction: str | None) -> list[int]:
    """The rows with the mean that speaks most for faithful attention; none where nothing can be compared."""
    defined = [(row, mean) for row, mean in block if not math.isnan(mean)]
    if direction is None or len(defined) < 2:
        return []
    values = [mean for _, mean in defined]
    if max(values) - min(values) <= _SAME:
        return []
    top = max(values) if direction == "higher" else min(values)
    return [row for row, mean in defined if abs(mean - top) <= _SAME]


def _best_twins(table: Table, records: Sequence[Record]) -> Table:
    """AtteFa's table with the best of each data set marked; a collapsed twin's says nothing."""
    blocks: dict[str, list[tuple[int, float]]] = {}
    row = 0
    for record in records:
        for variant, twin in record["twins"].items():
            if variant.startswith("constrained"):
                continue
            if not twin["collapsed"] and not base_constant(twin) and twin["attefa"]["n"]:
                key = f"{record['axes']['data']} {variant} {record.get('comparable')}"
                blocks.setdefault(key, []).append((row, twin["attefa"]["mean"]))
            row += 1
    best = [place for block in blocks.values() for place in _best(block, "higher")]
    table.best = {(place, table.head.index("AtteFa")) for place in best}
    if best:
        table.notes.append(
            "Bold: the highest of a data set and kind of twin among models without collapsed twins or a constant base."
        )
    return table


def paired_tables(records: Sequence[Record], runs: Mapping[str, Run]) -> list[Table]:
    """One table a metric, of the models that share examples and were tested alike, two by two.

    Args:
        records: of `aggregate`.
        runs: by path, as the records name them.
    """
    shared: dict[str, list[Record]] = {}
    for record in records:
        shared.setdefault(record.get("comparable", record["data"]["fingerprint"]), []).append(record)
    metrics = {name: facts for record in records for name, facts in record["metrics"].items()}
    tables = []
    for metric, facts in metrics.items():
        if facts["shown"] and facts["direction"] is not None:
            found = [row for same in shared.values() if len(same) > 1 for row in _pairs(metric, facts, same, runs)]
            if found:
                tables.append(_paired_table(metric, facts, found))
    return tables


def _pairs(metric: str, facts: Record, records: Sequence[Record], runs: Mapping[str, Run]) -> list[dict[str, Any]]:
    keys = dict.fromkeys(
        (r["site"], r["source"])
        for record in records
        for r in record["tests"]
        if r["metric"] == metric and r["class"] == ALL and not is_control(r["source"])
    )
    rows, differences = [], []
    for site, source in keys:
        columns = []
        for record in records:
            own = [r for r in record["tests"] if _place(r) == (metric, site, source, ALL)]
            if own and own[0]["n"]:
                seeds = [runs[path].scores(metric, source, site) for path in record["runs"]]
                columns.append((model_title(record, records), _mean_over(seeds), own[0]["mean"]))
        for one, two in _chosen(columns, facts["direction"]):
            names = {"data": records[0]["axes"]["data"], "site": site, "source": source}
            rows.append({**names, "first": one[0], "second": two[0]})
            differences.append(one[1] - two[1])  # by example; NaN where one of them lacks it
    if not rows:
        return []
    import pandas as pd

    tests = paired(pd.concat(differences, axis=1).to_numpy())
    return [{**row, "test": test} for row, test in zip(rows, tests, strict=True)]


def _mean_over(seeds: Sequence[Any]) -> Any:
    """Each example's mean over seeds, undefined where it is in any."""
    total = seeds[0]
    for column in seeds[1:]:
        total = total + column
    return total / len(seeds)


def _chosen(columns: Sequence[Any], direction: str) -> list[tuple[Any, Any]]:
    if len(columns) <= ALL_PAIRS:
        return [(one, two) for i, one in enumerate(columns) for two in columns[i + 1 :]]
    best = (max if direction == "higher" else min)(columns, key=lambda column: column[2])
    return [(best, other) for other in columns if other is not best]


def model_title(record: Record, records: Sequence[Record]) -> str:
    """The labels by which a record differs from the others; all but the data where it does not."""
    axes = [axis for axis in record["axes"] if len({r["axes"].get(axis) for r in records}) > 1]
    named = [record["axes"][axis] for axis in axes] or [v for k, v in record["axes"].items() if k != "data"]
    return " ".join(named)


def _paired_table(metric: str, facts: Record, found: Sequence[Record]) -> Table:
    corrected = holm([row["test"].p for row in found])
    sites = len({row["site"] for row in found}) > 1
    rows, data = [], []
    for row, p_holm in zip(found, corrected, strict=True):
        test = row["test"]
        names = [row["data"], *([row["site"]] if sites else []), row["source"].replace("~", " ~ ")]
        rows.append(
            [
                *names,
                row["first"],
                row["second"],
                number(test.mean),
                "-" if math.isnan(test.low) else f"[{number(test.low)}, {number(test.high)}]",
                number(test.effect, 2),
                p_value(test.p),
                p_value(p_holm),
                str(test.n),
            ]
        )
        numbers = ["" if isinstance(x, float) and np.isnan(x) else x for x in (*astuple(test)[:5], p_holm, test.n)]
        data.append([row["data"], metric, row["site"], row["source"], row["first"], row["second"], *numbers])
    named = ["data", *(["site"] if sites else []), "source", "first", "second"]
    head = [*named, "Difference", "95%", "Effect", "p", "p (Holm)", "n"]
    fields = ["mean", "low", "high", "effect", "p", "p_holm", "n"]
    notes = [
        "Difference: mean of first minus second over the n texts in which both are defined (each its mean over seeds), "
        "with its 95% bootstrap interval; effect: rank-biserial correlation, -1 to 1; p: Wilcoxon signed-rank, "
        "two-sided, and corrected for all rows of the table (Holm).",
        f"A {facts['direction']} value speaks for faithful attention, where the source is the model's own attention.",
    ]
    if len({row["first"] for row in found}) == 1 and len(found) >= ALL_PAIRS:
        notes.append(f"More than {ALL_PAIRS} models: each is compared with the best alone.")
    csv = (["data", "metric", "site", "source", "first", "second", *fields], data)
    return Table(f"{facts['title']}: models in pairs", head, rows, notes, f"{metric}-paired", data=csv)
