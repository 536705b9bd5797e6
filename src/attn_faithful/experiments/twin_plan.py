"""One twin of a model: its settings and seed, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful.experiments.trained_models import TrainingRecord
from attn_faithful.records.twins import Measured, TwinRecord
from attn_faithful.training.settings import TwinSettings


@dataclass(frozen=True)
class TwinPlan:
    """A twin that is to be trained.

    Attributes:
        settings: of its training.
        seed: of its training.
    """

    settings: TwinSettings
    seed: int

    @property
    def name(self) -> str:
        """What tables and summary.json call it."""
        return f"{self.settings.variant}-{self.seed}"

    @property
    def _kind(self) -> str:
        return "twin" if self.settings.variant == "attefa" else f"twin-{self.settings.variant}"

    @property
    def folder_name(self) -> str:
        """Its folder in the run folder."""
        return f"{self._kind}-{self.seed}"

    @property
    def stage(self) -> str:
        """What progress calls its training."""
        return f"{self._kind} {self.seed}"

    @property
    def max_tvd(self) -> float | None:
        """The limit of a constrained twin; None for others."""
        return self.settings.max_tvd if self.settings.objective == "constrained" else None

    def record(
        self,
        training: TrainingRecord,
        metrics: Mapping[str, Any],
        numbers: Mapping[str, Measured],
        layers: Sequence[dict[str, Any]] = (),
    ) -> TwinRecord:
        """Its entry in summary.json."""
        return TwinRecord(
            variant=self.settings.variant,
            seed=self.seed,
            epoch=training.epoch,
            seconds=training.seconds,
            metrics=dict(metrics),
            numbers=dict(numbers),
            layers=list(layers),
        )
