"""Fine-tuning of a transformers classifier: Trainer with AdamW and a learning rate that rises and falls."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import Trainer

from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.predictions import READ
from attn_faithful.training.base import train_classifier
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import AttentionTrainer


class FineTuneTrainer(AttentionTrainer):
    """Trains a transformers classifier as it is, with its own attention implementation.

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
        output = model(**self.read(inputs))
        if return_outputs:
            return output.loss, {"logits": output.logits}
        return output.loss


def fine_tune(model: StockModel, task: TrainingTask) -> list[dict[str, Any]]:
    """Fine-tune a transformers classifier in place and leave it at its best epoch.

    Args:
        model: with the head that is to be trained.
        task: its data, and a `FineTuneSettings`.

    Returns:
        One row an epoch: training loss, learning rate, and the metrics of the selection split.

    Raises:
        InputError: unknown labels in training, or a selection that is undefined on these labels.
    """
    settings = task.settings
    schedule = {
        "optim": "adamw_torch_fused",
        "lr_scheduler_type": "linear",
        "warmup_steps": settings.warmup_ratio,  # below 1: a share of all steps
        "weight_decay": settings.weight_decay,
    }
    return train_classifier(FineTuneTrainer, model.model, task, schedule, stock=model)
