"""What commands print, and the commands that show what is there: ``ls``, ``report``, ``compare``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attn_faithful.cli.flags import listed
from attn_faithful.reports.characters import visible

FULL = "All tables: the same command with --full, or attn-faithful report RUN (page, tables, figures)."
COMPARE = "Two of them over the same texts side by side: attn-faithful compare RUN RUN --html."
_MANY = 4  # models, above which each has one line and not its whole answer, and no folder is named
_WIDTH = 160  # of a file or a pipe, which have none of their own, unless COLUMNS says another


def say(*lines: object) -> None:
    """Print lines of text that may hold what a user named."""
    for line in lines:
        print(visible(line))


def say_folders(parent: object, folders: Sequence[object]) -> None:
    """Where finished runs lie, few of them by name."""
    say(f"Run folders: {parent}")
    if len(folders) <= _MANY:
        say(*(f"  {folder}" for folder in folders))


def complain(*sentences: str) -> None:
    """Print one line about what is wrong, or what was left out."""
    print(f"attn-faithful: {visible(' '.join(sentences))}", file=sys.stderr)


def show(tables: Sequence[Any]) -> None:
    """Print tables, a blank line between them; None stands for one that there is not."""
    console = _console()
    shown = [table for table in tables if table is not None]
    for place, table in enumerate(shown):
        if place:
            console.print()
        console.print(table.rich())


def show_answers(models: Sequence[Any], tables: Sequence[Any], rest: str) -> None:
    """The answers first, of many models one line each; then the tables, and where the rest is.

    What may be shown is left out of them: it stands last, see :func:`show_recommendations`.
    """
    from attn_faithful.reports.answer.answer import answers

    console = _console()
    every = answers(models)
    for answer in every:
        answer = replace(answer, recommendation="")
        if len(every) > _MANY:
            say(answer.short)
        else:
            console.print(answer)
            console.print()
    show(tables)
    if rest:
        say(rest)


def show_recommendations(models: Sequence[Any]) -> None:
    """What may be shown as an explanation of each model."""
    from attn_faithful.reports.answer.answer import answers

    for answer in answers(models):
        if answer.recommendation:
            title = f"{answer.title}. " if len(models) > 1 else ""
            say(f"{title}{answer.recommendation}")


def _console() -> Any:
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    return console


def ls(given: argparse.Namespace) -> None:
    from attn_faithful.reports.tables.listings import runs_table
    from attn_faithful.store import find_runs

    folders = find_runs(given.folder)
    show([runs_table(folders)])
    if len(folders) > 1:
        say(COMPARE)


def report(given: argparse.Namespace) -> None:
    from attn_faithful.reports.report import report

    made = report(given.run, given.output, pages=not given.no_pages, appendix=given.appendix)
    for line in str(made).splitlines():
        say(line)
    if len(made.pages) > 1:
        say(COMPARE)


def compare(given: argparse.Namespace) -> None:
    from attn_faithful.reports.compare.comparison import compare

    names = listed(given.names) if given.names else None
    compared = compare(*given.run, twin=given.twin, names=names)
    page = None
    if given.output is not None or given.html:
        default = compared.first.run.path.parent / compared.file_name
        page = compared.save(given.output or default)
    say(*compared.lines)
    print()
    show(compared.tables(given.full))
    if not given.full:
        say("Numbers of other sources of importance too: the same command with --full.")
    if page is None:
        say("Every text with both attentions: the same command with --html.")
    else:
        say(f"Page: {page}")
