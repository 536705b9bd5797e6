"""From the table "scores" to one record a number: over all examples and by predicted class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow.compute as pc

from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.base import EVALUATORS, MetricSpec
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.experiments.collecting import COLUMNS, Key, Parts, ScoreColumns, as_table, keys_of
from attn_faithful.experiments.recommending import recommendations
from attn_faithful.functional.summaries import summarize
from attn_faithful.records.facts import Fact
from attn_faithful.records.recommendation import Recommendation
from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.records.summary import RunSummary
from attn_faithful.store import RunFolder

LABEL = "label"
BYTES = 64 * 2**20  # of scores that are held at once
_BYTES_OF_A_VALUE = 24

Groups = Mapping[str, np.ndarray]  # "all" and each class -> places of its examples


def stored_probabilities(folder: RunFolder, n: int) -> np.ndarray:
    """The probabilities of the classes of n examples as a run wrote them, (n, C); NaN for those that were not read."""
    column = folder.read_table("predictions", ["probabilities"]).column("probabilities").combine_chunks()
    return np.asarray(column.flatten()).reshape(n, -1)


@dataclass(frozen=True)
class StoredScores:
    """The table "scores" of a run, with what is needed to sum it up.

    The table is read part by part, again for every group of numbers that fits into `BYTES`. Of multi-label models the
    class "all" of a number about the decision is the mean over texts of each text's mean over labels, and the record of
    a label is over all texts, which were asked about it; of any other number it is over the texts that the model gives
    the label.

    Attributes:
        folder: of the run; one without the table has no records and no facts.
        examples: every example of the split.
        probabilities: (n, C).
        label_names: of the classes.
        multi_label: whether an example may have several of them.
    """

    folder: RunFolder
    examples: Sequence[str]
    probabilities: np.ndarray
    label_names: Sequence[str]
    multi_label: bool = False

    def added_to(self, summary: RunSummary) -> RunSummary:
        """The summary of a run with the records, metrics and facts of its tests."""
        records = self.records()
        return replace(
            summary,
            tests=records,
            metrics=metric_facts(records),
            facts=self.facts(),
            recommendation=self.recommendation(),
        )

    def recommendation(self) -> list[Recommendation]:
        """What may be shown as an explanation, one a site; of several labels a text each number is their mean."""
        if not self.folder.has_table("scores"):
            return []
        return recommendations(self._parts, self.examples)

    def records(self) -> list[ScoreRecord]:
        """The records of all tests of one model; those of twins are made elsewhere."""
        if not self.folder.has_table("scores"):
            return []
        of_twins = {spec.name for spec in attefa.TEST.metrics}
        keys = [key for key in keys_of(self._parts()) if key.metric not in of_twins]
        groups = by_prediction(self.probabilities, self.label_names, self.multi_label)
        records = _records(self._parts, keys, self.examples, groups)
        if not self._asked_by_label:
            return records
        of_labels = self._records_of_labels()
        return [of_labels.get(record.place, record) for record in records]

    def facts(self) -> list[Fact]:
        """What the tests of one model say beside means and shares, see `Evaluator.facts`.

        Of multi-label models each label's by itself, with its name after the source.
        """
        if not self.folder.has_table("scores"):
            return []
        if not self._asked_by_label:
            return _facts(self._parts, self.examples)
        facts: list[Fact] = []
        for name in self.label_names:
            for fact in _facts(self._parts_of_label(name), self.examples):
                facts.append(replace(fact, source=f"{fact.source}, {name}"))
        return facts

    @cached_property
    def _asked_by_label(self) -> bool:
        """Whether some scores are of one label by itself."""
        return self.multi_label and LABEL in self.folder.columns_of("scores")

    def _parts(self) -> Parts:
        return self.folder.table_parts("scores", COLUMNS)

    def _parts_of_label(self, name: str) -> Callable[[], Parts]:
        """The parts of the scores that are of one label."""

        def parts() -> Parts:
            for part in self.folder.table_parts("scores", (*COLUMNS, LABEL)):
                yield part.filter(pc.equal(part.column(LABEL), name))

        return parts

    def _records_of_labels(self) -> dict[tuple[str, ...], ScoreRecord]:
        """The records of numbers that each label was asked for, by their place."""
        records: dict[tuple[str, ...], ScoreRecord] = {}
        for name in self.label_names:
            parts = self._parts_of_label(name)
            groups = {name: np.arange(len(self.examples))}
            for record in _records(parts, keys_of(parts()), self.examples, groups):
                records[record.place] = record
        return records


def _facts(parts: Callable[[], Parts], examples: Sequence[str]) -> list[Fact]:
    keys = keys_of(parts())
    table = _MetricTable()
    facts: list[Fact] = []
    for test in EVALUATORS:
        facts_of = EVALUATORS[test].facts
        keys_of_test = [key for key in keys if table.test_of(key.metric) == test]
        if facts_of is None or not keys_of_test:
            continue
        columns = _collected(parts, keys_of_test, examples)
        values_and_reasons = {key: (columns.values(key), columns.reasons(key)) for key in keys_of_test}
        facts += facts_of(values_and_reasons)
    return facts


def score_records(
    scores: Mapping[str, Sequence[Any]],
    examples: Sequence[str],
    groups: Groups,
) -> list[ScoreRecord]:
    """One record a site, source, metric and group, in the order of the metric table.

    Args:
        scores: columns of the table; several slots of an example are averaged first.
        examples: every example of the split.
        groups: of `by_prediction`; one without examples has records with n = 0.
    """
    part = as_table(scores)
    return _records(lambda: [part], keys_of([part]), examples, groups)


def decisions(probabilities: np.ndarray) -> np.ndarray:
    """The predicted class of each example (n,), -1 where the model could not read it.

    Example:
        >>> decisions(np.array([[0.2, 0.8], [np.nan, np.nan]])).tolist()
        [1, -1]
    """
    return np.where(np.isnan(probabilities).any(axis=1), -1, probabilities.argmax(axis=1))


def by_prediction(
    probabilities: np.ndarray, label_names: Sequence[str], multi_label: bool = False
) -> dict[str, np.ndarray]:
    """Places of all examples, and of those of each class by the model: of multi-label models of those that have it."""
    groups = {ALL: np.arange(len(probabilities))}
    has_class = probabilities > 0.5  # (n, C)
    if not multi_label:
        has_class = decisions(probabilities)[:, None] == np.arange(len(label_names))
    for c, name in enumerate(label_names):
        groups[name] = np.flatnonzero(has_class[:, c])
    return groups


def _records(
    parts: Callable[[], Parts], keys: Iterable[Key], examples: Sequence[str], groups: Groups
) -> list[ScoreRecord]:
    table = _MetricTable()
    # stable: sources stay in the order they came
    keys = sorted(keys, key=lambda key: table.place_of(key.metric))
    records: dict[str, list[ScoreRecord]] = {group: [] for group in groups}
    at_once = max(1, BYTES // (_BYTES_OF_A_VALUE * max(1, len(examples))))
    for start in range(0, len(keys), at_once):
        some_keys = keys[start : start + at_once]
        columns = _collected(parts, some_keys, examples)
        # (n, keys)
        values = np.stack([columns.values(key) for key in some_keys], axis=1)
        for group, places in groups.items():
            summaries = summarize(values[places])
            for key, summary in zip(some_keys, summaries, strict=True):
                summary = replace(summary, reasons=columns.reason_counts(key, places))
                test = table.test_of(key.metric)
                record = ScoreRecord(test=test, **key._asdict(), group=group, **asdict(summary))
                records[group].append(record)
    return list(chain.from_iterable(records.values()))


def _collected(
    parts: Callable[[], Parts],
    keys: Iterable[Key],
    examples: Sequence[str],
) -> ScoreColumns:
    columns = ScoreColumns(keys, examples)
    for part in parts():
        columns.add(part)
    return columns


def metric_facts(records: Sequence[ScoreRecord]) -> dict[str, MetricFacts]:
    """What the metrics of some records are: title, meaning, range, direction, unit and the test's paper."""
    table = _MetricTable()
    facts = {}
    for metric in dict.fromkeys(record.metric for record in records):
        test = table.test_of(metric)
        if test is not None:
            facts[metric] = MetricFacts(**asdict(table.specs[metric]), test=test, paper=table.tests[test].paper)
    return facts


class _MetricTable:
    """The metrics of all tests by name.

    Attributes:
        tests: by name.
        specs: metric -> what it is, in the order of the metric table.
    """

    def __init__(self) -> None:
        self.tests = all_tests()
        self.specs: dict[str, MetricSpec] = {}
        self._tests_of: dict[str, str] = {}
        for name, test in self.tests.items():
            for spec in test.metrics:
                self.specs[spec.name] = spec
                self._tests_of[spec.name] = name
        self._places = {metric: place for place, metric in enumerate(self.specs)}

    def test_of(self, metric: str) -> str | None:
        """The name of the test that a metric belongs to; None where there is none."""
        return self._tests_of.get(metric)

    def place_of(self, metric: str) -> int:
        """Its place in the metric table; that of metrics of no test comes last."""
        return self._places.get(metric, len(self._places))
