"""Progress of a run on standard error: what is worked at, how much of it is done, how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attn_faithful.reports.progress.bars import LONG, Later, Nothing, Shown, State, place
from attn_faithful.reports.progress.remaining import Stopwatch, duration
from attn_faithful.reports.tables.table import number

EPOCH_SHARE = "epoch_share"  # among the metrics: how much of the epoch under way is done
TESTS = "tests"  # the stage that counts texts
QUIET = 3.0  # seconds of a call from Python in which nothing is shown
_NUMBERS = {"eval_f1": "F1", "eval_tvd": "TVD", "eval_jsd": "JSD"}


def _shown(rank: int, world: int, shown: bool, quiet: float) -> Shown:
    if not shown:
        return Nothing()
    prefix = f"[{rank}] " if world > 1 else ""
    return Later(quiet, prefix) if quiet else place(prefix)


class Foreseen:
    """Says how long the rest will take; and at once, when long work is foreseen for the first time."""

    def __init__(self) -> None:
        self.long = False

    def words(self, seconds: float | None, taken: float) -> tuple[str, bool]:
        """The remaining time in words, and whether it is news."""
        if not seconds:
            return "", False
        news = not self.long and seconds + taken > LONG
        self.long = self.long or news
        return f"about {duration(seconds)} left", news


class Progress:
    """Tells of cells, stages and epochs.

    Args:
        cells: all cells of the run that this process carries out; their titles are shown.
        rank, world: which of how many processes this is.
        cost: ``cost(cell)``, how long cells take in relation to one another; None for all the same.
        shown: whether anything is.
        quiet: seconds in which nothing is shown.
    """

    def __init__(
        self,
        cells: Sequence[Any],
        rank: int = 0,
        world: int = 1,
        cost: Callable[[Any], float] | None = None,
        shown: bool = True,
        quiet: float = 0.0,
    ) -> None:
        self.cells = list(cells)
        self.costs = [1.0 if cost is None else max(cost(cell), 1e-9) for cell in self.cells]
        self.shown = _shown(rank, world, shown, quiet)
        self.done: set[int] = set()
        self.all, self.stage = Stopwatch(), Stopwatch()
        self.foreseen = Foreseen()
        self.current: tuple[int, str] | None = None
        self.shares: dict[int, float] = {}
        self.lost: list[tuple[str, str]] = []

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.shown.close()
        if kind is None and self.foreseen.long:
            self.shown.say(f"{len(self.done)}/{len(self.cells)} done in {duration(self.all.taken)}.")
        for why in dict.fromkeys(why for _, why in self.lost):
            titles = ", ".join(title for title, said in self.lost if said == why)
            self.shown.say(f"Left out: {titles}: {why}")

    def skip(self, cell: Any, why: object) -> None:
        """Note that a cell cannot be run; it is told at the end."""
        self.lost.append((cell.title, str(why)))

    def finish(self, cell: Any) -> None:
        """Note that a cell is done; one that nothing was told of was done before, and says nothing of the pace."""
        place = self.cells.index(cell)
        self.done.add(place)
        if place not in self.shares:
            self.costs[place] = 0.0
        self.shares[place] = 1.0

    def update(self, cell: Any, stage: str, epoch: int, epochs: int, metrics: dict[str, Any]) -> None:
        """Show that an epoch of a stage of a cell has ended, or with `EPOCH_SHARE` how far it is."""
        place = self.cells.index(cell)
        done = epoch + metrics.get(EPOCH_SHARE, 0.0)
        if self.current != (place, stage):
            self.current, self.stage = (place, stage), Stopwatch()
            self.stage.begin(done / max(epochs, 1))
        share = self._share_of(cell, stage, done, epochs)
        self.shares[place] = max(self.shares.get(place, 0.0), share)
        left, news = self.foreseen.words(self._left(cell, stage, done / max(epochs, 1)), self.all.taken)
        known = [f"{title} {number(metrics[name])}" for name, title in _NUMBERS.items() if name in metrics]
        unit = "text" if stage == TESTS else "epoch"
        cells = (len(self.done), len(self.cells)) if len(self.cells) > 1 else None
        self.shown.show(State(f"{cell.title}: {stage}", unit, epoch, epochs, "  ".join(known), left, cells), news)

    def _left(self, cell: Any, stage: str, share: float) -> float | None:
        """Seconds left of all, as far as they are known: tests have a pace of their own."""
        own = self.stage.left(share)
        if not self._stages(cell):
            return own
        rest = self.all.left(self._whole())
        if stage != TESTS:
            return rest
        return own if rest is None else rest + (own or 0.0)

    def _whole(self) -> float:
        """The share of all work that is done."""
        done = sum(cost * self.shares.get(place, 0.0) for place, cost in enumerate(self.costs))
        return done / max(sum(self.costs), 1e-9)

    def _share_of(self, cell: Any, stage: str, done: float, of: int) -> float:
        """The share of a cell that is done: its epochs, of those that were planned; the tests come last."""
        stages = self._stages(cell)
        if stage not in stages:
            return 0.0
        before = 0.0
        for name, weight in stages.items():
            if name == stage:
                return (before + weight * done / max(of, 1)) / sum(stages.values())
            before += weight
        return 0.0

    def _stages(self, cell: Any) -> dict[str, float]:
        recipe = getattr(cell, "recipe", None)
        if recipe is None:
            return {}
        stages: dict[str, float] = {"base": recipe.train.epochs}
        stages |= dict.fromkeys(recipe.controls, recipe.train.epochs)
        for settings, seed in cell.twins:
            name = "twin" if settings.variant == "attefa" else f"twin-{settings.variant}"
            stages[f"{name} {seed}"] = settings.epochs
        return stages


class Counter:
    """Tells how many texts are done.

    Args:
        title: what is counted.
        rank, world: which of how many processes this is; only the first tells.
        shown: whether anything is.
        quiet: seconds in which nothing is shown.
    """

    def __init__(self, title: str, rank: int = 0, world: int = 1, shown: bool = True, quiet: float = 0.0) -> None:
        self.title = title
        self.shown = _shown(0, 1, shown and rank == 0, quiet)
        self.watch, self.foreseen = Stopwatch(), Foreseen()
        self.begun = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        self.shown.close()

    def update(self, done: int, of: int) -> None:
        """Show that so many texts are done."""
        share = done / max(of, 1)
        if not self.begun:
            self.begun = True
            self.watch.begin(share)
        left, news = self.foreseen.words(self.watch.left(share), self.watch.taken)
        self.shown.show(State(f"{self.title}:", "text", done, of, "", left), news)
