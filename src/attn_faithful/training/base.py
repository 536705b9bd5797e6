"""Training of a base model: transformers.Trainer with the settings of the papers."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalPrediction, get_last_checkpoint

from attn_faithful._checks import InputError, check_choice, did_you_mean

SELECTIONS = ("roc_auc", "accuracy", "f1", "loss")


@dataclass(frozen=True)
class TrainSettings:
    """How a base model is trained; the defaults are those of Jain and Wallace (2019) and Amini and Kosseim.

    Attributes:
        epochs: at most this many.
        batch_size: examples a step.
        learning_rate: of Adam, constant.
        weight_decay: L2 added to the gradients of everything but the attention.
        amsgrad: Adam's variant, as in the code of Jain and Wallace.
        patience: epochs without a better selection before training stops; None for all epochs.
        select_by: what the best epoch is chosen by: "roc_auc", "accuracy", "f1" or "loss".
        select_on: "validation", or "test" only to repeat a paper.
        class_weights: None, "balanced" (N / (C n_c)) or a factor a class.
        trackers: names of transformers' reporting integrations, such as "tensorboard".
    """

    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    amsgrad: bool = False
    patience: int | None = None
    select_by: str = "roc_auc"
    select_on: str = "validation"
    class_weights: str | list[float] | None = None
    trackers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choice("select_by", self.select_by, SELECTIONS)
        check_choice("select_on", self.select_on, ("validation", "test"))
        if isinstance(self.class_weights, str):
            check_choice("class_weights", self.class_weights, ("balanced",))
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, but is {getattr(self, name)}.")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, numpy and random inside; the caller's random states come back afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """OSError where torch or safetensors could not write to ``folder``; they say so in errors of their own."""
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        if "inline_container" not in str(error) and "I/O error" not in str(error):
            raise
        full = "os error 28" in str(error) or shutil.disk_usage(folder).free < 2**20
        number = errno.ENOSPC if full else errno.EIO
        raise OSError(number, os.strerror(number), str(folder)) from error


class LengthGroups(torch.utils.data.Sampler[int]):
    """Shuffles, then sorts by length within groups of fifty batches, then shuffles the batches.

    The order depends on the seed and the epoch only, so a resumed run sees the same batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = np.asarray(lengths), batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(len(self.lengths))
        batches: list[np.ndarray] = []
        for start in range(0, len(order), 50 * self.batch_size):
            group = order[start : start + 50 * self.batch_size]
            group = group[np.argsort(-self.lengths[group], kind="stable")]
            batches += [group[i : i + self.batch_size] for i in range(0, len(group), self.batch_size)]
        # the one short batch stays last, where it does not shift the others' bounds
        last = [batches.pop()] if batches and len(batches[-1]) < self.batch_size else []
        shuffled = [batches[i] for i in generator.permutation(len(batches))]
        return iter(np.concatenate([*shuffled, *last]).tolist() if batches or last else [])


