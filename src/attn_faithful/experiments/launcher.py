"""The processes that a launcher started: accelerate launch or torchrun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup

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
_FOREVER = timedelta(days=7)  # processes wait for one another while each trains its cells


@contextmanager
def process_group(world: int | None = None, parallel: str = "cells") -> Iterator[ProcessGroup]:
    """The processes that a launcher started.

    With ``parallel="cells"`` the launcher's variables are hidden inside: each process trains its cells as if it were
    alone, so its numbers are those of a single process. With "data" all processes train each model together.

    Args:
        world: how many there should be; None for whatever was started.
        parallel: "cells" or "data".

    Raises:
        InputError: another number was started than asked for, or variables are those of no launcher.
    """
    check_choice("parallel", parallel, PARALLEL)
    rank, started = _started()
    if world is not None and world != started:
        raise InputError(
            f"Expected {world} processes, but the launcher started {started}; on CPUs launch with "
            f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes {world} --num_machines 1, "
            f"or torchrun --nproc_per_node {world}."
        )
    if started == 1:
        yield SINGLE_PROCESS
    elif parallel == "data":
        with _together(rank, started) as processes:
            yield processes
    else:
        with _apart(rank, started) as processes:
            yield processes


def _started() -> tuple[int, int]:
    """This process's rank and how many were started, as a launcher's variables say.

    Raises:
        InputError: they are no numbers, or no launcher set all of them: what another program left behind.
    """
    variables = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE") if os.environ.get(name)}
    try:
        rank, world = int(variables.get("RANK", 0)), int(variables.get("WORLD_SIZE", 1))
    except ValueError:
        raise InputError(f"Expected numbers in the launcher's variables, but they are {variables}; {_UNSET}.") from None
    if world == 1:
        return 0, 1
    lacking = [name for name in _LAUNCHED if not os.environ.get(name)]
    if lacking or not 0 <= rank < world:
        reason = f"RANK is {rank}"
        if lacking:
            reason = f"{', '.join(lacking)} are not set"
        raise InputError(f"WORLD_SIZE={world} says that a launcher started {world} processes, but {reason}; {_UNSET}.")
    return rank, world


@contextmanager
def _together(rank: int, world: int) -> Iterator[ProcessGroup]:
    """One process group for all the work, as Trainer makes it.

    It ends with the work: threads of a group that still lives when the interpreter ends abort the process now and then.
    After an error it is left as it is, since the others may never come to the meeting.
    """
    import torch
    import torch.distributed as dist
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())

    def gather(value: Any) -> list[Any]:
        values: list[Any] = [None] * world
        dist.all_gather_object(values, value)
        return values

    yield ProcessGroup(rank, world, lambda name: dist.barrier(), gather)
    dist.barrier()
    state.destroy_process_group()


@contextmanager
def _apart(rank: int, world: int) -> Iterator[ProcessGroup]:
    """Processes that only wait for one another, with the launcher's variables hidden inside."""
    import torch.distributed as dist

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(address, port, world, is_master=rank == 0 and not has_store, timeout=_FOREVER)

    def wait(name: str) -> None:
        # a group for the length of one meeting: Trainer must not find one while it trains alone
        meeting = dist.PrefixStore(name, store)
        dist.init_process_group("gloo", store=meeting, rank=rank, world_size=world, timeout=_FOREVER)
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
