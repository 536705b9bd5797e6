"""The tables of docs/replications/index.md: verdicts by paper, what was run, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evidence import (
    claims_amini_kosseim,
    claims_jain_wallace,
    claims_meister,
    claims_serrano_smith,
    claims_wiegreffe_pinter,
)
from evidence.cells import CellSummary, all_cells
from evidence.markdown import table, verdicts_table
from evidence.printed import hours
from evidence.schedule import Entry, Task, all_tasks, read_schedule

PAPERS = {
    "jain_wallace_2019": "[Jain and Wallace 2019](jain_wallace.md)",
    "wiegreffe_pinter_2019": "[Wiegreffe and Pinter 2019](wiegreffe_pinter.md)",
    "serrano_smith_2019": "[Serrano and Smith 2019](serrano_smith.md)",
    "amini_kosseim": "[Amini and Kosseim](amini_kosseim.md)",
    "meister_2021": "[Meister et al. 2021](meister.md)",
}
_CLAIMS = {
    "jain_wallace_2019": claims_jain_wallace.claims,
    "wiegreffe_pinter_2019": claims_wiegreffe_pinter.claims,
    "serrano_smith_2019": claims_serrano_smith.claims,
    "amini_kosseim": claims_amini_kosseim.claims,
    "meister_2021": claims_meister.claims,
}


def _verdicts() -> str:
    cells = all_cells()
    return verdicts_table({PAPERS[paper]: claims(cells) for paper, claims in _CLAIMS.items()})


def _run() -> str:
    """Cells that are finished, and the hours they took."""
    cells = all_cells()
    lines = []
    for paper, title in PAPERS.items():
        finished = [cell for cell in cells if cell.paper == paper]
        seeds = sorted({cell.seed for cell in finished})
        minutes = sum(cell.minutes for cell in finished)
        lines.append([title, str(len(finished)), ", ".join(map(str, seeds)), f"{minutes / 60:.1f}"])
    return table(["paper", "cells", "seeds of bases", "hours"], lines)


def _not_run() -> str:
    """What is not finished and what it would take; a row for all that has the same seeds and reason."""
    cells = all_cells()
    labels: dict[tuple[str, str, str], list[str]] = {}
    minutes: dict[tuple[str, str, str], float] = {}
    for entry in read_schedule():
        missing = _missing(entry, cells)
        if entry.paper not in PAPERS or not missing:
            continue
        seeds = ", ".join(map(str, sorted({task.seed for task in missing})))
        place = (PAPERS[entry.paper], seeds, entry.left_out or "time")
        labels.setdefault(place, []).append(_called(missing))
        minutes[place] = minutes.get(place, 0.0) + entry.minutes * len(missing)
    lines = []
    for place, called in labels.items():
        paper, seeds, why = place
        lines.append([paper, "; ".join(called), seeds, why, hours(minutes[place])])
    return table(["paper", "cells", "seeds", "why", "would take"], lines)


def _called(missing: Sequence[Task]) -> str:
    """The labels that tasks of one entry share, and those in which they differ."""
    by_axis: dict[str, list[str]] = {}
    for task in missing:
        for axis, label in task.axes.items():
            of_axis = by_axis.setdefault(axis, [])
            if label not in of_axis:
                of_axis.append(label)
    return " ".join(", ".join(of_axis) for of_axis in by_axis.values())


def _missing(entry: Entry, cells: Sequence[CellSummary]) -> list[Task]:
    """The tasks of an entry without a summary."""
    known = {(cell.paper, _place(cell.axes), cell.seed) for cell in cells}
    return [task for task in all_tasks([entry]) if (entry.paper, _place(task.axes), task.seed) not in known]


def _place(axes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(axes.items()))


TABLES = {"verdicts": _verdicts, "run": _run, "not-run": _not_run}
