"""Tables of run folders: what a recipe will make, and what lies in finished ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from attn_faithful.records.meta import RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.reports.answer.verdict import constant_base
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.numbers import number
from attn_faithful.reports.run_differences import told_apart
from attn_faithful.reports.tables.table import Table
from attn_faithful.store import RunFolder


def plan_table(name: str, cells: Sequence[tuple[str, str, float, float]]) -> Table:
    """What a recipe will take: title, folder, minutes and megabytes of each cell."""
    rows = []
    all_minutes, all_megabytes = 0.0, 0.0
    for title, folder, minutes, megabytes in cells:
        rows.append([title, folder, number(minutes, 1), number(megabytes, 0)])
        all_minutes += minutes
        all_megabytes += megabytes
    rows.append([f"{len(cells)} cells", "", number(all_minutes, 1), number(all_megabytes, 0)])
    notes = ["Minutes on this machine with all epochs; early stopping makes it less."]
    return Table(f"Plan of {name}", ["cell", "folder", "Minutes", "MB"], rows, notes)


def runs_table(folders: Sequence[RunFolder]) -> Table:
    """What lies in finished run folders, of any version: one row each."""
    metas = [RunMeta.from_json(folder.read_meta()) for folder in folders]
    all_axes = told_apart(metas)
    columns = list(dict.fromkeys(itertools.chain.from_iterable(all_axes)))
    rows = []
    for folder, meta, axes in zip(folders, metas, all_axes, strict=True):
        summary = RunSummary.from_json(folder.read_summary())
        labels = [axes.get(column, "-") for column in columns]
        numbers = [str(meta.seed), number(summary.base.get("f1")), _attefa(summary)]
        rows.append([*labels, *numbers, f"{meta.seconds:.0f} s", str(folder.path)])
    head = [*columns, "seed", "Base F1", "AtteFa", "Took", "Folder"]
    return Table(f"{len(rows)} finished runs", head, rows)


def _attefa(summary: RunSummary) -> str:
    """The mean AtteFa of the first kind of twin, and what takes it out of the verdict."""
    by_variant = by_key(summary.twins.values(), lambda twin: twin.variant)
    if not by_variant:
        return "-"
    twins = next(iter(by_variant.values()))
    mean = sum(twin.attefa.value for twin in twins) / len(twins)
    text = number(mean)
    if any(map(constant_base, twins)):
        return f"{text} (base constant)"
    collapsed = sum(twin.collapsed for twin in twins)
    if collapsed:
        return f"{text} ({collapsed} of {len(twins)} collapsed)"
    return text
