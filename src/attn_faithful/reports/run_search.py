"""The finished runs below some folders, and what cannot be reported there, with the reason."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_differences import told_apart
from attn_faithful.store import META, SUMMARY, RunFolder

_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")


@dataclass
class Search:
    """What lies below some folders.

    Attributes:
        runs: the finished runs, in the order of their labels and seeds.
        left_out: path and reason of what looks like a run and cannot be reported.
    """

    runs: list[Run] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """The finished runs at or below some folders; see `find`."""
    return find(paths).runs


def find(paths: Iterable[str | Path]) -> Search:
    """The runs at or below some folders, with those that are not finished or of another version named.

    Raises:
        InputError: a path does not exist or nothing below them can be reported; the text says why and what to do.
    """
    tops = [Path(path) for path in paths]
    if not tops:
        raise InputError("Expected a run folder or a folder of runs, but none was given.")
    search = Search()
    seen: set[Path] = set()
    for top in tops:
        if not top.is_dir():
            raise InputError(f"Expected a run folder or a folder of runs, but {top} is not a folder.")
        for folder, finished in _cells(top):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                _add(search, folder, finished)
    if not search.runs:
        raise InputError(_nothing(tops, search.left_out))
    search.runs.sort(key=_order)
    all_axes = told_apart([run.info for run in search.runs])
    for run, axes in zip(search.runs, all_axes, strict=True):
        run.axes = axes
    return search


def _cells(top: Path) -> Iterable[tuple[Path, bool]]:
    """Folders of runs below ``top``, and whether each is finished; what lies inside one is its own."""
    for folder, names, files in os.walk(top):
        path = Path(folder)
        if META in files:
            yield path, True
            names.clear()
        elif _looks_like_a_run(names, files):
            yield path, False
            names.clear()
        names.sort()


def _looks_like_a_run(folders: Sequence[str], files: Sequence[str]) -> bool:
    if SUMMARY in files or any(name.endswith(".parquet") for name in files):
        return True
    return any(name == "model" or name.endswith(".checkpoints") for name in folders)


def _add(search: Search, folder: Path, finished: bool) -> None:
    """Add a folder to the runs or to what is left out; one that another program wrote to neither."""
    if not finished:
        search.left_out.append((folder, "not finished: the command that started it goes on with it"))
        return
    try:
        if "axes" not in RunFolder(folder).read_meta():  # other programs write a meta.json too
            return
        run = Run(folder)
    except InputError as error:
        search.left_out.append((folder, str(error)))
        return
    lacking = _lacking(run)
    if lacking:
        search.left_out.append((folder, f"lacks {lacking}; remove the folder and run its command again"))
    else:
        search.runs.append(run)


def _lacking(run: Run) -> str:
    """The tables that the run's summary speaks of and that are not there."""
    needed = ["predictions"]
    if run.info.twin is None:  # twins of a stock model: earlier versions wrote no tokens
        needed.append("tokens")
    if run.records:
        needed.append("scores")
    if run.summary.twins:
        needed.append("variants")
    return ", ".join(f"{name}.parquet" for name in needed if not run.has(name))


def _order(run: Run) -> tuple[Any, ...]:
    """By the labels of the axes, the numbers in them as numbers, then by seed."""
    return [_parts(label) for label in run.axes.values()], run.seed, str(run.path)


def _parts(label: str) -> list[tuple[bool, float, str]]:
    """Words and numbers of a label in turn, so that they can be compared with those of another."""
    parts = []
    for place, part in enumerate(_NUMBER.split(label)):
        is_number = place % 2 == 1
        value = float(part) if is_number else 0.0
        parts.append((is_number, value, part))
    return parts


def _nothing(paths: Sequence[Path], left_out: Sequence[tuple[Path, str]]) -> str:
    """Why nothing can be reported."""
    if left_out:
        path, reason = left_out[0]
        more = ""
        if len(left_out) > 1:
            more = f" ({len(left_out) - 1} more are like it)"
        if str(path) in reason:
            return f"{reason}{more}"
        return f"{path}: {reason}{more}."
    for path in paths:
        if (path.resolve().parent / META).is_file():
            return f"{path} lies inside a run; give the run folder: {path.resolve().parent}."
    return (
        f"No finished run lies below {', '.join(map(str, paths))}; a run is finished once it has {META}. "
        "attn-faithful ls DIR lists the finished ones."
    )
