"""Carries out the cells of a recipe, on one process or shared out over several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, MissingSourceError, check_choice
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.store import RunFolder

PARALLEL = ("cells", "data")

_DISTRIBUTED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ACCELERATE_USE_MULTI_GPU",
    "ACCELERATE_USE_CPU",
)
_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_UNSET = (
    "if another program left them behind, unset them (unset RANK WORLD_SIZE), else start with accelerate launch or "
    "torchrun"
)
_RELATIVE_COST = {"lstm": 10, "gru": 9, "transformer": 6, "cnn": 2}


@contextmanager
def process_group(asked: int | None = None, parallel: str = "cells") -> Iterator[ProcessGroup]:
    """The processes that a launcher started.

    With ``parallel="cells"`` the launcher's variables are hidden inside: each process trains its cells as if it were
    alone, so its numbers are those of a single process. With "data" all processes train each model together.

    Args:
        asked: how many there should be; None for whatever was started.
        parallel: "cells" or "data".

    Raises:
        InputError: another number was started than asked for, or variables are those of no launcher.
    """
    check_choice("parallel", parallel, PARALLEL)
    rank, world = _started()
    if asked is not None and asked != world:
        raise InputError(
            f"Expected {asked} processes, but the launcher started {world}; on CPUs launch with "
            f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes {asked} --num_machines 1, "
            f"or torchrun --nproc_per_node {asked}."
        )
    if world == 1:
        yield SINGLE_PROCESS
    elif parallel == "data":
        yield _together(rank, world)
    else:
        with _apart(rank, world) as processes:
            yield processes


def _started() -> tuple[int, int]:
    """This process's rank and how many were started, as a launcher's variables say.

    Raises:
        InputError: they are no numbers, or no launcher set all of them: what another program left behind.
    """
    told = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE") if os.environ.get(name)}
    try:
        rank, world = int(told.get("RANK", 0)), int(told.get("WORLD_SIZE", 1))
    except ValueError:
        raise InputError(f"Expected numbers in the launcher's variables, but they are {told}; {_UNSET}.") from None
    if world == 1:
        return 0, 1
    lacking = [name for name in _LAUNCHED if not os.environ.get(name)]
    if lacking or not 0 <= rank < world:
        why = f"{', '.join(lacking)} are not set" if lacking else f"RANK is {rank}"
        raise InputError(f"WORLD_SIZE={world} says that a launcher started {world} processes, but {why}; {_UNSET}.")
    return rank, world


def _together(rank: int, world: int) -> ProcessGroup:
    """One process group for all the work, as Trainer makes it."""
    import torch
    import torch.distributed as dist
    from accelerate import PartialState

    PartialState(cpu=not torch.cuda.is_available())

    def gather(value: Any) -> list[Any]:
        found: list[Any] = [None] * world
        dist.all_gather_object(found, value)
        return found

    return ProcessGroup(rank, world, lambda name: dist.barrier(), gather)


@contextmanager
def _apart(rank: int, world: int) -> Iterator[ProcessGroup]:
    import torch.distributed as dist

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(address, port, world, is_master=rank == 0 and not agent, timeout=timedelta(days=7))

    def wait(name: str) -> None:
        # a group for the length of one meeting: Trainer must not find one while it trains alone
        dist.init_process_group(
            "gloo", store=dist.PrefixStore(name, store), rank=rank, world_size=world, timeout=timedelta(days=7)
        )
        try:
            dist.barrier()
        finally:
            dist.destroy_process_group()

    wait("start")
    hidden = {name: os.environ.pop(name) for name in _DISTRIBUTED if name in os.environ}
    try:
        yield ProcessGroup(rank, world, wait)
    finally:
        os.environ.update(hidden)


def share(cells: Sequence[Cell], rank: int, world: int) -> list[Cell]:
    """This process's cells: the dearest first, each to the process with the least to do."""
    loads, shares = [0.0] * world, [[] for _ in range(world)]  # type: ignore[var-annotated]
    for cell in sorted(cells, key=cost, reverse=True):
        least = loads.index(min(loads))
        loads[least] += cost(cell)
        shares[least].append(cell)
    return shares[rank]


def mine(cells: Sequence[Cell], processes: ProcessGroup) -> list[Cell]:
    """The cells that this process works on, in its order."""
    return list(cells) if processes.gather is not None else share(cells, processes.rank, processes.world)


def cost(cell: Cell) -> float:
    """How long a cell trains, in relation to others."""
    epochs = cell.recipe.train.epochs + sum(settings.epochs for settings, _ in cell.twins)
    return epochs * _RELATIVE_COST.get(cell.axes["encoder"], 1)


def run_cells(
    cells: Sequence[Cell],
    output: Path,
    on_progress: Callable[[Cell, str, int, int, dict[str, Any]], None],
    processes: ProcessGroup,
    on_skipped: Callable[[Cell, MissingSourceError], None] = lambda cell, why: None,
    finish: Callable[[Cell], None] = lambda cell: None,
) -> list[RunFolder]:
    """Carry out the cells, wait for the other processes, and return the folders of those that are done.

    A cell whose data set cannot be had is left out, and ``lose(cell, why)`` told; ``finish(cell)`` of one that is done.

    Raises:
        MissingSourceError: no cell could be run.
        InputError: whatever else is wrong with a cell.
    """
    from attn_faithful.experiments.run_cell import run_cell

    all_gather = processes.gather is not None
    lost: list[MissingSourceError] = []
    for cell in mine(cells, processes):
        folder = RunFolder(output / cell.recipe.name / cell.folder)

        def say(stage: str, epoch: int, epochs: int, metrics: dict[str, Any], cell: Cell = cell) -> None:
            if processes.main or not all_gather:
                on_progress(cell, stage, epoch, epochs, metrics)

        try:
            run_cell(cell, folder, say, processes if all_gather else SINGLE_PROCESS)
            if processes.main or not all_gather:
                finish(cell)
        except MissingSourceError as error:
            lost.append(error)
            if len(cells) > 1 and (processes.main or not all_gather):
                on_skipped(cell, error)
    processes.wait("cells")
    folders = [RunFolder(output / cell.recipe.name / cell.folder) for cell in cells]
    done = [folder for folder in folders if folder.done]
    if lost and not done:
        raise lost[0]
    return done
