"""Python's search for garbage, put off while libraries are imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, nothing is searched for cycles of objects that nobody uses.

    Importing torch and transformers makes a million objects that stay: to look through them again and again takes a
    sixth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
