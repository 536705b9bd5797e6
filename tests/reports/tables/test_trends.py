"""Results against a setting that is a number."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.stats import kendalltau

from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.groups import Performance
from attn_faithful.reports.tables.trends import trend_tables, trends
from tests.reports.tables.test_table import over, twin
from tests.reports.tables.test_table import record as model

ENTROPY = MetricFacts("importance_entropy", "entropy", test="entropy")


def record(projection, accuracy, entropy, data="SST"):
    group = model()
    group.axes = {"data": data, "encoder": "lstm", "projection": projection}
    group.base = Performance(accuracy=over(accuracy))
    group.twins = {"attefa": twin(1 - accuracy, f1=over(accuracy))}
    group.metrics = {"importance_entropy": ENTROPY}
    sources = ("saliency", "random", "saliency~leave_one_out")
    group.tests = [entropy_of(source, texts, entropy) for source in sources for texts in ("all", "negative")]
    return group


def entropy_of(source, texts, mean):
    numbers = {"std": 0.1, "low": mean, "high": mean, "n": 3, "n_undefined": 0}
    return ScoreRecord("entropy", "importance_entropy", "pool", source, texts, mean, **numbers)


RECORDS = [
    record("sparsegen 0.5", 0.8, 0.7),
    record("sparsegen -10", 0.7, 0.9),
    record("sparsegen 0", 0.75, math.nan),
    record("sparsegen -1", 0.78, 0.8),
    record("softmax 1", 0.8, 0.9),
    record("softmax 0.5", 0.8, 0.9),
    record("other", 0.1, 0.1),
    record("sparsegen 0.9", 0.9, 0.1, data="IMDB"),
]


def test_cells_that_differ_in_one_number_are_a_family():
    (found,) = trends(RECORDS)  # two temperatures, one word and another data set make none
    assert (found.axis, found.family, list(found.x)) == ("projection", "SST lstm sparsegen", [-10, -1, 0, 0.5])
    rows = {(row.metric, row.source): row for row in found.rows}
    assert set(rows) == {
        ("accuracy", "base"),
        ("attefa", "attefa"),
        ("f1", "attefa"),
        ("importance_entropy", "saliency"),
    }
    accuracy = rows["accuracy", "base"]
    assert accuracy.values == [0.7, 0.78, 0.75, 0.8]
    expected = kendalltau([-10, -1, 0, 0.5], accuracy.values)
    assert (accuracy.tau, accuracy.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    entropy = rows["importance_entropy", "saliency"]
    assert (entropy.tau, entropy.n) == (-1, 3)  # the undefined one is left out
    assert math.isnan(entropy.values[2])


def test_the_table_words_them():
    (table,) = trend_tables(RECORDS)
    assert table.head == ["metric", "source", "-10", "-1", "0", "0.5", "Tau", "p", "n"]
    (row,) = [row for row in table.rows if row[0] == "entropy"]
    assert row == ["entropy", "saliency", "0.900", "0.800", "-", "0.700", "-1.000", "0.333", "3"]
    assert "SST lstm sparsegen" in table.title


def test_numbers_alone_are_labels_too():
    records = [replace(RECORDS[0], axes={"data": "a", "encoder": "lstm", "temperature": x}) for x in ("1", "2", "1e-1")]
    (found,) = trends(records)
    assert (found.family, list(found.x)) == ("a lstm", [0.1, 1, 2])
    assert all(math.isnan(row.tau) for row in found.rows)  # nothing moves