class AttentionTrainer(Trainer):
    """Trainer with the papers' optimizer and an order of batches that can be resumed."""

    def __init__(self, *args: Any, settings: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.remove_callback(PrinterCallback)  # the caller tells of progress
        self.settings = settings

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Adam with L2 on every parameter but the attention's."""
        if self.optimizer is None:
            named = [(n, p) for n, p in (model or self.model).named_parameters() if p.requires_grad]
            groups = [
                {"params": [p for n, p in named if not _of_attention(n)], "weight_decay": self.settings.weight_decay},
                {"params": [p for n, p in named if _of_attention(n)], "weight_decay": 0.0},
            ]
            self.optimizer = torch.optim.Adam(
                [group for group in groups if group["params"]],
                lr=self.settings.learning_rate,
                amsgrad=getattr(self.settings, "amsgrad", False),
                fused=True,
            )
        return self.optimizer

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        folder = Path(self.args.output_dir)
        try:
            with disk_errors(folder):
                super()._save_checkpoint(*args, **kwargs)
        except OSError:  # make room: what was half-written is of no use
            shutil.rmtree(folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}", ignore_errors=True)
            raise

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroups:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        return LengthGroups(dataset["length"], self.args.train_batch_size, self.args.seed)


def _of_attention(parameter: str) -> bool:
    return parameter.removeprefix("module.").startswith("attention.")


class Patience(TrainerCallback):
    """Stops when the selection has not become better for ``patience`` epochs; `hold` may forbid it.

    Counted from the logged history, so a resumed run stops where an undisturbed one does.
    """

    def __init__(self, patience: int, metric: str, greater_is_better: bool, hold: str | None = None) -> None:
        self.patience, self.metric, self.sign, self.hold = patience, metric, 1 if greater_is_better else -1, hold

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        rows = [row for row in state.log_history if self.metric in row]
        values = [self.sign * row[self.metric] for row in rows]
        values = [-math.inf if math.isnan(v) else v for v in values]
        since = len(values) - 1 - int(np.argmax(values))
        held = self.hold is not None and bool(rows[-1].get(self.hold))
        if since >= self.patience and not held:
            control.should_training_stop = True


class Announce(TrainerCallback):
    """Calls ``tell(epoch, epochs, metrics)`` after each epoch's evaluation."""

    def __init__(self, tell: Any) -> None:
        self.tell = tell

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self.tell(round(state.epoch or 0), round(args.num_train_epochs), metrics or {})


def check_trackers(names: Sequence[str]) -> None:
    """Raise for a tracker that does not exist or is not installed, before any work."""
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InputError(f"Unknown tracker {name!r}.{did_you_mean(name, INTEGRATION_TO_CALLBACK)}")
        if name not in get_available_reporting_integrations():
            raise InputError(f"The tracker {name!r} is not installed; install its package or leave it out of trackers.")


def arguments(settings: Any, seed: int, checkpoints: Path, metric: str, greater: bool) -> TrainingArguments:
    """Trainer's arguments for one run: an evaluation and a checkpoint an epoch, the best epoch at the end."""
    check_trackers(settings.trackers)
    return TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=4 * settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,  # no clipping
        seed=seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=1,  # and the best
        load_best_model_at_end=True,
        restore_callback_states_from_checkpoint=True,
        metric_for_best_model=metric,
        greater_is_better=greater,
        report_to=settings.trackers or "none",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        accelerator_config={
            "split_batches": True
        },  # several processes share a batch: its size stays what was asked for
        ddp_find_unused_parameters=False,
    )


def fit(trainer: Trainer, checkpoints: Path) -> list[dict[str, Any]]:
    """Train to the end, from the last whole checkpoint if there is one, and return the history by epoch."""
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        shutil.rmtree(checkpoints, ignore_errors=True)
    rows: dict[float, dict[str, Any]] = {}
    for row in trainer.state.log_history:
        if "epoch" in row:
            rows.setdefault(row["epoch"], {}).update(row)
    return [row for row in rows.values() if "eval_runtime" in row or "eval_selection" in row or "eval_loss" in row]


