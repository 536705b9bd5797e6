"""Models of a run: trained once, saved in the run folder, loaded from there."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from attn_faithful._checks import InputError
from attn_faithful.data.sentence_tokenizer import with_sentences
from attn_faithful.data.sources import TextData
from attn_faithful.data.training_texts import TrainingTexts
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.models.adapted import network_of
from attn_faithful.models.architectures import load_model
from attn_faithful.store import RunFolder, strict
from attn_faithful.training.checkpoints import disk_errors

History = list[dict[str, Any]]  # a row an epoch
Fit = Callable[[Path], tuple[Any, History]]

RECORD = "training.json"


@dataclass(frozen=True)
class TrainingRecord:
    """How a model was trained: training.json in its folder.

    Attributes:
        epoch: the best one, which was kept.
        seconds: that the training took.
        history: a row an epoch.
    """

    epoch: int
    seconds: float
    history: History


@dataclass(frozen=True)
class TrainedModel:
    """A model of a run, with the record of its training."""

    model: Any
    record: TrainingRecord


@dataclass(frozen=True)
class ModelStore:
    """The models of a run folder.

    Attributes:
        folder: of the run.
        tokenizer: saved with each of them.
        texts: that they are trained on; their fingerprints are saved with each.
        processes: those that train together; the main one writes.
    """

    folder: RunFolder
    tokenizer: Any
    texts: TextData
    processes: ProcessGroup

    def get(
        self,
        name: str,
        fit: Fit,
        rank: Callable[[dict[str, Any]], float],
        load: Callable[[Path], Any] = load_model,
    ) -> TrainedModel:
        """A model from the folder where it was finished; before that it is trained and saved there.

        Args:
            name: of its folder in the run folder.
            fit: ``fit(checkpoints) -> (model, history)`` trains it.
            rank: of a row of the history, what the best epoch has least of.
            load: reads the saved model.

        Raises:
            InputError: no epoch could be chosen, or what is in the folder is damaged.
        """
        path = self.folder / name
        if not path.is_dir():
            self._train(name, fit, rank)
        try:
            entries = json.loads((path / RECORD).read_text())
            record = TrainingRecord(entries["epoch"], entries["seconds"], entries["history"])
            return TrainedModel(load(path), record)
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(f"{path} is damaged ({error}); remove that folder and run again.") from error

    def _train(
        self,
        name: str,
        fit: Fit,
        rank: Callable[[dict[str, Any]], float],
    ) -> None:
        start = time.time()
        model, history = fit(self.folder / f".{name}.checkpoints")
        ranked = [row for row in history if not math.isnan(rank(row))]
        if not ranked:
            raise InputError(
                f"{name}: no epoch could be chosen, since what it is chosen by is undefined in all of them (a class is "
                "missing in the selection split?); set train.select_by to accuracy or loss."
            )
        epoch = round(min(ranked, key=rank)["epoch"])
        record = TrainingRecord(epoch, round(time.time() - start, 1), history)
        if self.processes.main:
            self.folder.place_folder(name, lambda target: self._save(target, model, record))
        self.processes.wait(name)

    def _save(self, target: Path, model: Any, record: TrainingRecord) -> None:
        network: Any = network_of(model)
        with disk_errors(target):
            network.save_pretrained(target)
        tokenizer = with_sentences(self.tokenizer) if model.reads_sentences else self.tokenizer
        tokenizer.save_pretrained(target)
        TrainingTexts.of(self.texts.splits, self.texts.rows, self.texts.single).save(target)
        (target / RECORD).write_text(json.dumps(strict(asdict(record)), allow_nan=False))
