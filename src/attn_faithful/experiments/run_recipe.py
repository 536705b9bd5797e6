"""Carries out the cells of a recipe, on one process or shared out over several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attn_faithful._checks import MissingSourceError
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.store import RunFolder

Work = TypeVar("Work")
OnProgress = Callable[[Cell, str, int, int, dict[str, Any]], None]

_RELATIVE_COST = {"orthogonal_lstm": 11, "lstm": 10, "gru": 9, "transformer": 6, "cnn": 2}


def mine(work: Sequence[Work], processes: ProcessGroup, cost: Callable[[Work], float]) -> list[Work]:
    """What this process works on, in its order.

    Args:
        work: cells, or whatever else processes share.
        processes: that share it; of those that work together each works on all of it.
        cost: ``cost(piece)``, how long a piece takes in relation to others.
    """
    if processes.together:
        return list(work)
    return share(work, processes.rank, processes.world, cost)


def share(work: Sequence[Work], rank: int, world: int, cost: Callable[[Work], float]) -> list[Work]:
    """A process's part: the dearest pieces first, each to the process with the least to do."""
    loads = [0.0] * world
    shares: list[list[Work]] = [[] for _ in range(world)]
    for piece in sorted(work, key=cost, reverse=True):
        least = loads.index(min(loads))
        loads[least] += cost(piece)
        shares[least].append(piece)
    return shares[rank]


def cost(cell: Cell) -> float:
    """How long a cell trains, in relation to others."""
    return sum(cell.stages.values()) * cost_of_epoch(cell)


def cost_of_epoch(cell: Cell) -> float:
    """How long an epoch of a cell takes, in relation to others."""
    return _RELATIVE_COST.get(cell.axes["encoder"], 1)


def run_cells(
    cells: Sequence[Cell],
    output: Path,
    on_progress: OnProgress,
    processes: ProcessGroup,
    on_skipped: Callable[[Cell, MissingSourceError], None] = lambda cell, error: None,
    finish: Callable[[Cell], None] = lambda cell: None,
    device: str = "auto",
) -> list[RunFolder]:
    """Carry out the cells, wait for the other processes, and return the folders of those that are done.

    Args:
        cells: of a recipe.
        output: folder of the recipe's folder.
        on_progress: ``on_progress(cell, stage, epoch, epochs, metrics)`` after every epoch.
        processes: that share the cells, or the data of each.
        on_skipped: ``on_skipped(cell, error)`` of a cell whose data set is missing, where there are others.
        finish: ``finish(cell)`` of one that is done.
        device: where models are trained, see `training.placement`.

    Raises:
        MissingSourceError: no cell could be run.
        InputError: whatever else is wrong with a cell.
    """
    from attn_faithful.experiments.run_cell import run_cell
    from attn_faithful.training.placement import training_on

    reports = processes.main or not processes.together  # whether this process says how far a cell is
    of_a_cell = processes if processes.together else SINGLE_PROCESS
    missing: list[MissingSourceError] = []
    for cell in mine(cells, processes, cost):
        tell = partial(on_progress, cell) if reports else no_progress
        try:
            with training_on(device):
                run_cell(cell, folder_of(cell, output), tell, of_a_cell)
        except MissingSourceError as error:
            missing.append(error)
            if reports and len(cells) > 1:
                on_skipped(cell, error)
            continue
        if reports:
            finish(cell)
    processes.wait("cells")
    folders = [folder_of(cell, output) for cell in cells]
    done = [folder for folder in folders if folder.done]
    if missing and not done:
        raise missing[0]
    return done


def folder_of(cell: Cell, output: Path) -> RunFolder:
    """The run folder of a cell."""
    return RunFolder(output / cell.recipe.name / cell.folder)


def no_progress(stage: str, epoch: int, epochs: int, metrics: dict[str, Any]) -> None:
    """What a process says that works on another's cell too."""
