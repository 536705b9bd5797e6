"""What a recipe will take: minutes from a few timed steps, disk from the number of weights."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import Prepared, prepare
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.models.architectures import new_model

_WORDS = 15  # a sentence, for timing
_OVERHEAD = 1.4  # checkpoints, selection and encoding, beside the steps


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
    ready: dict[str, Prepared] = {}
    timed: dict[str, float] = {}
    estimates = []
    for cell in cells:
        recipe = cell.recipe
        key = json.dumps(
            [asdict(recipe.data), asdict(recipe.tokenizer), asdict(recipe.vectors), recipe.model], default=str
        )
        data = ready.get(key) or ready.setdefault(key, prepare(recipe))
        seconds = timed.get(key) or timed.setdefault(key, _step(data, recipe.train.batch_size))
        epochs = recipe.train.epochs + sum(settings.epochs for settings, _ in cell.twins)
        epochs += recipe.train.epochs * len(recipe.wiegreffe_pinter)
        steps = -(-len(data.rows["train"]) // recipe.train.batch_size)
        weights = sum(p.numel() for p in new_model(data.config).parameters())
        values = (1 + len(cell.twins)) * sum(data.rows["test"]["length"])
        # while one model trains: its checkpoint and its best, each with two moments a weight
        disk = 4 * weights * (1 + len(cell.twins) + 6) + 8 * values
        estimates.append(Estimate(_OVERHEAD * epochs * steps * seconds / 60, disk / 2**20))
    return estimates, list(ready.values())


def _step(data: Prepared, batch_size: int) -> float:
    """Seconds of a training step, the median of three."""
    model = new_model(data.config).train()
    with threads_for(computing_weights(model)):
        return _timed(model, data, batch_size)


def _timed(model: Any, data: Prepared, batch_size: int) -> float:
    length = max(1, round(float(np.mean(data.rows["train"]["length"]))))
    ids = torch.randint(0, data.config.vocab_size, (batch_size, length), generator=torch.Generator().manual_seed(0))
    given = {"sentence_ids": torch.arange(length).expand(batch_size, -1) // _WORDS} if model.reads_sentences else {}
    if data.config.query:
        asked = max(1, round(float(np.mean([len(query) for query in data.rows["train"]["query_input_ids"]]))))
        given["query_input_ids"] = torch.ones(batch_size, asked, dtype=torch.int64)  # (B, Q)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        optimizer.zero_grad()
        model(ids, **given).logits.square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:])) + 0.003  # Trainer's own work a step
