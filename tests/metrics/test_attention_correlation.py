"""The module attention_correlation: its numbers and what it refuses; metrics/test_modules.py has what all share."""

import math

import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError
from attn_faithful.metrics.correlation import correlation_of_lists

NAME = "attention_correlation"
FOLDER = hub._MODULES / NAME


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(cache))


def test_metric_by_path(metric):
    assert metric.name == NAME
    attention = [[0.6, 0.3, 0.1], [], [0.1, math.nan], [0.25] * 4]
    importance = [[-0.5, 0.3, 0.1], [], [0.1, 0.2], [1.0, 2.0, 3.0, 4.0]]
    result = metric.compute(predictions=attention, references=importance)
    assert list(result) == list(correlation_of_lists(attention, importance))
    assert result["kendall_tau_b"] == pytest.approx(1)
    assert (result["n"], result["n_undefined"]) == (1, 3)
    assert result["reasons"] == {"no content token": 1, "nan in scores": 1, "constant attention": 1}
    for x, y in zip(attention, importance, strict=True):
        metric.add(prediction=x, reference=y)
    each = metric.compute(reduction="none", magnitude=False)
    assert each["kendall_tau_b"] == pytest.approx([-1 / 3, math.nan, math.nan, math.nan], nan_ok=True)
    assert each["n_tokens"] == [3, 0, 2, 4]


def test_arguments_reach_the_function(metric):
    rows = {"predictions": [[0.2, 0.2 + 1e-9, 0.6]], "references": [[1.0, 2.0, 3.0]]}
    assert metric.compute(**rows)["kendall_tau_b"] == pytest.approx(0.816497, abs=1e-6)
    assert metric.compute(**rows, tie_tolerance=0)["kendall_tau_b"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[0.5, 0.5], [1.0]], {}, "in example 1, but `predictions` has 2, `references` has 1"),
        ([[0.5, 0.5], [0.5, 0.5]], {"reduction": "means"}, r"Unknown reduction 'means'\. Did you mean 'mean'"),
    ],
)
def test_errors_are_clear(cache, rows, options, message):
    import evaluate

    metric = evaluate.load(str(FOLDER), cache_dir=str(cache), keep_in_memory=True)
    with pytest.raises(InputError, match=message):
        metric.compute(predictions=[[0.5, 0.5]] * 2, references=rows, **options)
