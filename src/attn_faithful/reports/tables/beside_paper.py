"""Ours beside the papers' numbers, and in the place of those that cannot be had here why, with the command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attn_faithful.reports.papers import Paper, paper_of
from attn_faithful.reports.tables.table import Table, collapsed, number, spread

_CSV = ["cell", "metric", "ours", "std", "paper", "band", "within", "collapsed", "why"]


def expected_table(records: Sequence[dict[str, Any]], expected: dict[str, Any], claim: str) -> Table | None:
    """Ours beside the paper's numbers, and whether ours lies within the band; None where no row matches.

    A printed row whose data no program can fetch stands there too, with the reason and the command for those who have
    the data; the paper's numbers of such rows are in the CSV. Rows that were not run are named below.

    Args:
        records: of `aggregate`.
        expected: the recipe's.
        claim: the recipe's; it names the paper.
    """
    rows, data, run = [], [], set()
    for record in records:
        named = record.get("named", record["axes"])
        key = " ".join(named.get(axis, "-") for axis in expected["key"])
        twice = [r.get("named", r["axes"]) for r in records].count(named) > 1
        cell = " ".join(record["axes"].values()) if twice else key
        for metric, paper in zip(expected["metrics"], expected["rows"].get(key, []), strict=False):
            ours = _measure(record, metric)
            if paper is None or ours is None:
                continue
            run.add(key)
            band = expected["band"].get(metric.split(" ")[0])
            far = abs(ours["mean"] - paper)
            within = "-" if band is None or not ours["n"] else "yes" if far <= band + 1e-12 else "no"
            twins = (
                "-" if metric.startswith("base_") or " " in metric else collapsed(next(iter(record["twins"].values())))
            )
            shown = "-" if band is None else f"±{band:g}"
            rows.append([cell, metric, spread(ours), number(paper, 4), shown, within, twins])
            numbers = [ours["mean"], ours["std"]] if ours["n"] else ["", ""]
            data.append([cell, metric, *numbers, paper, "" if band is None else band, within, twins, ""])
    if not rows:
        return None
    notes = []
    printed = paper_of(claim)
    if printed is not None:
        missing, left = _not_run(expected, run, printed)
        for key, why in missing.items():
            rows.append([key, why, *["-"] * 5])
            data += [
                [key, metric, "", "", paper, "", "-", "-", why]
                for metric, paper in zip(expected["metrics"], expected["rows"][key], strict=True)
                if paper is not None
            ]
        if left:
            again = f"attn-faithful run recipes/papers/{printed.recipe} runs them"
            notes.append(f"Printed and not run: {', '.join(left)}; {again}.")
    head = ["cell", "metric", "Ours", "Paper", "Band", "Within", "Collapsed"]
    return Table(f"Beside the paper: {claim}", head, rows, notes, "beside_the_paper", data=(_CSV, data))


def _not_run(expected: dict[str, Any], run: set[str], paper: Paper) -> tuple[dict[str, str], list[str]]:
    """Rows that cannot be had and why, and those that can."""
    missing, left = {}, []
    for key in expected["rows"]:
        if key not in run:
            found = [name for name in paper.missing if f"{key} ".startswith(f"{name} ")]
            if found and expected["key"][0] == "data":
                missing[key] = paper.not_here(found[0])
            else:
                left.append(key)
    return missing, left


def _measure(record: dict[str, Any], metric: str) -> dict[str, Any] | None:
    """Ours for a name of `expected`: base_f1, attefa, or "metric source class", the class a name, an index or all."""
    if " " in metric:
        name, source, group = metric.split(" ", 2)
        if group.isdigit() and int(group) < len(record["label_names"]):
            group = record["label_names"][int(group)]
        for test in record["tests"]:
            if (test["metric"], test["source"], test["class"]) == (name, source, group):
                several = len(record["seeds"])
                return {"mean": test["mean"], "std": test["std_seeds"], "n": several if test["n"] else 0}
        return None
    if metric.startswith("base_"):
        found: dict[str, Any] | None = record["base"].get(metric.removeprefix("base_"))
        return found
    twin = next(iter(record["twins"].values()), {})  # the recipe's own twin stands first
    return twin.get(metric.removeprefix("twin_"))
