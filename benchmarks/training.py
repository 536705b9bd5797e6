"""What is measured of training: a step, a twin's step, what Trainer adds, and the share of the machine's rate."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain
import torch
from measure import AbsentError, Case, Record, alternating, best, forget_peak, peak, resident
from setups import EMBEDDING, HIDDEN, VOCABULARY, Setup, classifier, setup
from stages import stage
from torch import Tensor, nn

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.base import TrainSettings, train_base
from attn_faithful.training.stock_twin import StockTwinSettings, StockTwinTrainer
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import AttentionTrainer, arguments
from attn_faithful.training.twin import TwinSettings, TwinTrainer, output_tvd

BATCH = 32


def trainer_of(kind: type[AttentionTrainer], model: Any, settings: Any, **further: Any) -> AttentionTrainer:
    """Trainer as `attn-faithful train` makes it, with its optimizer."""
    rows = Rows({"input_ids": [np.zeros(1, dtype=int)], "length": [1], "labels": [0]})
    built = kind(
        model=model,
        args=arguments(settings, 0, Path(tempfile.gettempdir()) / "unused", "eval_loss", False),
        train_dataset=rows,
        eval_dataset=rows,
        settings=settings,
        **further,
    )
    built.create_optimizer()
    built.current_gradient_accumulation_steps = 1  # which its loop sets
    return built


def stepping(trainer: AttentionTrainer, model: Any, batch: dict[str, Tensor]) -> Callable[[], Any]:
    """One step: forward, loss, backward, update."""

    def step() -> Tensor:
        loss = trainer.training_step(model, dict(batch))
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        return loss

    return step


def plain_step(model: nn.Module, loss: Callable[[], Tensor], fused: bool | None = None) -> Callable[[], Any]:
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)

    def step() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


@stage("training step")
def training_step(given: Setup) -> Case:
    if given.stock:
        raise AbsentError("transformers trains it")
    labels = torch.arange(len(given)) % 2
    model, theirs = copy.deepcopy(given.model).train(), plain.PlainModel(given.model).train()
    ours = stepping(trainer_of(AttentionTrainer, model, TrainSettings()), model, {**given.batch, "labels": labels})

    def loss() -> Tensor:
        return nn.functional.binary_cross_entropy(theirs(given.batch), labels.float())

    def same(own: Tensor, other: Tensor) -> bool:
        return given.name in ("HAN", "Transformer") or abs(float(own) - float(other)) < 1e-4  # those have dropout

    return Case(len(given), ours, plain_step(theirs, loss), check=same)


@stage("twin training step")
def twin_step(given: Setup) -> Case:
    if given.stock:
        return _stock_twin(given)
    with torch.no_grad():
        told = given.model(**given.batch)
    # ours reads the base's outputs from the data; the plain loop runs the base at every step
    stored = {"base_probabilities": told.logits.softmax(-1), "base_attention": told.attentions}
    twin = classifier(given.name).train()
    base, theirs = plain.PlainModel(given.model), plain.PlainModel(twin).train()
    ours = stepping(trainer_of(TwinTrainer, twin, TwinSettings()), twin, {**given.batch, **stored})

    def loss() -> Tensor:
        with torch.no_grad():
            target, weights = base.attended(given.batch)
        chance, attention = theirs.attended(given.batch)
        return ((chance - target).abs() - plain.jsd(attention, weights) / np.log(2)).mean()

    return Case(len(given), ours, plain_step(theirs, loss))


def _stock_twin(given: Setup) -> Case:
    base: StockModel = given.model
    twin = StockModel(copy.deepcopy(base.model))
    settings = StockTwinSettings()
    ours = stepping(trainer_of(StockTwinTrainer, twin.model, settings, base=base, stock=twin), twin.model, given.batch)
    first, theirs = copy.deepcopy(base.model), copy.deepcopy(base.model)
    for model in (first, theirs):
        model.set_attn_implementation("eager")
    batch = {name: given.batch[name] for name in ("input_ids", "attention_mask")}

    def loss() -> Tensor:
        with torch.no_grad():
            told = first(**batch, output_attentions=True)
        found = theirs(**batch, output_attentions=True)
        pairs = zip(found.attentions, told.attentions, strict=True)
        apart = torch.stack([plain.jsd(a, b).mean() for a, b in pairs]).mean() / np.log(2)
        return output_tvd(found.logits.softmax(-1), told.logits.softmax(-1), False).mean() - apart

    return Case(len(given), ours, plain_step(theirs, loss))


def recurrent(length: int, record: Record, enough: float = 1.5) -> None:
    """The BiLSTM against packing, and the share of the rate of matrix products that a training step reaches.

    Texts all have the length, so that no operation is counted that is not needed. A multiply-add is two operations:
    forward once, backward twice (inputs and weights), 2 directions, 4 gates; all else is left out of the count and
    is in the time.
    """
    made = setup("BiLSTM", length, 1)
    batch = {name: value.expand(BATCH, -1).contiguous() for name, value in made.batch.items()}
    model, labels = copy.deepcopy(made.model).train(), torch.arange(BATCH) % 2
    step = stepping(trainer_of(AttentionTrainer, model, TrainSettings()), model, {**batch, "labels": labels})
    ours, packed = made.model.encoder, plain.Recurrent(made.model.encoder)
    inputs, mask = torch.randn(BATCH, length, EMBEDDING, requires_grad=True), batch["attention_mask"].bool()
    states, inner = torch.randn(BATCH, HIDDEN), torch.randn(HIDDEN, 4 * HIDDEN)
    tokens, outer = torch.randn(BATCH * length, EMBEDDING), torch.randn(EMBEDDING, 4 * HIDDEN)
    square = torch.randn(1024, 1024)
    found = alternating(
        [
            step,
            lambda: ours(inputs, mask).sum().backward(),
            lambda: packed(inputs, mask).sum().backward(),
            lambda: [states @ inner for _ in range(100)],
            lambda: tokens @ outer,
            lambda: square @ square,
        ],
        enough,
        10,
    )
    whole, own, theirs, of_states, of_tokens, of_square = found
    operations = 3 * 2 * 2 * BATCH * length * 4 * HIDDEN * (EMBEDDING + HIDDEN)
    per_states = 2 * BATCH * HIDDEN * 4 * HIDDEN * 100 / of_states
    per_tokens = 2 * BATCH * length * EMBEDDING * 4 * HIDDEN / of_tokens
    # of like shape: the tokens' products at their rate, the states' at theirs
    like = (EMBEDDING + HIDDEN) / (EMBEDDING / per_tokens + HIDDEN / per_states)
    record |= {
        "step seconds": whole,
        "encoder seconds": own,
        "packed seconds": theirs,
        "operations": operations,
        "rate of like shape": like,
        "rate of a square": 2 * 1024**3 / of_square,
    }


def overhead(record: Record, count: int = 3200) -> None:
    """A Trainer step of the MLP against the same forward, backward and update in a bare loop."""
    generator = np.random.default_rng(0)
    rows = Rows(
        {
            "input_ids": [generator.integers(2, VOCABULARY, 19) for _ in range(count)],
            "length": [19] * count,
            "labels": generator.integers(0, 2, count).tolist(),
        }
    )
    config = AttentionClassifierConfig(vocab_size=VOCABULARY, embedding_size=50, encoder="mlp")
    model = type(classifier("MLP"))(config)
    theirs = copy.deepcopy(model)
    with tempfile.TemporaryDirectory() as folder:
        few, place = rows.take(range(64)), Path(folder) / "c"

        def whole() -> None:
            task = TrainingTask(rows, few, Collator(), TrainSettings(epochs=1), 0, place)
            train_base(copy.deepcopy(model), task)

        forget_peak()
        before = resident()
        record["seconds"] = best(whole, 2) / (count // BATCH)
        record["bytes"] = peak() - before
    batch = Collator()([rows[i] for i in range(BATCH)])
    step = plain_step(theirs, lambda: theirs(**batch).loss, fused=True)
    record["plain seconds"] = best(step, 50)
    record["ratio"] = record["plain seconds"] / record["seconds"]
