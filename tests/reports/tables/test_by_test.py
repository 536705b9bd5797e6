"""Tables of tests: controls beside the numbers, undefined ones counted, and the first lines in words."""

from __future__ import annotations

import math
from dataclasses import replace

from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.tables.by_test import tables_of_tests

TAU = MetricFacts("tau", "tau-b", "a correlation", direction="higher", test="correlation", paper="a paper")


def record(metric="tau", source="attention~given", group="all", mean=0.5, n=3, n_undefined=0, **reasons):
    numbers = {"mean": mean, "std": 0.25, "low": 0.25, "high": 0.75, "n": n, "n_undefined": n_undefined}
    return ScoreRecord("correlation", metric, "pool", source, group, reasons=reasons, **numbers)


def test_one_row_a_source_with_classes_and_controls_beside():
    records = [
        record(n_undefined=2, **{"n<2": 2}),
        record(group="no", mean=0.25),
        record(group="yes", mean=math.nan, n=0),
        record(source="random~given", mean=0.125),
        record(source="uniform~given", mean=math.nan, n=0, n_undefined=5),
        record(source="given~other", mean=-1.0),
    ]
    (table,) = tables_of_tests(records, {"tau": TAU}, ["no", "yes"])
    assert table.head[4:8] == ["no", "yes", "(random)", "(uniform)"]
    first, second = table.rows
    assert first == [
        "tau-b",
        "attention ~ given",
        "0.500 ±0.250",
        "[0.250, 0.750]",
        "0.250",
        "-",
        "0.125",
        "-",
        "3",
        "2",
        "up",
    ]
    assert second[:3] == ["tau-b", "given ~ other", "-1.000 ±0.250"]
    assert second[6:8] == ["-", "-"]  # attention has no part in it, so no control has
    assert any("n<2 (2)" in note for note in table.notes)
    assert "a correlation" in table.notes[0]


def test_many_classes_are_no_columns():
    names = [f"class {i}" for i in range(9)]
    (table,) = tables_of_tests([record(), record(source="random~given")], {"tau": TAU}, names)
    assert len(table.head) == len(table.rows[0])
    assert not set(names) & set(table.head)
    assert "(random)" in table.head
    (table,) = tables_of_tests([record()], {"tau": TAU}, names)
    assert "(random)" not in table.head  # nothing stands in them
    assert len(table.head) == len(table.rows[0]) == 7


def test_what_is_not_shown_has_no_row():
    records = [record(), record("p")]
    (table,) = tables_of_tests(
        records, {"tau": TAU, "p": replace(TAU, name="p", title="p", shown=False)}, [], "a title"
    )
    assert len(table.rows) == 1
    assert table.title == "a title, correlation: a paper"


def test_a_control_over_other_texts_says_its_n():
    records = [record(n=10), record(source="random~given", mean=0.125, n=3), record(source="uniform~given", n=10)]
    (table,) = tables_of_tests(records, {"tau": TAU}, [])
    (row,) = table.rows
    assert (row[table.head.index("(random)")], row[table.head.index("(uniform)")]) == ("0.125 (3)", "0.500")
