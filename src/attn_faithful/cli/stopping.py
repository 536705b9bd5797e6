"""Commands that are stopped, from the keyboard or by the system: what is kept, and what the same command then does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from attn_faithful._checks import notes_of

INTERRUPTED, TERMINATED = 130, 143  # exit statuses, as shells have them
UNREAD = 1  # rich's, which writes most of what is read
TRAINING = "the same command goes on from the last whole epoch."
BENCHING = "models that were made or tested are kept; the same command goes on from there."
EVALUATING = "whole blocks, of up to 64 texts, are kept; the same command goes on from there."


class Terminated(KeyboardInterrupt):
    """SIGTERM, as machines send it that are shut down or whose time is up."""


@contextmanager
def stopped_softly() -> Iterator[None]:
    """Inside, SIGTERM ends the work as Ctrl-C does: what is complete is written, and a sentence says what is kept."""
    if threading.current_thread() is not threading.main_thread():  # only there may a signal be taken
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: Any) -> NoReturn:
    raise Terminated


def told(error: BaseException, otherwise: str | None = None) -> str:
    """What is kept of the work that an error ended, as one sentence.

    Args:
        error: with the notes of those who keep something.
        otherwise: where nobody left a note.

    Example:
        >>> told(KeyboardInterrupt(), TRAINING)
        'stopped; the same command goes on from the last whole epoch.'
    """
    kept = " ".join(notes_of(error)) or otherwise
    if not kept:
        return "stopped."
    return f"stopped; {kept[0].lower()}{kept[1:]}"


def status_of(error: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


def unread() -> int:
    """The exit status of a command whose output is read no further, as by ``| head``; nothing more is said of it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # Python writes what is left when it ends
    return UNREAD