def last_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written whole; later, half-written ones are removed."""
    while folder.is_dir() and (path := get_last_checkpoint(str(folder))):
        try:
            json.loads((Path(path) / "trainer_state.json").read_text())
            return path
        except (OSError, ValueError):
            shutil.rmtree(path)
    return None


def classification_metrics(
    probabilities: np.ndarray, labels: np.ndarray, multi_label: bool = False
) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; NaN where undefined.

    F1 is that of the positive class for two classes, the macro mean otherwise; ROC-AUC is one against the rest,
    macro. Unknown labels (negative) are left out.

    Example:
        >>> import numpy as np
        >>> classification_metrics(np.array([[.8, .2], [.3, .7]]), np.array([0, 1]))
        {'accuracy': 1.0, 'f1': 1.0, 'roc_auc': 1.0}
    """
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    labels = np.asarray(labels)
    known = (labels >= 0).all(1) if labels.ndim > 1 else labels >= 0
    probabilities, labels = np.asarray(probabilities)[known], labels[known]
    if not len(labels):
        return {"accuracy": math.nan, "f1": math.nan, "roc_auc": math.nan}
    classes = probabilities.shape[1]
    predicted = (probabilities > 0.5).astype(int) if multi_label else probabilities.argmax(1)
    binary = classes == 2 and not multi_label
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sklearn only warns where a class is missing
            area = float(
                roc_auc_score(labels, probabilities[:, 1])
                if binary
                else roc_auc_score(
                    labels,
                    probabilities,
                    multi_class="ovr",
                    average="macro",
                    labels=None if multi_label else range(classes),
                )
            )
    except (ValueError, UserWarning):
        area = math.nan
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "f1": float(f1_score(labels, predicted, average="binary" if binary else "macro", zero_division=0)),
        "roc_auc": area,
    }


def balanced_weights(labels: Sequence[int], classes: int) -> list[float]:
    """``N / (C n_c)`` for each class; a class without examples weighs 1."""
    counts = np.bincount(np.asarray(labels), minlength=classes)
    return [float(len(labels) / (classes * n)) if n else 1.0 for n in counts]


def train_base(
    model: nn.Module,
    train: Any,
    selection: Any,
    collate: Any,
    settings: TrainSettings,
    seed: int,
    checkpoints: Path,
    tell: Any = None,
) -> list[dict[str, Any]]:
    """Train `model` in place and leave it at its best epoch.

    Args:
        model: an attention classifier, just built.
        train, selection: encoded data sets with ``input_ids``, ``length`` and ``labels``.
        collate: makes batches.
        settings: see `TrainSettings`.
        seed: of the order of batches and of dropout; the initial weights are the caller's.
        checkpoints: a folder for checkpoints; a run that was stopped goes on from there, and it is removed at the end.
        tell: ``tell(epoch, epochs, metrics)`` after each epoch.

    Returns:
        One row an epoch: training loss and the metrics of the selection split.

    Raises:
        InputError: unknown labels in training, or a selection that is undefined on these labels.
    """
    labels = np.asarray(train["labels"])
    if (labels < 0).any():
        raise InputError(f"Row {int((labels < 0).nonzero()[0][0])} of the training split has no known label.")
    chosen = np.asarray(selection["labels"])
    known = (chosen >= 0).all(1) if chosen.ndim > 1 else chosen >= 0
    if not known.any():
        raise InputError("The split that selects the epoch holds no labelled text; label some, or leave the split out.")
    if settings.select_by == "roc_auc" and chosen.ndim == 1 and len(set(chosen[known].tolist())) < 2:
        raise InputError(
            "ROC-AUC needs two classes in the split that selects the epoch, but it has one; set select_by: accuracy."
        )
    order = np.argsort(selection["length"], kind="stable")[::-1]
    multi_label = model.config.multi_label

    def compute(prediction: EvalPrediction) -> dict[str, float]:
        logits = torch.as_tensor(prediction.predictions).double()
        chances = logits.sigmoid() if multi_label else logits.softmax(-1)
        return classification_metrics(chances.numpy(), prediction.label_ids, multi_label)

    metric, greater = f"eval_{settings.select_by}", settings.select_by != "loss"
    callbacks: list[TrainerCallback] = []
    if settings.patience is not None:
        callbacks.append(Patience(settings.patience, metric, greater))
    if tell is not None:
        callbacks.append(Announce(tell))
    with seeded(seed):
        trainer = AttentionTrainer(
            model=model,
            args=arguments(settings, seed, checkpoints, metric, greater),
            train_dataset=train,
            eval_dataset=selection.take(order[known[order]].tolist()),
            data_collator=collate,
            compute_metrics=compute,
            callbacks=callbacks,
            settings=settings,
        )
        history = fit(trainer, checkpoints)
    model.eval()
    return history
