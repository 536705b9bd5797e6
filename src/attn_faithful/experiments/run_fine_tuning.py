"""Fine-tuning of a transformers classifier from texts to a run folder: train, predict the test split, sum up."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._seeds import seed_for
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.block_rows import RowBuilder
from attn_faithful.experiments.cell_training import StageProgress
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.fine_tune_plan import FineTuning
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.results import Writer, tidy
from attn_faithful.experiments.run_facts import long_history, run_meta, weights_of_origin
from attn_faithful.experiments.run_tests import evaluate_rows
from attn_faithful.experiments.scoring import stored_probabilities
from attn_faithful.experiments.stock_texts import StockTexts
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.experiments.trained_models import History, ModelStore, TrainedModel
from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
from attn_faithful.models.entry import as_stock_model
from attn_faithful.models.pretrained import Pretrained
from attn_faithful.models.stock.model import StockModel
from attn_faithful.records.meta import FINE_TUNE_KEYS, RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.store import RunFolder, weights
from attn_faithful.training.fine_tuning import fine_tune
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.placement import training_on
from attn_faithful.training.settings import selection_metric
from attn_faithful.training.task import TrainingTask

STAGE = "base"  # what reports call the training of a model that has no twins
_NO_TESTS = EvaluationSettings()


def run_seed(
    tuning: FineTuning,
    seed: int,
    output: str | Path,
    on_progress: StageProgress = lambda stage, epoch, epochs, metrics: None,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Train a model with one seed and write its run folder; a finished run is taken as it is.

    Args:
        tuning: model, texts and settings.
        seed: of a new head, the order of batches and dropout.
        output: folder of the run folder.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)`` after every epoch.
        processes: that share each batch; the main one writes.

    Returns:
        the run folder: the model at its best epoch in ``model``, which `attn_faithful.load` and transformers read;
        ``predictions`` of the test split, ``tokens`` with the attention of the last layer, ``history``.

    Raises:
        InputError: a split of which the model can read no text, or another process that writes there.
    """
    folder = tuning.folder(seed, output)
    if processes.of_main(folder.done):
        tidy(folder)
        return folder
    threads = threads_for(computing_weights(tuning.data.model))
    with quiet(), recipe_precision(), threads, training_on(tuning.device), processes.writing(folder):
        if not processes.of_main(folder.done):  # another process may have been faster
            FineTuneRun(tuning, seed, folder, on_progress, processes).run()
    return folder


