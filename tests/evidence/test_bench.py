"""What is kept of an evaluation of AttentionBench."""

import pytest
from evidence.collect_bench import lines_of, scores_of
from evidence.results import bench

SCORE = {
    "source": "attention",
    "kind": "all",
    "level": "model",
    "low": 0.5,
    "high": 0.75,
    "n_explains": 3,
    "n_other": 4,
}
LINE = {"source": "attention", "line": 1 / 3, "faithful": "above", "balanced_accuracy": 0.9, "low": 0.8, "high": 1.0}


def result(**values):
    return {"name": "polarity", "entry": "test", "scores": [], "lines": [], **values}


def test_headlines_of_all_lengths_are_kept():
    scores = [
        {**SCORE, "metric": "polarity_violation", "length": "all", "auc": 2 / 3},
        {**SCORE, "metric": "polarity_violation", "length": "8", "auc": 1.0},
        {**SCORE, "metric": "another", "length": "all", "auc": 1.0},
        {**SCORE, "metric": "polarity_violation_removal", "length": "all", "auc": None},
    ]
    first, second = scores_of(result(scores=scores))
    assert (first["metric"], first["auc"], first["low"], first["n_other"]) == (
        "polarity_violation",
        "0.666667",
        "0.5",
        "4",
    )
    assert second["auc"] == ""


def test_everything_of_an_explanation_is_kept():
    scores = [{**SCORE, "metric": "token", "length": "all", "auc": 0.5}]
    (row,) = scores_of(result(name="mine", entry="explanation", scores=scores))
    assert (row["name"], row["entry"]) == ("mine", "explanation")


def test_lines_of_headlines_are_kept():
    lines = [{**LINE, "metric": "polarity_violation", "missed": 0.0}, {**LINE, "metric": "another", "missed": 0.0}]
    (row,) = lines_of(result(lines=lines))
    assert (row["name"], row["line"], row["missed"]) == ("polarity", "0.333333", "0")


def test_what_was_not_measured_is_a_dash_and_a_line_that_is_missing_an_error(monkeypatch):
    monkeypatch.setattr(bench, "_read", lambda path: [])
    assert bench.TABLES["tests"]().splitlines()[2].split(" | ")[1:3] == ["-", "-"]
    with pytest.raises(ValueError, match="expected a line of attention_correlation"):
        bench.TABLES["lines"]()
