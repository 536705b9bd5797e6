"""Training of a twin: the base's architecture and predictions, other attention (Amini and Kosseim, section 3)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional import divergences
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.models.configurations import note_masking
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.models.protocol import probabilities
from attn_faithful.training.base_outputs import base_of
from attn_faithful.training.callbacks import Multiplier, Patience, ReportProgress
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import AttentionTrainer, fit, seeded, task_arguments

EPS = 1e-10  # inside both logarithms in training, as in the paper's equation 3


@dataclass(frozen=True)
class Comparison:
    """A twin beside its base on n examples.

    Attributes:
        tvd: of the predictions, (n,).
        jsd: of the attention, (n,), nats; NaN where an example has no content token.
        twin, base: class probabilities, (n, C).
        multi_label: whether the classes exclude each other (False) or not.
    """

    tvd: np.ndarray
    jsd: np.ndarray
    twin: np.ndarray
    base: np.ndarray
    multi_label: bool = False


class TwinTrainer(AttentionTrainer):
    """Trains on the distance to the base's stored outputs; labels serve only to report the twin's F1."""

    @property
    def multi_label(self) -> bool:
        return bool(self.model.config.multi_label)

    @property
    def multiplier(self) -> Multiplier | None:
        # looked up each time: a resumed Trainer puts a restored object in the callback's place
        for callback in self.callback_handler.callbacks:
            if isinstance(callback, Multiplier):
                return callback
        return None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        inputs.pop("labels", None)
        tvd, divergence, output = self.compared(model, inputs)
        loss = self._objective(tvd, divergence).mean()
        if self.multiplier is not None and model.training:
            # of the whole batch, of which each process has a part
            mean_tvd = self.accelerator.reduce(tvd.detach().mean(), "mean")
            self.multiplier.update(float(mean_tvd))
        if return_outputs:
            return loss, output
        return loss

    def compared(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Any]:
        """TVD and the objective's divergence (KL, or JSD / ln 2) of a batch, (B,), and the twin's outputs."""
        target = inputs.pop("base_probabilities")  # (B, C)
        attention = inputs.pop("base_attention")  # (B, T)
        output = model(**inputs)
        chances = probabilities(output.logits, self.multi_label)  # (B, C)
        attention = attention.to(chances.dtype)
        if self.settings.objective == "kl":
            divergence = divergences.kl(output.attentions, attention, EPS, validate_args=False)
        else:
            divergence = divergences.jsd(output.attentions, attention, EPS, validate_args=False) / divergences.LN2
        tvd = output_tvd(chances, target.to(chances.dtype), self.multi_label)
        return tvd, divergence, output

    def _objective(self, tvd: Tensor, divergence: Tensor) -> Tensor:
        if self.multiplier is None:
            return tvd - self.settings.weight * divergence
        price = self.multiplier.value
        return (price * tvd - divergence) / (1 + price)  # of one scale whatever the price

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: Any = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Distances on the selection split, as the paper does it: means over the split first, then the loss."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        measured = self.measured(dataset)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in measured.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def measured(self, dataset: Any) -> dict[str, float]:
        """The metrics of `evaluate` on a data set; see `summarize`."""
        model = self.accelerator.unwrap_model(self.model)
        twin = run_over(model, dataset, self.data_collator)
        labels = np.asarray(dataset["labels"])
        return summarize(twin, base_of(dataset), labels, self.settings, self.multi_label)


def output_tvd(chances: Tensor, target: Tensor, multi_label: bool) -> Tensor:
    """TVD (B,) of class probabilities (B, C)."""
    measure = divergences.multilabel_tvd if multi_label else divergences.tvd
    return measure(chances, target, validate_args=False)


def distances(
    twin: Outputs,
    base: Outputs,
    multi_label: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """TVD of predictions and JSD of attention (nats), float64 (n,); NaN where an example has no content token."""
    tvd, jsd, _ = per_example_divergences(
        twin.probabilities,
        base.probabilities,
        twin.attention,
        base.attention,
        multi_label=multi_label,
    )
    return tvd, jsd


def summarize(
    twin: Outputs,
    base: Outputs,
    labels: np.ndarray,
    settings: TwinSettings,
    multi_label: bool = False,
) -> dict[str, float]:
    """Mean TVD and JSD, AtteFa, the twin's F1, whether it collapsed, and the selection (lower is better)."""
    tvd, jsd = distances(twin, base, multi_label)
    comparison = Comparison(tvd, jsd, twin.probabilities, base.probabilities, multi_label)
    metrics = summary(comparison, labels, settings)
    if settings.objective == "kl":
        metrics["selection"] = float(metrics["tvd"] - settings.weight * _mean_kl(twin, base))
    return metrics


