"""Evaluates a model that exists already on a data set: the same stages as a cell has after its training."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.data.source_file import read_source_file
from attn_faithful.data.unknown_tokens import unknown_notes
from attn_faithful.experiments.block_rows import RowBuilder
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.descriptions import attention_read, trained_on
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_task import Task
from attn_faithful.experiments.gold import Gold
from attn_faithful.experiments.head_fitting import learn_heads
from attn_faithful.experiments.inputs import encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.results import Writer, kept_tables, tidy
from attn_faithful.experiments.run_facts import run_meta, weights_of_origin
from attn_faithful.experiments.run_tests import ExampleProgress, evaluate_rows
from attn_faithful.experiments.scoring import StoredScores, stored_probabilities
from attn_faithful.experiments.shown_items import ShownItems
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.models.devices import device_of
from attn_faithful.records.learned_heads import LearnedHeads
from attn_faithful.records.meta import EVALUATION_KEYS, RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision


def evaluate_task(
    task: Task,
    output: str | Path,
    *,
    chunk_size: int | None = None,
    processes: ProcessGroup = SINGLE_PROCESS,
    on_progress: ExampleProgress = lambda done, n: None,
) -> RunFolder:
    """Run the tests and write a run folder; a finished one is taken as it is.

    Args:
        task: model, texts and tests.
        output: folder of the run folder.
        chunk_size: examples whose results a process holds before it writes them.
        processes: that share the work.
        on_progress: ``on_progress(done, n)`` in examples of this process.

    Raises:
        InputError: what is wrong with the data, the settings or the source file; another process writes there.
    """
    folder = task.folder(output)
    if processes.of_main(folder.done):
        tidy(folder)
        return folder
    if not len(task.texts.splits[task.split]):
        raise InputError(f"The split {task.split!r} of {task.texts.name} is empty.")
    threads = threads_for(computing_weights(task.model))
    with recipe_precision(), threads, processes.writing(folder):
        if not processes.of_main(folder.done):  # another process may have been faster
            EvaluationRun(task, folder, processes, chunk_size).run(on_progress)
    return folder


class EvaluationRun:
    """The stages of an evaluation.

    Args:
        task: model, texts and tests.
        folder: of the run.
        processes: that share the work.
        chunk_size: examples whose results a process holds before it writes them.
    """

    def __init__(
        self,
        task: Task,
        folder: RunFolder,
        processes: ProcessGroup,
        chunk_size: int | None,
    ) -> None:
        self.task = task
        self.folder = folder
        self.processes = processes
        self.chunk_size = chunk_size
        self.start = time.time()
        self.texts = task.texts.splits[task.split]
        self.rows = self._encoded(self.texts)
        task.texts.notes.extend(unknown_notes(task.tokenizer, self.rows, task.texts.name))

    def run(self, on_progress: ExampleProgress) -> None:
        """All stages."""
        task = self.task
        collate = collator(self.rows, (), task.model.pad_token_id)
        evaluated = EvaluatedModel.of(task.model, task.tokenizer, collate, task.texts.label_names)
        evaluated = self._with_learned_heads(evaluated)
        builder = RowBuilder.of(task.tokenizer, self.texts, self.rows, joined=task.model.reads_pairs)
        file_importance, notes = self._file_importance(builder.items)
        writer = Writer(self.folder, builder, self.processes, self.chunk_size, depends_on=task.identity.digest)
        evaluate_rows(evaluated, self.rows, task.settings, writer, file_importance, on_progress)
        writer.close()
        if self.processes.main:
            with kept_tables(self.folder):
                self.folder.write_summary(self.summary().as_json())
                self.folder.write_meta(self.meta(writer, notes).as_json(EVALUATION_KEYS))
            writer.finish()
        self.processes.wait("evaluated")

    def _with_learned_heads(self, evaluated: EvaluatedModel) -> EvaluatedModel:
        """The model with the weights of its heads, where a source needs them: an earlier run's, or new ones."""
        fit = self.task.fit
        if fit is None:
            return evaluated
        stored = self.processes.of_main(self.folder.read_learned_heads())
        if stored is not None:
            learned = LearnedHeads.from_json(stored)
        else:
            rows = self._encoded(fit.texts)
            learned = learn_heads(evaluated, rows, self.task.settings, fit.name, self.processes)
            if self.processes.main:
                self.folder.write_learned_heads(learned.as_json())
        self.task.texts.notes.append(learned.summary)
        weights = torch.tensor(learned.weights, dtype=torch.float64)  # (L, H)
        return replace(evaluated, head_weights=weights)

    def _encoded(self, texts: Any) -> Rows:
        """The encoded texts, with tokens, or special tokens too, as items where the settings say so."""
        task = self.task
        encoded = encoded_for(task.model, task.tokenizer, texts)
        unused = []
        if task.settings.units == "token":
            unused.append("word_ids")
        if task.settings.special_tokens == "keep":
            unused.append("special_tokens_mask")
        columns = [name for name in unused if name in encoded.column_names]
        return Rows.of(encoded.remove_columns(columns))

    def _file_importance(self, items: ShownItems) -> tuple[Any, list[str]]:
        """Importance from the source file, and notes of what it lacks."""
        path = self.task.source_file
        if path is None:
            return None, []
        given = read_source_file(path, items.for_source_file(self.task.texts.shortened))
        return given.values, given.notes

    def summary(self) -> RunSummary:
        """The scores that were written, summed up, and how well the model predicts."""
        probabilities = stored_probabilities(self.folder, len(self.rows))  # (n, C)
        names, multi_label = self.task.texts.label_names, self.task.multi_label
        labels = np.asarray(Gold(self.rows).labels(range(len(self.rows))))
        summary = RunSummary(base=classification_metrics(probabilities, labels, multi_label))
        scores = StoredScores(self.folder, self.rows.examples, probabilities, names, multi_label)
        return scores.added_to(summary)

    def meta(self, writer: Writer, notes: list[str]) -> RunMeta:
        """How the numbers came about."""
        task = self.task
        data = data_facts(task.texts, {task.split: self.rows}, task.tokenizer, source=task.source)
        return run_meta(
            self.start,
            self.processes,
            device_of(task.model),
            axes={"data": task.texts.name, "model": task.name},
            seed=task.settings.seed,
            identity=task.identity.short,
            model=task.origin,
            attention=attention_read(task.model),
            trained_on=trained_on(task.origin),
            weights=weights_of_origin(task.origin),
            split=task.split,
            evaluation=task.settings.on_disk(),
            test_settings=task.settings.in_full(),
            precision=dict(task.precision or {}),
            source_file=task.source_file,
            label_names=task.texts.label_names,
            data=replace(data, notes=[*data.notes, *notes]),
            failed=writer.failed,
            source_seconds=writer.source_seconds,
        )
