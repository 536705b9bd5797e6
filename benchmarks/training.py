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
from measure import Case, Peer, Record, alternating, best, forget_peak, peak, resident
from setups import EMBEDDING, HIDDEN, VOCABULARY, Setup, classifier, setup
from stages import stage
from torch import Tensor, nn

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.base import train_base
from attn_faithful.training.settings import TrainSettings, TwinSettings
from attn_faithful.training.stock_twin import StockTwinSettings, StockTwinTrainer
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import AttentionTrainer, arguments
from attn_faithful.training.twin import TwinTrainer, output_tvd

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
def training_step(case_setup: Setup) -> Case:
    labels = torch.arange(len(case_setup)) % 2
    model, theirs = copy.deepcopy(case_setup.model).train(), plain.PlainModel(case_setup.model).train()
    ours = stepping(trainer_of(AttentionTrainer, model, TrainSettings()), model, {**case_setup.batch, "labels": labels})

    def loss() -> Tensor:
        return nn.functional.binary_cross_entropy(theirs(case_setup.batch), labels.float())

    def same(own: Tensor, other: Tensor) -> bool:
        return case_setup.name in ("HAN", "Transformer") or abs(float(own) - float(other)) < 1e-4  # those have dropout

    return Case(len(case_setup), ours, [Peer("loop", plain_step(theirs, loss), check=same)])


@stage("twin training step")
def twin_step(case_setup: Setup) -> Case:
    if case_setup.stock:
        return _stock_twin(case_setup)
    with torch.no_grad():
        outputs = case_setup.model(**case_setup.batch)
    # ours reads the base's outputs from the data; the plain loop runs the base at every step
    stored = {"base_probabilities": outputs.logits.softmax(-1), "base_attention": outputs.attentions}
    twin = classifier(case_setup.name).train()
    base, theirs = plain.PlainModel(case_setup.model), plain.PlainModel(twin).train()
    ours = stepping(trainer_of(TwinTrainer, twin, TwinSettings()), twin, {**case_setup.batch, **stored})

    def loss() -> Tensor:
        with torch.no_grad():
            target, weights = base.attended(case_setup.batch)
        chance, attention = theirs.attended(case_setup.batch)
        return ((chance - target).abs() - plain.jsd(attention, weights) / np.log(2)).mean()

    return Case(len(case_setup), ours, [Peer("loop", plain_step(theirs, loss))])


def _stock_twin(case_setup: Setup) -> Case:
    base: StockModel = case_setup.model
    twin = StockModel(copy.deepcopy(base.model))
    settings = StockTwinSettings()
    ours = stepping(
        trainer_of(StockTwinTrainer, twin.model, settings, base=base, stock=twin), twin.model, case_setup.batch
    )
    first, theirs = copy.deepcopy(base.model), copy.deepcopy(base.model)
    for model in (first, theirs):
        model.set_attn_implementation("eager")
    batch = {name: case_setup.batch[name] for name in ("input_ids", "attention_mask")}

    def loss() -> Tensor:
        with torch.no_grad():
            of_base = first(**batch, output_attentions=True)
        of_twin = theirs(**batch, output_attentions=True)
        layers = zip(of_twin.attentions, of_base.attentions, strict=True)
        apart = torch.stack([plain.jsd(a, b).mean() for a, b in layers]).mean() / np.log(2)
        return output_tvd(of_twin.logits.softmax(-1), of_base.logits.softmax(-1), False).mean() - apart

    return Case(len(case_setup), ours, [Peer("loop", plain_step(theirs, loss))])


def recurrent(length: int, record: Record, enough: float = 1.5) -> None:
    """The BiLSTM against packing, and the share of the rate of matrix products that a training step reaches.

    Texts all have the length, so that no operation is counted that is not needed. A multiply-add is two operations:
    forward once, backward twice (inputs and weights), 2 directions, 4 gates; all else is left out of the count and
    is in the time.
    """
    of_length = setup("BiLSTM", length, 1)
    batch = {name: value.expand(BATCH, -1).contiguous() for name, value in of_length.batch.items()}
    model, labels = copy.deepcopy(of_length.model).train(), torch.arange(BATCH) % 2
    step = stepping(trainer_of(AttentionTrainer, model, TrainSettings()), model, {**batch, "labels": labels})
    ours, packed = of_length.model.encoder, plain.Recurrent(of_length.model.encoder)
    inputs, mask = torch.randn(BATCH, length, EMBEDDING, requires_grad=True), batch["attention_mask"].bool()
    states, inner = torch.randn(BATCH, HIDDEN), torch.randn(HIDDEN, 4 * HIDDEN)
    tokens, outer = torch.randn(BATCH * length, EMBEDDING), torch.randn(EMBEDDING, 4 * HIDDEN)
    square = torch.randn(1024, 1024)
    works = {
        "step": step,
        "encoder": lambda: ours(inputs, mask).sum().backward(),
        "packed": lambda: packed(inputs, mask).sum().backward(),
        "products of states": lambda: [states @ inner for _ in range(100)],
        "products of tokens": lambda: tokens @ outer,
        "square product": lambda: square @ square,
    }
    times = dict(zip(works, alternating(list(works.values()), enough, 10), strict=True))
    rate_of_states = 2 * BATCH * HIDDEN * 4 * HIDDEN * 100 / times["products of states"]
    rate_of_tokens = 2 * BATCH * length * EMBEDDING * 4 * HIDDEN / times["products of tokens"]
    record |= {f"{name} seconds": times[name] for name in ("step", "encoder", "packed")}
    record["operations"] = 3 * 2 * 2 * BATCH * length * 4 * HIDDEN * (EMBEDDING + HIDDEN)
    # of like shape: the tokens' products at their rate, the states' at theirs
    record["rate of like shape"] = (EMBEDDING + HIDDEN) / (EMBEDDING / rate_of_tokens + HIDDEN / rate_of_states)
    record["rate of a square"] = 2 * 1024**3 / times["square product"]


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
