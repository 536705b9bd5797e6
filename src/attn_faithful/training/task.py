"""What a training needs beside the model: data, settings, seed, and where its checkpoints go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EpochProgress = Callable[[int, int, dict[str, Any]], None]  # epoch, epochs, metrics


@dataclass(frozen=True)
class TrainingTask:
    """One training of a model that is already built.

    Attributes:
        train, selection: encoded data sets with ``input_ids``, ``length`` and ``labels``; the best epoch is chosen on
            the second.
        collate: makes batches.
        settings: a `TrainSettings`, `TwinSettings` or `StockTwinSettings`.
        seed: of the order of batches and of dropout; the initial weights are the caller's.
        checkpoints: a folder for checkpoints; a training that was stopped resumes from there, and the folder is removed
            at the end.
        on_progress: ``on_progress(epoch, epochs, metrics)`` after each epoch.
        mask_token_id: of the tokenizer, for settings with masking.
    """

    train: Any
    selection: Any
    collate: Any
    settings: Any
    seed: int
    checkpoints: Path
    on_progress: EpochProgress | None = None
    mask_token_id: int | None = None
