"""All that is wrong with the data and settings of cells, or with data for a model, before any work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attn_faithful._checks import Faults, InputError
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.files.paths import user_path
from attn_faithful.data.misspelt_classes import near_classes
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.unknown_tokens import unknown_notes
from attn_faithful.experiments.estimate_tests import seconds_of_tests
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import split_facts
from attn_faithful.experiments.run_cell import quiet
from attn_faithful.experiments.run_evaluation import make_task
from attn_faithful.models.architectures import FLAT, config_class
from attn_faithful.training.base import check_selection


@dataclass
class Checked:
    """What a check found.

    Attributes:
        warnings: what is no fault and likely to be one.
        facts: of `data_table`, a record a data set.
        seconds: that all tests of a model would take; see `estimate_tests`.
        texts: on which they would run.
    """

    warnings: list[str] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    texts: int = 0


def check_cells(cells: Sequence[Cell]) -> Checked:
    """Everything that is wrong with the data, vectors and model settings of some cells, each told once.

    Raises:
        SeveralFaultsError: all faults together.
    """
    faults = Faults(collect=True)
    checked = Checked()
    seen: set[str] = set()

    def once(part: str, value: Any, look: Callable[[], None]) -> None:
        key = json.dumps([part, value], default=str, sort_keys=True)
        if key not in seen:
            seen.add(key)
            faults.gather(look)

    for cell in cells:
        recipe = cell.recipe
        choosing = [recipe.train.select_on, recipe.train.select_by]
        told = [asdict(recipe.data), *choosing]
        once("data", told, lambda recipe=recipe, choosing=choosing: _check_data(recipe.data, *choosing, checked))
        once("vectors", recipe.vectors.path, lambda recipe=recipe: _check_vectors(recipe.vectors.path))
        once("model", recipe.model, lambda recipe=recipe: _check_model(recipe.model))
    faults.raise_all()
    return checked


def _check_data(data: DataSettings, select_on: str, select_by: str, checked: Checked) -> None:
    texts = load_texts(data, faults=Faults(collect=True))
    warnings = [f"{texts.name}: {line}" for line in class_warnings(texts)]
    checked.warnings.extend(warning for warning in warnings if warning not in checked.warnings)
    if select_on in texts.splits:
        check_selection(texts.splits[select_on]["label"][:], len(texts.label_names), select_by)


def _check_vectors(path: str | None) -> None:
    if path is not None and not user_path(path).is_file():
        raise InputError(f"Expected a file of word vectors, but there is no file {path!r}.")


def _check_model(model: dict[str, Any]) -> None:
    given = dict(model)
    config_class(given.pop("architecture", FLAT))(vocab_size=3, **given)


def class_warnings(texts: TextData) -> list[str]:
    """Classes of a data set, over all splits, that could be one misspelt."""
    by_split = [texts.class_counts(split) for split in texts.splits]
    return near_classes({name: sum(counts[name] for counts in by_split) for name in texts.label_names})


def check_for_model(model: Any, tokenizer: Any, data: DataSettings, split: str | None, origin: str | Path) -> Checked:
    """Whether a trained model can be tested on some data: tokenizer, labels, lengths.

    Args:
        model, tokenizer: as `attn_faithful.load` gives them.
        data: where the texts come from.
        split: as `evaluate` takes it.
        origin: where the model came from.

    Raises:
        InputError: all that is wrong with the rows, or what keeps them from being read.
    """
    task = make_task(
        model, tokenizer, data, EvaluationSettings(), split, origin=str(origin), faults=Faults(collect=True)
    )
    joined = task.model.reads_pairs
    sentences = task.model.reads_sentences
    texts = task.texts.splits[task.split]
    rows = Rows.of(encode_texts(tokenizer, texts, task.model.max_tokens, sentences, joined))
    notes = [*task.texts.notes, *unknown_notes(tokenizer, rows, task.texts.name)]
    facts = {
        "fingerprint": task.texts.fingerprint,
        "notes": notes,
        "vocabulary": len(tokenizer),
        "vector_coverage": None,
        task.split: split_facts(task.texts, task.split, rows),
    }
    warnings = [f"{task.texts.name}: {line}" for line in class_warnings(task.texts)]
    with quiet():
        seconds = seconds_of_tests(task)
    named = {"axes": {"data": task.texts.name, "model": task.name}, "data": facts}
    return Checked(warnings, [named], seconds, len(texts))
