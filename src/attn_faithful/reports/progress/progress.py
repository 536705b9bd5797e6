"""Progress of a run on standard error: the current work, how much of it is done, how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attn_faithful.reports.numbers import number
from attn_faithful.reports.progress.bars import LONG, Display, Later, Nothing, State, display_here
from attn_faithful.reports.progress.remaining import Stopwatch, duration

EPOCH_SHARE = "epoch_share"  # among the metrics: how much of the epoch under way is done
TESTS = "tests"  # the stage that counts texts
ADVISED = 60.0  # seconds of work, from which on a command says how to stop it and how to go on
_SURE = 5.0  # seconds of work, below which an estimate is too rough to be said once and for all
QUIET = 3.0  # seconds of a call from Python in which nothing is shown
_NUMBERS = {"eval_f1": "F1", "eval_tvd": "TVD", "eval_jsd": "JSD"}


def _display(rank: int, world: int, shown: bool, quiet: float) -> Display:
    if not shown:
        return Nothing()
    prefix = f"[{rank}] " if world > 1 else ""
    if quiet:
        return Later(quiet, prefix)
    return display_here(prefix)


class RemainingTime:
    """The remaining time in words; it is news when long work is foreseen for the first time.

    Attributes:
        is_long: whether long work was foreseen.
    """

    def __init__(self) -> None:
        self.is_long = False

    def words(self, seconds: float | None, taken: float) -> tuple[str, bool]:
        """The remaining time in words, and whether it is news."""
        if not seconds:
            return "", False
        is_news = not self.is_long and seconds + taken > LONG
        self.is_long = self.is_long or is_news
        return f"about {duration(seconds)} left", is_news


class Advice:
    """What a command says once, as soon as long work is foreseen: how long it takes, how to stop it and go on.

    Args:
        kept: what the same command then does, as a sentence; "" to say nothing.
    """

    def __init__(self, kept: str) -> None:
        self.kept = kept

    def line(self, seconds: float | None, taken: float) -> str:
        """The sentence where it is time for it, else ""."""
        if not self.kept or seconds is None or taken < _SURE or seconds + taken < ADVISED:
            return ""
        kept, self.kept = self.kept, ""
        return f"About {duration(seconds + taken)} in all. Ctrl-C stops it; {kept}"


class Progress:
    """Shows cells, stages and epochs.

    Args:
        cells: all cells of the run that this process carries out; their titles are shown.
        rank, world: which of how many processes this is.
        cost: ``cost(cell)``, how long cells take in relation to one another; None for all the same.
        shown: whether anything is.
        quiet: seconds in which nothing is shown.
        kept: of a command, see `Advice`.
    """

    def __init__(
        self,
        cells: Sequence[Any],
        rank: int = 0,
        world: int = 1,
        cost: Callable[[Any], float] | None = None,
        shown: bool = True,
        quiet: float = 0.0,
        kept: str | None = None,
    ) -> None:
        self.cells = list(cells)
        self.costs = [1.0] * len(self.cells)
        if cost is not None:
            self.costs = [max(cost(cell), 1e-9) for cell in self.cells]
        self.display = _display(rank, world, shown, quiet)
        self.done: set[int] = set()
        self.run_watch, self.stage_watch = Stopwatch(), Stopwatch()
        self.remaining = RemainingTime()
        self.advice = Advice(kept or "" if rank == 0 else "")
        self.current: tuple[int, str] | None = None  # place of the cell, stage
        self.shares: dict[int, float] = {}  # place of a cell -> how much of it is done
        self.skipped: dict[str, list[str]] = {}  # reason -> titles of cells

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.display.close()
        if kind is None and self.remaining.is_long:
            self.display.say(f"{len(self.done)}/{len(self.cells)} done in {duration(self.run_watch.taken)}.")
        for reason, titles in self.skipped.items():
            self.display.say(f"Left out: {', '.join(titles)}: {reason}")

    def skip(self, cell: Any, reason: object) -> None:
        """Note that a cell cannot be run; it is named at the end."""
        self.skipped.setdefault(str(reason), []).append(cell.title)

    def finish(self, cell: Any) -> None:
        """Note that a cell is done; one without updates was done before and does not count for the pace."""
        place = self.cells.index(cell)
        self.done.add(place)
        if place not in self.shares:
            self.costs[place] = 0.0
        self.shares[place] = 1.0

    def update(self, cell: Any, stage: str, epoch: int, epochs: int, metrics: dict[str, Any]) -> None:
        """Show that an epoch of a stage of a cell has ended, or with `EPOCH_SHARE` how far it is."""
        place = self.cells.index(cell)
        epochs_done = epoch + metrics.get(EPOCH_SHARE, 0.0)
        stage_share = epochs_done / max(epochs, 1)
        if self.current != (place, stage):
            self.current, self.stage_watch = (place, stage), Stopwatch()
            self.stage_watch.begin(stage_share)
        share = _share_of_cell(cell, stage, epochs_done, epochs)
        self.shares[place] = max(self.shares.get(place, 0.0), share)
        seconds_left = self._seconds_left(cell, stage, stage_share)
        words, is_news = self.remaining.words(seconds_left, self.run_watch.taken)
        advice = self.advice.line(seconds_left, self.run_watch.taken)
        if advice:
            self.display.say(advice)
        numbers = []
        for name, title in _NUMBERS.items():
            if name in metrics:
                numbers.append(f"{title} {number(metrics[name])}")
        cells = None
        if len(self.cells) > 1:
            cells = (len(self.done), len(self.cells))
        state = State(
            title=f"{cell.title}: {stage}",
            unit="text" if stage == TESTS else "epoch",
            done=epoch,
            total=epochs,
            numbers="  ".join(numbers),
            remaining=words,
            cells=cells,
        )
        self.display.show(state, is_news)

    def _seconds_left(self, cell: Any, stage: str, stage_share: float) -> float | None:
        """Seconds left of all cells, as far as they are known: tests have a pace of their own."""
        of_stage = self.stage_watch.left(stage_share)
        if not _stages(cell):
            return of_stage
        of_run = self.run_watch.left(self._share_of_run())
        if stage != TESTS:
            return of_run
        if of_run is None:
            return of_stage
        return of_run + (of_stage or 0.0)

    def _share_of_run(self) -> float:
        """The share of all work that is done."""
        done = sum(cost * self.shares.get(place, 0.0) for place, cost in enumerate(self.costs))
        return done / max(sum(self.costs), 1e-9)


def _share_of_cell(cell: Any, stage: str, epochs_done: float, epochs: int) -> float:
    """The share of a cell that is done: its epochs, of those that were planned; the tests come last."""
    before = 0.0
    stages = _stages(cell)
    for name, weight in stages.items():
        if name == stage:
            return (before + weight * epochs_done / max(epochs, 1)) / sum(stages.values())
        before += weight
    return 0.0


def _stages(cell: Any) -> Mapping[str, int]:
    """The trainings of a cell, in order -> their epochs; none for a cell that trains nothing."""
    stages: Mapping[str, int] = getattr(cell, "stages", {})
    return stages


class Counter:
    """Shows how many texts are done.

    Args:
        title: what is counted.
        rank, world: which of how many processes this is; only the first shows anything.
        shown: whether anything is.
        quiet: seconds in which nothing is shown.
        unit: what is counted in the place of texts.
        kept: of a command, see `Advice`.
    """

    def __init__(
        self,
        title: str,
        rank: int = 0,
        world: int = 1,
        shown: bool = True,
        quiet: float = 0.0,
        unit: str = "text",
        kept: str | None = None,
    ) -> None:
        self.title = title
        self.unit = unit
        self.display = _display(0, 1, shown and rank == 0, quiet)
        self.watch, self.remaining = Stopwatch(), RemainingTime()
        self.advice = Advice(kept or "" if rank == 0 else "")
        self.begun = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        self.display.close()

    def update(self, done: int, total: int) -> None:
        """Show that so many are done."""
        share = done / max(total, 1)
        if not self.begun:
            self.begun = True
            self.watch.begin(share)
        seconds_left = self.watch.left(share)
        words, is_news = self.remaining.words(seconds_left, self.watch.taken)
        advice = self.advice.line(seconds_left, self.watch.taken)
        if advice:
            self.display.say(advice)
        self.display.show(State(f"{self.title}:", self.unit, done, total, remaining=words), is_news)
