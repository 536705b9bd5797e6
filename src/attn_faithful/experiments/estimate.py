"""What a recipe will take: minutes from a few timed steps, disk from the number of weights."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import Prepared, prepare
from attn_faithful.experiments.recipe import Recipe
from attn_faithful.experiments.roar.curve import curves_of
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.models.architectures import new_model
from attn_faithful.store import RunFolder

_WORDS = 15  # a sentence, for timing
_OVERHEAD = 1.4  # checkpoints, selection and encoding, beside the steps
_TRAINER_SECONDS = 0.003  # Trainer's own work a step
_TIMED_STEPS = 4  # the first, which is slower, does not count
_WEIGHT_BYTES, _VALUE_BYTES = 4, 8
_OF_TRAINING = 6  # copies of the weights while one model trains: a checkpoint and the best, each with two moments


@dataclass(frozen=True)
class Estimate:
    """What a cell takes on this machine, at most: training may stop early."""

    minutes: float
    megabytes: float


def estimate(cells: Sequence[Cell]) -> tuple[list[Estimate], list[Prepared]]:
    """Prepare every data set once, time a few steps of every kind of model, and scale to all epochs.

    Returns:
        an estimate a cell, in order, and the distinct prepared data sets.

    Raises:
        InputError: whatever is wrong with the data, the vectors or the models.
    """
    prepared: dict[str, Prepared] = {}
    step_seconds: dict[str, float] = {}
    estimates = []
    for cell in cells:
        key = _key(cell.recipe)
        if key not in prepared:
            prepared[key] = prepare(cell.recipe)
            step_seconds[key] = _step(prepared[key], cell.recipe.train.batch_size)
        steps = _epochs(cell) * math.ceil(len(prepared[key].rows["train"]) / cell.recipe.train.batch_size)
        minutes = _OVERHEAD * steps * step_seconds[key] / 60
        megabytes = _bytes(cell, prepared[key]) / 2**20
        estimates.append(Estimate(minutes, megabytes))
    return estimates, list(prepared.values())


def _key(recipe: Recipe) -> str:
    """What cells share that are prepared alike."""
    parts = [asdict(recipe.data), asdict(recipe.tokenizer), asdict(recipe.vectors), recipe.model]
    return json.dumps(parts, default=str)


def _epochs(cell: Cell) -> float:
    """Epochs of a cell: of its trainings, and what ROAR takes beside."""
    return sum(cell.stages.values()) + sum(curve.epochs for curve in curves_of(cell, RunFolder(cell.folder)))


def _bytes(cell: Cell, data: Prepared) -> float:
    """Disk of a cell: its models, what is kept while one trains, and the tables of the test split."""
    models = 1 + len(cell.twins)
    weights = sum(p.numel() for p in new_model(data.config).parameters())
    values = models * sum(data.rows["test"].lengths)
    return _WEIGHT_BYTES * weights * (models + _OF_TRAINING) + _VALUE_BYTES * values


def _step(data: Prepared, batch_size: int) -> float:
    """Seconds of a training step, the median of three."""
    model = new_model(data.config).train()
    with threads_for(computing_weights(model)):
        return _timed(model, data, batch_size)


def _timed(model: Any, data: Prepared, batch_size: int) -> float:
    batch = _batch_of_mean_length(model, data, batch_size)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    times = []
    for _ in range(_TIMED_STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        model(**batch).logits.square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:])) + _TRAINER_SECONDS


def _batch_of_mean_length(model: Any, data: Prepared, batch_size: int) -> dict[str, torch.Tensor]:
    """Random tokens, as many a text as the training texts have on average."""
    train = data.rows["train"]
    length = max(1, round(float(np.mean(train.lengths))))
    generator = torch.Generator().manual_seed(0)
    batch = {"input_ids": torch.randint(0, data.config.vocab_size, (batch_size, length), generator=generator)}  # (B, T)
    if model.reads_sentences:
        batch["sentence_ids"] = torch.arange(length).expand(batch_size, -1) // _WORDS  # (B, T)
    if data.config.query:
        query_lengths = list(map(len, train["query_input_ids"]))
        query_length = max(1, round(float(np.mean(query_lengths))))
        batch["query_input_ids"] = torch.ones(batch_size, query_length, dtype=torch.int64)  # (B, Q)
    return batch
