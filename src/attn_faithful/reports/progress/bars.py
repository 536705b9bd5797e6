"""Where progress is shown: bars in a terminal, a bar in a notebook, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from attn_faithful.reports.characters import visible

SELDOM = 10.0  # seconds between two lines of a log
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"
LONG = 10.0  # seconds of work that a log is told of as soon as they are foreseen


@dataclass(frozen=True)
class State:
    """How far the work is.

    Attributes:
        title: what is worked at.
        unit: what is counted: "text", "epoch".
        done, of: so many of how many.
        behind: numbers that stand behind the count.
        left: of the remaining time, in words; "" where nothing can be said.
        cells: of several pieces of work, how many are done, and how many there are.
    """

    title: str
    unit: str
    done: int
    of: int
    behind: str = ""
    left: str = ""
    cells: tuple[int, int] | None = None


class Shown(Protocol):
    """One way to show progress."""

    def show(self, state: State, soon: bool = False) -> None:
        """Show a state; ``soon``: it says something new."""

    def say(self, line: str) -> None:
        """Write a line."""

    def close(self) -> None:
        """Nothing more comes."""


class Lines:
    """A log: a line at first, then at most one in ten seconds, unless one says something new."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.last: float | None = None

    def show(self, state: State, soon: bool = False) -> None:
        now = time.monotonic()
        if self.last is not None and not soon and now - self.last < SELDOM:
            return
        self.last = now
        cells = "" if state.cells is None else "{}/{} ".format(*state.cells)
        behind = "".join(f"  {part}" for part in (state.behind, state.left) if part)
        self.say(f"{cells}{state.title} {state.unit} {state.done}/{state.of}{behind}")

    def say(self, line: str) -> None:
        print(visible(self.prefix + line), file=sys.stderr, flush=True)

    def close(self) -> None:
        """A log has nothing to close."""


class Bars:
    """A terminal: a bar of the cells, where there are several, and one of what is worked at; names are never cut."""

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

    def show(self, state: State, soon: bool = False) -> None:
        if state.cells is not None:
            done, of = state.cells
            if self.cells is None:
                self.cells = self.bars.add_task("", total=of, count="", behind="")
            self.bars.update(self.cells, completed=done, count=f"{done}/{of} cells", behind=state.left)
        behind = state.behind if state.cells is not None else f"{state.behind}  {state.left}".strip()
        if self.task is None:
            self.task = self.bars.add_task("", total=state.of, count="", behind="")
        self.bars.update(
            self.task,
            description=visible(state.title),
            completed=state.done,
            total=state.of,
            count=f"{state.unit} {state.done}/{state.of}",
            behind=visible(behind),
        )

    def say(self, line: str) -> None:
        self.bars.console.print(visible(line), markup=False, highlight=False)

    def close(self) -> None:
        self.bars.stop()


class Notebook:
    """A notebook: one bar."""

    def __init__(self) -> None:
        self.bar: Any = None

    def show(self, state: State, soon: bool = False) -> None:
        from tqdm.auto import tqdm

        done, of = state.cells or (state.done, state.of)
        if self.bar is None:
            self.bar = tqdm(total=of, leave=False, bar_format=_BAR)
        count = "" if state.cells is None else f"{state.unit} {state.done}/{state.of}"
        self.bar.total = of
        self.bar.set_description_str(visible(state.title), refresh=False)
        self.bar.set_postfix_str(visible("  ".join(p for p in (count, state.behind, state.left) if p)), refresh=False)
        self.bar.n = done
        self.bar.refresh()

    def say(self, line: str) -> None:
        print(visible(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class Nothing:
    """Shows no progress; lines are said all the same."""

    def show(self, state: State, soon: bool = False) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        print(visible(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing."""


class Later:
    """Silent until work has taken so long that somebody may wonder; then as `place` says.

    Args:
        seconds: of silence.
        prefix: of the lines of a log.
    """

    def __init__(self, seconds: float, prefix: str = "") -> None:
        self.seconds, self.prefix = seconds, prefix
        self.start = time.monotonic()
        self.shown: Shown | None = None

    def show(self, state: State, soon: bool = False) -> None:
        if self.shown is None and time.monotonic() - self.start >= self.seconds:
            self.shown = place(self.prefix)
        if self.shown is not None:
            self.shown.show(state, soon)

    def say(self, line: str) -> None:
        if self.shown is None:
            print(visible(self.prefix + line), file=sys.stderr, flush=True)
        else:
            self.shown.say(line)

    def close(self) -> None:
        if self.shown is not None:
            self.shown.close()


def place(prefix: str = "") -> Shown:
    """Where the progress of this process can be shown."""
    if in_notebook():
        return Notebook()
    if not prefix and sys.stderr.isatty():
        return Bars()
    return Lines(prefix)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in getattr(running, "config", {})
