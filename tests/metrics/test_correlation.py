"""Rank correlations of lists of texts: each equals that of its text alone, means are over defined examples."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.rankings import kendall_tau_b, spearman
from attn_faithful.metrics.correlation import correlation_of_lists

nan = math.nan


def same(a, b):
    return a == pytest.approx(b, abs=1e-10, nan_ok=True)


def lists(n=60, seed=0):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 15, n)
    attention = [generator.dirichlet(np.ones(k)).tolist() for k in lengths]
    importance = [(np.array(a) * generator.normal(size=len(a))).tolist() for a in attention]
    attention[3], importance[4] = [nan] * len(attention[3]), [0.5] * len(importance[4])
    return attention, importance


@pytest.mark.parametrize("magnitude", [True, False])
def test_lists_equal_one_by_one(magnitude):
    attention, importance = lists()
    each = correlation_of_lists(attention, importance, magnitude=magnitude, reduction="none")
    for i, (x, y) in enumerate(zip(attention, importance, strict=True)):
        y = np.abs(y) if magnitude else y
        tau = kendall_tau_b(x, y, names=("attention", "importance"))
        rho = spearman(x, y, names=("attention", "importance"))
        assert same(each["kendall_tau_b"][i], tau.value)
        assert same(each["p_value"][i], tau.p_value)
        assert same(each["spearman"][i], rho.value)
        assert same(each["prediction_ties"][i], tau.ties_x)
        assert same(each["reference_ties"][i], tau.ties_y)
        assert (each["n_tokens"][i], each["reason"][i]) == (len(x), tau.reason)
    result = correlation_of_lists(attention, importance, magnitude=magnitude)
    taus = [t for t in each["kendall_tau_b"] if not math.isnan(t)]
    assert result["kendall_tau_b"] == pytest.approx(sum(taus) / len(taus), abs=1e-12)
    assert result["std"] == pytest.approx(math.sqrt(sum((t - result["kendall_tau_b"]) ** 2 for t in taus) / len(taus)))
    assert result["spearman"] == pytest.approx(np.nanmean(each["spearman"]))
    assert (result["n"], result["n_undefined"]) == (len(taus), 60 - len(taus))
    share = sum(p <= 0.05 for p in each["p_value"]) / 60
    assert result["significant"] == share
    assert share > 0 or not magnitude
    long = [p for p, n in zip(each["p_value"], each["n_tokens"], strict=True) if n >= 5 and not math.isnan(p)]
    assert result["significant_n5"] == sum(p <= 0.05 for p in long) / len(long)
    assert result["n5"] == len(long)
    assert result["prediction_ties"] == pytest.approx(np.nanmean(each["prediction_ties"]))
    low, high = result["interval"]
    assert low < result["kendall_tau_b"] < high
    assert sum(result["reasons"].values()) == result["n_undefined"]
    assert set(result["reasons"]) == {"no content token", "n<2", "nan in scores", "constant importance"}
    assert result["reason"] is result["reason_n5"] is None


def test_mean_is_over_defined_examples():
    rows = [[0.1, 0.2, 0.7], [0.1, 0.2, nan], [0.5, 0.3, 0.2]]
    result = correlation_of_lists(rows, [[1, 2, 3], [1, 2, 3], [0.2, 0.5, 0.3]])
    assert result["kendall_tau_b"] == pytest.approx(1 / 3)
    assert (result["n"], result["n_undefined"], result["reasons"]) == (2, 1, {"nan in scores": 1})
    assert (result["significant"], result["n5"]) == (0.0, 0)
    assert math.isnan(result["significant_n5"])
    assert result["reason_n5"] == "no defined example of 5 tokens"


@pytest.mark.parametrize("rows", [[], [[]], [[1.0], [0.2] * 5]])
def test_no_defined_example(rows):
    result = correlation_of_lists(rows, rows)
    undefined = ("kendall_tau_b", "std", "spearman", "significant_n5")
    assert all(math.isnan(result[key]) for key in undefined)
    assert all(math.isnan(end) for end in result["interval"])
    assert result["significant"] == pytest.approx(0.0 if rows else nan, nan_ok=True)
    assert (result["n"], result["n_undefined"], result["reason"]) == (0, len(rows), "no defined example")


def test_an_undefined_example_counts_as_not_significant():
    long = [0.1, 0.2, 0.3, 0.4, 0.5]
    result = correlation_of_lists([long, [0.2] * 5, [1.0], []], [long, long, [1.0], []])
    assert (result["significant"], result["significant_n5"], result["n5"]) == (0.25, 1.0, 1)


def test_sign_of_the_importance():
    rows = [[0.6, 0.3, 0.1]], [[-0.5, 0.3, 0.1]]
    assert correlation_of_lists(*rows)["kendall_tau_b"] == pytest.approx(1)
    assert correlation_of_lists(*rows, magnitude=False)["kendall_tau_b"] == pytest.approx(-1 / 3)


def test_lists_name_and_tolerance():
    third = 1 / 3
    rows = [[third, third + 1e-9, third - 1e-9]], [[2.0, 3.0, 1.0]]
    names = {"predictions_name": "head 3", "references_name": "loo"}
    assert correlation_of_lists(*rows, **names)["reasons"] == {"constant head 3": 1}
    assert correlation_of_lists(*rows, **names, tie_tolerance=0)["kendall_tau_b"] == pytest.approx(1)


def test_lists_bad_input():
    with pytest.raises(InputError, match="in example 1, but `predictions` has 2, `references` has 1"):
        correlation_of_lists([[0.1], [0.5, 0.5]], [[0.1], [0.5]])
    with pytest.raises(InputError, match="`predictions` has 1, `references` has 0"):
        correlation_of_lists([[0.1]], [])
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        correlation_of_lists([], [], reduction="means")
