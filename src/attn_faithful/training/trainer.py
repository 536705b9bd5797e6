"""What base models and twins share of their training: Trainer with the papers' optimizer, order of batches, stops."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from attn_faithful._checks import InputError, did_you_mean


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


_SELDOM = 5.0  # seconds between two words of an epoch under way


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
                {"params": [p for n, p in named if not of_attention(n)], "weight_decay": self.settings.weight_decay},
                {"params": [p for n, p in named if of_attention(n)], "weight_decay": 0.0},
            ]
            self.optimizer = torch.optim.Adam(
                [group for group in groups if group["params"]],
                lr=self.settings.learning_rate,
                amsgrad=getattr(self.settings, "amsgrad", False),
                fused=True,
            )
        return self.optimizer

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> torch.autocast:
        """bfloat16 where torch thinks it safe, in training alone; it needs no scale."""
        on = self.settings.mixed_precision and self.model.training
        return torch.autocast(self.args.device.type, torch.bfloat16, enabled=on, cache_enabled=cache_enabled)

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


def of_attention(parameter: str) -> bool:
    """Whether a parameter, by its dotted name, belongs to a module that makes attention, of whatever architecture.

    The scorers of words and of sentences, and the self- and cross-attention of Transformer layers with all their
    projections, the adapters on them included.

    Example:
        >>> names = ("sentence_attention.scorer.token.bias", "h.0.attn.c_attn.weight", "readout.bias")
        >>> [of_attention(name) for name in names]
        [True, True, False]
    """
    modules = parameter.lower().split(".")[:-1]
    return any("attention" in module or "attn" in module for module in modules)


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
    """Calls ``tell(epoch, epochs, metrics)`` after each epoch's evaluation; within a long one too, with its share."""

    def __init__(self, on_progress: Any) -> None:
        self.on_progress, self.last = on_progress, time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.last = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.monotonic()
        if now - self.last > _SELDOM:
            self.last = now
            done = int(state.epoch or 0)
            self.on_progress(done, round(args.num_train_epochs), {"epoch_share": (state.epoch or 0) - done})

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self.last = time.monotonic()
        self.on_progress(round(state.epoch or 0), round(args.num_train_epochs), metrics or {})


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
        max_grad_norm=getattr(settings, "max_grad_norm", None) or 0.0,  # 0: no clipping
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
            json.loads((Path(path) / "trainer_state.json").read_text())  # written last
        except (OSError, ValueError):
            shutil.rmtree(path)
            continue
        _check_readable(Path(path))
        return path
    return None


def _check_readable(checkpoint: Path) -> None:
    """Raise for a file that was written whole once and is damaged now."""
    for file in sorted(checkpoint.iterdir()):
        try:
            if file.suffix == ".safetensors":
                with safe_open(file, "pt") as weights:
                    weights.keys()
            elif file.suffix in (".pt", ".pth"):
                with ZipFile(file) as parts:
                    if (broken := parts.testzip()) is not None:
                        raise BadZipFile(f"{broken} does not match its checksum")
        except (OSError, SafetensorError, BadZipFile) as error:
            raise InputError(
                f"{file} is damaged ({error}); remove {checkpoint.parent} to train from the beginning, or the "
                "checkpoint's folder to go on from the one before."
            ) from error
