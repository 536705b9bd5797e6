"""From the table "scores" to one record a number: over all examples and by predicted class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.base import EVALUATORS, MetricSpec
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.experiments.collecting import COLUMNS, Collected, Key, Parts, as_table, keys_of
from attn_faithful.functional.summaries import summarize
from attn_faithful.records.facts import Fact
from attn_faithful.store import RunFolder

ALL = "all"
LABEL = "label"
HELD = 64 * 2**20  # bytes of scores that are held at once


def records_of(
    folder: RunFolder,
    examples: Sequence[str],
    chances: np.ndarray,
    label_names: Sequence[str],
    multi_label: bool = False,
) -> list[dict[str, Any]]:
    """The records of all tests of one model, from its stored scores; those of twins are made elsewhere.

    The scores are read again for every group of numbers that fits into `HELD`. Of multi-label models the class "all"
    of a number about the decision is the mean over texts of each text's mean over labels, and the record of a label is
    over all texts, which were asked about it; of any other number it is over the texts that the model gives the label.
    """
    if not folder.has_table("scores"):
        return []
    keys = [key for key in keys_of(folder.table_parts("scores", COLUMNS)) if key[2] not in _of_twins()]
    groups = by_prediction(chances, label_names, multi_label)
    records = _records(lambda: folder.table_parts("scores", COLUMNS), keys, examples, groups)
    if not multi_label or not _labelled(folder):
        return records
    return _with_labels(records, folder, examples, label_names)


def _labelled(folder: RunFolder) -> bool:
    """Whether some scores are of one label by itself."""
    return LABEL in folder.columns_of("scores")


def _of_label(folder: RunFolder, name: str) -> Callable[[], Parts]:
    """The parts of the scores that are of one label."""

    def parts() -> Parts:
        for part in folder.table_parts("scores", (*COLUMNS, LABEL)):
            yield part.filter(pc.equal(part.column(LABEL), name))

    return parts


def _with_labels(
    records: list[dict[str, Any]], folder: RunFolder, examples: Sequence[str], label_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The records with those of numbers that each label was asked for in the place of those by prediction."""
    own: dict[tuple[str, ...], dict[str, Any]] = {}
    for name in label_names:
        parts = _of_label(folder, name)
        found = _records(parts, keys_of(parts()), examples, {name: np.arange(len(examples))})
        own |= {_place(record): record for record in found}
    return [own.get(_place(record), record) for record in records]


def _place(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(record[name] for name in ("metric", "site", "source", "class"))


def facts_of(
    folder: RunFolder, examples: Sequence[str], label_names: Sequence[str] = (), multi_label: bool = False
) -> list[Fact]:
    """What the tests of one model say beside means and shares (see `Evaluator.facts`), from its stored scores.

    Of multi-label models each label's by itself, with its name behind the source.
    """
    if not folder.has_table("scores"):
        return []
    if not multi_label or not _labelled(folder):
        return _facts(lambda: folder.table_parts("scores", COLUMNS), examples)
    found: list[Fact] = []
    for name in label_names:
        facts = _facts(_of_label(folder, name), examples)
        found += [replace(fact, source=f"{fact.source}, {name}") for fact in facts]
    return found


def _facts(parts: Callable[[], Parts], examples: Sequence[str]) -> list[Fact]:
    keys = keys_of(parts())
    specs, unknown = _specs(), (0, None)
    found: list[Fact] = []
    for test in EVALUATORS:
        own = [key for key in keys if specs.get(key[2], unknown)[1] == test]
        if (facts := EVALUATORS[test].facts) is not None and own:
            held = Collected(own, examples)
            for part in parts():
                held.add(part)
            found += facts({key: (held.values(key), held.reasons(key)) for key in own})
    return found


def _of_twins() -> set[str]:
    """The metrics of twins."""
    return {spec.name for spec in attefa.TEST.metrics}


def score_records(
    scores: Mapping[str, Sequence[Any]],
    examples: Sequence[str],
    predicted: Sequence[int],
    label_names: Sequence[str],
    groups: Mapping[str, np.ndarray] | None = None,
) -> list[dict[str, Any]]:
    """One record a site, source, metric and class.

    Args:
        scores: columns of the table; several slots of an example are averaged first.
        examples: every example of the split.
        predicted: class index of each.
        label_names: of the classes; one without examples has records with n = 0.
        groups: in place of `predicted`, the places of the examples of "all" and of each class; see `by_prediction`.

    Returns:
        records with ``test``, ``metric``, ``site``, ``source``, ``class`` ("all" or a name), ``mean``, ``std``,
        ``low``, ``high``, ``n``, ``n_undefined``, ``reasons``, in the order of the metric table.
    """
    part = as_table(scores)
    if groups is None:
        chosen = np.asarray(predicted)
        groups = {ALL: np.arange(len(examples))}
        groups |= {name: np.flatnonzero(chosen == c) for c, name in enumerate(label_names)}
    return _records(lambda: [part], keys_of([part]), examples, groups)


def decisions(chances: np.ndarray) -> np.ndarray:
    """The predicted class of each example (n,), -1 where the model could not read it.

    Example:
        >>> decisions(np.array([[0.2, 0.8], [np.nan, np.nan]])).tolist()
        [1, -1]
    """
    return np.where(np.isnan(chances).any(axis=1), -1, chances.argmax(axis=1))


def by_prediction(chances: np.ndarray, label_names: Sequence[str], multi_label: bool = False) -> dict[str, np.ndarray]:
    """Places of all examples, and of those of each class by the model: of multi-label models of those that have it."""
    groups = {ALL: np.arange(len(chances))}
    predicted = None if multi_label else decisions(chances)
    for c, name in enumerate(label_names):
        groups[name] = np.flatnonzero(chances[:, c] > 0.5 if predicted is None else predicted == c)
    return groups


def _records(
    parts: Callable[[], Parts], keys: list[Key], examples: Sequence[str], groups: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    specs = _specs()
    unknown = len(specs), None
    # stable: sources stay in the order they came
    keys = sorted(keys, key=lambda key: specs.get(key[2], unknown)[0])
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
    step = max(1, HELD // (24 * max(1, len(examples))))
    for start in range(0, len(keys), step):
        some = keys[start : start + step]
        held = Collected(some, examples)
        for part in parts():
            held.add(part)
        values = np.stack([held.values(key) for key in some], axis=1)
        for name, index in groups.items():
            for key, summary in zip(some, summarize(values[index]), strict=True):
                site, source, metric = key
                where = {"test": specs.get(metric, unknown)[1], "metric": metric, "site": site, "source": source}
                why = dict(sorted(held.why(key, index).items()))
                records[name].append({**where, "class": name, **asdict(summary), "reasons": why})
    return [record for own in records.values() for record in own]


def metric_facts(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the metrics of some records are: title, meaning, range, direction, unit and the test's paper."""
    specs, tests = _specs(), all_tests()
    used = dict.fromkeys(record["metric"] for record in records)
    return {
        name: {**asdict(specs[name][2]), "test": specs[name][1], "paper": tests[specs[name][1]].paper}
        for name in used
        if name in specs
    }


def _specs() -> dict[str, tuple[int, str, MetricSpec]]:
    """Metric -> its place in the metric table, its test and what it is."""
    listed = [(test.name, spec) for test in all_tests().values() for spec in test.metrics]
    return {spec.name: (i, test, spec) for i, (test, spec) in enumerate(listed)}
