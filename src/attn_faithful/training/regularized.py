"""Training with regularizers: their weighted losses beside that of the labels."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from attn_faithful._checks import InputError
from attn_faithful.training.checkpoints import last_checkpoint
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.trainer import AttentionTrainer

_TOTAL = "loss"


class RegularizedTrainer(AttentionTrainer):
    """Trains on ``loss + sum of weight x regularizer``; evaluations have the loss of the labels alone.

    The mean of each regularizer over the steps of an epoch stands in the history as ``regularizer_NAME``, unweighted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.weights = self.settings.active_regularizers
        self.regularizers = {name: REGULARIZERS[name]() for name in self.weights}
        self.columns: list[str] = []
        for regularizer in self.regularizers.values():
            self.columns += regularizer.columns
        self._begin_epoch()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """As Trainer's, of batches with the columns of the regularizers; evaluations do without them."""
        plain = self.data_collator
        self.data_collator = replace(plain, columns=(*plain.columns, *self.columns))
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = plain

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        output = self.output_of(model, inputs)
        analysed = self.analysed(model)
        loss = output.loss
        for name, regularizer in self.regularizers.items():
            regularizer.draw = (self.args.seed, self.state.global_step)
            part = regularizer.loss(inputs, output, analysed)
            loss = loss + self.weights[name] * part
            self._sums[name] += part.detach()
        self._sums[_TOTAL] += loss.detach()
        self._steps += 1
        if return_outputs:
            return loss, output
        return loss

    def output_of(self, model: nn.Module, inputs: dict[str, Any]) -> Any:
        """A forward in training, with its loss and all that regularizers read of it."""
        read = {name: value for name, value in inputs.items() if name not in self.columns}
        return model(**read, output_hidden_states=True)

    def analysed(self, model: nn.Module) -> Any:
        """The model as regularizers take it, without what trains it on several processes."""
        return self.accelerator.unwrap_model(model)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As Trainer's, with the regularizers of the epoch beside its loss."""
        if "loss" in logs:
            means = self._means()
            self._check_finite(means)
            for name in self.regularizers:
                logs[f"regularizer_{name}"] = means[name]
            self._begin_epoch()
        super().log(logs, start_time)

    def _begin_epoch(self) -> None:
        self._sums: dict[str, Any] = defaultdict(float)
        self._steps = 0

    def _means(self) -> dict[str, float]:
        """What was summed up over the steps of an epoch, as means over steps and processes."""
        means = {}
        for name, total in self._sums.items():
            mean: Tensor = self.accelerator.reduce(total / self._steps, "mean")
            means[name] = float(mean)
        return means

    def _check_finite(self, means: dict[str, float]) -> None:
        """Raise where the loss was NaN or infinite; Trainer itself would go on with weights that are NaN."""
        if math.isfinite(means[_TOTAL]):
            return
        with_regularizers, lower = "", "lower"
        if self.regularizers:
            found = [f"{name} {means[name]:g} (weight {self.weights[name]:g})" for name in self.regularizers]
            with_regularizers = f" with the regularizers {', '.join(found)}"
            lower = "lower their weights or"
        kept = "there is no checkpoint yet"
        checkpoint = last_checkpoint(Path(self.args.output_dir))
        if checkpoint is not None:
            kept = f"the last checkpoint is {checkpoint}"
        raise InputError(
            f"The loss of epoch {round(self.state.epoch)} is {means[_TOTAL]:g}{with_regularizers}; {lower} "
            f"train.learning_rate, or set train.max_grad_norm; {kept}."
        )
