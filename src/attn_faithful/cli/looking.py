"""The commands that show what is there: ``ls``, ``report``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def show(tables: Sequence[Any]) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no width of its own
    for table in tables:
        if table is not None:
            console.print(table.rich())


def ls(given: argparse.Namespace) -> None:
    from attn_faithful.reports.tables import runs_table
    from attn_faithful.store import find_runs

    show([runs_table(find_runs(given.folder))])


def report(given: argparse.Namespace) -> None:
    from attn_faithful.reports.report import report

    print(report(given.run, given.output, pages=not given.no_pages))
