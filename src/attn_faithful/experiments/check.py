"""All that is wrong with the data and settings of cells, or with data for a model, before any work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful._checks import Faults, InputError
from attn_faithful.data.files.paths import user_path
from attn_faithful.data.misspelt_classes import near_classes
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.unknown_tokens import unknown_notes
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.estimate_tests import seconds_of_tests
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import make_task
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.inputs import DataInput, ModelInput, encoded_for
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.recipe import Recipe
from attn_faithful.models.architectures import FLAT, config_class
from attn_faithful.records.meta import DataFacts
from attn_faithful.training.base import check_selection


@dataclass
class Checked:
    """What a check found.

    Attributes:
        warnings: what is no fault and likely to be one.
        facts: name and facts of each data set, for `data_table`.
        seconds: that all tests of a model would take; see `estimate_tests`.
        texts: on which they would run.
    """

    warnings: list[str] = field(default_factory=list)
    facts: list[tuple[str, DataFacts]] = field(default_factory=list)
    seconds: float = 0.0
    texts: int = 0


def check_cells(cells: Sequence[Cell]) -> Checked:
    """Everything that is wrong with the data, vectors and model settings of some cells, each told once.

    Raises:
        SeveralFaultsError: all faults together.
    """
    faults = Faults(collect=True)
    checked = Checked()
    looks: dict[str, Callable[[], None]] = {}
    for cell in cells:
        recipe = cell.recipe
        of_data = _key("data", [asdict(recipe.data), recipe.train.select_on, recipe.train.select_by])
        of_vectors = _key("vectors", recipe.vectors.path)
        of_model = _key("model", recipe.model)
        looks.setdefault(of_data, partial(_check_data, recipe, checked))
        looks.setdefault(of_vectors, partial(_check_vectors, recipe.vectors.path))
        looks.setdefault(of_model, partial(_check_model, recipe.model))
    for look in looks.values():
        faults.gather(look)
    faults.raise_all()
    return checked


def _key(part: str, value: Any) -> str:
    return json.dumps([part, value], default=str, sort_keys=True)


def _check_data(recipe: Recipe, checked: Checked) -> None:
    texts = load_texts(recipe.data, faults=Faults(collect=True))
    for warning in class_warnings(texts):
        if warning not in checked.warnings:
            checked.warnings.append(warning)
    split = recipe.train.select_on
    if split in texts.splits:
        check_selection(texts.splits[split]["label"][:], len(texts.label_names), recipe.train.select_by)


def _check_vectors(path: str | None) -> None:
    if path is not None and not user_path(path).is_file():
        raise InputError(f"Expected a file of word vectors, but there is no file {path!r}.")


def _check_model(model: dict[str, Any]) -> None:
    settings = dict(model)
    config_class(settings.pop("architecture", FLAT))(vocab_size=3, **settings)


def class_warnings(texts: TextData) -> list[str]:
    """Classes of a data set, over all splits, that could be one misspelt."""
    totals = dict.fromkeys(texts.label_names, 0)
    for split in texts.splits:
        counts = texts.class_counts(split)
        for name in totals:
            totals[name] += counts[name]
    return [f"{texts.name}: {line}" for line in near_classes(totals)]


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
    faults = Faults(collect=True)
    data_input = DataInput(data, split=split, faults=faults)
    task = make_task(ModelInput(model, tokenizer, origin=str(origin)), data_input, EvaluationSettings())
    texts = task.texts.splits[task.split]
    rows = Rows.of(encoded_for(task.model, tokenizer, texts))
    facts = data_facts(task.texts, {task.split: rows}, tokenizer)
    facts.notes.extend(unknown_notes(tokenizer, rows, task.texts.name))
    with quiet():
        seconds = seconds_of_tests(task)
    return Checked(class_warnings(task.texts), [(task.texts.name, facts)], seconds, len(texts))
