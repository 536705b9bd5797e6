"""Controls of Wiegreffe and Pinter (2019): does the attention carry anything the rest of the model does not?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from attn_faithful.models.architectures import new_model
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.models.protocol import probabilities
from attn_faithful.training.base import TrainSettings, train_base
from attn_faithful.training.trainer import seeded
from attn_faithful.training.twin import with_base


def _fresh(config: Any, vectors: torch.Tensor | None, seed: int, **changes: Any) -> Any:
    # a query that can no longer speak through the attention is kept only where the read-out hears it
    heard = config.query and config.readout == "tanh"
    config = type(config).from_dict({**config.to_dict(), "query": heard, **changes})
    with seeded(seed):
        model = new_model(config)
        if vectors is not None:
            model.load_vectors(vectors)
    return model


def _reads(collate: Any, model: Any, *columns: str) -> Any:
    """The collator with further columns, and without the query where the model has none."""
    kept = (name for name in collate.columns if model.config.query or name != "query_input_ids")
    return type(collate)(collate.pad_token_id, (*kept, *columns))


def uniform_control(
    config: Any,
    vectors: torch.Tensor | None,
    rows: dict[str, Any],
    outputs: dict[str, Outputs],
    collate: Any,
    settings: TrainSettings,
    seed: int,
    checkpoints: Path,
    on_progress: Any = None,
) -> np.ndarray:
    """Test probabilities (n, C) of the same model with every token weighing the same (their section 3.1)."""
    model = _fresh(config, vectors, seed, attention="uniform")
    collate = _reads(collate, model)
    train_base(model, rows["train"], rows[settings.select_on], collate, settings, seed, checkpoints, on_progress)
    return run_over(model, rows["test"], collate).probabilities


def imposed_control(
    config: Any,
    vectors: torch.Tensor | None,
    rows: dict[str, Any],
    outputs: dict[str, Outputs],
    collate: Any,
    settings: TrainSettings,
    seed: int,
    checkpoints: Path,
    on_progress: Any = None,
) -> np.ndarray:
    """Test probabilities (n, C) of an MLP whose attention is the base's, imposed (their section 3.4).

    Where it does as well as the base and better than its own attention, the base's attention is useful by itself.
    """
    model = _fresh(config, vectors, seed, encoder="mlp")
    weighted = {
        split: rows[split].with_columns(attention_weights=with_base(rows[split], outputs[split])["base_attention"])
        for split in rows
    }
    collate = _reads(collate, model, "attention_weights")
    train_base(
        model, weighted["train"], weighted[settings.select_on], collate, settings, seed, checkpoints, on_progress
    )
    chances = []
    test = weighted["test"]
    with torch.no_grad():
        for start in range(0, len(test), 128):
            batch = collate([test[i] for i in range(start, min(start + 128, len(test)))])
            batch.pop("labels", None)
            logits = model(**{name: value.to(model.device) for name, value in batch.items()}).logits
            chances.append(probabilities(logits, config.multi_label).double().cpu())
    return torch.cat(chances).numpy()
