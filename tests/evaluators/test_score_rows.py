"""The rows that a test makes: their order, which NaN has which reason, and the rows of copies of a text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attn_faithful.evaluators.base import MetricSpec
from attn_faithful.evaluators.score_rows import (
    ScoreColumn,
    ScoreRows,
    VariantColumns,
    is_defined,
    nan_where,
)
from attn_faithful.schema import columns
from tests.evaluators.blocks import random_block

ONE, TWO = MetricSpec("one", "One", "the first"), MetricSpec("two", "Two", "the second")
NAN = math.nan


@pytest.fixture
def block():
    return random_block((3, 2))


def listed(rows, *names):
    table = rows.scores
    return list(zip(*(table[name] for name in names), strict=True))


def test_the_columns_are_those_of_the_tables():
    rows = ScoreRows()
    assert tuple(rows.scores) == columns("scores")
    assert tuple(rows.variants) == columns("variants")


def test_examples_come_one_after_another_with_all_their_metrics(block):
    rows = ScoreRows()
    rows.add(block, {ONE: torch.tensor([1.0, 2.0]), TWO: torch.tensor([True, False])}, source="a")
    rows.add(block, {ONE: torch.tensor([3.0, 4.0])})
    assert listed(rows, "example", "metric", "source", "value") == [
        ("e0", "one", "a", 1.0),
        ("e0", "two", "a", 1.0),
        ("e1", "one", "a", 2.0),
        ("e1", "two", "a", 0.0),
        ("e0", "one", "attention", 3.0),
        ("e1", "one", "attention", 4.0),
    ]
    assert set(map(type, rows.scores["value"])) == {float}
    assert set(rows.scores["site"]) == {"pool"}
    assert set(rows.scores["label"]) == {None}


def test_slots_come_within_their_example(block):
    values = torch.tensor([[0.0, 1.0], [2.0, NAN]])
    rows = ScoreRows()
    rows.add_columns(block, [ScoreColumn("one", values, [None, None, None, "n<2"]), ScoreColumn("two", values + 5)])
    assert listed(rows, "example", "slot", "metric", "reason") == [
        ("e0", 0, "one", None),
        ("e0", 0, "two", None),
        ("e0", 1, "one", None),
        ("e0", 1, "two", None),
        ("e1", 0, "one", None),
        ("e1", 0, "two", None),
        ("e1", 1, "one", "n<2"),
        ("e1", 1, "two", "undefined"),
    ]


def test_a_reason_stands_beside_every_nan_and_nothing_else(block):
    rows = ScoreRows()
    rows.add(block, {ONE: torch.tensor([NAN, 1.0])}, ["n<2", "n<2"])
    rows.add(block, {ONE: torch.tensor([NAN, 1.0])}, [None, None], otherwise="never flips")
    rows.add(block, {ONE: torch.tensor([NAN, 1.0])})
    assert rows.scores["reason"] == ["n<2", None, "never flips", None, "undefined", None]


def test_the_label_of_a_block_stands_in_its_rows(block):
    rows = ScoreRows()
    rows.add(replace(block, label="sport"), {ONE: torch.zeros(2)})
    assert rows.scores["label"] == ["sport"] * 2


def test_alternatives_that_do_not_exist_have_no_row(block):
    first = VariantColumns("flips", "first", torch.tensor([True, False]), {"removed": [[0], []], "exact": [True] * 2})
    second = VariantColumns("flips", "second", torch.tensor([True, True]), {"output_tvd": torch.tensor([0.5, 0.25])})
    rows = ScoreRows()
    rows.add_variants(block, [first, second])
    table = rows.variants
    assert table["example"] == ["e0", "e0", "e1"]
    assert table["variant"] == ["first", "second", "second"]
    assert table["removed"] == [[0], None, None]
    assert table["output_tvd"] == [None, 0.5, 0.25]
    assert table["slot"] == [0, 0, 0]


def test_copies_get_rows_in_their_own_names(block):
    rows = ScoreRows()
    rows.add(block, {ONE: torch.tensor([1.0, 2.0]), TWO: torch.tensor([3.0, 4.0])})
    exists = torch.tensor([True, True])
    rows.add_variants(block, [VariantColumns("flips", "first", exists, {"removed": [[0], [1]]})])
    copied = rows.for_copies({"e0": ["e0", "copy"], "e1": []})
    assert listed(copied, "example", "metric", "value") == [
        ("e0", "one", 1.0),
        ("copy", "one", 1.0),
        ("e0", "two", 3.0),
        ("copy", "two", 3.0),
    ]
    assert copied.variants["example"] == ["e0", "copy"]
    assert copied.variants["removed"] == [[0], [0]]
    assert rows.for_copies({"e0": ["e0"], "e1": ["e1"]}) is rows


def test_metrics_are_left_out_and_rows_joined(block):
    rows = ScoreRows()
    rows.add(block, {ONE: torch.tensor([1.0, 2.0]), TWO: torch.tensor([3.0, 4.0])})
    left = rows.without_metrics({"one"})
    assert left.scores["value"] == [3.0, 4.0]
    assert rows.scores["value"] == [1.0, 3.0, 2.0, 4.0]
    left.extend(rows)
    assert left.scores["value"] == [3.0, 4.0, 1.0, 3.0, 2.0, 4.0]


def test_examples_with_a_reason_are_nan():
    reasons = [None, "n<2"]
    assert is_defined(reasons).tolist() == [True, False]
    masked = nan_where(reasons, torch.ones(2, 3))
    assert masked[0].tolist() == [1.0, 1.0, 1.0]
    assert bool(masked[1].isnan().all())
