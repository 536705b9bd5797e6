"""From the table "scores" to one record a number: over all examples and by predicted class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from attn_faithful.evaluators.base import EVALUATORS, MetricSpec
from attn_faithful.functional.summaries import summarize
from attn_faithful.store import RunFolder

ALL = "all"


def records_of(
    folder: RunFolder, examples: Sequence[str], chances: np.ndarray, label_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The records of all tests of one model, from its stored scores; those of twins are made elsewhere."""
    if not folder.has_table("scores"):
        return []
    return score_records(_own_scores(folder), examples, chances.argmax(1).tolist(), label_names)


def facts_of(folder: RunFolder, examples: Sequence[str]) -> list[dict[str, Any]]:
    """What the tests of one model say beside means and shares (see `Evaluator.facts`), from its stored scores."""
    if not folder.has_table("scores"):
        return []
    columns = _columns(_own_scores(folder), {example: i for i, example in enumerate(examples)})
    specs, unknown = _specs(), (0, None)
    found: list[dict[str, Any]] = []
    for test in EVALUATORS:
        if (facts := EVALUATORS[test].facts) is not None:
            found += facts({key: column for key, column in columns.items() if specs.get(key[2], unknown)[1] == test})
    return found


def _own_scores(folder: RunFolder) -> dict[str, list[Any]]:
    """The stored scores but for those of twins."""
    scores = folder.read_table("scores").to_pydict()
    twins = {spec.name for name in EVALUATORS if EVALUATORS[name].twin for spec in EVALUATORS[name].metrics}
    own = [i for i, metric in enumerate(scores["metric"]) if metric not in twins]
    return {name: [values[i] for i in own] for name, values in scores.items()}


def score_records(
    scores: Mapping[str, Sequence[Any]], examples: Sequence[str], predicted: Sequence[int], label_names: Sequence[str]
) -> list[dict[str, Any]]:
    """One record a site, source, metric and class.

    Args:
        scores: columns of the table; several slots of an example are averaged first.
        examples: every example of the split.
        predicted: class index of each.
        label_names: of the classes; one without examples has records with n = 0.

    Returns:
        records with ``test``, ``metric``, ``site``, ``source``, ``class`` ("all" or a name), ``mean``, ``std``,
        ``low``, ``high``, ``n``, ``n_undefined``, ``reasons``, in the order of the metric table.
    """
    columns = _columns(scores, {example: i for i, example in enumerate(examples)})
    specs = _specs()
    unknown = len(specs), None
    # stable: sources stay in the order they came
    keys = sorted(columns, key=lambda key: specs.get(key[2], unknown)[0])
    if not keys:
        return []
    values = np.stack([columns[key][0] for key in keys], axis=1)
    reasons = [columns[key][1] for key in keys]
    groups: dict[str, list[int]] = {ALL: list(range(len(examples)))}
    for c, name in enumerate(label_names):
        groups[name] = [i for i, found in enumerate(predicted) if found == c]
    records = []
    for name, index in groups.items():
        found = summarize(values[index], [[row[i] for i in index] for row in reasons])
        for (site, source, metric), summary in zip(keys, found, strict=True):
            test = specs.get(metric, unknown)[1]
            where = {"test": test, "metric": metric, "site": site, "source": source, "class": name}
            records.append({**where, **asdict(summary)})
    return records


Key = tuple[str, str, str]  # site, source, metric
Column = tuple[np.ndarray, list[str | None]]


def _columns(scores: Mapping[str, Sequence[Any]], place: Mapping[str, int]) -> dict[Key, Column]:
    sums: dict[Key, np.ndarray] = {}
    counts: dict[Key, np.ndarray] = {}
    reasons: dict[Key, list[str | None]] = {}
    names = ("example", "site", "source", "metric", "value", "reason")
    for example, site, source, metric, value, reason in zip(*(scores[name] for name in names), strict=True):
        key = (site, source, metric)
        if key not in sums:
            sums[key], counts[key] = np.zeros(len(place)), np.zeros(len(place))
            reasons[key] = ["not computed"] * len(place)
        i = place[example]
        if math.isnan(value):
            reasons[key][i] = reason if not counts[key][i] else None
        else:
            sums[key][i] += value
            counts[key][i] += 1
            reasons[key][i] = None
    with np.errstate(invalid="ignore"):
        return {key: (sums[key] / np.where(counts[key] > 0, counts[key], math.nan), reasons[key]) for key in sums}


def metric_facts(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the metrics of some records are: title, meaning, range, direction, unit and the test's paper."""
    specs = _specs()
    used = dict.fromkeys(record["metric"] for record in records)
    return {
        name: {**asdict(specs[name][2]), "test": specs[name][1], "paper": EVALUATORS[specs[name][1]].paper}
        for name in used
        if name in specs
    }


def _specs() -> dict[str, tuple[int, str, MetricSpec]]:
    """Metric -> its place in the metric table, its test and what it is."""
    listed = [(test, spec) for test in EVALUATORS for spec in EVALUATORS[test].metrics]
    return {spec.name: (i, test, spec) for i, (test, spec) in enumerate(listed)}
