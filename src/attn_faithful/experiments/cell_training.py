"""The trainings of one cell: base, controls and twins. Each is resumed where it stopped, and done once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.data.rows import Rows
from attn_faithful.experiments.control_plan import IMPOSED_TWIN, ControlPlan
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import Prepared, collator
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.trained_controls import TrainedControl, write_control
from attn_faithful.experiments.trained_models import History, ModelStore, TrainedModel
from attn_faithful.experiments.twin_plan import TwinPlan
from attn_faithful.models.architectures import new_model
from attn_faithful.models.inference import Outputs
from attn_faithful.store import RunFolder
from attn_faithful.training.base import train_base
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.settings import selection_metric
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import seeded
from attn_faithful.training.twin import new_twin, train_twin
from attn_faithful.training.wiegreffe_pinter import (
    imposed_control,
    imposed_uniform_control,
    mlp_control,
    uniform_control,
    with_imposed_attention,
)

StageProgress = Callable[[str, int, int, dict[str, Any]], None]  # stage, epoch, epochs, metrics

CONTROLS = {
    "uniform": uniform_control,
    "mlp": mlp_control,
    "imposed_uniform": imposed_uniform_control,
    "imposed": imposed_control,
    IMPOSED_TWIN: imposed_control,
}


@dataclass
class CellTraining:
    """The models of a cell whose data is prepared.

    Attributes:
        cell: base and twins.
        data: texts, encoded rows, tokenizer and configuration.
        folder: of the run.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)``.
        processes: that share the work.
        histories: of each training, by name.
    """

    cell: Cell
    data: Prepared
    folder: RunFolder
    on_progress: StageProgress
    processes: ProcessGroup
    histories: dict[str, History] = field(default_factory=dict)

    @property
    def models(self) -> ModelStore:
        return ModelStore(self.folder, self.data.tokenizer, self.data.texts, self.processes)

    def base(self) -> TrainedModel:
        """The base at its best epoch."""
        base = self.classifier("model", "base")
        self.histories["base"] = base.record.history
        return base

    def classifier(self, name: str, stage: str, purpose: str = "base") -> TrainedModel:
        """A classifier of the cell's kind at its best epoch.

        Args:
            name: of its folder in the run folder.
            stage: what its training is called in reports of progress.
            purpose: that its seeds are of: trainings of one purpose begin with the same weights and order of batches.
        """
        settings = self.cell.recipe.train
        rows = self.data.rows

        def fit(checkpoints: Path) -> tuple[Any, History]:
            with seeded(self.cell.seed_of(purpose, "weights")):
                model = new_model(self.data.config)
                if self.data.vectors is not None:
                    model.load_vectors(self.data.vectors)
            collate = collator(rows[settings.select_on])
            task = self._task(stage, rows, collate, settings, self.cell.seed_of(purpose), checkpoints)
            return model, train_base(model, task)

        metric = selection_metric(settings)
        sign = 1 if settings.select_by == "loss" else -1
        return self.models.get(name, fit, rank=lambda row: sign * row[metric])

    def encode(self, model: Any) -> dict[str, Outputs]:
        """Predictions and attention of a model on every split."""
        outputs = {}
        for split, rows in self.data.rows.items():
            outputs[split] = self.processes.run_over(model, rows, collator(rows))
        return outputs

    def controls(self, outputs: Mapping[str, Outputs]) -> dict[str, TrainedControl]:
        """The controls of Wiegreffe and Pinter (2019) that need no twin, by name.

        Args:
            outputs: of the base on every split.
        """
        trained = {}
        for plan in self.cell.controls:
            trained[plan.name] = self._control(plan, lambda: outputs)
        return trained

    def controls_of(self, twin: TwinPlan, model: Any) -> dict[str, TrainedControl]:
        """Those that are under a twin's attention, by name.

        Args:
            twin: its settings and seed.
            model: the twin.
        """
        trained = {}
        for plan in self.cell.controls_of(twin):
            trained[plan.name] = self._control(plan, lambda: self.encode(model))
        return trained

    def _control(self, plan: ControlPlan, guide: Callable[[], Mapping[str, Outputs]]) -> TrainedControl:
        """A control from the folder where it was finished; before that it is trained, and what it gave saved there."""
        path = self.folder / plan.file_name
        if not path.is_file():
            self._train_control(plan, guide(), path)
        return TrainedControl.read(path, plan)

    def _train_control(
        self,
        plan: ControlPlan,
        guide: Mapping[str, Outputs],
        path: Path,
    ) -> None:
        """Train a control, whose attention may be imposed by a guide: the outputs of base or twin on every split."""
        data = self.data
        rows = {}
        for split, split_rows in data.rows.items():
            rows[split] = with_imposed_attention(split_rows, guide[split])
        collate = collator(data.rows["train"])
        # the MLPs begin alike and read the same batches, so that they differ in their attention alone
        purpose = "uniform" if plan.control == "uniform" else "imposed"
        seed = self.cell.seed_of("control", purpose)
        checkpoints = self.folder / f".{plan.name}.checkpoints"
        task = self._task(plan.name, rows, collate, self.cell.recipe.train, seed, checkpoints)
        probabilities = CONTROLS[plan.control](data.config, data.vectors, task, rows["test"])
        labels = np.asarray(data.rows["test"].labels)
        metrics = classification_metrics(probabilities, labels, data.config.multi_label)
        if self.processes.main:
            self.folder.place(path, lambda target: write_control(target, metrics, probabilities))
        self.processes.wait(plan.name)

    def twin(
        self,
        plan: TwinPlan,
        base: Any,
        outputs: Mapping[str, Outputs],
    ) -> TrainedModel:
        """A twin at its best epoch.

        Args:
            plan: its settings and seed.
            base: the model.
            outputs: of the base on every split.
        """
        settings = plan.settings

        def fit(checkpoints: Path) -> tuple[Any, History]:
            seed = self.cell.seed_of("twin", plan.seed, "weights")
            twin = new_twin(base, seed, settings.start, self.data.vectors)
            rows = {}
            for split in ("train", settings.select_on):
                rows[split] = with_base(self.data.rows[split], outputs[split])
            collate = collator(rows["train"], ("base_attention", "base_probabilities"))
            task = self._task(plan.stage, rows, collate, settings, self.cell.seed_of("twin", plan.seed), checkpoints)
            return twin, train_twin(twin, task)

        twin = self.models.get(plan.folder_name, fit, rank=lambda row: row["eval_selection"])
        self.histories[plan.name] = twin.record.history
        return twin

    def _task(
        self,
        stage: str,
        rows: Mapping[str, Rows],
        collate: Any,
        settings: Any,
        seed: int,
        checkpoints: Path,
    ) -> TrainingTask:
        """A training on the rows of "train", selected on those that the settings name; its beginning is reported."""
        self.on_progress(stage, 0, settings.epochs, {})
        return TrainingTask(
            train=rows["train"],
            selection=rows[settings.select_on],
            collate=collate,
            settings=settings,
            seed=seed,
            checkpoints=checkpoints,
            on_progress=partial(self.on_progress, stage),
            mask_token_id=self.data.tokenizer.mask_token_id,
        )
