"""Runs that differ in seeds alone are averaged; any other difference is a row of its own, told in words."""

from __future__ import annotations

import copy

import pytest

from attn_faithful.cli import main
from attn_faithful.records.meta import RunMeta
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.data_labels import tails
from attn_faithful.reports.report import report
from attn_faithful.reports.run_differences import told_apart as told_apart_records
from attn_faithful.reports.run_search import read_runs
from tests.reports.altered import LSTM, copied

META = {
    "axes": {"data": "test", "model": "bert"},
    "seed": 1,
    "numbers": 2,
    "model": "runs/a/model",
    "split": "test",
    "identity": {"weights": "aa", "tokenizer": "bb", "attention": "sdpa", "numbers": 2},
    "label_names": ["no", "yes"],
    "evaluation": {"tests": ["flips", "erasure"], "units": "word", "seed": 1, "settings": {}, "heads": []},
    "data": {"source": "a/test.csv", "fingerprint": "11", "test": {"n": 40}},
}


def told_apart(metas):
    return told_apart_records([RunMeta.from_json(meta) for meta in metas])


def other(**changes):
    """The same with a dotted entry changed, of another seed."""
    found = copy.deepcopy(META)
    found["seed"] = found["evaluation"]["seed"] = 2
    for name, value in changes.items():
        *parents, last = name.split("__")
        place = found
        for parent in parents:
            place = place[parent]
        place[last] = value
    return found


def test_regularizers_tell_runs_apart_whatever_else_does():
    trainings = [
        {"epochs": 3},
        {"epochs": 4, "regularizers": {"tying": 0.1}},
        {"epochs": 5, "regularizers": {"tying": 0.1, "diversity": 1.0}},
    ]
    told = told_apart([other(recipe={"train": train}) for train in trainings])
    assert [axes["tying"] for axes in told] == ["-", "0.1", "0.1"]
    assert [axes["diversity"] for axes in told] == ["-", "-", "1.0"]


def test_seeds_alone_make_no_difference():
    assert told_apart([META, other()]) == [META["axes"]] * 2
    recipe = {
        "seeds": [1],
        "twin_seeds": [5],
        "train": {"epochs": 3, "trackers": []},
        "name": "one",
        "data": {"seed": 1},
    }
    again = {"seeds": [2], "twin_seeds": None, "train": {"epochs": 3, "trackers": ["x"]}, "name": "two", "data": {}}
    metas = [{**META, "recipe": recipe}, other(recipe=again)]
    assert told_apart(metas) == [META["axes"]] * 2


@pytest.mark.parametrize(
    ("changes", "column", "words"),
    [
        ({"evaluation__units": "token"}, "units", ("word", "token")),
        ({"evaluation__heads": [3]}, "heads", ("-", "3")),
        ({"evaluation__tests": ["flips"]}, "tests", ("erasure", "no more")),
        ({"evaluation__settings": {"flips": {"random": 3}}}, "random", ("-", "3")),
        ({"split": "validation"}, "split", ("test", "validation")),
        ({"model": "runs/b/model"}, "model from", ("a", "b")),
        ({"model": None}, "model from", ("runs/a", "memory")),
        ({"numbers": 1}, "numbers", ("2", "1")),
        ({"identity__weights": "cc"}, "weights", ("aa", "cc")),
        ({"identity__tokenizer": "cc"}, "tokenizer", ("bb", "cc")),
        ({"identity__attention": "sparsemax"}, "attention", ("sdpa", "sparsemax")),
        ({"data__fingerprint": "22", "data__source": "b/test.csv"}, "data", ("test (a)", "test (b)")),
        ({"data__fingerprint": "22", "data__test": {"n": 8}}, "data", ("test (40 texts)", "test (8 texts)")),
        ({"data__fingerprint": "22", "label_names": ["yes", "no"]}, "data", ("test (no/yes)", "test (yes/no)")),
        ({"data__fingerprint": "22"}, "data", ("test (11)", "test (22)")),
    ],
)
def test_any_other_difference_is_told(changes, column, words):
    first, second = told_apart([META, other(**changes)])
    assert (first[column], second[column]) == words
    assert {name: first[name] for name in first if name != column} == {
        name: second[name] for name in second if name != column
    }


def test_all_that_differs_is_told_and_nothing_twice():
    found = told_apart([META, other(evaluation__units="token", split="train", model="x/y", identity__weights="cc")])
    assert found[1] == {"data": "test", "model": "bert", "units": "token", "split": "train", "model from": "x/y"}


def test_names_of_settings_that_another_version_does_not_know_are_no_difference_of_their_own():
    older = other(numbers=1)
    del older["identity"], older["evaluation"]["units"]
    assert told_apart([META, older])[1] == {"data": "test", "model": "bert", "numbers": "1"}


def test_long_words_are_cut_and_still_different():
    found = told_apart([META, other(evaluation__target="x" * 50 + "a"), other(evaluation__target="x" * 50 + "b")])
    labels = [axes["target"] for axes in found]
    assert len(set(labels)) == 3
    assert max(map(len, labels)) <= 40


def test_a_column_is_filled_for_all_that_have_the_setting():
    lstm = other(axes={"data": "test", "model": "lstm"})
    found = told_apart([META, other(evaluation__units="token"), lstm, other(axes=lstm["axes"])])
    assert [axes["units"] for axes in found] == ["word", "token", "word", "word"]
    assert found[2] == found[3]


def test_data_of_one_label_are_apart_for_all_models():
    lstm = other(data__fingerprint="22", data__source="b/test.csv", axes={"data": "test", "model": "lstm"})
    assert [axes["data"] for axes in told_apart([META, lstm])] == ["test (a)", "test (b)"]


def test_tails():
    assert tails(["x/a/t.csv", "x/b/c/t.csv"]) == ["a", "b/c"]
    assert tails(["x/a", "x/a/b"]) == ["a", "b"]
    assert tails(["same"]) == ["same"]


def folders(path, *kinds):
    meta = read_runs([LSTM])[0].meta
    for i, changes in enumerate(kinds):
        copied(path / f"run-{i}", **{**meta, "seed": i, **changes})
    return read_runs([path])


def test_files_of_one_name_in_two_folders_are_two_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("attn_faithful.reports.report.FIGURES", {})  # none of them is asked about here
    data = read_runs([LSTM])[0].meta["data"]
    one, other = ({"data": {**data, "fingerprint": name, "source": f"{name}/test.csv"}} for name in ("a", "b"))
    runs = folders(tmp_path, one, other, other)
    records = aggregate(runs)
    assert [(group.axes["data"], group.seeds) for group in records] == [
        ("Mock-1 (a)", [0]),
        ("Mock-1 (b)", [1, 2]),
    ]
    assert main(["ls", str(tmp_path)]) == 0
    assert "Mock-1 (a)" in capsys.readouterr().out
    made = report([tmp_path], tmp_path / "report", pages=True)
    text = (made.path / "report.md").read_text()
    assert "Mock-1 (a) lstm, seed 0" in text
    listed = [line for line in text.splitlines() if line.startswith("- [Mock-1")]
    for line in listed:  # the title stands before the page of its own run
        seed = line.partition("seed ")[2][0]
        assert f"run-{seed}.html" in line
    assert len(listed) == 3
