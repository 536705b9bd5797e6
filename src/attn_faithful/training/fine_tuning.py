"""Fine-tuning of a transformers classifier: Trainer with AdamW and a learning rate that rises and falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer

from attn_faithful.models.stock.interface import KEYWORD
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.predictions import READ
from attn_faithful.training.base import check_regularizers, train_classifier
from attn_faithful.training.regularized import RegularizedTrainer
from attn_faithful.training.regularizers.attention import heads_of, last_layer
from attn_faithful.training.task import TrainingTask


@dataclass(frozen=True)
class HeadsOutput:
    """What a forward in training gives regularizers of a transformers classifier.

    Attributes:
        loss: of the labels.
        attentions: (B, H, T) of the last layer, see `regularizers.attention`.
    """

    loss: Tensor
    attentions: Tensor


class FineTuneTrainer(RegularizedTrainer):
    """Trains a transformers classifier as it is, with its own attention implementation.

    With regularizers its attention is computed where it can be read: the same but for rounding.

    Args:
        stock: the classifier, wrapped.
    """

    def __init__(self, *args: Any, stock: StockModel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stock = stock

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW, without decay of biases and of the weights of norms."""
        return Trainer.create_optimizer(self, model)

    def read(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the classifier's forward takes of a batch."""
        return {name: inputs[name] for name in (*READ, "labels") if name in inputs and name in self.stock.takes}

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The mean over the texts of a batch, which Trainer's own would multiply by the number of processes."""
        if model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        output = model(**self.read(inputs))
        if return_outputs:
            return output.loss, {"logits": output.logits}
        return output.loss

    def output_of(self, model: nn.Module, inputs: dict[str, Any]) -> Any:
        """A forward in training; with regularizers a `HeadsOutput`."""
        read = self.read(inputs)
        if not self.regularizers:
            return model(**read)
        trace = last_layer(self.stock)
        with self.stock.tracing(trace):
            output = model(**read, **{KEYWORD: trace})
        return HeadsOutput(output.loss, heads_of(self.stock, trace, inputs))

    def analysed(self, model: nn.Module) -> StockModel:
        return self.stock


def fine_tune(model: StockModel, task: TrainingTask) -> list[dict[str, Any]]:
    """Fine-tune a transformers classifier in place and leave it at its best epoch.

    Args:
        model: with the head that is to be trained.
        task: its data, and a `FineTuneSettings`.

    Returns:
        One row an epoch: training loss (with the weighted regularizers), the regularizers by themselves, learning rate,
        and the metrics of the selection split.

    Raises:
        InputError: unknown labels in training, a selection that is undefined on these labels, a regularizer that the
            data cannot have, or a loss that is no longer finite.
    """
    settings = task.settings
    check_regularizers(model, settings, task.train)
    schedule = {
        "optim": "adamw_torch_fused",
        "lr_scheduler_type": "linear",
        "warmup_steps": settings.warmup_ratio,  # below 1: a share of all steps
        "weight_decay": settings.weight_decay,
    }
    return train_classifier(FineTuneTrainer, model.model, task, schedule, stock=model)
