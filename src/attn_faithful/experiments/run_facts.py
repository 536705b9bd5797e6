"""How the numbers of a run came about: versions, hardware, and the history of its trainings."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attn_faithful import __version__
from attn_faithful.experiments.columns import Columns
from attn_faithful.experiments.identity import NUMBERS_VERSION
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.trained_models import History
from attn_faithful.records.meta import RunMeta
from attn_faithful.store import weights


def run_meta(start: float, processes: ProcessGroup, device: torch.device, **facts: Any) -> RunMeta:
    """The meta of a run that ends now.

    Args:
        start: when it began, of `time.time`.
        processes: that shared the work.
        device: where the tests were computed.
        facts: further fields of `RunMeta`.
    """
    return RunMeta(
        numbers=NUMBERS_VERSION,
        seconds=round(time.time() - start, 1),
        versions=versions(),
        hardware=hardware(processes, device),
        **facts,
    )


def weights_of_origin(origin: str | None) -> dict[str, str] | None:
    """The sha256 of each file of the weights in a model's folder; None for a model that came from elsewhere."""
    if not origin or not Path(origin).is_dir():
        return None
    return weights(Path(origin))


def long_history(histories: Mapping[str, History]) -> Columns:
    """Histories by epoch as the table "history"."""
    table = Columns("history")
    for run, rows in histories.items():
        for row in rows:
            epoch = round(row["epoch"])
            for metric, value in row.items():
                if metric != "epoch" and isinstance(value, int | float):
                    table.append({"run": run, "epoch": epoch, "metric": metric, "value": float(value)})
    return table


def versions() -> dict[str, str]:
    """Of the libraries that numbers depend on."""
    return {
        "attn_faithful": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "datasets": version("datasets"),
        "captum": version("captum"),
        "scipy": version("scipy"),
        "icu4py": version("icu4py"),
        "python": platform.python_version(),
    }


def hardware(processes: ProcessGroup, device: torch.device) -> dict[str, Any]:
    """What the numbers were made on."""
    name = device.type
    if name == "cuda":
        name = f"cuda ({torch.cuda.get_device_name(device)})"
    return {
        "device": name,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.is_available(),
        "processes": processes.world,
    }
