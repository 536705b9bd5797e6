"""Runs the tests on every model of a set: a run folder a model, which is taken as it is once it is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.api import evaluate_attention
from attn_faithful.bench.explained import Explained
from attn_faithful.bench.frozen_set import FrozenSet
from attn_faithful.bench.measured import Measured, measured_of_run
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.records.bench import BenchModel
from attn_faithful.reports.run import Run

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class TestedModel:
    """A model of the set and the finished run of all tests on it."""

    model: BenchModel
    run: Run


def run_all_tests(
    frozen: FrozenSet,
    output: str | Path,
    on_progress: OnProgress = lambda done, n: None,
    device: str = "auto",
    share: slice = slice(None),
) -> list[TestedModel]:
    """Run all tests on the models of a set.

    Args:
        frozen: the set.
        output: folder of the run folders.
        on_progress: ``on_progress(done, n)`` in models.
        device: where the models compute.
        share: which of the models.
    """
    models = frozen.manifest.models[share]
    finished = []
    for done, model in enumerate(models):
        on_progress(done, len(models))
        texts = frozen.texts[model.data]
        columns = {
            "example": [text.example for text in texts],
            "text": [text.text for text in texts],
            "label": [text.label for text in texts],
        }
        result = evaluate_attention(
            str(frozen.model_folder(model)), data=columns, output=output, name=model.name, device=device, progress=False
        )
        finished.append(TestedModel(model, result))
    on_progress(len(models), len(models))
    return finished


def measured(frozen: FrozenSet, models: Sequence[TestedModel]) -> list[Measured]:
    """Every number of attention that the tests gave."""
    numbers = []
    for one in models:
        lengths = {text.example: text.length for text in frozen.texts[one.model.data]}
        numbers.append(measured_of_run(one.model, one.run, lengths))
    return numbers


def by_test(numbers: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Test -> its numbers of every model, those of tests that were run."""
    found = {}
    for test, published in all_tests().items():
        metrics = {spec.name for spec in published.metrics}
        of_test = [one.only(metrics) for one in numbers]
        if any(one.numbers for one in of_test):
            found[test] = of_test
    return found


def explained_by_sources(frozen: FrozenSet, models: Sequence[TestedModel]) -> dict[str, list[Explained]]:
    """Source -> what it says of the words of every model's texts, for sources that the runs of all models hold."""
    importance = [_importance(one.run) for one in models]
    common = [source for source in importance[0] if all(source in one for one in importance)]
    found: dict[str, list[Explained]] = {source: [] for source in common}
    for one, of_model in zip(models, importance, strict=True):
        for source in common:
            found[source].append(explained(frozen, one.model, of_model[source]))
    return found


def explained(frozen: FrozenSet, model: BenchModel, importance: Mapping[str, Sequence[float]]) -> Explained:
    """An explanation of a model's texts.

    Args:
        frozen: the set.
        model: of it.
        importance: id of a text -> a value a word; a text without is undefined.
    """
    texts = frozen.texts[model.data]
    return Explained(
        model=model,
        examples=[text.example for text in texts],
        lengths=np.array([text.length for text in texts]),
        importance=[importance.get(text.example) for text in texts],
        decisive=[text.decisive for text in texts],
    )


_NO_SOURCES = ("example", "site", "slot", "tokens", "offsets")


def _importance(run: Run) -> dict[str, dict[str, Any]]:
    """Source -> id of a text -> importance of its words, as the tests used it."""
    table = run.read("tokens").to_pydict()
    examples = table["example"]
    sources = [name for name in table if name not in _NO_SOURCES]
    return {source: dict(zip(examples, table[source], strict=True)) for source in sources}
