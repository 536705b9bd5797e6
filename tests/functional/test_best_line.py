"""The best line against trying all, its error against loops over resamples, and that error on further values."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from attn_faithful._checks import InputError
from attn_faithful.functional.best_line import best_line
from attn_faithful.functional.summaries import wilson
from tests.reference.auc import line_by_trial, out_of_bag

SIDES = {"above": ["above"], "below": ["below"], None: ["above", "below"]}


def _draws(seed, n_resamples, *sizes):
    generator = np.random.default_rng(seed)
    return [generator.multinomial(n, np.full(n, 1 / n), size=n_resamples) for n in sizes]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("ties", [True, False])
def test_line_and_error_by_definition(side, ties):
    rng = np.random.default_rng(0)
    for m, n in ((6, 6), (7, 3), (2, 2), (1, 4)):
        positive, negative = rng.random(m) + 0.2, rng.random(n)
        if ties:
            positive, negative = rng.integers(1, 5, m) / 1.0, rng.integers(0, 4, n) / 1.0
        found = best_line(positive, negative, side, n_resamples=40, seed=1)
        line, found_side = line_by_trial(positive, negative, SIDES[side])
        assert found.side == found_side
        assert found.line == pytest.approx(line, abs=1e-12, nan_ok=True)
        if not found_side:
            continue
        right, other_right = out_of_bag(positive, negative, SIDES[side], *_draws(1, 40, m, n))
        np.testing.assert_allclose(found.right_positive, right, atol=1e-12)
        np.testing.assert_allclose(found.right_negative, other_right, atol=1e-12)
        share, other_share = right.mean(), other_right.mean()
        assert found.balanced_accuracy == pytest.approx((share + other_share) / 2, abs=1e-12, nan_ok=True)
        if m > 1:
            (low, high), (other_low, other_high) = wilson(share, m), wilson(other_share, n)
            down = math.sqrt((share - low) ** 2 + (other_share - other_low) ** 2) / 2
            up = math.sqrt((high - share) ** 2 + (other_high - other_share) ** 2) / 2
            assert (found.low, found.high) == pytest.approx(
                (found.balanced_accuracy - down, found.balanced_accuracy + up), abs=1e-12
            )


def test_separated_values():
    found = best_line(np.arange(20) + 100.0, np.arange(20))
    assert (found.line, found.side) == (59.5, "above")
    assert found.balanced_accuracy == found.high == 1.0
    assert 0.85 < found.low < 0.9
    turned = best_line(np.arange(20), np.arange(20) + 100.0, "below")
    assert (turned.line, turned.side) == (59.5, "below")
    assert best_line(np.arange(20), np.arange(20) + 100.0, "above").balanced_accuracy < 0.6  # the given side holds


def test_of_equal_lines_the_one_in_the_widest_gap():
    """1.5 and 6 both have one value on the wrong side."""
    assert best_line([2.0, 9.0], [1.0, 3.0]).line == 6.0
    assert best_line([-2.0, -9.0], [-1.0, -3.0]).line == -6.0
    assert best_line([2.0, 4.0], [1.0, 3.0]).line == 1.5


def test_no_line():
    for positive, negative in (([1.0, 1.0], [1.0]), ([], [1.0, 2.0]), ([math.nan], [1.0]), ([1.0], [])):
        found = best_line(positive, negative)
        assert found.side == ""
        assert np.isnan([found.line, found.balanced_accuracy, found.low, found.high]).all()


def test_what_is_not_finite_is_left_out():
    found = best_line([math.nan, 3.0, 4.0], [1.0, math.inf, 2.0])
    same = best_line([3.0, 4.0], [1.0, 2.0])
    assert found.balanced_accuracy == same.balanced_accuracy
    assert (found.line, found.side, found.low) == (same.line, same.side, same.low)
    assert len(found.right_positive) == len(found.right_negative) == 2


def test_a_single_value_has_a_line_but_no_accuracy():
    """It is in every resample, so no line was chosen without it."""
    found = best_line([5.0], [1.0, 2.0, 3.0])
    assert (found.line, found.side) == (4.0, "above")
    assert np.isnan([found.balanced_accuracy, found.low, found.high]).all()
    assert np.isnan(found.right_positive).all()
    assert not np.isnan(found.right_negative).any()


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_error_is_that_on_further_values(shift):
    """Not that on the values the line was chosen on: that is far too good where a number tells nothing."""
    rng = np.random.default_rng(5)
    told, true, on_own, below = [], [], [], []
    for _ in range(200):
        positive, negative = rng.normal(shift, 1, 12), rng.normal(0, 1, 10)
        found = best_line(positive, negative, "above", n_resamples=100)
        told.append(found.balanced_accuracy)
        true.append((norm.sf(found.line - shift) + norm.cdf(found.line)) / 2)
        on_own.append((np.mean(positive > found.line) + np.mean(negative < found.line)) / 2)
        below.append(true[-1] < found.low)
    assert np.mean(told) == pytest.approx(np.mean(true), abs=0.03)
    assert np.mean(on_own) > np.mean(true) + 0.05
    assert np.mean(below) < 0.05


def test_inputs_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="`side`"):
        best_line([1.0], [0.0], "left")
    with pytest.raises(InputError, match="n_resamples"):
        best_line([1.0], [0.0], n_resamples=0)
