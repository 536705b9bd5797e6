"""Checkpoints on disk: errors of writing them, the newest whole one, and damaged files."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from safetensors import SafetensorError, safe_open

from attn_faithful._checks import InputError


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise OSError where torch or safetensors could not write to ``folder``; they raise errors of their own."""
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        message = str(error)
        if "inline_container" not in message and "I/O error" not in message:
            raise
        is_full = "os error 28" in message or shutil.disk_usage(folder).free < 2**20
        number = errno.ENOSPC if is_full else errno.EIO
        raise OSError(number, os.strerror(number), str(folder)) from error


def last_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written whole; half-written ones after it are removed.

    Raises:
        InputError: a file of the checkpoint is damaged.
    """
    from transformers.trainer_utils import get_last_checkpoint  # takes seconds, and an evaluation has no checkpoints

    while folder.is_dir() and (path := get_last_checkpoint(str(folder))):
        try:
            json.loads((Path(path) / "trainer_state.json").read_text())  # written last
        except (OSError, ValueError):
            shutil.rmtree(path)
            continue
        _check_readable(Path(path))
        return path
    return None


def _check_readable(checkpoint: Path) -> None:
    """Raise for a file that was written whole once and is damaged now."""
    for file in sorted(checkpoint.iterdir()):
        try:
            _read_headers(file)
        except (OSError, SafetensorError, BadZipFile) as error:
            raise InputError(
                f"{file} is damaged ({error}); remove {checkpoint.parent} to train from the beginning, or the "
                "checkpoint's folder to go on from the one before."
            ) from error


def _read_headers(file: Path) -> None:
    if file.suffix == ".safetensors":
        with safe_open(file, "pt") as weights:
            weights.keys()
    elif file.suffix in (".pt", ".pth"):
        with ZipFile(file) as parts:
            broken = parts.testzip()
            if broken is not None:
                raise BadZipFile(f"{broken} does not match its checksum")
