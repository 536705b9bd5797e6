"""Progress of a run: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from attn_faithful.reports.characters import visible
from attn_faithful.reports.tables import number


def _bars(*behind: str) -> Any:
    """Bars on standard error with their titles, counts and time, and further text behind them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    title, *more = (TextColumn(text, markup=False) for text in ("{task.description}", *behind))
    return Progress(title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *more, console=Console(stderr=True))


def _say(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)


class Progress:
    """Tells of cells, stages and epochs on standard error.

    Args:
        cells: all cells of the run; their titles are shown.
        rank, world: which of how many processes this is; only the first draws bars.
    """

    def __init__(self, cells: Sequence[Any], rank: int = 0, world: int = 1) -> None:
        self.cells, self.prefix = list(cells), f"[{rank}] " if world > 1 else ""
        self.bars: Any = None
        self.tasks: dict[str, Any] = {}
        self.last = 0.0
        self.lost: list[tuple[str, str]] = []
        if world == 1 and sys.stderr.isatty():
            self.bars = _bars("{task.fields[numbers]}")

    def __enter__(self) -> Progress:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bars is not None:
            self.bars.stop()
        for why in dict.fromkeys(why for _, why in self.lost):
            titles = ", ".join(title for title, said in self.lost if said == why)
            _say(f"{self.prefix}Left out: {titles}: {why}")

    def lose(self, cell: Any, why: object) -> None:
        """Note that a cell cannot be run; it is told at the end."""
        self.lost.append((cell.title, str(why)))

    def tell(self, cell: Any, stage: str, epoch: int, epochs: int, metrics: dict[str, Any]) -> None:
        """Show that an epoch of a stage of a cell has ended."""
        known = {"eval_f1": "F1", "eval_tvd": "TVD", "eval_jsd": "JSD"}
        numbers = "  ".join(f"{title} {number(metrics[name])}" for name, title in known.items() if name in metrics)
        title = f"{self.cells.index(cell) + 1}/{len(self.cells)} {cell.title}: {stage}"
        if self.bars is None:
            if epoch >= epochs or time.time() - self.last > 15:
                self.last = time.time()
                unit = "text" if stage == "tests" else "epoch"
                _say(f"{self.prefix}{title} {unit} {epoch}/{epochs}  {numbers}")
            return
        if title not in self.tasks:
            self.tasks[title] = self.bars.add_task(title, total=epochs, numbers="")
        self.bars.update(self.tasks[title], completed=epoch, numbers=numbers)


class Counter:
    """Tells how many texts are done on standard error: a bar in a terminal, a line now and then elsewhere.

    Args:
        title: what is counted.
        rank, world: which of how many processes this is; only the first tells.
    """

    def __init__(self, title: str, rank: int = 0, world: int = 1) -> None:
        self.title, self.shown, self.last = title, rank == 0, 0.0
        self.bar: Any = None
        if self.shown and sys.stderr.isatty():
            self.bar = _bars()

    def __enter__(self) -> Counter:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=None)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def tell(self, done: int, of: int) -> None:
        """Show that so many texts are done."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=of)
        elif self.shown and (done >= of or time.time() - self.last > 15):
            self.last = time.time()
            _say(f"{self.title}: text {done}/{of}")
