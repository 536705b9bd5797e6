"""Training of a twin: the base's architecture and predictions, other attention (Amini and Kosseim, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from attn_faithful._checks import InputError, check_choice
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional import divergences
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.models.protocol import probabilities
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import as_told
from attn_faithful.training.trainer import Announce, AttentionTrainer, Patience, arguments, fit, seeded

OBJECTIVES = ("attefa", "kl", "constrained")
EPS = 1e-10  # inside both logarithms in training, as in the paper's equation 3


@dataclass(frozen=True)
class TwinSettings:
    """How a twin is trained; the defaults are those of Amini and Kosseim, section 3.2.

    Attributes:
        objective: "attefa": ``TVD - weight * JSD / ln 2`` (their equation 4 with weight 1); "kl": ``TVD - weight *
            KL(twin || base)`` (Wiegreffe and Pinter 2019, section 4); "constrained": the largest JSD whose mean TVD
            is at most `max_tvd`, by a multiplier that adapts during training (dual ascent).
        weight: of the divergence. Twice the lambda of Wiegreffe and Pinter for "kl": their TVD, of the one positive
            probability, is half of ours.
        max_tvd: "constrained" only.
        start: "new" weights, or "base": the base's, except for a new attention (from equal attention no gradient
            leads away).
        epochs: at most this many.
        patience: epochs without a better selection before training stops; not while the twin counts as collapsed.
        batch_size, learning_rate, weight_decay: as for the base.
        select_on: "validation", or "test" only to repeat the paper.
        mixed_precision: as for the base.
        trackers: names of transformers' reporting integrations.
    """

    objective: str = "attefa"
    weight: float = 1.0
    max_tvd: float = 0.05
    start: str = "new"
    epochs: int = 80
    patience: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    select_on: str = "validation"
    mixed_precision: bool = False
    trackers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("start", self.start, ("new", "base"))
        check_choice("select_on", self.select_on, ("validation", "test"))
        if not 0 < self.max_tvd < 1:
            raise InputError(f"max_tvd must lie between 0 and 1, but is {self.max_tvd}.")
        for name in ("epochs", "batch_size", "learning_rate", "patience"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, but is {getattr(self, name)}.")

    @property
    def variant(self) -> str:
        """A short name of what sets this objective apart, the same in folders, tables and figures."""
        if self.objective == "constrained":
            name = f"constrained-{self.max_tvd:g}"
        else:
            name = self.objective if self.weight == 1 else f"{self.objective}-{self.weight:g}"
        return name if self.start == "new" else f"{name}-from-base"


def with_base(dataset: Any, base: Outputs) -> Any:
    """The data set with the base's outputs as columns, so that the base runs once and not every step."""
    if len(dataset) != len(base):
        raise InputError(f"Expected the base's outputs of {len(dataset)} examples, but got {len(base)}.")
    attention = list(base.attention)
    if "special_tokens_mask" in dataset.column_names:
        pairs = zip(attention, dataset["special_tokens_mask"], strict=True)
        attention = [_spread(weights, np.asarray(special, dtype=bool)) for weights, special in pairs]
    return dataset.with_columns(base_attention=attention, base_probabilities=list(base.probabilities))


def _spread(weights: np.ndarray, special: np.ndarray) -> np.ndarray:
    spread = np.zeros(len(special))
    spread[~special] = weights
    return spread


