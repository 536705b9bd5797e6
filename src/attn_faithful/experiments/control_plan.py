"""One control of Wiegreffe and Pinter (2019): what it is trained under, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attn_faithful.experiments.twin_plan import TwinPlan
from attn_faithful.records.controls import ControlRecord

IMPOSED_TWIN = "imposed_twin"  # the control that there is one of for each twin


@dataclass(frozen=True)
class ControlPlan:
    """A control that is to be trained.

    Attributes:
        control: one of `experiments.recipe.WIEGREFFE_PINTER`.
        twin: whose attention is imposed; None where a control needs no twin.
    """

    control: str
    twin: TwinPlan | None = None

    @property
    def name(self) -> str:
        """What progress and summary.json call it."""
        if self.twin is None:
            return self.control
        return f"{self.control}-{self.twin.name}"

    @property
    def file_name(self) -> str:
        """Its file in the run folder."""
        return f"control-{self.name}.json"

    def record(self, metrics: Mapping[str, Any]) -> ControlRecord:
        """Its entry in summary.json."""
        if self.twin is None:
            return ControlRecord(self.control, dict(metrics))
        return ControlRecord(self.control, dict(metrics), self.twin.settings.variant, self.twin.seed)
