"""The commands that show what is there: ``ls``, ``report``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from attn_faithful.reports.characters import visible

_WIDTH = 160  # of a file or a pipe, which have none of their own, unless COLUMNS says another


def say(*lines: object) -> None:
    """Print lines of text that may hold what a user named."""
    for line in lines:
        print(visible(line))


def show(tables: Sequence[Any]) -> None:
    """Print tables, a blank line between them; None stands for one that there is not."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    shown = [table for table in tables if table is not None]
    for place, table in enumerate(shown):
        if place:
            console.print()
        console.print(table.rich())


def ls(given: argparse.Namespace) -> None:
    from attn_faithful.reports.tables import runs_table
    from attn_faithful.store import find_runs

    show([runs_table(find_runs(given.folder))])


def report(given: argparse.Namespace) -> None:
    from attn_faithful.reports.report import report

    for line in str(report(given.run, given.output, pages=not given.no_pages)).splitlines():
        say(line)
