"""Ours beside the papers' numbers, and in the place of those that cannot be had here why, with the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful.reports.groups import Group, OverSeeds
from attn_faithful.reports.numbers import number
from attn_faithful.reports.paper_numbers import Claim, PaperNumbers
from attn_faithful.reports.papers import Paper, paper_of
from attn_faithful.reports.tables.models import spread
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.twins import collapsed

_HEAD = ["cell", "metric", "Ours", "Paper", "Band", "Within", "Collapsed"]
_CSV = ["cell", "metric", "ours", "std", "paper", "band", "within", "collapsed", "why"]
_ROUNDING = 1e-12


@dataclass
class _Rows:
    """The rows of the table, and those of its CSV."""

    shown: list[list[str]] = field(default_factory=list)
    data: list[list[Any]] = field(default_factory=list)


def expected_table(groups: Sequence[Group], claim: Claim) -> Table | None:
    """Ours beside the paper's numbers, and whether ours lies within the band; None where no row matches.

    A printed row whose data no program can fetch stands there too, with the reason and the command for those who have
    the data; the paper's numbers of such rows are in the CSV. Rows that were not run are named below.
    """
    expected = claim.expected
    if expected is None:
        return None
    rows, run = _Rows(), set()
    for group in groups:
        key = " ".join(group.named.get(axis, "-") for axis in expected.key)
        twice = [other.named for other in groups].count(group.named) > 1
        if _add(rows, group, group.title if twice else key, key, expected):
            run.add(key)
    if not rows.shown:
        return None
    notes = []
    paper = paper_of(claim.claim)
    if paper is not None:
        missing, not_run = _not_run(expected, run, paper)
        for key, reason in missing.items():
            _add_missing(rows, key, reason, expected)
        if not_run:
            again = f"attn-faithful run recipes/papers/{paper.recipe} runs them"
            notes.append(f"Printed and not run: {', '.join(not_run)}; {again}.")
    title = f"Beside the paper: {claim.claim}"
    return Table(title, _HEAD, rows.shown, notes, "beside_the_paper", data=(_CSV, rows.data))


def _add(rows: _Rows, group: Group, cell: str, key: str, expected: PaperNumbers) -> bool:
    """Add the numbers of a group that the paper prints too; whether there is one."""
    added = False
    for metric, paper in zip(expected.metrics, expected.rows.get(key, []), strict=False):
        ours = _measured(group, metric)
        if paper is None or ours is None:
            continue
        added = True
        band = expected.band.get(metric.split(" ")[0])
        within = _within(ours, paper, band)
        of_base = metric.startswith("base_") or " " in metric
        twins = "-" if of_base else collapsed(next(iter(group.twins.values())))
        shown_band = "-" if band is None else f"±{band:g}"
        rows.shown.append([cell, metric, spread(ours), number(paper, 4), shown_band, within, twins])
        numbers = [ours.mean, ours.std] if ours.n else ["", ""]
        rows.data.append([cell, metric, *numbers, paper, "" if band is None else band, within, twins, ""])
    return added


def _within(ours: OverSeeds, paper: float, band: float | None) -> str:
    if band is None or not ours.n:
        return "-"
    return "yes" if abs(ours.mean - paper) <= band + _ROUNDING else "no"


def _add_missing(rows: _Rows, key: str, reason: str, expected: PaperNumbers) -> None:
    """Add a row whose data cannot be had."""
    rows.shown.append([key, reason, *["-"] * 5])
    for metric, paper in zip(expected.metrics, expected.rows[key], strict=True):
        if paper is not None:
            rows.data.append([key, metric, "", "", paper, "", "-", "-", reason])


def _not_run(expected: PaperNumbers, run: set[str], paper: Paper) -> tuple[dict[str, str], list[str]]:
    """Rows that cannot be had and why, and those that can."""
    missing, possible = {}, []
    for key in expected.rows:
        if key in run:
            continue
        data = next((name for name in paper.missing if f"{key} ".startswith(f"{name} ")), None)
        if data is not None and expected.key[0] == "data":
            missing[key] = paper.not_here(data)
        else:
            possible.append(key)
    return missing, possible


def _measured(group: Group, metric: str) -> OverSeeds | None:
    """Ours for a name of the paper's metrics; None where it was not measured.

    Args:
        group: the model.
        metric: base_f1, attefa, twin_f1, or "metric source class", the class a name, an index or "all".
    """
    if " " in metric:
        return _of_test(group, *metric.split(" ", 2))
    if metric.startswith("base_"):
        return getattr(group.base, metric.removeprefix("base_"), None)
    if not group.twins:
        return None
    first = next(iter(group.twins.values()))  # the recipe's own twin stands first
    return getattr(first, metric.removeprefix("twin_"), None)


def _of_test(group: Group, metric: str, source: str, texts: str) -> OverSeeds | None:
    if texts.isdigit() and int(texts) < len(group.label_names):
        texts = group.label_names[int(texts)]
    for record in group.tests:
        if (record.metric, record.source, record.group) == (metric, source, texts):
            n = len(group.seeds) if record.n else 0
            return OverSeeds(record.mean, record.std_seeds, n)
    return None
