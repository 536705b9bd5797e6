"""How long work will take, said in a terminal before it starts: measured on a few steps or a few texts of it.

In a log, and for whatever is not measured here, the first seconds of the work itself tell it: see `Advice`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError

_LOOKING = "Measuring how long this will take ..."
_MANY = 320  # texts, from which on the sample that is measured is a small part of them


def foresee_training(
    recipe: Any, given: argparse.Namespace, chosen: Mapping[str, Sequence[str]] | None, data_dir: str | None
) -> str | None:
    """Say how long the trainings that are left will take; returns what the work itself has still to say of it.

    Args:
        recipe: that is carried out.
        given: flags of the command.
        chosen, data_dir: as for `experiments.grid.expand`.
    """
    from attn_faithful.experiments.estimate import estimate
    from attn_faithful.experiments.grid import expand
    from attn_faithful.experiments.run_recipe import folder_of

    kept: str | None = given.kept
    if not _in_a_terminal(given):
        return kept
    cells = [cell for cell in expand(recipe, data_dir, chosen) if not folder_of(cell, Path(given.output)).done]
    if not cells:
        return kept
    try:
        with _looking():
            estimates, _ = estimate(cells)
    except InputError:
        return kept  # the work itself says what is wrong, or goes on without it
    seconds = 60 * sum(each.minutes for each in estimates)
    megabytes = sum(each.megabytes for each in estimates)
    beside = " without its tests" if recipe.evaluation.tests else ""
    what = f"Training{beside}, {len(cells)} {'run' if len(cells) == 1 else 'runs'} and {megabytes:,.0f} MB"
    return _told(what, seconds, kept)


def foresee_tests(task: Any, output: Path, given: argparse.Namespace) -> str | None:
    """Say how long the tests of a model will take; returns what the work itself has still to say of it.

    Args:
        task: model, texts and tests.
        output: folder of the run folder.
        given: flags of the command.
    """
    from attn_faithful.experiments.estimate_tests import seconds_of_tests

    texts = len(task.texts.splits[task.split])
    begun = task.folder(output).path.exists()
    if not _in_a_terminal(given) or begun or texts < _MANY or task.settings.learns_heads:
        return given.kept
    try:
        with _looking():
            seconds = seconds_of_tests(task)
    except InputError:
        return given.kept
    return _told(f"The tests on {texts:,} texts", seconds, given.kept)


def _in_a_terminal(given: argparse.Namespace) -> bool:
    """Whether somebody waits for this process alone, and not for a smoke test."""
    return sys.stderr.isatty() and not given.smoke and os.environ.get("WORLD_SIZE", "1") == "1"


@contextmanager
def _looking() -> Iterator[None]:
    """Inside, the terminal says what it waits for."""
    from attn_faithful.experiments.quiet import quiet

    print(_LOOKING, end="", file=sys.stderr, flush=True)
    try:
        with quiet():
            yield
    finally:
        print("\r" + " " * len(_LOOKING) + "\r", end="", file=sys.stderr, flush=True)


def _told(what: str, seconds: float, kept: str | None) -> str | None:
    """Say it where it is long; then the work itself need not."""
    from rich.console import Console

    from attn_faithful.reports.progress.progress import ADVISED
    from attn_faithful.reports.progress.remaining import duration

    if seconds < ADVISED or not kept:
        return kept
    line = f"{what}: about {duration(seconds)} at most. Ctrl-C stops it; {kept}"
    Console(stderr=True).print(line, markup=False, highlight=False)
    return None
