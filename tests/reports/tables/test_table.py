"""Tables from records: numbers as a person reads them, marks, notes, Markdown and CSV."""

import csv
import doctest
import io
import math
from types import SimpleNamespace

import pytest

from attn_faithful.reports import numbers
from attn_faithful.reports.control_differences import F1Difference
from attn_faithful.reports.groups import BasePairs, Group, OverSeeds, Performance, TwinGroup, TwinOfSeed
from attn_faithful.reports.numbers import number
from attn_faithful.reports.paper_numbers import Claim, PaperNumbers
from attn_faithful.reports.tables import sources
from attn_faithful.reports.tables.beside_paper import expected_table
from attn_faithful.reports.tables.controls import controls_table
from attn_faithful.reports.tables.listings import runs_table
from attn_faithful.reports.tables.models import base_table, pairs_table, spread
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.twins import attefa_table, constrained_table, seeds_table
from attn_faithful.store import RunFolder


def over(mean, std=0.0, n=1):
    return OverSeeds(mean, std, n)


NOTHING = OverSeeds(n_undefined=2)


def twin(value=0.25, collapsed=0, reason=None, seeds=(10, 50), **numbers):
    """Twins of one kind; their numbers over seeds are given, and not computed."""
    by_seed = [TwinOfSeed(2, seed, 3, 0.9, value, 0.1, 0.4, math.nan, bool(collapsed), reason) for seed in seeds]
    twins = TwinGroup("", by_seed, low=0.2, high=0.3, n_examples=59, n_undefined_examples=1)
    twins.f1, twins.tvd, twins.jsd = over(0.9), over(0.1, 0.02, 2), over(0.4)
    twins.constant_tvd, twins.attefa = over(0.35), over(value, 0.05, len(seeds))
    for name, value in numbers.items():
        setattr(twins, name, value)
    return twins


def never_moved():
    """Twins whose attention never moved."""
    return twin(math.nan, reason="twin attention never moved", attefa=NOTHING, low=math.nan, high=math.nan)


def record(encoder="lstm", seeds=(2,), twins=None, **more):
    """A model; runs stand for their seeds alone."""
    twins = {"attefa": twin()} if twins is None else twins
    for variant, of_variant in twins.items():
        of_variant.variant = variant
    axes = {"data": "Mock-1", "encoder": encoder}
    numbers = {"base": Performance(over(0.8), over(0.81), over(0.9)), "named": axes, **more}
    runs = [SimpleNamespace(seed=seed, label_names=["no", "yes"]) for seed in seeds]
    return Group(axes, runs, twins=twins, **numbers)


def cells(table, row=0):
    return dict(zip(table.head, table.rows[row], strict=True))


def test_examples_in_docstrings():
    assert doctest.testmod(numbers).failed == 0
    assert doctest.testmod(sources).failed == 0


# --- numbers


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0.51234, 3, "0.512"),
        (-0.51234, 3, "-0.512"),
        (-0.0001, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (-0.4, 0, "0"),
        (1.0, 3, "1.000"),
        (math.nan, 3, "-"),
        (None, 3, "-"),
        (math.inf, 3, "-"),
        (-math.inf, 3, "-"),
        (0.0364999, 4, "0.0365"),
    ],
)
def test_number(value, digits, expected):
    assert number(value, digits) == expected


def test_spread():
    assert spread(over(0.5)) == "0.500"
    assert spread(over(0.5, 0.1234, 3)) == "0.500 ±0.123"
    assert spread(over(-0.0001, 0.0, 2)) == "0.000 ±0.000"
    assert spread(NOTHING) == spread(None) == "-"


# --- forms


def test_markdown_escapes():
    table = Table("T", ["data", "A|B"], [["x|y", "1.000"]], ["a note"])
    lines = table.markdown().splitlines()
    assert lines[2:5] == ["| data | A\\|B |", "| --- | --: |", "| x\\|y | 1.000 |"]
    assert "a note" in lines


def test_csv_quotes():
    table = Table("T", ["data", "F1"], [['a,"b"', "0.5 ±0.1"]])
    assert list(csv.reader(io.StringIO(table.csv()))) == [["data", "F1"], ['a,"b"', "0.5 ±0.1"]]


