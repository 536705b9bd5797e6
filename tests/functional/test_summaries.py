"""Means over examples with counts and intervals, against numpy and a loop of the same draws."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.summaries import summarize

NAN = math.nan


def columns():
    values = np.random.default_rng(0).random((40, 3))
    values[::3, 1] = NAN
    values[:, 2] = NAN
    return values, [[None] * 40, ["n<2" if i % 3 == 0 else None for i in range(40)], ["nan in scores"] * 40]


def test_means_counts_and_reasons():
    values, reasons = columns()
    first, second, third = summarize(values, reasons)
    assert (first.mean, first.std) == pytest.approx((values[:, 0].mean(), values[:, 0].std()))
    kept = values[~np.isnan(values[:, 1]), 1]
    assert (second.mean, second.std) == pytest.approx((kept.mean(), kept.std()))
    assert (second.n, second.n_undefined, second.reasons) == (26, 14, {"n<2": 14})
    assert (third.n, third.n_undefined, third.reasons) == (0, 40, {"nan in scores": 40})
    assert all(math.isnan(v) for v in (third.mean, third.std, third.low, third.high))


def test_the_mean_over_one_undefined_and_two_defined_values():
    """C03: the mean of [1, NaN, -1/3] is 1/3 over two examples, not 0.2222 and not NaN."""
    found = summarize(np.array([[1.0], [NAN], [-1 / 3]]), [[None, "n<2", None]])[0]
    assert found.mean == pytest.approx(1 / 3)
    assert (found.n, found.n_undefined) == (2, 1)


def test_intervals_equal_a_loop_over_the_same_draws():
    values, reasons = columns()
    found = summarize(values, reasons, n_resamples=200, level=0.9, seed=3)
    drawn = np.random.default_rng(3).multinomial(40, np.full(40, 1 / 40), size=200)
    for column in (0, 1):
        means = []
        for counts in drawn:
            repeated = []
            for value, n in zip(values[:, column], counts, strict=True):
                if not np.isnan(value):
                    repeated += [value] * n
            means.append(sum(repeated) / len(repeated))
        expected = np.quantile(means, [0.05, 0.95])
        assert (found[column].low, found[column].high) == pytest.approx(tuple(expected), abs=1e-10)


def test_few_examples():
    assert summarize(np.zeros((0, 2)), [[], []])[0].n == 0
    one = summarize(np.array([[0.5]]), [[None]])[0]
    assert one.mean == 0.5
    assert math.isnan(one.low)
    assert summarize(np.zeros((3, 0)), []) == []


def test_bad_input():
    with pytest.raises(InputError, match="rows of n reasons"):
        summarize(np.zeros((2, 1)), [[None]])
    with pytest.raises(InputError, match="level"):
        summarize(np.zeros((2, 1)), [[None, None]], level=1.0)
