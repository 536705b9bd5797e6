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

IMPOSED = "attention_weights"  # the column of the attention that is imposed
_BATCH_SIZE = 128


def with_imposed_attention(rows: Any, guide: Outputs) -> Any:
    """The rows with the attention of another model, base or twin, as a column, which `imposed_control` reads."""
    attention = with_base(rows, guide)["base_attention"]
    return rows.with_columns(**{IMPOSED: attention})


def uniform_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of the same model with every token weighing the same (their section 3.2).

    Args:
        config: of the base.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own.
        test: rows to predict.
    """
    model = _new_control(config, vectors, task.seed, attention="uniform", query=_reads_query(config))
    collate = _collator(task.collate, model)
    train_base(model, replace(task, collate=collate))
    return run_over(model, test, collate).probabilities


def mlp_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of an MLP with attention of its own (their section 3.4, "trained MLP").

    Args:
        config: of the base, whose encoder gives way to an MLP.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own.
        test: rows to predict.
    """
    model = _new_control(config, vectors, task.seed, encoder="mlp")
    return _of_mlp(model, task, test)


def imposed_uniform_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of an MLP with every token weighing the same (their section 3.4, "uniform").

    Args:
        config: of the base, whose encoder gives way to an MLP.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own.
        test: rows to predict.
    """
    changes = {"encoder": "mlp", "attention": "uniform", "query": _reads_query(config)}
    model = _new_control(config, vectors, task.seed, **changes)
    return _of_mlp(model, task, test)


def imposed_control(
    config: Any,
    vectors: torch.Tensor | None,
    task: TrainingTask,
    test: Any,
) -> np.ndarray:
    """Test probabilities (n, C) of an MLP whose attention is that of another model, imposed (their section 3.4).

    Where it does as well as the base and better than an MLP with its own attention, that attention is useful by itself:
    the base's ("base LSTM" in their table 3) should be, a twin's ("adversary") should not.

    Args:
        config: of the base, whose encoder gives way to an MLP.
        vectors: word vectors that the base began with.
        task: the base's training, with a seed of its own; its rows have the attention of base or twin, see
            `with_imposed_attention`.
        test: rows to predict, with the same column.
    """
    model = _new_control(config, vectors, task.seed, encoder="mlp", query=_reads_query(config))
    model.attention.requires_grad_(False)  # not used; processes that train together wait for every gradient
    collate = _collator(task.collate, model, IMPOSED)
    train_base(model, replace(task, collate=collate, settings=_of_mlps(task.settings)))
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


def _of_mlp(model: Any, task: TrainingTask, test: Any) -> np.ndarray:
    """Test probabilities (n, C) of an MLP that is trained under its own attention."""
    collate = _collator(task.collate, model)
    train_base(model, replace(task, collate=collate, settings=_of_mlps(task.settings)))
    return run_over(model, test, collate).probabilities


def _of_mlps(settings: Any) -> Any:
    """The base's settings as they are for all MLPs, so that these differ in their attention alone."""
    # regularizers are of the base's states, which another encoder has not; attention is that of texts without masks
    return replace(settings, regularizers={}, masking=None)


def _reads_query(config: Any) -> bool:
    """Whether a query still acts on a model whose attention it cannot act through: where the read-out reads it."""
    return bool(config.query) and config.readout == "tanh"


def _new_control(
    config: Any,
    vectors: torch.Tensor | None,
    seed: int,
    **changes: Any,
) -> Any:
    """A model of the base's configuration with some changes."""
    settings = {**config.to_dict(), **changes}
    with seeded(seed):
        model = new_model(type(config).from_dict(settings))
        if vectors is not None:
            model.load_vectors(vectors)
    return model


def _collator(collate: Any, model: Any, *columns: str) -> Any:
    """The collator with further columns, and without the query where the model has none."""
    names = [name for name in collate.columns if model.config.query or name != "query_input_ids"]
    return type(collate)(collate.pad_token_id, (*names, *columns))
