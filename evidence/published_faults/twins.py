"""Twins that are trained for one measurement, and how far they are from their base."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_faithful.data.rows import Rows
from attn_faithful.experiments.inputs import encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.twin import TwinTrainer, fit_twin, new_twin
from evidence.published_faults.comparing import Array
from evidence.published_faults.trained import TEST, Trained


@dataclass(frozen=True)
class Distances:
    """How far a twin is from its base on each of n texts.

    Attributes:
        tvd: of the predictions (n,).
        jsd: of the attention (n,), nats; NaN where a text has no content token.
    """

    tvd: Array
    jsd: Array


@dataclass(frozen=True)
class Base:
    """A base model with its data and what it says of them.

    Attributes:
        model: the base.
        seed: of its training.
        rows: encoded texts of each split.
        outputs: of the base on each split.
    """

    model: Any
    seed: int
    rows: Mapping[str, Rows]
    outputs: Mapping[str, Outputs]

    @classmethod
    def of(cls, trained: Trained) -> Base:
        """A trained model and all splits of its data."""
        model, task = trained.model, trained.task()
        splits = task.texts.splits
        rows = {split: Rows.of(encoded_for(model, task.tokenizer, splits[split])) for split in splits}
        return cls.on(model, trained.seed, rows)

    @classmethod
    def on(cls, model: Any, seed: int, rows: Mapping[str, Rows]) -> Base:
        """A model on encoded texts."""
        collate = collator(rows[TEST], (), model.pad_token_id)
        outputs = {split: run_over(model, of_split, collate) for split, of_split in rows.items()}
        return cls(model, seed, rows, outputs)

    def twin_rows(self, split: str) -> Any:
        """The texts of a split with the base's outputs as columns."""
        return with_base(self.rows[split], self.outputs[split])

    def outputs_of(self, twin: Any, split: str) -> Outputs:
        """What a twin says of the texts of a split."""
        return run_over(twin, self.rows[split], collator(self.rows[split], (), self.model.pad_token_id))

    def distances(self, twin: Any, split: str = TEST) -> Distances:
        """How far a twin is from the base on the texts of a split."""
        found, own = self.outputs_of(twin, split), self.outputs[split]
        tvd, jsd, _ = per_example_divergences(found.probabilities, own.probabilities, found.attention, own.attention)
        return Distances(tvd, jsd)


def trained_twin(trainer: type[TwinTrainer], base: Base, settings: TwinSettings, **further: Any) -> Any:
    """A twin at its best epoch, trained by a trainer of a class with further arguments of its own."""
    twin = new_twin(base.model, base.seed, settings.start)
    with tempfile.TemporaryDirectory() as folder:
        task = TrainingTask(
            train=base.twin_rows("train"),
            selection=base.twin_rows(settings.select_on),
            collate=collator(base.rows["train"], ("base_attention", "base_probabilities"), base.model.pad_token_id),
            settings=settings,
            seed=base.seed,
            checkpoints=Path(folder) / "checkpoints",
        )
        fit_twin(trainer, twin, task, **further)
    return twin.eval()
