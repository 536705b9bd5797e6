"""Records of stored scores against loops: classes, slots, reasons, and what a score table lacks."""

import math
from collections import Counter

import numpy as np
import pytest

from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.metric_table import metric_table
from attn_faithful.experiments.scoring import by_prediction, metric_facts, score_records

EXAMPLES, PREDICTED, NAMES = ["a", "b", "c", "d"], [0, 1, 1, 0], ["no", "yes", "maybe"]
TAU = "attention_correlation"


def table(*rows):
    names = ("example", "slot", "source", "metric", "value", "reason")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return {**columns, "site": ["pool"] * len(rows)}


def records_of(rows, n=4):
    """The records of some rows over the first n examples."""
    predicted = np.asarray(PREDICTED[:n])
    groups = {"all": np.arange(n)}
    for c, name in enumerate(NAMES):
        groups[name] = np.flatnonzero(predicted == c)
    return score_records(table(*rows), EXAMPLES[:n], groups)


def found(records, source, group="all", metric=TAU):
    (record,) = [r for r in records if r.place == (metric, "pool", source, group)]
    return record


def test_classes_against_loops():
    values = np.random.default_rng(0).random(4)
    rows = [(example, 0, "x", TAU, float(value), None) for example, value in zip(EXAMPLES, values, strict=True)]
    records = records_of(rows)
    assert found(records, "x").mean == pytest.approx(sum(values) / 4)
    for c, name in enumerate(NAMES):
        own = [v for v, p in zip(values, PREDICTED, strict=True) if p == c]
        record = found(records, "x", name)
        assert record.n == len(own)
        if own:
            assert record.mean == pytest.approx(sum(own) / len(own))
            assert record.std == pytest.approx(math.sqrt(sum((v - record.mean) ** 2 for v in own) / len(own)))
        else:  # C29: a class without examples has a row, and no number
            assert math.isnan(record.mean)


def test_slots_of_an_example_are_averaged_first():
    rows = [("a", 0, "x", TAU, 1.0, None), ("a", 1, "x", TAU, 0.0, None), ("b", 0, "x", TAU, 0.2, None)]
    rows += [("b", 1, "x", TAU, math.nan, "n<2")]
    record = found(records_of(rows, 2), "x")
    assert record.mean == pytest.approx((0.5 + 0.2) / 2)
    assert (record.n, record.n_undefined, record.reasons) == (2, 0, {})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_example_is_undefined_where_all_its_slots_are(order):
    slots = [("a", 0, "x", TAU, math.nan, "n<2"), ("a", 1, "x", TAU, 0.4, None)]
    rows = [*(slots[i] for i in order), ("b", 0, "x", TAU, math.nan, "nan in scores")]
    record = found(records_of(rows, 3), "x")
    assert record.mean == pytest.approx(0.4)
    assert (record.n, record.n_undefined) == (1, 2)
    assert record.reasons == {"nan in scores": 1, "not computed": 1}


def test_the_first_slot_that_is_undefined_says_why():
    rows = [("a", 0, "x", TAU, math.nan, "n<2"), ("a", 1, "x", TAU, math.nan, "nan in scores")]
    record = found(records_of(rows, 1), "x")
    assert record.reasons == {"n<2": 1}


def test_order_and_facts_are_those_of_the_metric_table():
    rows = [("a", 0, "x", name, 0.5, None) for name in ("convergence_delta", "flip_distance", TAU)]
    records = records_of(rows, 1)
    listed = [(r.metric, r.test) for r in records if r.group == "all"]
    assert listed == [(TAU, "correlation"), ("flip_distance", "adversarial"), ("convergence_delta", None)]
    facts = metric_facts(records)
    assert set(facts) == {TAU, "flip_distance"}
    assert facts[TAU].paper == EVALUATORS["correlation"].paper
    assert records_of([]) == []


def test_groups_are_the_classes_that_the_model_predicts():
    """The most likely class of each of seven texts, the first on ties; a text that could not be read is in none."""
    rng = np.random.default_rng(3)
    chances = np.concatenate([rng.dirichlet(np.ones(3), 5), [[0.4, 0.4, 0.2]], [[math.nan] * 3]])
    groups = by_prediction(chances, NAMES)
    expected = {name: [] for name in NAMES}
    for i, row in enumerate(chances.tolist()):
        if not any(map(math.isnan, row)):
            expected[NAMES[row.index(max(row))]].append(i)
    assert {name: places.tolist() for name, places in groups.items() if name != "all"} == expected
    assert groups["all"].tolist() == list(range(7))
    of_labels = by_prediction(np.array([[0.6, 0.7, 0.1], [0.5, 0.51, 0.9]]), NAMES, multi_label=True)
    assert [of_labels[name].tolist() for name in NAMES] == [[0], [0, 1], [1]]


def test_no_two_numbers_of_a_card_or_table_have_one_title():
    """A card keeps one number a title and data set: a second one would be lost."""
    titles = Counter(spec.title for spec in metric_table() if spec.shown)
    del titles["TVD"]  # of a twin and of an adversary, which no one run has both of
    assert [title for title, n in titles.items() if n > 1] == []