def test_markup_of_a_name_is_not_read_by_the_terminal():
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=80).print(Table("[red]", ["data", "F1"], [["[bold]set[/]", "0.5"]], ["[95]"]).rich())
    assert all(part in text.getvalue() for part in ("[red]", "[bold]set[/]", "[95]"))


# --- tables


def test_attefa_table():
    gone = twin(0.6, collapsed=2)
    table = attefa_table([record(), record("mlp", twins={"attefa": gone, "attefa-0.3": never_moved()})])
    assert cells(table) == {
        "data": "Mock-1",
        "encoder": "lstm",
        "twin": "attefa",
        "Base F1": "0.810",
        "Twin F1": "0.900",
        "TVD": "0.100 ±0.020",
        "const. TVD": "0.350",
        "JSD": "0.400",
        "AtteFa": "0.250 ±0.050",
        "95%": "[0.200, 0.300]",
        "Collapsed": "0 of 2",
        "N": "59 (+1)",
    }
    assert cells(table, 1)["Collapsed"] == "2 of 2"
    assert (cells(table, 2)["AtteFa"], cells(table, 2)["95%"]) == ("-", "-")
    assert any("counts as collapsed" in note for note in table.notes)
    assert not any("TEST" in note for note in table.notes)


def test_no_twins_no_table():
    bare = record(twins={})
    assert attefa_table([bare]) is None
    assert constrained_table([bare]) is None
    assert seeds_table([bare]) is None
    assert pairs_table([bare]) is None


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (["train"], "The epoch of the base was chosen on the TEST split"),
        (["twin"], "The epoch of the twins was chosen on the TEST split"),
        (["train", "twin"], "The epoch of the base and the twins was chosen on the TEST split"),
    ],
)
def test_selection_on_test_is_said(stages, words):
    for table in (
        base_table([record(select_on=stages)]),
        attefa_table([record(), record(select_on=stages)]),
    ):
        assert any(words in note for note in table.notes)


def test_constrained_twins_say_what_they_missed():
    reason = "missed: mean TVD 0.085 is above 0.05"
    missed = twin(reason=reason, seeds=(10,), jsd_at_tvd=NOTHING)
    table = constrained_table([record(twins={"attefa": twin(), "constrained-0.05": missed})])
    assert len(table.rows) == 1
    assert (cells(table)["max TVD"], cells(table)["JSD at TVD"]) == ("0.05", "-")
    assert table.notes == [f"Mock-1 lstm, 0.05: {reason}"]
    met = twin(seeds=(10,), jsd_at_tvd=over(0.6))
    table = constrained_table([record(twins={"constrained-0.05": met})])
    assert (cells(table)["JSD at TVD"], table.notes) == ("0.600", [])
    assert attefa_table([record(twins={"constrained-0.05": met})]) is None


def test_base_table():
    planted = record(informative_mass=over(0.7))
    table = base_table([planted, record("mlp")])
    assert cells(table)["Planted mass"] == "0.700"
    assert cells(table, 1)["Planted mass"] == "-"
    unlabelled = record(base=Performance())
    assert cells(base_table([unlabelled]))["F1"] == "-"


def test_controls_table():
    uniform = Performance(over(0.7, 0.01, 3), over(0.6, 0.02, 3), NOTHING)
    under_twin = Performance(OverSeeds(0.5, 0.1, 2, 1), over(0.4, 0.1, 2), over(0.5, 0.1, 2))
    controls = {"uniform": uniform, "imposed_twin kl-2": under_twin}
    differences = {"imposed_twin kl-2": F1Difference("(base)", -0.41, -0.5, -0.3, 60)}
    table = controls_table([record("mlp"), record(controls=controls, control_differences=differences)])
    assert table.head[:6] == ["data", "encoder", "control", "Accuracy", "F1", "ROC-AUC"]
    assert [row[:2] for row in table.rows] == [["Mock-1", "lstm"]] * 3
    assert [row[2:6] for row in table.rows] == [
        ["(base)", "0.800", "0.810", "0.900"],
        ["uniform", "0.700 ±0.010", "0.600 ±0.020", "-"],
        ["imposed_twin kl-2", "0.500 ±0.100", "0.400 ±0.100", "0.500 ±0.100"],
    ]
    assert table.head[6:] == ["Compared with", "F1 difference", "95%", "Trainings"]
    assert [row[6:] for row in table.rows] == [
        ["-", "-", "-", "1"],
        ["-", "-", "-", "3"],
        ["(base)", "-0.410", "[-0.500, -0.300]", "3"],
    ]
    assert [note.partition(":")[0] for note in table.notes] == ["uniform", "imposed_twin", "F1 difference"]
    assert controls_table([record("mlp")]) is None