def summary(
    comparison: Comparison,
    labels: np.ndarray,
    settings: TwinSettings,
) -> dict[str, float]:
    """As `summarize`, from the distances and the probabilities."""
    score = faithfulness.attefa(comparison.tvd, comparison.jsd)
    constant_twin = faithfulness.multilabel_constant_twin if comparison.multi_label else faithfulness.constant_twin
    _, constant_tvd = constant_twin(comparison.base)
    collapsed = faithfulness.is_collapsed(score.tvd, constant_tvd)
    return {
        "selection": float(_selection(score, settings)),
        "tvd": score.tvd,
        "jsd": score.jsd,
        "attefa": score.attefa,
        "f1": classification_metrics(comparison.twin, labels, comparison.multi_label)["f1"],
        "collapsed": float(collapsed),
    }


def _selection(score: Any, settings: TwinSettings) -> float:
    """What the best epoch has least of; a constrained twin beyond its limit comes after every one within it."""
    if settings.objective != "constrained":
        return score.tvd - settings.weight * score.s_jsd
    if score.tvd <= settings.max_tvd:
        return -score.s_jsd
    return 1 + score.tvd


def _mean_kl(twin: Outputs, base: Outputs) -> float:
    """KL(twin || base) of the attention, mean over the examples with a content token."""
    values = []
    for twin_weights, base_weights in zip(twin.attention, base.attention, strict=True):
        if len(base_weights):
            p = torch.from_numpy(twin_weights)
            q = torch.from_numpy(base_weights)
            values.append(divergences.kl(p, q, EPS, validate_args=False))
    return float(np.mean(values))


def new_twin(
    base: nn.Module,
    seed: int,
    start: str = "new",
    vectors: Tensor | None = None,
) -> nn.Module:
    """A model of the base's configuration, to be trained as its twin.

    Args:
        base: the base model.
        seed: of the initial weights.
        start: "new", or "base" for the base's weights with a new attention.
        vectors: word vectors that the base began with, for start "new".
    """
    config = copy.deepcopy(base.config)
    note_masking(config, None)  # twins are trained on texts as they are
    with seeded(seed):
        twin = type(base)(config)
        if start == "base":
            _copy_all_but_attention(base, twin)
        elif vectors is not None:
            twin.load_vectors(vectors)
        elif base.config.freeze_embeddings:
            twin.embedding.load_state_dict(base.embedding.state_dict())
            if base.config.query:
                twin.query_embedding.load_state_dict(base.query_embedding.state_dict())
    return twin


def _copy_all_but_attention(source: nn.Module, target: nn.Module) -> None:
    state = target.state_dict()
    for name, value in source.state_dict().items():
        if "attention." not in name:
            state[name] = value
    target.load_state_dict(state)


def train_twin(twin: nn.Module, task: TrainingTask) -> list[dict[str, Any]]:
    """Train `twin` in place and leave it at its best epoch; returns one row an epoch.

    Args:
        twin: see `new_twin`.
        task: data sets made by `with_base`, a collator with the columns ``base_probabilities`` and ``base_attention``,
            and a `TwinSettings`.
    """
    history = fit_twin(TwinTrainer, twin, task)
    twin.eval()
    return history


def fit_twin(
    trainer_class: type[TwinTrainer],
    twin: nn.Module,
    task: TrainingTask,
    **further: Any,
) -> list[Any]:
    """The history of `train_twin` by a trainer of a class, with further arguments of its own."""
    metric = "eval_selection"
    patience = Patience(task.settings.patience, metric, False, hold="eval_collapsed")
    callbacks: list[TrainerCallback] = [patience]
    if task.settings.objective == "constrained":
        callbacks.append(Multiplier(task.settings.max_tvd))
    if task.on_progress is not None:
        callbacks.append(ReportProgress(task.on_progress))
    with recipe_precision(), seeded(task.seed):
        trainer = trainer_class(
            model=twin,
            eval_dataset=task.selection,
            callbacks=callbacks,
            **task_arguments(task, metric, greater=False),
            **further,
        )
        return fit(trainer, task.checkpoints)