def distances(twin: Outputs, base: Outputs, multi_label: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """TVD of predictions and JSD of attention (nats), float64 (n,); NaN where an example has no content token."""
    tvd, jsd, _ = per_example_divergences(
        twin.probabilities, base.probabilities, twin.attention, base.attention, multi_label=multi_label
    )
    return tvd, jsd


class Multiplier(TrainerCallback, ExportableState):
    """The price of TVD in "constrained": rises while batches exceed their target and falls while they do not.

    The target of the training batches shrinks while the selection split, which generalises less well, misses.
    """

    def __init__(self, max_tvd: float = 0.05, rate: float = 0.02) -> None:
        self.max_tvd, self.rate = max_tvd, rate
        self.value, self.target = 1.0, max_tvd

    def update(self, tvd: float) -> None:
        excess = min(max((tvd - self.target) / self.target, -1.0), 1.0)
        self.value = min(max(self.value * math.exp(self.rate * excess), 1e-2), 1e3)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        ratio = 0.9 * self.max_tvd / max(metrics["eval_tvd"], 1e-6)
        self.target = min(self.max_tvd, max(self.target * min(max(ratio, 0.7), 1.2), 0.1 * self.max_tvd))

    def state(self) -> dict[str, Any]:
        return {
            "args": {"max_tvd": self.max_tvd, "rate": self.rate},
            "attributes": {"value": self.value, "target": self.target},
        }


class TwinTrainer(AttentionTrainer):
    """Trains on the distance to the base's stored outputs; labels serve only to report the twin's F1."""

    @property
    def multi_label(self) -> bool:
        return bool(self.model.config.multi_label)

    @property
    def multiplier(self) -> Multiplier | None:
        # looked up each time: a resumed Trainer puts a restored object in the callback's place
        return next((c for c in self.callback_handler.callbacks if isinstance(c, Multiplier)), None)

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        inputs.pop("labels", None)
        tvd, divergence, output = self.compared(model, inputs)
        loss = self._objective(tvd, divergence).mean()
        if self.multiplier is not None and model.training:
            self.multiplier.update(float(self.accelerator.reduce(tvd.detach().mean(), "mean")))
        return (loss, output) if return_outputs else loss

    def compared(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Any]:
        """TVD and the objective's divergence (KL, or JSD / ln 2) of a batch, (B,), and what the twin gave."""
        target, attention = inputs.pop("base_probabilities"), inputs.pop("base_attention")
        output = model(**inputs)
        chances = probabilities(output.logits, self.multi_label)
        attention = attention.to(chances.dtype)
        if self.settings.objective == "kl":
            divergence = divergences.kl(output.attentions, attention, EPS, validate_args=False)
        else:
            divergence = divergences.jsd(output.attentions, attention, EPS, validate_args=False) / divergences.LN2
        return output_tvd(chances, target.to(chances.dtype), self.multi_label), divergence, output

    def _objective(self, tvd: Tensor, divergence: Tensor) -> Tensor:
        if self.multiplier is None:
            return tvd - self.settings.weight * divergence
        price = self.multiplier.value
        return (price * tvd - divergence) / (1 + price)  # of one scale whatever the price

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Distances on the selection split, as the paper does it: means over the split first, then the loss."""
        metrics = self.measured(self.eval_dataset if eval_dataset is None else eval_dataset)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def measured(self, dataset: Any) -> dict[str, float]:
        """What `evaluate` tells of a data set; see `summarize`."""
        base = Outputs(np.asarray(dataset["base_probabilities"]), _content(dataset))
        twin = run_over(self.accelerator.unwrap_model(self.model), dataset, self.data_collator)
        return summarize(twin, base, np.asarray(dataset["labels"]), self.settings, self.multi_label)


def output_tvd(chances: Tensor, target: Tensor, multi_label: bool) -> Tensor:
    """TVD (B,) of class probabilities (B, C)."""
    measure = divergences.multilabel_tvd if multi_label else divergences.tvd
    return measure(chances, target, validate_args=False)


def _content(dataset: Any) -> list[np.ndarray]:
    if "special_tokens_mask" not in dataset.column_names:
        return list(dataset["base_attention"])
    pairs = zip(dataset["base_attention"], dataset["special_tokens_mask"], strict=True)
    return [weights[~np.asarray(special, dtype=bool)] for weights, special in pairs]


def summarize(
    twin: Outputs, base: Outputs, labels: np.ndarray, settings: TwinSettings, multi_label: bool = False
) -> dict[str, float]:
    """Mean TVD and JSD, AtteFa, the twin's F1, whether it collapsed, and the selection (lower is better)."""
    tvd, jsd = distances(twin, base, multi_label)
    found = summary(tvd, jsd, twin.probabilities, base.probabilities, labels, settings, multi_label)
    if settings.objective == "kl":
        found["selection"] = float(found["tvd"] - settings.weight * _mean_kl(twin, base))
    return found


def summary(
    tvd: np.ndarray,
    jsd: np.ndarray,
    twin: np.ndarray,
    base: np.ndarray,
    labels: np.ndarray,
    settings: TwinSettings,
    multi_label: bool = False,
) -> dict[str, float]:
    """As `summarize`, from the distances (n,) and the probabilities (n, C)."""
    score = faithfulness.attefa(tvd, jsd)
    constant = faithfulness.multilabel_constant_twin if multi_label else faithfulness.constant_twin
    collapsed = faithfulness.is_collapsed(score.tvd, constant(base)[1])
    if settings.objective == "constrained":
        selection = -score.s_jsd if score.tvd <= settings.max_tvd else 1 + score.tvd
    else:
        selection = score.tvd - settings.weight * score.s_jsd
    return {
        "selection": float(selection),
        "tvd": score.tvd,
        "jsd": score.jsd,
        "attefa": score.attefa,
        "f1": classification_metrics(twin, labels, multi_label)["f1"],
        "collapsed": float(collapsed),
    }


def _mean_kl(twin: Outputs, base: Outputs) -> float:
    pairs = [(a, b) for a, b in zip(twin.attention, base.attention, strict=True) if len(b)]
    values = [divergences.kl(torch.from_numpy(a), torch.from_numpy(b), EPS, validate_args=False) for a, b in pairs]
    return float(np.mean(values))


def new_twin(base: nn.Module, seed: int, start: str = "new", vectors: Tensor | None = None) -> nn.Module:
    """A model of the base's configuration, to be trained as its twin.

    Args:
        base: the base model.
        seed: of the initial weights.
        start: "new", or "base" for the base's weights with a new attention.
        vectors: word vectors that the base began with, for start "new".
    """
    with seeded(seed):
        twin = type(base)(base.config)
        if start == "base":
            kept = {n: v for n, v in base.state_dict().items() if "attention." not in n}
            twin.load_state_dict({**twin.state_dict(), **kept})
        elif vectors is not None:
            twin.load_vectors(vectors)
        elif base.config.freeze_embeddings:
            twin.embedding.load_state_dict(base.embedding.state_dict())
            if base.config.query:
                twin.query_embedding.load_state_dict(base.query_embedding.state_dict())
    return twin


def train_twin(
    twin: nn.Module,
    train: Any,
    selection: Any,
    collate: Any,
    settings: TwinSettings,
    seed: int,
    checkpoints: Path,
    on_progress: Any = None,
) -> list[dict[str, Any]]:
    """Train `twin` in place and leave it at its best epoch; returns one row an epoch.

    Args:
        twin: see `new_twin`.
        train, selection: data sets made by `with_base`.
        collate: makes batches with the columns ``base_probabilities`` and ``base_attention``.
        settings: see `TwinSettings`.
        seed: of the order of batches and of dropout.
        checkpoints: as for `train_base`.
        tell: ``tell(epoch, epochs, metrics)`` after each epoch.
    """
    history = fit_twin(TwinTrainer, twin, train, selection, collate, settings, seed, checkpoints, on_progress)
    twin.eval()
    return history


def fit_twin(
    trainer: type[TwinTrainer],
    twin: nn.Module,
    train: Any,
    selection: Any,
    collate: Any,
    settings: TwinSettings,
    seed: int,
    checkpoints: Path,
    on_progress: Any = None,
    **further: Any,
) -> list[dict[str, Any]]:
    """The history of `train_twin` by a trainer of a class, with further arguments of its own."""
    called: list[TrainerCallback] = [Patience(settings.patience, "eval_selection", False, hold="eval_collapsed")]
    if settings.objective == "constrained":
        called.append(Multiplier(settings.max_tvd))
    if on_progress is not None:
        called.append(Announce(on_progress))
    with as_told(), seeded(seed):
        made = trainer(
            model=twin,
            args=arguments(settings, seed, checkpoints, "eval_selection", greater=False),
            train_dataset=train,
            eval_dataset=selection,
            data_collator=collate,
            callbacks=called,
            settings=settings,
            **further,
        )
        return fit(made, checkpoints)
