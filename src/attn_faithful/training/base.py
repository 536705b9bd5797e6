"""Training of a base model: transformers.Trainer with the settings of the papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn
from transformers import TrainerCallback
from transformers.trainer_utils import EvalPrediction

from attn_faithful._checks import InputError
from attn_faithful.models.configurations import is_multi_label
from attn_faithful.training.callbacks import Patience, ReportProgress
from attn_faithful.training.masking import Masking, class_prior
from attn_faithful.training.metrics import classification_metrics, known_labels
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.regularized import RegularizedTrainer
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.settings import selection_metric
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import AttentionTrainer, chances_of, fit, seeded, task_arguments


def check_selection(labels: Sequence[Any], classes: int, select_by: str) -> None:
    """Raise where what the best epoch is chosen by is undefined on these labels.

    Args:
        labels: of the split that selects it: (n,), or (n, C) where a text may have several; negative where unknown.
        classes: C.
        select_by: see `TrainSettings`.
    """
    all_labels = np.asarray(labels)
    known = known_labels(all_labels)
    if not known.any():
        raise InputError("The split that selects the epoch holds no labelled text; label some, or leave the split out.")
    present = classes
    if all_labels.ndim == 1:
        present = len(set(all_labels[known].tolist()))
    if select_by == "roc_auc" and present < classes:
        raise InputError(
            f"ROC-AUC needs texts of all classes in the split that selects the epoch, but {present} of {classes} are "
            f"there; give more texts, or choose by another number (--set train.select_by=accuracy)."
        )


def train_base(model: nn.Module, task: TrainingTask) -> list[dict[str, Any]]:
    """Train `model` in place and leave it at its best epoch.

    Args:
        model: an attention classifier, just built.
        task: its data, and a `TrainSettings`.

    Returns:
        One row an epoch: training loss (with the weighted regularizers), the regularizers by themselves, and the
        metrics of the selection split, whose loss has no regularizers.

    Raises:
        InputError: unknown labels in training, a selection that is undefined on these labels, a regularizer that the
            model or the data cannot have, or a loss with regularizers that is no longer finite.
    """
    check_regularizers(model, task.settings, task.train)
    trainer_class = AttentionTrainer
    if task.settings.active_regularizers:
        trainer_class = RegularizedTrainer
    return train_classifier(trainer_class, model, task)


def check_regularizers(model: Any, settings: Any, train: Any) -> None:
    """Raise for a regularizer of the settings that the model or the training rows cannot have."""
    for name in settings.active_regularizers:
        regularizer = REGULARIZERS[name]()
        regularizer.check(model)
        regularizer.check_rows(train)


def train_classifier(
    trainer_class: Callable[..., AttentionTrainer],
    model: nn.Module,
    task: TrainingTask,
    schedule: Mapping[str, Any] | None = None,
    **of_trainer: Any,
) -> list[dict[str, Any]]:
    """Train `model` in place and leave it at its best epoch, in eval mode.

    Args:
        trainer_class: what trains it.
        model: a classifier, whose configuration says how many classes there are and whether a text may have several.
        task: its data and settings.
        schedule: Trainer's arguments of the learning rate; None for a constant one.
        of_trainer: further arguments of the trainer.

    Returns:
        One row an epoch.

    Raises:
        InputError: unknown labels in training, or a selection that is undefined on these labels.
    """
    settings = task.settings
    _check_labels(model, task)
    metric = selection_metric(settings)
    greater = settings.select_by != "loss"
    callbacks: list[TrainerCallback] = []
    if settings.patience is not None:
        callbacks.append(Patience(settings.patience, metric, greater))
    if task.on_progress is not None:
        callbacks.append(ReportProgress(task.on_progress))
    masking = None
    if settings.masking is not None:
        weights = getattr(model.config, "class_weights", None)
        prior = class_prior(task.train["labels"], model.config.num_labels, weights)
        masking = Masking(task.mask_token_id, task.seed, prior)
    with recipe_precision(), seeded(task.seed):
        trainer = trainer_class(
            model=model,
            eval_dataset=_longest_first(task.selection),
            compute_metrics=_metrics_of(is_multi_label(model.config)),
            callbacks=callbacks,
            masking=masking,
            **task_arguments(task, metric, greater, **(schedule or {})),
            **of_trainer,
        )
        history = fit(trainer, task.checkpoints)
    model.eval()
    return history


def _check_labels(model: nn.Module, task: TrainingTask) -> None:
    labels = np.asarray(task.train["labels"])
    unknown = labels < 0
    if unknown.any():
        raise InputError(f"Row {int(unknown.nonzero()[0][0])} of the training split has no known label.")
    check_selection(task.selection["labels"], model.config.num_labels, task.settings.select_by)


def _longest_first(selection: Any) -> Any:
    """The labelled texts of the selection split, sorted so that a batch holds texts of like length."""
    known = known_labels(selection["labels"])
    order = np.argsort(selection["length"], kind="stable")[::-1]
    return selection.take(order[known[order]].tolist())


def _metrics_of(multi_label: bool) -> Callable[[EvalPrediction], dict[str, float]]:
    def compute(prediction: EvalPrediction) -> dict[str, float]:
        chances = chances_of(prediction.predictions, multi_label)
        return classification_metrics(chances, prediction.label_ids, multi_label)

    return compute