def test_axes_that_only_some_have():
    other = record()
    other.axes = {**other.axes, "projection": "sparsemax"}
    table = base_table([record(), other])
    assert [cells(table, i)["projection"] for i in (0, 1)] == ["-", "sparsemax"]


def test_pairs_table():
    pairs = BasePairs([(0.01, 0.1), (0.03, 0.3), (math.nan, math.nan)], (0.015, 0.025), (0.19, 0.21), 60)
    table = pairs_table([record(), record("mlp", base_pairs=pairs)])
    assert table.head[2:] == ["TVD", "TVD 95%", "JSD", "JSD 95%", "Pairs", "N"]
    numbers = ["0.020 ±0.010", "[0.015, 0.025]", "0.200 ±0.100", "[0.190, 0.210]", "2", "60"]
    assert table.rows == [["Mock-1", "mlp", *numbers]]


def test_expected_table():
    expected = PaperNumbers(
        key=["data", "encoder"],
        metrics=["base_f1", "twin_f1", "tvd", "jsd", "attefa"],
        band={"base_f1": 0.01, "tvd": 0.01, "attefa": 0.1, "jsd": 0.1},
        rows={"Mock-1 lstm": [0.82, 0.5, 0.2, None, 0.24], "Mock-1 gru": [1, 1, 1, 1, 1]},
    )
    other = Claim("x", expected)
    table = expected_table([record(), record("mlp")], Claim("Amini and Kosseim, table 3", expected))
    assert "Amini and Kosseim, table 3" in table.title
    within = {row[1]: row[2:] for row in table.rows}
    assert within == {
        "base_f1": ["0.810", "0.8200", "±0.01", "yes", "-"],  # on the edge of the band
        "twin_f1": ["0.900", "0.5000", "-", "-", "0 of 2"],
        "tvd": ["0.100 ±0.020", "0.2000", "±0.01", "no", "0 of 2"],
        "attefa": ["0.250 ±0.050", "0.2400", "±0.1", "yes", "0 of 2"],
    }
    assert expected_table([record("mlp")], other) is None
    unlabelled = record(base=Performance(), twins={})
    assert expected_table([unlabelled], other).rows == [["Mock-1 lstm", "base_f1", "-", "0.8200", "±0.01", "-", "-"]]
    collapsed = record(
        twins={"attefa-from-base": twin(collapsed=2)}
    )  # whatever its name, the first is the recipe's own
    assert [row[-1] for row in expected_table([collapsed], other).rows] == ["-", *["2 of 2"] * 3]


def test_seeds_table():
    table = seeds_table([record(twins={"attefa": twin(collapsed=1)})])
    assert [(row[3], row[4], row[-1]) for row in table.rows] == [("2", "10", "yes"), ("2", "50", "yes")]


def test_runs_table(tmp_path):
    runs = []
    for i, value in enumerate((0.25, None)):
        run = RunFolder(tmp_path / str(i))
        found = {"variant": "attefa", "seed": 1, "attefa": {"value": value}, "collapsed": {"value": value is not None}}
        run.write_summary({"base": {"f1": 0.8}, "twins": {"attefa-1": found, "kl-1": {**found, "variant": "kl"}}})
        run.write_meta({"axes": {"data": "Mock-1"}, "seed": i, "seconds": 61.4})
        runs.append(run)
    table = runs_table(runs)
    assert table.rows == [
        ["Mock-1", "0", "0.800", "0.250 (1 of 1 collapsed)", "61 s", str(tmp_path / "0")],
        ["Mock-1", "1", "0.800", "-", "61 s", str(tmp_path / "1")],
    ]
