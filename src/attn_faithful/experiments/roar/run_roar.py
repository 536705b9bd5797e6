"""Carries out the curves of finished cells, on one process or shared out over several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.roar.curve import Curve, curves_of
from attn_faithful.experiments.run_recipe import folder_of, mine, no_progress
from attn_faithful.training.placement import training_on

OnProgress = Callable[[Curve, str, int, int, dict[str, Any]], None]


def all_curves(cells: Sequence[Cell], output: Path) -> list[Curve]:
    """The curves of the cells that are done; none where their recipe asks for none."""
    curves: list[Curve] = []
    for cell in cells:
        folder = folder_of(cell, output)
        if folder.done:
            curves += curves_of(cell, folder)
    return curves


def own_curves(curves: Sequence[Curve], processes: ProcessGroup) -> list[Curve]:
    """The curves that this process works on, in its order."""
    return mine(curves, processes, cost_of_curve)


def cost_of_curve(curve: Curve) -> float:
    """How long a curve takes, in relation to others."""
    return curve.cost


def run_curves(
    curves: Sequence[Curve],
    on_progress: OnProgress,
    processes: ProcessGroup,
    finish: Callable[[Curve], None] = lambda curve: None,
    device: str = "auto",
) -> None:
    """Carry out the curves that are not there yet, and wait for the other processes.

    Args:
        curves: of finished cells.
        on_progress: ``on_progress(curve, stage, epoch, epochs, metrics)`` after every epoch.
        processes: that share the curves, or the data of each training.
        finish: ``finish(curve)`` of one that is done.
        device: where models are trained, see `training.placement`.
    """
    from attn_faithful.experiments.roar.run_curve import run_curve

    reports = processes.main or not processes.together
    of_a_curve = processes if processes.together else SINGLE_PROCESS
    for curve in own_curves(curves, processes):
        tell = partial(on_progress, curve) if reports else no_progress
        with training_on(device):
            run_curve(curve, tell, of_a_curve)
        if reports:
            finish(curve)
    processes.wait("curves")
