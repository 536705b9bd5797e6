"""Evaluates a model that exists already on a data set: the same stages as a cell has after its training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import Faults, InputError, check_choice
from attn_faithful.data.encoding import check_tokenizer_fits, encode_texts
from attn_faithful.data.files.in_memory import as_rows
from attn_faithful.data.importance_file import read_importance
from attn_faithful.data.rationales import RATIONALE
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.text_column import Texts
from attn_faithful.data.unknown_tokens import unknown_notes
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.data_facts import split_facts
from attn_faithful.experiments.descriptions import attention_read, kind_and_weights, model_name, trained_on
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.identity import NUMBERS_VERSION, Identity, digest, run_identity
from attn_faithful.experiments.label_shapes import fit_label_shapes
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.results import Writer, kept_tables, tidy
from attn_faithful.experiments.run_tables import hardware, item_finder, queries, token_finder, versions
from attn_faithful.experiments.run_tests import EvaluatedModel, evaluate_rows, token_ids
from attn_faithful.experiments.scoring import facts_of, metric_facts, records_of
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.experiments.undefined_texts import failures, warn_of
from attn_faithful.experiments.wrapped_settings import agreed, possible
from attn_faithful.models.configurations import is_multi_label, padding_id, text_config, vocabulary_size
from attn_faithful.models.entry import as_attention_model, check_vocabulary, in_full
from attn_faithful.store import RunFolder, weights
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
        called: what the run's folder calls the model, which does not depend on where it lies; None for its name.
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
    called: str | None = None

    @cached_property
    def identity(self) -> Identity:
        """All that could change a number of the run."""
        file_digest = None if self.source_file is None else digest(Path(self.source_file), named=False)
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
        return RunFolder(Path(output) / self.identity.folder([self.texts.name, self.called or self.name, self.split]))


def make_task(
    model: Any,
    tokenizer: Any,
    data: DataSettings,
    settings: EvaluationSettings,
    split: str | None = None,
    *,
    rows: Any = None,
    name: str | None = None,
    source_file: str | None = None,
    origin: str | None = None,
    faults: Faults | None = None,
) -> Task:
    """A task from what a user names.

    Args:
        model: speaks the protocol, or a transformers classifier, which is wrapped.
        tokenizer: the model's.
        data: where the texts come from; labels are mapped to the model's classes.
        settings: which tests, and how; none named means all of them.
        rows: the data itself, where it is not read from a source.
        split: None takes "test" where there is one, else the last.
        name: what tables call the model; None for its folder or Hub id, see `described.model_name`.
        source_file: importance computed elsewhere; it becomes the source "given" of the test "correlation".
        origin: where the model came from.
        faults: collects all that is wrong with the rows; None raises the first.

    Raises:
        InputError: the model does not speak the protocol, the data cannot be read, a label is none of the model's, an
            unknown split.
    """
    model, precision = in_full(as_attention_model(model))
    check_vocabulary(model, tokenizer)
    model, settings = agreed(model, settings)
    _check_pair(model, tokenizer)
    texts = labelled_texts(model, data, rows, "evaluate", faults)
    asks = model.has_query or model.reads_pairs
    if not asks and any("query" in rows.column_names for rows in texts.splits.values()):
        texts.notes.append("The model reads single texts: the second text of each pair is left out.")
    if not asks:  # a model of single texts reads the one that pairs attend to
        texts.splits = {
            n: rows.remove_columns([c for c in ("query",) if c in rows.column_names])
            for n, rows in texts.splits.items()
        }
    split = split or ("test" if "test" in texts.splits else list(texts.splits)[-1])
    check_choice(f"split of {texts.name}", split, texts.splits)
    if not settings.tests:
        marked = RATIONALE in texts.splits[split].column_names
        named = (test for test in EVALUATORS if marked or not EVALUATORS[test].needs_rationale)
        settings, left_out = possible(model, replace(settings, tests=list(named)), named=False)
    else:
        settings, left_out = possible(model, settings, named=True)
    texts.notes += left_out
    if precision["stored"] != precision["measured"]:
        texts.notes.append(f"The model's weights are stored in {precision['stored']} and measured in float32.")
    if source_file is not None:
        settings = settings.against(GIVEN)
    called = name or kind_and_weights(model)
    name = name or model_name(model, origin)
    return Task(model, tokenizer, name, texts, split, settings, source_file, origin, data.source, precision, called)


def _check_pair(model: Any, tokenizer: Any) -> None:
    """Raise where the tokenizer cannot be the model's."""
    config = text_config(model.config)
    size = vocabulary_size(config)
    if size is not None:
        check_tokenizer_fits(tokenizer, size, padding_id(config), config)


