"""What a control of Wiegreffe and Pinter (2019) said of the test texts: a file of the run folder, and a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.experiments.control_plan import ControlPlan
from attn_faithful.records.controls import ControlRecord
from attn_faithful.store import strict

_PROBABILITIES = "probabilities"


@dataclass(frozen=True)
class TrainedControl:
    """A control that is finished.

    Attributes:
        record: how well it predicts.
        probabilities: of the classes of each test text; None where an earlier version kept the record alone.
    """

    record: ControlRecord
    probabilities: Sequence[Sequence[float]] | None

    @classmethod
    def read(cls, path: Path, plan: ControlPlan) -> TrainedControl:
        """The control from its file."""
        entries = json.loads(path.read_text())
        probabilities = entries.pop(_PROBABILITIES, None)
        return cls(plan.record(entries), probabilities)


def write_control(path: Path, metrics: Mapping[str, float], probabilities: np.ndarray) -> None:
    """Write the file that `TrainedControl.read` reads.

    Args:
        path: of the file.
        metrics: accuracy, f1, roc_auc.
        probabilities: of the test texts (n, C).
    """
    entries = {**metrics, _PROBABILITIES: probabilities.tolist()}
    path.write_text(json.dumps(strict(entries), allow_nan=False))


def control_columns(controls: Mapping[str, TrainedControl], examples: Sequence[str]) -> dict[str, list[Any]]:
    """The table "controls": a row a control and text; none of controls whose probabilities were not kept."""
    columns: dict[str, list[Any]] = {"example": [], "control": [], _PROBABILITIES: []}
    for name, control in controls.items():
        if control.probabilities is None:
            continue
        columns["example"] += examples
        columns["control"] += [name] * len(examples)
        columns[_PROBABILITIES] += control.probabilities
    return columns