def run_seeds(
    tuning: FineTuning,
    seeds: Sequence[int],
    output: str | Path,
    on_progress: Callable[[int, str, int, int, dict[str, Any]], None],
    on_done: Callable[[int], None] = lambda seed: None,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> list[RunFolder]:
    """A run a seed, and the folders of all of them once every process is done.

    Args:
        tuning: model, texts and settings.
        seeds: different ones.
        output: folder of the run folders.
        on_progress: ``on_progress(seed, stage, epoch, epochs, metrics)``.
        on_done: ``on_done(seed)`` when its run is done.
        processes: that share the seeds, or each batch.
    """
    of_a_seed = processes if processes.together else SINGLE_PROCESS
    for seed in own_seeds(seeds, processes):
        run_seed(tuning, seed, output, partial(on_progress, seed), of_a_seed)
        on_done(seed)
    processes.wait("seeds")
    return [tuning.folder(seed, output) for seed in seeds]


def own_seeds(seeds: Sequence[int], processes: ProcessGroup) -> list[int]:
    """The seeds that this process trains."""
    if processes.together:
        return list(seeds)
    return list(seeds[processes.rank :: processes.world])


@dataclass
class FineTuneRun:
    """The stages of one seed.

    Attributes:
        tuning: model, texts and settings.
        seed: of a new head, the order of batches and dropout.
        folder: of the run.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)``.
        processes: that share the work.
        start: when the run began.
    """

    tuning: FineTuning
    seed: int
    folder: RunFolder
    on_progress: StageProgress
    processes: ProcessGroup
    start: float = field(default_factory=time.time)

    @property
    def data(self) -> StockTexts:
        return self.tuning.data

    @property
    def test(self) -> Rows:
        """The encoded texts of the test split."""
        return self.data.encoded["test"]

    def run(self) -> None:
        """All stages."""
        splits = self.data.read(self.data.training)
        left_out: list[str] = []
        for name, split in splits.items():
            left_out += split.note(name)
        trained = self.train({name: split.readable for name, split in splits.items()})
        writer = self.predict(trained.model)
        if self.processes.main:
            self.finish(trained, writer, left_out)
        self.processes.wait("fine-tuned")

    def train(self, rows: dict[str, Rows]) -> TrainedModel:
        """The model at its best epoch: from the folder where it was finished, else trained."""
        settings = self.tuning.settings

        def fit(checkpoints: Path) -> tuple[Any, History]:
            self.on_progress(STAGE, 0, settings.epochs, {})
            model = self.tuning.start.model(self.seed)
            task = TrainingTask(
                rows["train"],
                rows[settings.select_on],
                self.data.collate("train"),
                settings,
                seed_for(self.seed, STAGE) % 2**31,
                checkpoints,
                partial(self.on_progress, STAGE),
                self.tuning.start.tokenizer.mask_token_id,
            )
            return model, fine_tune(model, task)

        models = ModelStore(self.folder, self.tuning.start.tokenizer, self.data.texts, self.processes)
        sign = 1 if settings.select_by == "loss" else -1
        return models.get("model", fit, rank=lambda row: sign * row[selection_metric(settings)], load=self._load)

    def _load(self, path: Path) -> StockModel:
        return as_stock_model(Pretrained.read(path).network.to(self.data.model.device))

    def predict(self, model: StockModel) -> Writer:
        """Write what the model says of the test split."""
        texts = self.data.texts
        evaluated = EvaluatedModel.of(model, self.tuning.start.tokenizer, self.data.collate("test"), texts.label_names)
        builder = RowBuilder.of(self.tuning.start.tokenizer, texts.splits["test"], self.test, joined=True)
        writer = Writer(self.folder, builder, self.processes, depends_on=weights(self.folder / "model"))
        evaluate_rows(evaluated, self.test, _NO_TESTS, writer)
        writer.close()
        return writer

    def finish(self, trained: TrainedModel, writer: Writer, left_out: Sequence[str]) -> None:
        """Write history, summary.json and meta.json."""
        record = trained.record
        probabilities = stored_probabilities(self.folder, len(self.test))
        labels = np.asarray(self.test.labels)
        base: dict[str, Any] = dict(classification_metrics(probabilities, labels, self.tuning.start.multi_label))
        base |= {"epoch": record.epoch, "seconds": record.seconds}
        self.folder.write_table("history", long_history({STAGE: record.history}))
        self.folder.write_summary(RunSummary(base=base).as_json())
        self.folder.write_meta(self.meta(trained.model, writer, left_out).as_json(FINE_TUNE_KEYS))
        writer.finish()
        for note in left_out:
            warnings.warn(note, UndefinedTextWarning, stacklevel=3)

    def meta(self, model: StockModel, writer: Writer, left_out: Sequence[str]) -> RunMeta:
        """How the numbers came about."""
        tuning = self.tuning
        source = tuning.source.source
        data = data_facts(self.data.texts, self.data.encoded, tuning.start.tokenizer, source=source)
        return run_meta(
            self.start,
            self.processes,
            model.device,
            axes={"data": self.data.texts.name, "model": tuning.names.in_tables},
            seed=self.seed,
            identity=tuning.of_seed(self.seed).short,
            model=tuning.origin,
            weights=weights_of_origin(tuning.origin),
            recipe={"data": asdict(tuning.source), "train": tuning.settings_on_disk},
            label_names=self.data.texts.label_names,
            data=replace(data, notes=[*data.notes, *left_out]),
            parameters=sum(weight.numel() for weight in model.parameters()),
            failed=writer.failed,
        )
