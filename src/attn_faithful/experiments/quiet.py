"""Silence of transformers while a run computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and warnings of transformers inside; its settings are restored afterwards."""
    from transformers.utils import logging

    bars_were_shown = logging.is_progress_bar_enabled()
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars_were_shown:
            logging.enable_progress_bar()
