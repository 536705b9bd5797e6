"""Which numbers tell models with a regularizer from those without: against loops over pairs, and what is compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.tables.telling_apart import contrasts, telling, telling_tables

METRICS = {
    name: MetricFacts(name, name, test="entropy", shown=shown)
    for name, shown in (("a", True), ("b", True), ("c", False))
}


@dataclass
class FakeRun:
    """What the table reads of a run."""

    recipe: dict
    records: list
    metrics: dict = field(default_factory=lambda: METRICS)


@dataclass
class FakeGroup:
    """What the table reads of a group."""

    runs: list
    metrics: dict = field(default_factory=lambda: METRICS)


def record(metric, mean, source="attention", texts="all"):
    numbers = {"std": 0.1, "low": mean, "high": mean, "n": 3, "n_undefined": 0}
    return ScoreRecord("entropy", metric, "pool", source, texts, mean, **numbers)


def run(weights, values, encoder="lstm", seed=1, **train):
    recipe = {"model": {"encoder": encoder}, "seeds": [seed], "train": {"epochs": 2, **train}}
    if weights:
        recipe["train"]["regularizers"] = weights
    records = [record(metric, value) for metric, value in values.items()]
    records += [record("a", 0.3, "random"), record("a", 0.3, texts="negative")]
    return FakeRun(recipe, records)


def study(seed=0):
    """Two encoders, three weights of `deceive`, three seeds; of the number "b" one is undefined."""
    generator = np.random.default_rng(seed)
    groups = []
    for encoder, shift in (("lstm", 0.0), ("none", 5.0)):
        for weight in (None, 0.1, 1.0):
            weights = {"deceive": weight} if weight else {}
            runs = []
            for number in (1, 2, 3):
                a = shift + (weight or 0) * 0.6 + generator.normal() * 0.3
                b = math.nan if number == 2 and weight == 1.0 else generator.integers(3)
                runs.append(run(weights, {"a": a, "b": float(b), "c": 1.0}, encoder, number))
            groups.append(FakeGroup(runs))
    return groups


def value(one, metric):
    return next(r.mean for r in one.records if (r.metric, r.source, r.group) == (metric, "attention", "all"))


def share(pairs):
    """The share of pairs in which the second value is the higher one."""
    wins = [1.0 if high > low else 0.5 * (high == low) for low, high in pairs]
    return sum(wins) / len(wins)


@pytest.mark.parametrize("seed", range(4))
def test_shares_equal_loops_over_pairs(seed):
    groups = study(seed)
    rows = {row.metric: row for row in telling(contrasts(groups)["deceive"])}
    assert set(rows) == {"a", "b"}  # what is shown of all texts, of no control
    plain = [one for group in groups for one in group.runs if "regularizers" not in one.recipe["train"]]
    strong = [one for g in groups for one in g.runs if one.recipe["train"].get("regularizers") == {"deceive": 1.0}]
    for metric, row in rows.items():
        low = [one for one in plain if not math.isnan(value(one, metric))]
        high = [one for one in strong if not math.isnan(value(one, metric))]
        everywhere = [(value(x, metric), value(y, metric)) for x in low for y in high]
        alike = [
            (value(x, metric), value(y, metric)) for x in low for y in high if x.recipe["model"] == y.recipe["model"]
        ]
        assert row.across == pytest.approx(share(everywhere), abs=1e-12)
        assert row.within == pytest.approx(share(alike), abs=1e-12)
        assert (row.n_without, row.n_with) == (len(low), len(high))
        assert row.mean_with == pytest.approx(np.mean([value(one, metric) for one in high]))


def test_the_number_that_tells_most_stands_first():
    groups = study()
    found = telling(contrasts(groups)["deceive"])
    assert [row.metric for row in found] == ["a", "b"]
    assert abs(found[0].within - 0.5) >= abs(found[1].within - 0.5)
    assert found[0].across < found[0].within  # another encoder has another level


def test_models_that_differ_otherwise_are_no_contrast():
    groups = [
        FakeGroup([run({}, {"a": 0.1}, seed=s) for s in (1, 2, 3)]),
        FakeGroup([run({"tying": 1.0}, {"a": 0.9}, "gru", s) for s in (1, 2, 3)]),
        FakeGroup([run({"tying": 1.0, "diversity": 1.0}, {"a": 0.9}, seed=s) for s in (1, 2, 3)]),
        FakeGroup([FakeRun({}, [record("a", 0.5)])]),  # of no recipe
    ]
    assert contrasts(groups) == {}
    assert telling_tables(groups) == []


def test_training_may_differ_otherwise():
    groups = [
        FakeGroup([run({}, {"a": 0.1}, seed=s) for s in (1, 2, 3)]),
        FakeGroup([run({"tying": 1.0}, {"a": 0.9}, seed=s, epochs=9) for s in (1, 2, 3)]),
    ]
    (found,) = contrasts(groups)["tying"]
    assert (len(found.without), len(found.with_it)) == (3, 3)


def test_too_few_pairs_say_nothing():
    groups = [FakeGroup([run({}, {"a": 0.1})]), FakeGroup([run({"tying": 1.0}, {"a": 0.9}, seed=s) for s in (1, 2)])]
    assert telling(contrasts(groups)["tying"]) == []
    assert telling_tables(groups) == []


def test_the_table():
    (table,) = telling_tables(study())
    assert table.title == "What tells models trained with 'deceive' from those without"
    assert table.head[-3:] == ["AUC, same data and model", "AUC, one line for all", "n"]
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert table.rows[1][-1] == "6/4"
