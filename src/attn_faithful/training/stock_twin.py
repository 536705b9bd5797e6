"""Training of a stock model's twin: the same predictions, other attention in every head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from attn_faithful._checks import InputError, check_choice
from attn_faithful._seeds import seed_for
from attn_faithful.functional import divergences
from attn_faithful.functional.head_matching import matched_jsd
from attn_faithful.models.modes import evaluating
from attn_faithful.models.protocol import probabilities
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.stock_pair import KEYS, StockOutputs, layer_heads, stock_twin_outputs
from attn_faithful.training.stock_start import merged, new_stock_twin
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.twin import EPS, Comparison, TwinTrainer, fit_twin, output_tvd, summary


@dataclass(frozen=True)
class StockTwinSettings(TwinSettings):
    """How a stock model's twin is trained: what differs from `TwinSettings`.

    JSD is the mean over layers and heads, each head of the twin beside the base's head that the best assignment gives
    it: one assignment a layer for all texts, found anew before each epoch.

    Attributes:
        objective: "attefa" or "constrained".
        start: "base": the base's weights, the queries and keys of the chosen layers disturbed, since from equal
            attention no gradient leads away; "new": new weights but for the embeddings, as the paper does it, which
            takes the texts and epochs of a whole training.
        layers: whose heads are to differ, by number; None for all. All layers are trained, so that the others may make
            up for it.
        keys: "content": a head's attention among the content tokens; "all": with special tokens, which hold most of
            the mass in many heads.
        freeze_embeddings: leave tables of words, positions and segments as they are.
        perturbation: standard deviation of that disturbance, as a multiple of the weights' own. What is found depends
            on it: of MiniLM on short texts of SST, JSD after 24 steps was 0.15 nats with 0.5 and 0.38 with 2, at a TVD
            of 0.13 and 0.18.
        sample: training texts that the assignments are found on.
        lora_rank: train adapters of this rank in place of the weights (needs peft): of the weights there is then one
            copy during training, and gradients and Adam's moments are of the adapters alone.
        max_grad_norm: gradients longer than this are cut to it; None for no limit.
    """

    start: str = "base"
    epochs: int = 10
    patience: int = 3
    batch_size: int = 16
    learning_rate: float = 2e-4
    weight_decay: float = 0.0
    layers: list[int] | None = None
    keys: str = "content"
    freeze_embeddings: bool = True
    perturbation: float = 2.0
    sample: int = 256
    lora_rank: int | None = None
    max_grad_norm: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("objective of a stock model's twin", self.objective, ("attefa", "constrained"))
        check_choice("keys", self.keys, KEYS)
        if self.mixed_precision:
            raise InputError("A stock model's twin is trained in float32; leave mixed_precision out.")
        for name in ("perturbation", "sample", "lora_rank", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be positive, but is {value}.")
        if self.lora_rank is not None and self.start == "new":
            raise InputError("Adapters (lora_rank) change the base's weights, so start must be base, but is new.")

    @property
    def variant(self) -> str:
        """A short name of what sets this objective apart."""
        name = super().variant.removesuffix("-from-base")
        if self.start == "new":
            name = f"{name}-new"
        return name


class StockTwinTrainer(TwinTrainer):
    """Trains on the distance to the base, which runs beside the twin: its attention is too large to be stored."""

    def __init__(
        self,
        *args: Any,
        base: StockModel,
        stock: StockModel,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.args.world_size > 1:
            raise InputError(
                f"A stock model's twin is trained by one process, but {self.args.world_size} were started; start one."
            )
        self.base = base
        self.stock = stock
        self.layers = base.layers
        if self.settings.layers is not None:
            self.layers = base.choosing(layers=self.settings.layers).layers
        self.assignments: Sequence[Any] = [range(base.probe.heads[layer]) for layer in self.layers]
        self.add_callback(_MatchEachEpoch(self))

    @property
    def multi_label(self) -> bool:
        return self.base.multi_label

    def match(self) -> None:
        """Find the assignments anew, on a sample of the training texts that stays the same."""
        generator = np.random.default_rng(self.args.seed)
        order = generator.permutation(len(self.train_dataset))
        sample = self.train_dataset.take(order[: self.settings.sample].tolist())
        self.assignments = self._outputs(sample).assignments

    def _outputs(self, rows: Any) -> StockOutputs:
        return stock_twin_outputs(
            self.base,
            self.stock,
            rows,
            self.data_collator,
            self.layers,
            self.settings.keys,
        )

    def compared(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Any]:
        """TVD and JSD / ln 2 of a batch, (B,), and the twin's logits; a text without content moves no attention."""
        with torch.no_grad():
            base = self.base.seen(inputs, set(self.layers))
        trace = Trace(read=set(self.layers))
        with evaluating(self.stock):  # what dropout changes is no other prediction to be unlearned
            logits = self.stock.run(self.stock.inputs(inputs), trace)
        queries = inputs["attention_mask"].bool()  # (B, Q)
        by_layer = []  # (B,) each
        for layer, assignment in zip(self.layers, self.assignments, strict=True):
            # (B, H, Q, T) each
            of_twin = layer_heads(self.base, trace.seen[layer], layer, inputs, self.settings.keys)
            of_base = layer_heads(self.base, base.calls[layer], layer, inputs, self.settings.keys)
            by_layer.append(matched_jsd(of_twin, of_base, queries, assignment, EPS, validate_args=False))
        jsd = torch.stack(by_layer, dim=1).nanmean(1).nan_to_num(0.0)  # (B,)
        chances = probabilities(logits, self.multi_label)
        target = probabilities(base.logits, self.multi_label)
        tvd = output_tvd(chances, target, self.multi_label)  # (B,)
        return tvd, jsd / divergences.LN2, logits

    def measured(self, dataset: Any) -> dict[str, float]:
        """The metrics of `evaluate` on a data set, on which the heads are matched anew."""
        outputs = self._outputs(dataset)
        comparison = Comparison(outputs.tvd, outputs.jsd, outputs.twin, outputs.base, self.multi_label)
        return summary(comparison, np.asarray(dataset["labels"]), self.settings)


class _MatchEachEpoch(TrainerCallback):
    """Matches the heads before each epoch."""

    def __init__(self, trainer: StockTwinTrainer) -> None:
        self.trainer = trainer

    def on_epoch_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        **kwargs: Any,
    ) -> None:
        self.trainer.match()


def train_stock_twin(base: StockModel, task: TrainingTask) -> tuple[StockModel, list[dict[str, Any]]]:
    """Train a twin of a stock model.

    Args:
        base: stays as it is.
        task: encoded rows whose labels serve only to report the twin's F1; a collator with ``special_tokens_mask``
            where the rows have it; a `StockTwinSettings`; the seed of the start and of the order of batches. There is
            no dropout, as there is none in the base's outputs.

    Returns:
        the twin at its best epoch, which shares no tensor with its base, and one row an epoch.

    Raises:
        InputError: a layer that does not exist, `lora_rank` without peft, several processes.
    """
    seed = seed_for(task.seed, "start") % 2**31
    stock, trained = new_stock_twin(base, task.settings, seed)
    history = fit_twin(StockTwinTrainer, trained, task, base=base, stock=stock)
    return merged(stock, trained), history
