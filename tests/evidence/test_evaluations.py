"""What is kept of evaluations, and the numbers that are derived of texts and tokens."""

import math
from pathlib import Path

import pytest
from evidence.cells import CellSummary, Number
from evidence.derived import core_numbers
from evidence.earlier import earlier_table, read_earlier
from evidence.evaluations import evaluation_cell
from evidence.measured import Column, measured_table, turned_table, with_interval
from evidence.topics import TOPICS, Topic

from attn_faithful.reports.run import Run

GOLDEN = Path(__file__).parents[1] / "reports" / "golden" / "cells" / "mock-1-lstm-1"


class Cores:
    """A run as far as the sizes of its cores."""

    def __init__(self, sizes):
        self.sizes = sizes

    def scores(self, metric, source):
        assert (metric, source) == ("core_size", "certified_core")
        return self.sizes


def test_shares_of_cores():
    none, few, median = core_numbers(Cores([0.0, 0.0, 2.0, 4.0, 9.0, math.nan]))
    assert (none.metric, none.value, none.n, none.n_undefined) == ("core_none", 0.4, 5, 1)
    assert (few.metric, few.value) == ("core_few", 0.8)
    assert (median.metric, median.value, median.n) == ("core_median", 4.0, 3)
    assert 0 < none.low < 0.4 < none.high < 1


def test_a_topic_keeps_by_pattern():
    topic = Topic({"a": ("x@*", "y")})
    assert topic.keeps("a", "x@1")
    assert topic.keeps("a", "y")
    assert not topic.keeps("a", "x")
    assert not topic.keeps("b", "y")


def test_what_is_kept_of_an_evaluation(monkeypatch):
    topic = Topic(
        {"attention_correlation": ("attention~*",), "flip_optimal": ("attention",)}, agreement=("leave_one_out",)
    )
    monkeypatch.setitem(TOPICS, "mine", topic)
    made = evaluation_cell("mine", {"model": "lstm"}, 7, [GOLDEN, GOLDEN])
    assert (made.file, made.axes, made.data["test"]["n"]) == ("mine/lstm-7.json", {"model": "lstm"}, 10)
    assert len(made.find("base_accuracy")) == 1  # of two runs of one model once
    metrics = {number.metric for number in made.numbers if not number.metric.startswith("base_")}
    assert metrics == {"attention_correlation", "flip_optimal", "tau"}
    place = ("attention_correlation", "pool", "attention~leave_one_out", "all")
    (record,) = [record for record in Run(GOLDEN).records if record.place == place]
    (number,) = made.find("attention_correlation", "attention~leave_one_out")
    (derived,) = made.find("tau", "attention~leave_one_out")
    assert (number.value, number.low, number.high, number.n) == (record.mean, record.low, record.high, record.n)
    assert derived.value == pytest.approx(record.mean, abs=1e-12)  # the same tau, from the table of tokens
    assert made.find("attention_correlation", "uniform~leave_one_out") == []


def cell(value, seed=1, metric="m", source="attention"):
    number = Number(metric, source, value=value, low=value - 0.1, high=value + 0.1, n=10)
    return CellSummary("p", {}, seed, ["a", "b"], {}, {}, 1.0, {}, {}, [number])


def test_tables_of_cells():
    rows = {"one": [cell(0.5)], "none": [cell(0.5, metric="other")]}
    columns = [Column("M", "m", digits=1)]
    assert measured_table("model", rows, columns).splitlines() == [
        "| model | M |",
        "| --- | --- |",
        "| one | 0.5 [0.4, 0.6] |",
        "| none |  |",
    ]
    assert turned_table("number", rows, columns).splitlines()[0] == "| number | one | none |"
    assert turned_table("number", rows, columns).splitlines()[2] == "| M | 0.5 [0.4, 0.6] |  |"


def test_intervals_stay_in_the_range_of_a_number():
    cells = [cell(value, seed, metric="core_few") for seed, value in enumerate((0.8, 0.99))]
    assert with_interval(Column("M", "core_few").of(cells)) == "0.90 [0.33, 1.00]"
    unknown = [cell(value, seed) for seed, value in enumerate((0.8, 0.99))]
    assert with_interval(Column("M", "m").of(unknown)) == "0.90 [0.33, 1.46]"


def test_earlier_numbers_are_a_table_with_their_origin(tmp_path):
    (tmp_path / "t.csv").write_text('# versions: torch 1\n# origin: a log\na,b\n1,"2, 3"\n', encoding="utf-8")
    notes, rows = read_earlier(tmp_path / "t.csv")
    assert notes == {"versions": "torch 1", "origin": "a log"}
    assert rows == [["a", "b"], ["1", "2, 3"]]
    made = earlier_table("t", tmp_path)
    assert made.splitlines()[2] == "| 1 | 2, 3 |"
    assert made.endswith("no file here makes these numbers anew. Versions: torch 1.")
    (tmp_path / "t.csv").write_text("a,b\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected 2 fields"):
        read_earlier(tmp_path / "t.csv")
