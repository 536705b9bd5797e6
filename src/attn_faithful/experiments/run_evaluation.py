"""Evaluates a model that exists already on a data set: the same stages as a cell has after its training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.importance_file import read_importance
from attn_faithful.data.rationales import RATIONALE
from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData
from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
from attn_faithful.data.unknown_tokens import unknown_notes
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.block_rows import RowBuilder
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.descriptions import attention_read, trained_on
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.gold import Gold
from attn_faithful.experiments.identity import Identity, digest, run_identity
from attn_faithful.experiments.inputs import DataInput, ModelInput, encoded_for, labelled_texts
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.results import Writer, kept_tables, tidy
from attn_faithful.experiments.run_facts import run_meta, weights_of_origin
from attn_faithful.experiments.run_tests import ExampleProgress, evaluate_rows
from attn_faithful.experiments.scoring import StoredScores
from attn_faithful.experiments.shown_items import ShownItems, queries, shown_items
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.experiments.wrapped_settings import agreed, possible
from attn_faithful.models.configurations import is_multi_label, padding_id, text_config, vocabulary_size
from attn_faithful.models.entry import as_attention_model, check_vocabulary, in_full
from attn_faithful.records.meta import EVALUATION_KEYS, RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision


@dataclass(frozen=True)
class Task:
    """A model and the texts to test it on.

    Attributes:
        model: speaks the protocol.
        tokenizer: the model's.
        name: what tables call the model.
        texts: the data set.
        split: which of its splits.
        settings: which tests, and how.
        source_file: importance that was computed elsewhere, or None.
        origin: folder or Hub id that the model came from; None for a model that only lives in memory.
        source: where the texts came from, as the user named it.
        precision: the types that the model's weights are "stored" and "measured" in.
        folder_name: the model's part of the name of the run folder, which does not depend on where it lies; None for
            its name.
    """

    model: Any
    tokenizer: Any
    name: str
    texts: TextData
    split: str
    settings: EvaluationSettings
    source_file: str | None = None
    origin: str | None = None
    source: str | None = None
    precision: Mapping[str, str] | None = None
    folder_name: str | None = None

    @cached_property
    def identity(self) -> Identity:
        """All that could change a number of the run."""
        file_digest = None
        if self.source_file is not None:
            file_digest = digest(Path(self.source_file), named=False)
        return run_identity(
            "evaluate",
            self.model,
            self.tokenizer,
            self.texts,
            self.split,
            self.settings.on_disk(),
            source_file=file_digest,
        )

    def folder(self, output: str | Path) -> RunFolder:
        """Its run folder: named by what it is and by a hash of everything that could change its numbers."""
        parts = [self.texts.name, self.folder_name or self.name, self.split]
        return RunFolder(Path(output) / self.identity.folder(parts))

    @property
    def multi_label(self) -> bool:
        return is_multi_label(self.model.config)


def make_task(model_input: ModelInput, data: DataInput, settings: EvaluationSettings) -> Task:
    """A task from what a user names.

    Args:
        model_input: a model that speaks the protocol, or a transformers classifier, which is wrapped.
        data: where the texts come from; labels are mapped to the model's classes.
        settings: which tests, and how; none named means all of them.

    Raises:
        InputError: the model does not speak the protocol, the data cannot be read, a label is none of the model's, an
            unknown split.
    """
    model, precision = in_full(as_attention_model(model_input.model))
    tokenizer = model_input.tokenizer
    check_vocabulary(model, tokenizer)
    model, settings = agreed(model, settings)
    _check_pair(model, tokenizer)
    texts = labelled_texts(model, data, "evaluate")
    if not (model.has_query or model.reads_pairs):
        _leave_out_queries(texts)
    split = data.split or _last_split(texts)
    check_choice(f"split of {texts.name}", split, texts.splits)
    has_rationales = RATIONALE in texts.splits[split].column_names
    settings, left_out = _possible_tests(model, settings, has_rationales)
    texts.notes += left_out
    if precision["stored"] != precision["measured"]:
        texts.notes.append(f"The model's weights are stored in {precision['stored']} and measured in float32.")
    if data.source_file is not None:
        settings = settings.against(GIVEN)
    return Task(
        model=model,
        tokenizer=tokenizer,
        name=model_input.name_in_tables(model),
        texts=texts,
        split=split,
        settings=settings,
        source_file=data.source_file,
        origin=model_input.origin,
        source=data.settings.source,
        precision=precision,
        folder_name=model_input.name_in_folder(model),
    )


def _check_pair(model: Any, tokenizer: Any) -> None:
    """Raise where the tokenizer cannot be the model's."""
    config = text_config(model.config)
    size = vocabulary_size(config)
    if size is not None:
        check_tokenizer_fits(tokenizer, size, padding_id(config), config)


