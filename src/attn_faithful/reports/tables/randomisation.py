"""Tables of the test `randomisation`: how alike every importance stays, a row a part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attn_faithful.records.scores import ScoreRecord
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.randomisation import BY_STEP, IGNORES, MODES, TEST, Curve, curves, draws, ignoring, sites
from attn_faithful.reports.tables.sources import UndefinedReasons
from attn_faithful.reports.tables.table import Table

_NUMBERS = ("mean", "std", "low", "high", "n", "n_undefined")


def tables_of_randomisation(records: Sequence[ScoreRecord], title: str = "") -> list[Table]:
    """One table a site and mode.

    Args:
        records: of one model, or their means over seeds.
        title: what was tested.
    """
    tables = []
    several = len(sites(records)) > 1
    for site in sites(records):
        for mode, words in MODES.items():
            of_mode = curves(records, site, mode)
            if not of_mode:
                continue
            parts = [title, TEST, f"weights drawn anew: {words}"]
            if several:
                parts.append(site)
            name = f"{BY_STEP[mode]}-{site}" if several else BY_STEP[mode]
            notes = _notes(records, site, of_mode)
            head = ["part", *(title_of(curve.source) for curve in of_mode)]
            table = Table(", ".join(filter(None, parts)), head, _rows(of_mode), notes, name, named=1)
            table.data = _data(of_mode, site, mode)
            tables.append(table)
    return tables


def _rows(of_mode: Sequence[Curve]) -> list[list[str]]:
    """A row a part, from the output down."""
    rows = []
    for step in of_mode[0].by_step:
        row = [step]
        for curve in of_mode:
            record = curve.by_step[step]
            ends = interval(record.low, record.high) if record.n > 1 else ""
            row.append(f"{number(record.mean)} {ends}".strip())
        rows.append(row)
    return rows


def _notes(records: Sequence[ScoreRecord], site: str, of_mode: Sequence[Curve]) -> list[str]:
    counts = sorted({record.n for curve in of_mode for record in curve.by_step.values()})
    n = " to ".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]]))
    notes = [
        "Mean over texts of Kendall's tau-b of an importance with itself, of each text the mean over draws, with its "
        f"95% bootstrap interval; n {n}. 1: the same order as before. From the output down."
    ]
    apart = []
    for source, means in draws(records, site).items():
        apart.append(f"{title_of(source)} {number(min(means), 2)} to {number(max(means), 2)}")
    if apart:
        notes.append(f"All weights, the means of single draws: {', '.join(apart)}.")
    for source in ignoring(records, site):
        notes.append(f"{title_of(source)} {IGNORES}: tau is 1 in every text, whichever weights are drawn anew.")
    reasons = UndefinedReasons()
    for curve in of_mode:
        for record in curve.by_step.values():
            reasons.add(record.reasons)
    return notes + reasons.notes


def _data(of_mode: Sequence[Curve], site: str, mode: str) -> tuple[list[str], list[list[Any]]]:
    """Every number unrounded."""
    rows = []
    for curve in of_mode:
        for step, record in curve.by_step.items():
            rows.append([site, mode, step, curve.source, *(getattr(record, name) for name in _NUMBERS)])
    return ["site", "mode", "part", "source", *_NUMBERS], rows
