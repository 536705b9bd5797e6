"""Controls of Wiegreffe and Pinter (2019): does the attention carry anything the rest of the model does not?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attn_faithful.models.architectures import new_model
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.models.protocol import probabilities
from attn_faithful.training.base import train_base
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import seeded

IMPOSED = "attention_weights"  # the column of the base's attention
_BATCH_SIZE = 128


def with_imposed_attention(rows: Any, base: Outputs) -> Any:
    """The rows with the base's attention as a column, which `imposed_control` reads."""
    attention = with_base(rows, base)["base_attention"]
    return rows.with_columns(**{IMPOSED: attention})


def uniform_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of the same model with every token weighing the same (their section 3.1).

    Args:
        config: of the base.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own.
        test: rows to predict.
    """
    model = _new_control(config, vectors, task.seed, attention="uniform")
    collate = _collator(task.collate, model)
    train_base(model, replace(task, collate=collate))
    return run_over(model, test, collate).probabilities


def imposed_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of an MLP whose attention is the base's, imposed (their section 3.4).

    Where it does as well as the base and better than its own attention, the base's attention is useful by itself.

    Args:
        config: of the base.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own; its rows have the base's attention, see
            `with_imposed_attention`.
        test: rows to predict, with the same column.
    """
    model = _new_control(config, vectors, task.seed, encoder="mlp")
    collate = _collator(task.collate, model, IMPOSED)
    # regularizers are of the base's states, which another encoder has not; attention is that of texts without masks
    settings = replace(task.settings, regularizers={}, masking=None)
    train_base(model, replace(task, collate=collate, settings=settings))
    parts = []
    with torch.no_grad():
        for start in range(0, len(test), _BATCH_SIZE):
            places = range(start, min(start + _BATCH_SIZE, len(test)))
            rows = [test[place] for place in places]
            batch = collate(rows)
            batch.pop("labels", None)
            inputs = {name: value.to(model.device) for name, value in batch.items()}
            logits = model(**inputs).logits  # (B, C)
            parts.append(probabilities(logits, config.multi_label).double().cpu())
    return torch.cat(parts).numpy()


def _new_control(
    config: Any,
    vectors: torch.Tensor | None,
    seed: int,
    **changes: Any,
) -> Any:
    """A model of the base's configuration with some changes."""
    # a query that can no longer act through the attention is kept only where the read-out reads it
    reads_query = config.query and config.readout == "tanh"
    settings = {**config.to_dict(), "query": reads_query, **changes}
    with seeded(seed):
        model = new_model(type(config).from_dict(settings))
        if vectors is not None:
            model.load_vectors(vectors)
    return model


def _collator(collate: Any, model: Any, *columns: str) -> Any:
    """The collator with further columns, and without the query where the model has none."""
    names = [name for name in collate.columns if model.config.query or name != "query_input_ids"]
    return type(collate)(collate.pad_token_id, (*names, *columns))
