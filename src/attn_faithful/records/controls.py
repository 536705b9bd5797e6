"""Records of the controls of Wiegreffe and Pinter (2019): how well each predicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attn_faithful.records.json_values import Json

_OF_TWIN = ("control", "variant", "seed")  # keys of a control under a twin's attention, beside its metrics


@dataclass(frozen=True)
class ControlRecord:
    """A control and how well it predicts: an entry of "controls" in summary.json.

    Attributes:
        control: what was trained: "uniform", "imposed", ...
        metrics: accuracy, f1, roc_auc.
        variant, seed: of the twin whose attention was imposed; None where it was no twin's.
    """

    control: str
    metrics: dict[str, Any] = field(default_factory=dict)
    variant: str | None = None
    seed: int | None = None

    @property
    def kind(self) -> str:
        """The control, with the twin's variant where there is one: what is the same over seeds."""
        if self.variant is None:
            return self.control
        return f"{self.control} {self.variant}"

    @classmethod
    def from_json(cls, name: str, values: Json) -> ControlRecord:
        """The record of an entry, which names its control only where a twin has a part in it."""
        metrics = {key: value for key, value in values.items() if key not in _OF_TWIN}
        return cls(values.get("control", name), metrics, values.get("variant"), values.get("seed"))

    def as_json(self) -> dict[str, Any]:
        if self.variant is None:
            return dict(self.metrics)
        return {"control": self.control, "variant": self.variant, "seed": self.seed, **self.metrics}
