"""The twin's epoch is chosen on the texts that it is measured on (Amini and Kosseim, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_faithful.functional.attefa import attefa
from attn_faithful.functional.divergences import LN2
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.twin import TwinTrainer
from evidence.published_faults.comparing import Array, compared
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import TEST, Trained
from evidence.published_faults.twins import Base, Distances, trained_twin

FAULT = Fault(
    name="selection_on_test",
    title="The epoch chosen on the test split",
    paper="amini_kosseim",
    where="the paper itself, section 3.2",
    published="AtteFa of the epoch with the lowest loss on the test texts, on the same texts",
    printed="AtteFa of the epoch with the lowest loss on validation texts, on the test texts",
    remark="One training a seed, from the base's weights with a new attention, 8 epochs; both choices are among its "
    "epochs. The interval is over texts, with the choices as they are.",
    against="chosen on validation",
)

SETTINGS = TwinSettings(start="base", epochs=8, patience=8)


class WatchedTrainer(TwinTrainer):
    """Calls ``watch(twin)`` at each evaluation, which is once an epoch."""

    def __init__(self, *arguments: Any, watch: Callable[[Any], None], **further: Any) -> None:
        super().__init__(*arguments, **further)
        self.watch = watch

    def measured(self, dataset: Any) -> dict[str, float]:
        self.watch(self.accelerator.unwrap_model(self.model))
        return super().measured(dataset)


@dataclass
class Epochs:
    """The distances of a twin from its base after each epoch.

    Attributes:
        base: the base.
        validation, test: one an epoch.
    """

    base: Base
    validation: list[Distances] = field(default_factory=list)
    test: list[Distances] = field(default_factory=list)

    def add(self, twin: Any) -> None:
        self.validation.append(self.base.distances(twin, "validation"))
        self.test.append(self.base.distances(twin, TEST))

    def columns(self) -> Array:
        """TVD and JSD of the test texts (4, n), of the epoch chosen on them, then of that chosen on validation."""
        on_test = self.test[best(self.test)]
        on_validation = self.test[best(self.validation)]
        return np.stack([on_test.tvd, on_test.jsd, on_validation.tvd, on_validation.jsd])


def measure(models: Sequence[Trained]) -> dict[tuple[str, str, str], Comparison]:
    """(metric, unit, texts) -> AtteFa of the twins on the test texts."""
    columns = []
    for model in models:
        epochs = Epochs(Base.of(model))
        trained_twin(WatchedTrainer, epochs.base, SETTINGS, watch=epochs.add)
        columns.append(epochs.columns())
    found = compared(columns, lambda means: ratio(means[0], means[1]), lambda means: ratio(means[2], means[3]))
    return {("AtteFa", "", "all"): found}


def best(epochs: Sequence[Distances]) -> int:
    """The first epoch with the lowest loss on some texts: mean TVD less mean JSD / ln 2."""
    losses = []
    for distances in epochs:
        score = attefa(distances.tvd, distances.jsd)
        losses.append(score.tvd - score.s_jsd)
    return int(np.argmin(losses))


def ratio(tvd: Array, jsd: Array) -> Array:
    """AtteFa (R,) of means (R,)."""
    return np.minimum(tvd * LN2 / jsd, 1.0)
