"""Runs one command of the command line, and turns errors into one sentence and an exit status."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attn_faithful._checks import InputError, SeveralFaultsError, is_of_memory, notes_of
from attn_faithful.cli.loading import load
from attn_faithful.cli.looking import complain
from attn_faithful.cli.parser import parse
from attn_faithful.cli.stopping import status_of, stopped_softly, told, unread
from attn_faithful.experiments.spellings import OldSpellingWarning
from attn_faithful.experiments.threads import asked_for
from attn_faithful.reports.characters import degrading

BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    with degrading(sys.stdout, sys.stderr), _short_warnings():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    given = parse(argv)
    try:
        given.early(given)
        with stopped_softly(), asked_for(given.threads):
            load(given.loads)
            status = int(given.command(given) or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        if given.debug:
            raise
        return unread()
    except (InputError, OSError) as error:
        if given.debug:
            raise
        faults = error.faults if isinstance(error, SeveralFaultsError) else [error]
        for fault in faults:
            complain(_sentence(fault))
        return BAD_INPUT
    except (MemoryError, RuntimeError) as error:
        if given.debug or not is_of_memory(error):
            raise
        complain("there is not enough memory; take a smaller model, batch or limit.", *notes_of(error))
        return BAD_INPUT
    except KeyboardInterrupt as error:
        print(file=sys.stderr)
        complain(told(error, given.kept))
        return status_of(error)


def _sentence(error: Exception | str) -> str:
    """What an error says, on one line, with the notes that were left with it."""
    message = " ".join(str(error).split())
    notes = notes_of(error)
    if isinstance(error, OSError) and error.strerror:
        place = f" {error.filename}" if error.filename else ""
        message = f"cannot write or read{place}: {error.strerror}."
        notes = [*(notes or ["What was finished is kept."]), "Free the disk or choose --output."]
    return " ".join([message, *notes])


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Inside, warnings of old names are one sentence, without a line of code."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_shortly(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, OldSpellingWarning):
                complain(str(message))
            else:
                show(message, category, *rest, **more)

        warnings.simplefilter("always", OldSpellingWarning)
        warnings.showwarning = show_shortly
        yield
