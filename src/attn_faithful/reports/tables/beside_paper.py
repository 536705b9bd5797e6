"""Ours beside the papers' numbers, and in the place of those that cannot be had here why, with the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful.reports.groups import Group, OverSeeds, TwinGroup
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
    rows = _Rows()
    run: set[str] = set()
    all_named = [group.named for group in groups]
    for group in groups:
        key = " ".join(group.named.get(axis, "-") for axis in expected.key)
        cell = key
        if all_named.count(group.named) > 1:
            cell = group.title
        if _add(rows, group, cell, key, expected):
            run.add(key)
    if not rows.shown:
        return None
    notes: list[str] = []
    paper = paper_of(claim.claim)
    if paper is not None:
        notes = _add_rows_not_run(rows, expected, run, paper)
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
        shown_band, csv_band = "-", ""
        if band is not None:
            shown_band, csv_band = f"±{band:g}", band
        mean, std = "", ""
        if ours.n:
            mean, std = ours.mean, ours.std
        within = _within(ours, paper, band)
        twins = _collapsed(group, metric)
        rows.shown.append([cell, metric, spread(ours), number(paper, 4), shown_band, within, twins])
        rows.data.append([cell, metric, mean, std, paper, csv_band, within, twins, ""])
    return added


def _within(ours: OverSeeds, paper: float, band: float | None) -> str:
    if band is None or not ours.n:
        return "-"
    if abs(ours.mean - paper) <= band + _ROUNDING:
        return "yes"
    return "no"


def _collapsed(group: Group, metric: str) -> str:
    """How many of the twins that a metric is of collapsed; a dash for metrics of the base."""
    if metric.startswith("base_") or " " in metric:
        return "-"
    return collapsed(_own_twins(group))


def _add_rows_not_run(rows: _Rows, expected: PaperNumbers, run: set[str], paper: Paper) -> list[str]:
    """Add the rows whose data cannot be had; the note that names those that can."""
    missing, not_run = _not_run(expected, run, paper)
    for key, reason in missing.items():
        _add_missing(rows, key, reason, expected)
    if not not_run:
        return []
    again = f"attn-faithful run recipes/papers/{paper.recipe} runs them"
    return [f"Printed and not run: {', '.join(not_run)}; {again}."]


def _add_missing(rows: _Rows, key: str, reason: str, expected: PaperNumbers) -> None:
    """Add a row whose data cannot be had."""
    rows.shown.append([key, reason, *["-"] * 5])
    for metric, paper in zip(expected.metrics, expected.rows[key], strict=True):
        if paper is not None:
            rows.data.append([key, metric, "", "", paper, "", "-", "-", reason])


def _not_run(expected: PaperNumbers, run: set[str], paper: Paper) -> tuple[dict[str, str], list[str]]:
    """Rows that cannot be had and why, and those that can."""
    missing: dict[str, str] = {}
    possible: list[str] = []
    for key in expected.rows:
        if key in run:
            continue
        data = _missing_data(key, paper)
        if data is not None and expected.key[0] == "data":
            missing[key] = paper.not_here(data)
        else:
            possible.append(key)
    return missing, possible


def _missing_data(key: str, paper: Paper) -> str | None:
    """The data set that a row's name begins with, if no program can fetch it."""
    for data in paper.missing:
        if f"{key} ".startswith(f"{data} "):
            return data
    return None


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
    return getattr(_own_twins(group), metric.removeprefix("twin_"), None)


def _own_twins(group: Group) -> TwinGroup:
    """The recipe's own kind of twin, which stands first."""
    return next(iter(group.twins.values()))


def _of_test(group: Group, metric: str, source: str, texts: str) -> OverSeeds | None:
    if texts.isdigit() and int(texts) < len(group.label_names):
        texts = group.label_names[int(texts)]
    for record in group.tests:
        if (record.metric, record.source, record.group) != (metric, source, texts):
            continue
        if not record.n:
            return OverSeeds(record.mean, record.std_seeds)
        return OverSeeds(record.mean, record.std_seeds, len(group.seeds))
    return None