def evaluate_task(
    task: Task,
    output: str | Path,
    *,
    chunk_size: int | None = None,
    processes: ProcessGroup = SINGLE_PROCESS,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> RunFolder:
    """Run the tests and write a run folder; a finished one is taken as it is.

    Args:
        task: what to test, on what and how.
        output: folder of the run folder.
        held: examples whose results a process holds before it writes them.
        team: the processes that share the work.
        tell: ``tell(done, of)`` in examples of this process.

    Raises:
        InputError: what is wrong with the data, the settings or the source file; another process writes there.
    """
    folder = task.folder(output)
    if folder.done:
        tidy(folder)
        return folder
    texts = task.texts.splits[task.split]
    if not len(texts):
        raise InputError(f"The split {task.split!r} of {task.texts.name} is empty.")
    with recipe_precision(), threads_for(computing_weights(task.model)), processes.writing(folder):
        if not folder.done:  # another process may have been faster
            _evaluate(task, folder, chunk_size, processes, on_progress)
    return folder


def _evaluate(
    task: Task,
    folder: RunFolder,
    chunk_size: int | None,
    processes: ProcessGroup,
    on_progress: Callable[[int, int], None],
) -> None:
    start = time.time()
    texts = task.texts.splits[task.split]
    joined = task.model.reads_pairs
    sentences = task.model.reads_sentences
    rows = _chosen(encode_texts(task.tokenizer, texts, task.model.max_tokens, sentences, joined), task.settings)
    task.texts.notes.extend(unknown_notes(task.tokenizer, rows, task.texts.name))
    collate = collator(rows, (), task.model.pad_token_id)
    subject = EvaluatedModel(task.model, collate, task.texts.label_names, token_ids(task.tokenizer))
    asked = queries(texts)
    said = Texts.of(texts, "text")
    tokens = token_finder(task.tokenizer, said, rows, asked if joined else None)
    given, missing = None, 0
    if task.source_file is not None:
        listed = [tokens(i)[0] for i in range(len(rows))]
        given, missing = read_importance(task.source_file, rows["example"], listed)
    items = item_finder(tokens, said, rows, words="word_ids" in rows.column_names)
    writer = Writer(folder, rows, items, asked, processes, chunk_size, of=task.identity.digest)
    evaluate_rows(subject, rows, task.settings, writer, given, processes, on_progress)
    writer.close()
    if processes.main:
        with kept_tables(folder):
            finish(folder, task, rows, missing, time.time() - start, processes, writer.failed)
        tidy(folder)
        warn_of(writer.failed, len(rows))
    processes.wait("evaluated")


def finish(
    folder: RunFolder,
    task: Task,
    rows: Rows,
    missing: int,
    seconds: float,
    processes: ProcessGroup,
    failed: Mapping[str, str],
) -> None:
    """Score what was written, and say how it came about."""
    listed = folder.read_table("predictions", ["probabilities"]).column("probabilities").combine_chunks()
    chances = listed.flatten().to_numpy().reshape(len(rows), -1)
    multi_label = is_multi_label(task.model.config)
    names = task.texts.label_names
    records = records_of(folder, rows["example"], chances, names, multi_label)
    labels = np.asarray(rows["labels"]) if "labels" in rows.column_names else np.full(len(rows), -1)
    base = classification_metrics(chances, labels, multi_label)
    folder.write_summary(
        {
            "base": base,
            "twins": {},
            "controls": {},
            "informative_mass": None,
            "tests": records,
            "metrics": metric_facts(records),
            "facts": [fact.as_json() for fact in facts_of(folder, rows["example"], names, multi_label)],
        }
    )
    notes = [f"{missing} examples are not in {task.source_file}."] if missing else []
    folder.write_meta(
        {
            "axes": {"data": task.texts.name, "model": task.name},
            "seed": task.settings.seed,
            "numbers": NUMBERS_VERSION,
            "identity": task.identity.short,
            "model": task.origin,
            "attention": attention_read(task.model),
            "trained_on": trained_on(task.origin),
            "weights": weights(Path(task.origin)) if task.origin and Path(task.origin).is_dir() else None,
            "split": task.split,
            "evaluation": task.settings.on_disk(),
            "precision": dict(task.precision or {}),
            "source_file": task.source_file,
            "label_names": task.texts.label_names,
            "data": {
                "source": task.source,
                "fingerprint": task.texts.fingerprint,
                "notes": [*task.texts.notes, *notes],
                "vocabulary": len(task.tokenizer),
                "vector_coverage": None,
                task.split: split_facts(task.texts, task.split, rows),
            },
            "seconds": round(seconds, 1),
            "versions": versions(),
            "hardware": hardware(processes),
            **failures(failed),
        }
    )


def labelled_texts(
    model: Any, data: DataSettings, rows: Any, purpose: str = "train", faults: Faults | None = None
) -> TextData:
    """The texts, with labels by the model's names and in its shape; by the data's names where it was never told any.

    Args:
        model: trained.
        data: where the texts come from.
        rows: the data itself, where it is not read from a source.
        purpose: "train", which needs a split for it, or "evaluate".
        faults: collects all that is wrong with the rows; None raises the first.

    Raises:
        InputError: what is wrong with the data, or classes of the model that cannot be told apart.
    """
    texts = _named_texts(model, data, rows, purpose, faults)
    fit_label_shapes(texts, is_multi_label(model.config))
    return texts


def _named_texts(model: Any, data: DataSettings, rows: Any, purpose: str, faults: Faults | None) -> TextData:
    """The texts, with labels by the model's names where it has any."""
    rows = None if rows is None else as_rows(rows)  # read twice below, which a generator cannot be
    asked = {"rows": rows, "purpose": purpose, "training_texts": model.training_texts, "faults": faults}
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    if any(name != f"LABEL_{i}" for i, name in enumerate(names)):
        return load_texts(data, **asked, label_names=names)
    texts = load_texts(data, **asked)
    if not texts.label_names:
        return load_texts(data, **asked, label_names=names)
    known, numbers = set(texts.label_names), {str(i) for i in range(len(names))}
    if known <= set(names) or (known <= numbers and len(known) < len(names)):  # in the model's own terms
        return load_texts(data, **asked, label_names=names)
    if len(texts.label_names) != len(names):
        raise InputError(
            f"The model names its classes {names[0]} to {names[-1]}, and {texts.name} has {len(texts.label_names)} "
            "classes, so they cannot be told apart; set the model's config.id2label."
        )
    texts.notes.append(f"The model's classes have no names; taken in the order of the data's: {texts.label_names}.")
    return texts


def _chosen(encoded: Any, settings: EvaluationSettings) -> Rows:
    """The encoded rows with tokens, or special tokens too, as items where that is asked for."""
    left = {"word_ids": settings.units == "token", "special_tokens_mask": settings.special_tokens == "keep"}
    return Rows.of(encoded.remove_columns([n for n, out in left.items() if out and n in encoded.column_names]))
