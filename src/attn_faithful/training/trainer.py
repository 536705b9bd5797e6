"""What base models and twins share of their training: Trainer with the papers' optimizer and order of batches."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PrinterCallback, Trainer, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from attn_faithful.models.configurations import is_multi_label
from attn_faithful.training.checkpoints import disk_errors, last_checkpoint
from attn_faithful.training.masking import PRIOR_TOLERANCE, Masking
from attn_faithful.training.placement import trains_on_cpu
from attn_faithful.training.settings import check_trackers
from attn_faithful.training.task import TrainingTask

_BATCHES_OF_A_GROUP = 50


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, numpy and random inside; the caller's random states are restored afterwards."""
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    torch_state = torch.get_rng_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)


class LengthGroups(torch.utils.data.Sampler[int]):
    """Shuffles, then sorts by length within groups of fifty batches, then shuffles the batches.

    The order depends on the seed and the epoch only, so a resumed run sees the same batches.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = np.random.default_rng([self.seed, self.epoch])
        batches = self._batches(generator.permutation(len(self.lengths)))
        if not batches:
            return iter([])
        # the one short batch stays last, where it does not shift the others' bounds
        last = []
        if len(batches[-1]) < self.batch_size:
            last = [batches.pop()]
        shuffled = [batches[i] for i in generator.permutation(len(batches))]
        return iter(np.concatenate([*shuffled, *last]).tolist())

    def _batches(self, order: np.ndarray) -> list[np.ndarray]:
        """The examples of an order as batches of like length."""
        batches: list[np.ndarray] = []
        group_size = _BATCHES_OF_A_GROUP * self.batch_size
        for start in range(0, len(order), group_size):
            group = order[start : start + group_size]
            longest_first = np.argsort(-self.lengths[group], kind="stable")
            group = group[longest_first]
            starts_of_batches = range(0, len(group), self.batch_size)
            batches += [group[i : i + self.batch_size] for i in starts_of_batches]
        return batches


class AttentionTrainer(Trainer):
    """Trainer with the papers' optimizer and an order of batches that can be resumed.

    Args:
        settings: how it trains.
        masking: masks half of the texts of each step; evaluations are of texts as they are, and beside them of masked
            ones, whose metrics are named ``eval_masked_``. An epoch whose model misses the prior with every token
            masked, ``eval_prior_gap``, counts as so much worse, ``eval_selection``. None for no masks.
    """

    def __init__(self, *args: Any, settings: Any, masking: Masking | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.remove_callback(PrinterCallback)  # the caller reports progress
        self.settings = settings
        self.masking = masking

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        if self.masking is not None:
            processes = self.accelerator.num_processes
            inputs = self.masking.of_batch(inputs, self.state.global_step, self.accelerator.process_index, processes)
        return super().training_step(model, inputs, num_items_in_batch)

    def evaluation_loop(self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """As Trainer's; with masks also what the epoch is chosen by, and the metrics of masked texts."""
        output = super().evaluation_loop(dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self.masking is None:
            return output
        of_rows = {}
        for name, masked in self._masked_selection.items():
            loader = self.get_eval_dataloader(masked)
            prefix = f"{metric_key_prefix}_{name}"
            of_rows[name] = super().evaluation_loop(loader, *args, metric_key_prefix=prefix, **kwargs)
        chances = chances_of(of_rows["all_masked"].predictions, is_multi_label(self.model.config))
        gap = self.masking.prior_gap(chances)
        score = output.metrics[f"{metric_key_prefix}_{self.settings.select_by}"]
        missed = max(0.0, gap - PRIOR_TOLERANCE)
        if self.settings.select_by != "loss":
            missed = -missed
        output.metrics.update(of_rows["masked"].metrics)
        output.metrics[f"{metric_key_prefix}_prior_gap"] = gap
        output.metrics[f"{metric_key_prefix}_selection"] = score + missed
        return output

    @cached_property
    def _masked_selection(self) -> dict[str, Any]:
        """The texts that the epoch is chosen by with some tokens masked, and with all; made once."""
        return {
            "masked": self.masking.of_rows(self.eval_dataset),
            "all_masked": self.masking.all_of_rows(self.eval_dataset),
        }

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Adam with L2 on every parameter but the attention's."""
        if self.optimizer is None:
            self.optimizer = torch.optim.Adam(
                self._parameter_groups(model or self.model),
                lr=self.settings.learning_rate,
                amsgrad=getattr(self.settings, "amsgrad", False),
                fused=True,
            )
        return self.optimizer

    def _parameter_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        decayed, of_the_attention = [], []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                group = of_the_attention if of_attention(name) else decayed
                group.append(parameter)
        groups = [
            {"params": decayed, "weight_decay": self.settings.weight_decay},
            {"params": of_the_attention, "weight_decay": 0.0},
        ]
        return [group for group in groups if group["params"]]

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True) -> torch.autocast:
        """bfloat16 where torch thinks it safe, in training alone; it needs no scale."""
        enabled = self.settings.mixed_precision and self.model.training
        return torch.autocast(self.args.device.type, torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        folder = Path(self.args.output_dir)
        try:
            with disk_errors(folder):
                super()._save_checkpoint(*args, **kwargs)
        except OSError:
            # make room: a half-written checkpoint is of no use
            shutil.rmtree(folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}", ignore_errors=True)
            raise

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGroups:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        return LengthGroups(dataset["length"], self.args.train_batch_size, self.args.seed)


def chances_of(logits: Any, multi_label: bool) -> np.ndarray:
    """Probabilities (n, C) of logits, of each label by itself or of all classes together."""
    values = torch.as_tensor(logits).double()  # (n, C)
    chances = values.sigmoid() if multi_label else values.softmax(-1)
    return chances.numpy()


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


def arguments(
    settings: Any,
    seed: int,
    checkpoints: Path,
    metric: str,
    greater: bool,
    **schedule: Any,
) -> TrainingArguments:
    """Trainer's arguments for one run: an evaluation and a checkpoint an epoch, the best epoch at the end.

    ``schedule`` is of the learning rate, which is constant without.
    """
    check_trackers(settings.trackers)
    return TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=4 * settings.batch_size,
        learning_rate=settings.learning_rate,
        **{"lr_scheduler_type": "constant", **schedule},
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
        dataloader_pin_memory=not trains_on_cpu(),
        use_cpu=trains_on_cpu(),
        # several processes share a batch: its size stays what was asked for
        accelerator_config={"split_batches": True},
        ddp_find_unused_parameters=False,
    )


def task_arguments(task: TrainingTask, metric: str, greater: bool, **schedule: Any) -> dict[str, Any]:
    """What `AttentionTrainer` takes of a task: Trainer's arguments, data, collator and settings."""
    return {
        "args": arguments(task.settings, task.seed, task.checkpoints, metric, greater, **schedule),
        "train_dataset": task.train,
        "data_collator": task.collate,
        "settings": task.settings,
    }


def fit(trainer: Trainer, checkpoints: Path) -> list[dict[str, Any]]:
    """Train to the end, from the last whole checkpoint if there is one, and return the history by epoch."""
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        shutil.rmtree(checkpoints, ignore_errors=True)
    rows: dict[float, dict[str, Any]] = {}
    for entry in trainer.state.log_history:
        if "epoch" in entry:
            rows.setdefault(entry["epoch"], {}).update(entry)
    return [row for row in rows.values() if _is_evaluated(row)]


def _is_evaluated(row: dict[str, Any]) -> bool:
    """Whether a row of the history has the metrics of the selection split."""
    return "eval_runtime" in row or "eval_selection" in row or "eval_loss" in row
