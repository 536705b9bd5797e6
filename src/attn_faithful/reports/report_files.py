"""Where a report is written: built in a folder aside, then moved, and what an earlier report left removed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from attn_faithful._checks import InputError

INDEX = "index.json"  # names the files of a report


def target_of(paths: Sequence[str | Path], output: str | Path | None) -> Path:
    """The folder of a report: the one that is named, else "report" in the path, or in what several paths share."""
    if output is None:
        common = paths[0]
        if len(paths) > 1:
            common = os.path.commonpath([Path(path).resolve() for path in paths])
        output = Path(common) / "report"
    target = Path(output)
    if target.exists() and not target.is_dir():
        raise InputError(f"--output: expected a folder, but {target} is a file; choose another name.")
    if target.name in ("", ".", ".."):
        return Path(os.path.abspath(target))
    return target


def files_in(folder: Path) -> list[str]:
    """The names of all files below a folder, in order."""
    names = []
    for path in folder.rglob("*"):
        if path.is_file():
            names.append(str(path.relative_to(folder)))
    return sorted(names)


def move(building: Path, target: Path, files: Sequence[str]) -> None:
    """Move files to where they belong, each in one step, and remove those of an earlier report. Others stay."""
    target.mkdir(parents=True, exist_ok=True)
    earlier = _earlier(target)
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(building / name, target / name)
    for name in sorted(earlier - set(files)):
        path = target / name
        if path.resolve().is_relative_to(target.resolve()) and path.is_file():
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()


def _earlier(target: Path) -> set[str]:
    """The files of an earlier report."""
    try:
        index = json.loads((target / INDEX).read_text(encoding="utf-8"))
        return set(map(str, index["files"]))
    except (OSError, ValueError, KeyError, TypeError):
        return set()