def _leave_out_queries(texts: TextData) -> None:
    """Of pairs keep the texts that are attended to, which is all that a model of single texts reads."""
    with_queries = [name for name, rows in texts.splits.items() if "query" in rows.column_names]
    if with_queries:
        texts.notes.append("The model reads single texts: the second text of each pair is left out.")
        removed = {name: texts.splits[name].remove_columns(["query"]) for name in with_queries}
        texts.splits = {**texts.splits, **removed}


def _last_split(texts: TextData) -> str:
    """The split "test" where there is one, else the last."""
    return "test" if "test" in texts.splits else list(texts.splits)[-1]


def _possible_tests(
    model: Any, settings: EvaluationSettings, has_rationales: bool
) -> tuple[EvaluationSettings, list[str]]:
    """The settings with the tests that the model allows, all of them where none is named; and what was left out."""
    if settings.tests:
        return possible(model, settings, named=True)
    tests = [test for test in EVALUATORS if has_rationales or not EVALUATORS[test].needs_rationale]
    return possible(model, replace(settings, tests=tests), named=False)


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
    if folder.done:
        tidy(folder)
        return folder
    if not len(task.texts.splits[task.split]):
        raise InputError(f"The split {task.split!r} of {task.texts.name} is empty.")
    threads = threads_for(computing_weights(task.model))
    with recipe_precision(), threads, processes.writing(folder):
        if not folder.done:  # another process may have been faster
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

    def __init__(self, task: Task, folder: RunFolder, processes: ProcessGroup, chunk_size: int | None) -> None:
        self.task = task
        self.folder = folder
        self.processes = processes
        self.chunk_size = chunk_size
        self.start = time.time()
        self.texts = task.texts.splits[task.split]
        self.rows = self._encoded()
        task.texts.notes.extend(unknown_notes(task.tokenizer, self.rows, task.texts.name))

    def run(self, on_progress: ExampleProgress) -> None:
        """All stages."""
        task = self.task
        collate = collator(self.rows, (), task.model.pad_token_id)
        evaluated = EvaluatedModel.of(task.model, task.tokenizer, collate, task.texts.label_names)
        items = shown_items(task.tokenizer, self.texts, self.rows, joined=task.model.reads_pairs)
        given, notes = self._given_importance(items)
        builder = RowBuilder(self.rows, items, queries(self.texts))
        writer = Writer(self.folder, builder, self.processes, self.chunk_size, depends_on=task.identity.digest)
        evaluate_rows(evaluated, self.rows, task.settings, writer, given, on_progress)
        writer.close()
        if self.processes.main:
            with kept_tables(self.folder):
                self.folder.write_summary(self.summary().as_json())
                self.folder.write_meta(self.meta(writer, notes).as_json(EVALUATION_KEYS))
            writer.finish()
        self.processes.wait("evaluated")

    def _encoded(self) -> Rows:
        """The encoded texts, with tokens, or special tokens too, as items where the settings say so."""
        task = self.task
        encoded = encoded_for(task.model, task.tokenizer, self.texts)
        unused = []
        if task.settings.units == "token":
            unused.append("word_ids")
        if task.settings.special_tokens == "keep":
            unused.append("special_tokens_mask")
        return Rows.of(encoded.remove_columns([name for name in unused if name in encoded.column_names]))

    def _given_importance(self, items: ShownItems) -> tuple[Any, list[str]]:
        """Importance from the source file, and a note of the examples that it lacks."""
        path = self.task.source_file
        if path is None:
            return None, []
        tokens = [items.tokens(place).strings for place in range(len(self.rows))]
        importance, n_missing = read_importance(path, self.rows["example"], tokens)
        notes = [f"{n_missing} examples are not in {path}."] if n_missing else []
        return importance, notes

    def summary(self) -> RunSummary:
        """The scores that were written, summed up, and how well the model predicts."""
        column = self.folder.read_table("predictions", ["probabilities"]).column("probabilities").combine_chunks()
        probabilities = column.flatten().to_numpy().reshape(len(self.rows), -1)  # (n, C)
        names, multi_label = self.task.texts.label_names, self.task.multi_label
        labels = np.asarray(Gold(self.rows).labels(range(len(self.rows))))
        summary = RunSummary(base=classification_metrics(probabilities, labels, multi_label))
        scores = StoredScores(self.folder, self.rows["example"], probabilities, names, multi_label)
        return scores.added_to(summary)

    def meta(self, writer: Writer, notes: list[str]) -> RunMeta:
        """How the numbers came about."""
        task = self.task
        data = data_facts(task.texts, {task.split: self.rows}, task.tokenizer, source=task.source)
        return run_meta(
            self.start,
            self.processes,
            axes={"data": task.texts.name, "model": task.name},
            seed=task.settings.seed,
            identity=task.identity.short,
            model=task.origin,
            attention=attention_read(task.model),
            trained_on=trained_on(task.origin),
            weights=weights_of_origin(task.origin),
            split=task.split,
            evaluation=task.settings.on_disk(),
            precision=dict(task.precision or {}),
            source_file=task.source_file,
            label_names=task.texts.label_names,
            data=replace(data, notes=[*data.notes, *notes]),
            failed=writer.failed,
        )
