"""Callbacks of Trainer: early stopping, progress within and after epochs, the price of TVD in "constrained"."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from attn_faithful.training.task import EpochProgress

_SECONDS_BETWEEN_REPORTS = 5.0  # within an epoch


class Patience(TrainerCallback):
    """Stops when the selection has not become better for ``patience`` epochs, unless ``hold`` forbids it.

    Counted from the logged history, so a resumed run stops where an undisturbed one does.

    Args:
        patience: epochs without a better value.
        metric: that selects the epoch.
        greater_is_better: its direction.
        hold: a metric that forbids stopping while its last value is not 0.
    """

    def __init__(
        self,
        patience: int,
        metric: str,
        greater_is_better: bool,
        hold: str | None = None,
    ) -> None:
        self.patience = patience
        self.metric = metric
        self.sign = 1 if greater_is_better else -1
        self.hold = hold

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        **kwargs: Any,
    ) -> None:
        rows = [row for row in state.log_history if self.metric in row]
        values = [self._rank(row[self.metric]) for row in rows]
        epochs_since_best = len(values) - 1 - int(np.argmax(values))
        is_held = self.hold is not None and bool(rows[-1].get(self.hold))
        if epochs_since_best >= self.patience and not is_held:
            control.should_training_stop = True

    def _rank(self, value: float) -> float:
        value = self.sign * value
        return -math.inf if math.isnan(value) else value


class ReportProgress(TrainerCallback):
    """Calls ``on_progress(epoch, epochs, metrics)`` after each epoch's evaluation, and within a long epoch.

    Within an epoch the metrics are ``epoch_share``, the share of it that is done.
    """

    def __init__(self, on_progress: EpochProgress) -> None:
        self.on_progress = on_progress
        self.last = time.monotonic()

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        **kwargs: Any,
    ) -> None:
        self.last = time.monotonic()

    def on_step_end(
        self,
        args: Any,
        state: Any,
        control: Any,
        **kwargs: Any,
    ) -> None:
        now = time.monotonic()
        if now - self.last <= _SECONDS_BETWEEN_REPORTS:
            return
        self.last = now
        epoch = state.epoch or 0
        complete = int(epoch)
        self.on_progress(complete, round(args.num_train_epochs), {"epoch_share": epoch - complete})

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        self.last = time.monotonic()
        self.on_progress(round(state.epoch or 0), round(args.num_train_epochs), metrics or {})


class Multiplier(TrainerCallback, ExportableState):
    """The price of TVD in "constrained": rises while batches exceed their target and falls while they do not.

    The target of the training batches shrinks while the selection split, which generalises less well, misses
    ``max_tvd``.
    """

    def __init__(self, max_tvd: float = 0.05, rate: float = 0.02) -> None:
        self.max_tvd = max_tvd
        self.rate = rate
        self.value = 1.0
        self.target = max_tvd

    def update(self, tvd: float) -> None:
        """Adapt the price to the TVD of a training batch."""
        excess = min(max((tvd - self.target) / self.target, -1.0), 1.0)
        self.value = min(max(self.value * math.exp(self.rate * excess), 1e-2), 1e3)

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        ratio = 0.9 * self.max_tvd / max(metrics["eval_tvd"], 1e-6)
        step = min(max(ratio, 0.7), 1.2)
        self.target = min(self.max_tvd, max(self.target * step, 0.1 * self.max_tvd))

    def state(self) -> dict[str, Any]:
        return {
            "args": {"max_tvd": self.max_tvd, "rate": self.rate},
            "attributes": {"value": self.value, "target": self.target},
        }
