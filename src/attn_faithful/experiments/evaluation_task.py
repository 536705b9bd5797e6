"""An evaluation that is to be run: a model, texts and tests that fit together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.sources import TextData
from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.descriptions import digest_of
from attn_faithful.experiments.evaluation_settings import GIVEN, LEARNED_HEADS, EvaluationSettings
from attn_faithful.experiments.head_fitting import FIT_TEXTS, FitTexts, given_fit_texts, own_fit_texts
from attn_faithful.experiments.identity import Identity, digest, run_identity
from attn_faithful.experiments.inputs import DataInput, ModelInput, labelled_texts
from attn_faithful.experiments.wrapped_settings import agreed, possible
from attn_faithful.models.configurations import is_multi_label, padding_id, text_config, vocabulary_size
from attn_faithful.models.entry import as_attention_model, check_vocabulary, in_full
from attn_faithful.store import RunFolder


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
        weights: a digest of the model's weights where it is known, see `descriptions.digest_of`.
        fit: the texts that weights of the source "learned_heads" are fitted on; None where it is not asked for.
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
    weights: str | None = None
    fit: FitTexts | None = None

    @cached_property
    def identity(self) -> Identity:
        """All that could change a number of the run."""
        file_digest = None
        if self.source_file is not None:
            file_digest = digest(Path(self.source_file), named=False)
        of_fit = {} if self.fit is None else {"fit": self.fit.digest}
        return run_identity(
            "evaluate",
            self.model,
            self.tokenizer,
            self.texts,
            self.split,
            self.settings.on_disk(),
            weights=self.weights,
            source_file=file_digest,
            **of_fit,
        )

    def folder(self, output: str | Path) -> RunFolder:
        """Its run folder: named by what it is and by a hash of everything that could change its numbers."""
        parts = [self.texts.name, self.folder_name or self.name, self.split]
        return RunFolder(Path(output) / self.identity.folder(parts))

    @property
    def multi_label(self) -> bool:
        return is_multi_label(self.model.config)


def make_task(
    model_input: ModelInput,
    data: DataInput,
    settings: EvaluationSettings,
) -> Task:
    """A task from what a user names.

    Args:
        model_input: a model that speaks the protocol, or a transformers classifier, which is wrapped.
        data: where the texts come from; labels are mapped to the model's classes.
        settings: which tests, and how; none named means all defaults, see `Evaluator.by_default`.

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
    settings, left_out = _possible_tests(model, settings, texts.splits[split].column_names)
    texts.notes += left_out
    if precision["stored"] != precision["measured"]:
        texts.notes.append(f"The model's weights are stored in {precision['stored']} and measured in float32.")
    if data.source_file is not None:
        settings = settings.against(GIVEN)
    weights = digest_of(model)
    names = model_input.names(model, weights)
    return Task(
        model=model,
        tokenizer=tokenizer,
        name=names.in_tables,
        texts=texts,
        split=split,
        settings=settings,
        source_file=data.source_file,
        origin=model_input.origin,
        source=data.settings.source,
        precision=precision,
        folder_name=names.in_folder,
        weights=weights,
        fit=_fit_texts(model, data, texts, split, settings),
    )


def _fit_texts(
    model: Any, data: DataInput, texts: TextData, split: str, settings: EvaluationSettings
) -> FitTexts | None:
    """The texts that weights of heads are fitted on; None where nobody asks for them, or the model has no layers.

    Raises:
        InputError: they are asked for, and there are none; or none asks for those that are given.
    """
    if not settings.learns_heads:
        if data.fit is not None or data.fit_texts is not None:
            raise InputError(
                f"fit_data and fit_texts say what weights of heads are fitted on, but no test asks for the source "
                f"{LEARNED_HEADS!r}; leave them out, or add it (--set evaluation.extra_sources=[{LEARNED_HEADS}])."
            )
        return None
    if not model.layered:
        return None
    n = data.fit_texts or FIT_TEXTS
    if data.fit is None:
        return own_fit_texts(texts, split, n, settings.seed)
    fit_data = labelled_texts(model, data.fit, "evaluate")
    if not model.reads_pairs:
        _leave_out_queries(fit_data)
    return given_fit_texts(fit_data, texts.splits[split], n, settings.seed)


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
    model: Any, settings: EvaluationSettings, columns: Collection[str]
) -> tuple[EvaluationSettings, list[str]]:
    """The settings with the tests that the model allows, where none is named all defaults; and what was left out."""
    if settings.tests:
        return possible(model, settings, named=True)
    tests = []
    for test in EVALUATORS:
        evaluator = EVALUATORS[test]
        has_marks = evaluator.needs_marks is None or evaluator.needs_marks in columns
        if evaluator.by_default and has_marks:
            tests.append(test)
    return possible(model, replace(settings, tests=tests), named=False)
