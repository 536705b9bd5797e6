"""Displays of progress: bars in a terminal, a bar in a notebook, lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from attn_faithful.reports.characters import visible

SELDOM = 10.0  # seconds between two lines of a log
LONG = 10.0  # seconds of work that a log mentions as soon as they are foreseen
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"


@dataclass(frozen=True)
class State:
    """How far the work is.

    Attributes:
        title: of the work.
        unit: what is counted: "text", "epoch".
        done, total: of these units.
        numbers: what stands behind the count, such as a score.
        remaining: the remaining time in words; "" where it is not known.
        cells: of several pieces of work, how many are done, and how many there are.
    """

    title: str
    unit: str
    done: int
    total: int
    numbers: str = ""
    remaining: str = ""
    cells: tuple[int, int] | None = None

    @property
    def count(self) -> str:
        return f"{self.unit} {self.done}/{self.total}"


class Display(Protocol):
    """One way to show progress."""

    def show(self, state: State, is_news: bool = False) -> None:
        """Show a state; news are shown at once."""

    def say(self, line: str) -> None:
        """Write a line."""

    def close(self) -> None:
        """End the display."""


def _write(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)


class Lines:
    """A log: one line at first, then at most one in ten seconds; news come at once."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.last: float | None = None

    def show(self, state: State, is_news: bool = False) -> None:
        now = time.monotonic()
        if self.last is not None and not is_news and now - self.last < SELDOM:
            return
        self.last = now
        line = f"{state.title} {state.count}"
        if state.cells is not None:
            done, total = state.cells
            line = f"{done}/{total} {line}"
        for part in (state.numbers, state.remaining):
            if part:
                line += f"  {part}"
        self.say(line)

    def say(self, line: str) -> None:
        _write(self.prefix + line)

    def close(self) -> None:
        """A log has nothing to close."""


class Bars:
    """A terminal: one bar of the cells, where there are several, and one of the current cell; titles are never cut."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column
        from rich.text import Text

        class Titled(Progress):
            """Every bar below its title, which has lines of its own."""

            def get_renderables(self) -> Iterator[Any]:
                for task in self.tasks:
                    if task.description:
                        yield Text(task.description)
                    yield self.make_tasks_table([task])

        self.bars = Titled(
            BarColumn(bar_width=16),
            TextColumn("{task.fields[count]}", markup=False, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[behind]}", markup=False, table_column=Column(overflow="fold")),
            console=Console(stderr=True),
        )
        self.cells: Any = None
        self.task: Any = None
        self.bars.start()

    def show(self, state: State, is_news: bool = False) -> None:
        behind = state.numbers
        if state.cells is None:
            behind = f"{state.numbers}  {state.remaining}".strip()
        else:
            self._show_cells(*state.cells, state.remaining)
        if self.task is None:
            self.task = self.bars.add_task("", total=state.total, count="", behind="")
        self.bars.update(
            self.task,
            description=visible(state.title),
            completed=state.done,
            total=state.total,
            count=state.count,
            behind=visible(behind),
        )

    def _show_cells(self, done: int, total: int, remaining: str) -> None:
        if self.cells is None:
            self.cells = self.bars.add_task("", total=total, count="", behind="")
        self.bars.update(self.cells, completed=done, count=f"{done}/{total} cells", behind=remaining)

    def say(self, line: str) -> None:
        self.bars.console.print(visible(line), markup=False, highlight=False)

    def close(self) -> None:
        self.bars.stop()


class Notebook:
    """A notebook: one bar."""

    def __init__(self) -> None:
        self.bar: Any = None

    def show(self, state: State, is_news: bool = False) -> None:
        from tqdm.auto import tqdm

        done, total = state.cells or (state.done, state.total)
        if self.bar is None:
            self.bar = tqdm(total=total, leave=False, bar_format=_BAR)
        parts = [state.numbers, state.remaining]
        if state.cells is not None:
            parts.insert(0, state.count)
        behind = "  ".join(filter(None, parts))
        self.bar.set_description_str(visible(state.title), refresh=False)
        self.bar.set_postfix_str(visible(behind), refresh=False)
        if total != self.bar.total:
            self.bar.reset(total)  # a widget takes its length from nothing else
        self.bar.n = done
        self.bar.refresh()

    def say(self, line: str) -> None:
        print(visible(line), flush=True)  # what a notebook has on standard error looks like an alarm

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class Nothing:
    """Shows no progress, and writes lines all the same."""

    def show(self, state: State, is_news: bool = False) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        _write(line)

    def close(self) -> None:
        """Nothing."""


class Later:
    """Silent for some seconds, as short work needs no progress; then the display of `display_here`.

    Args:
        seconds: of silence.
        prefix: of the lines of a log.
    """

    def __init__(self, seconds: float, prefix: str = "") -> None:
        self.seconds, self.prefix = seconds, prefix
        self.start = time.monotonic()
        self.display: Display | None = None

    def show(self, state: State, is_news: bool = False) -> None:
        if self.display is None and time.monotonic() - self.start >= self.seconds:
            self.display = display_here(self.prefix)
        if self.display is not None:
            self.display.show(state, is_news)

    def say(self, line: str) -> None:
        if self.display is None:
            _write(self.prefix + line)
        else:
            self.display.say(line)

    def close(self) -> None:
        if self.display is not None:
            self.display.close()


def display_here(prefix: str = "") -> Display:
    """The display for the place that this process writes to."""
    if in_notebook():
        return Notebook()
    if not prefix and sys.stderr.isatty():
        return Bars()
    return Lines(prefix)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})
