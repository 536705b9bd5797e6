"""Carries out one curve: masks, a training and a measurement a share. Each point is made once, wherever a run stops."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.data.mask_token import with_mask_token
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.cell_training import CellTraining, StageProgress
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.prepare import Prepared, collator, prepare
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.roar.curve import Curve
from attn_faithful.experiments.roar.importance import ModelImportance, file_importance
from attn_faithful.experiments.roar.texts import Array, Masks, RoarTexts
from attn_faithful.experiments.run_cell import saved_tokenizer
from attn_faithful.experiments.run_facts import versions
from attn_faithful.experiments.threads import threads_for, weights_of
from attn_faithful.experiments.trained_models import TrainedModel
from attn_faithful.models.architectures import load_model
from attn_faithful.records.roar import ALL, PLAIN, RECURSIVE, RoarPoint
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision

_PURPOSE = "roar"  # of the seeds: the models of all curves begin with the same weights and order of batches


def run_curve(curve: Curve, on_progress: StageProgress, processes: ProcessGroup = SINGLE_PROCESS) -> None:
    """Train and measure the models of a curve that are not there yet.

    Args:
        curve: of a finished cell.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)`` after every epoch.
        processes: that share the work; the main one writes.

    Raises:
        InputError: what is wrong with a file of importance, or another process that writes there.
    """
    points = _points(curve)
    if processes.of_main(all(point.file(curve.folder).is_file() for point in points)):
        return
    threads = threads_for(weights_of(curve.cell.recipe.model))
    with quiet(), recipe_precision(), threads, processes.writing(curve.folder):
        tokenizer = with_mask_token(saved_tokenizer(curve.run / "model"))
        data = prepare(curve.cell.recipe, tokenizer)
        texts = RoarTexts.of(data.rows, tokenizer.mask_token_id)
        CurveRun(curve, data, texts, on_progress, processes).run()


@dataclass(frozen=True)
class _Step:
    """A point of a curve before it is made.

    Attributes:
        mode: `PLAIN` or `RECURSIVE`.
        share: of a text that is masked.
    """

    mode: str
    share: float

    @property
    def name(self) -> str:
        """Of its file, and of the folder of its model."""
        return f"{self.mode}-{self.share:g}"

    @property
    def stage(self) -> str:
        """What its training is called in reports of progress."""
        return f"{self.mode}, {self.share:.0%} masked"

    def file(self, folder: RunFolder) -> Path:
        """Where its record is kept."""
        return folder / f"{self.name}.json"

    def masks_file(self, folder: RunFolder) -> Path:
        """Where its masks are kept until it is made."""
        return folder / f"{self.name}.masks.safetensors"


def _points(curve: Curve) -> list[_Step]:
    """All points of a curve, in the order in which they are made."""
    if curve.source == ALL:
        return [_Step(PLAIN, 1.0)]
    points = [_Step(PLAIN, share) for share in curve.shares]
    if curve.is_recursive:
        points += [_Step(RECURSIVE, share) for share in curve.shares[1:]]
    return points


@dataclass(frozen=True)
class CurveRun:
    """The points of a curve whose data is prepared.

    Attributes:
        curve: what is made.
        data: texts, encoded rows without masks, a tokenizer with a mask token, and configuration.
        texts: the same rows, ready to be masked.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)``.
        processes: that share the work.
    """

    curve: Curve
    data: Prepared
    texts: RoarTexts
    on_progress: StageProgress
    processes: ProcessGroup

    @property
    def folder(self) -> RunFolder:
        return self.curve.folder

    def run(self) -> None:
        """All points that are not there yet."""
        for step in _points(self.curve):
            if self.processes.of_main(step.file(self.folder).is_file()):
                continue
            masks = self._masks(step)
            trained = self._trained(step, masks)
            self._write(step, masks, trained)
            self._tidy(step)
        for step in _points(self.curve):
            self._remove_state(step)

    # masks

    def _masks(self, step: _Step) -> Masks:
        """The masked tokens of a point."""
        if step.share == 1:
            return self.texts.all_masks
        if step.mode == PLAIN:
            return self.texts.top(self._base_importance, self.texts.no_masks, step.share)
        path = step.masks_file(self.folder)
        if not self.processes.of_main(path.is_file()):
            masks = self._recursive_masks(step)
            if self.processes.main:
                self.folder.place(path, masks.save)
            self.processes.wait(path.name)
        return Masks.load(path)

    def _recursive_masks(self, step: _Step) -> Masks:
        """The masks of the share before, and the tokens that its model calls most important beside them."""
        before = self._before(step)
        masks = self._masks(before)
        model = self._trained(before, masks).model
        importance = self._importance_by(model, self.texts.rows(masks))
        return self.texts.top(importance, masks, step.share)

    def _before(self, step: _Step) -> _Step:
        """The point whose model gives a recursive one its importance; at the first share both curves are the same."""
        shares = self.curve.shares
        place = shares.index(step.share) - 1
        return _Step(RECURSIVE if place else PLAIN, shares[place])

    @cached_property
    def _base_importance(self) -> dict[str, Array]:
        """Importance of all tokens by the cell's base, or as the file says."""
        path = self.curve.settings.files.get(self.curve.source)
        if path is not None:
            return file_importance(path, self.data, self.texts.splits)
        return self._importance_by(load_model(self.curve.run / "model"), self.data.rows)

    def _importance_by(self, model: Any, rows: Mapping[str, Rows]) -> dict[str, Array]:
        """Importance of all tokens of all splits by a model that reads them so."""
        data = self.data
        evaluated = EvaluatedModel.of(model, data.tokenizer, collator(rows["train"]), data.texts.label_names)
        found = ModelImportance(evaluated, self.curve.cell.recipe.evaluation, self.curve.cell.seed, self.processes)
        importance = {}
        for split, tokens in self.texts.splits.items():
            importance[split] = found.of(self.curve.source, replace(tokens, rows=rows[split]))
        return importance

    # models

    def _trained(self, step: _Step, masks: Masks) -> TrainedModel:
        """The model of a point: from its folder, or trained now."""
        data = replace(self.data, rows=self.texts.rows(masks))
        training = CellTraining(self.curve.cell, data, self.folder, self.on_progress, self.processes)
        return training.classifier(step.name, step.stage, _PURPOSE)

    def _write(self, step: _Step, masks: Masks, trained: TrainedModel) -> None:
        """Measure a model on the masked test texts, and write the record of its point."""
        test = self.texts.rows_of("test", masks)
        outputs = self.processes.run_over(trained.model, test, collator(test))
        labels = np.asarray(test.labels)
        flags = masks.by_split["test"]
        point = RoarPoint(
            source=self.curve.source,
            mode=step.mode,
            share=step.share,
            masked=float(flags.mean()) if len(flags) else math.nan,
            metrics=classification_metrics(outputs.probabilities, labels, self.data.config.multi_label),
            n=len(test),
            n_undefined=masks.n_undefined,
            epoch=trained.record.epoch,
            seconds=trained.record.seconds,
            versions=versions(),
        )
        if self.processes.main:
            self.folder.write_json(step.file(self.folder).name, point.as_json())
        self.processes.wait(step.name)

    # what only points that are not made yet need

    def _tidy(self, step: _Step) -> None:
        """Remove the model and the masks that no further point needs."""
        if step.mode == RECURSIVE:
            self._remove_state(self._before(step))
        is_first = step.share == self.curve.shares[0]
        if step.mode == PLAIN and not (is_first and self.curve.is_recursive):
            self._remove_state(step)

    def _remove_state(self, step: _Step) -> None:
        """Remove the model and the masks of a point, and leave its record."""
        self._remove(self.folder / step.name)
        self._remove(step.masks_file(self.folder))

    def _remove(self, path: Path) -> None:
        if not self.processes.main:
            return
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
