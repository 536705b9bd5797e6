"""Files and folders that are written under a passing name and moved to their place whole."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path


def passing_name(target: Path) -> Path:
    """A hidden name beside ``target`` that no other writer takes."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")


def write_file(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file under a passing name, then move it to ``target`` in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    passing = passing_name(target)
    try:
        write(passing)
        move(passing, target)
    finally:
        passing.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text as UTF-8, whole."""
    write_bytes(target, text.encode("utf-8"))


def write_bytes(target: Path, content: bytes) -> None:
    """Write bytes, whole."""

    def write(passing: Path) -> None:
        passing.write_bytes(content)

    write_file(target, write)


def move(passing: Path, target: Path) -> None:
    """Move a file to its place once it is on disk."""
    _sync(passing)
    os.replace(passing, target)


def write_folder(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a passing folder, then move it to ``target`` in one step."""
    passing, old = passing_name(target), passing_name(target)
    passing.mkdir(parents=True)
    try:
        write(passing)
        for path in passing.rglob("*"):
            if path.is_file():
                _sync(path)
        if target.exists():
            os.replace(target, old)
        os.replace(passing, target)
    finally:
        if old.exists() and not target.exists():
            os.rename(old, target)
        shutil.rmtree(passing, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
