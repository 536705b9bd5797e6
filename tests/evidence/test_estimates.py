"""Intervals of means over seeds, differences and rank correlations."""

import doctest
import math

import numpy as np
import pytest
from evidence.cells import Number, all_cells
from evidence.estimates import Estimate, difference, over_seeds, range_of, rank_correlation

from evidence import estimates


def test_examples_run():
    assert doctest.testmod(estimates).failed == 0


def test_intervals_hold_the_mean_as_often_as_they_say():
    """Seeds and texts drawn anew: each seed has a mean of its own, each text an error that all seeds share."""
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(1500):
        of_texts = generator.normal(0, 0.02)
        numbers = []
        for _ in range(3):
            value = 0.5 + generator.normal(0, 0.05) + of_texts
            numbers.append(Number("m", value=value, low=value - 0.0392, high=value + 0.0392, n=100))
        estimate = over_seeds(numbers)
        held += estimate.low <= 0.5 <= estimate.high
    assert 0.92 <= held / 1500 <= 0.97  # 0.95; the degrees of freedom are estimated


def test_one_seed_has_the_interval_over_texts():
    (estimate,) = [over_seeds([Number("m", value=0.3, low=0.2, high=0.45, n=50, n_undefined=4)])]
    assert (estimate.value, estimate.low, estimate.high) == (0.3, 0.2, 0.45)
    assert (estimate.seeds, estimate.n, estimate.n_undefined) == (1, 50, 4)


def test_seeds_without_a_value_are_left_out_and_counted():
    numbers = [Number("m", value=0.3, low=0.2, high=0.4, n=10), Number("m", n_undefined=10)]
    estimate = over_seeds(numbers)
    assert (estimate.value, estimate.seeds, estimate.n, estimate.n_undefined) == (0.3, 1, 10, 10)
    nothing = over_seeds([Number("m", n_undefined=10)])
    assert math.isnan(nothing.value)
    assert (nothing.seeds, nothing.n_undefined) == (0, 10)


def test_intervals_are_cut_to_the_range():
    numbers = [Number("flip_never", value=value, low=value, high=value, n=10) for value in (0.9, 1.0)]
    assert over_seeds(numbers).high == 1.0
    unknown = [Number("m", value=value, low=value, high=value, n=10) for value in (0.9, 1.0)]
    assert over_seeds(unknown).high > 1.0


def test_a_difference_may_be_negative():
    """Whatever the name begins with: only what lies between 0 and 1 ends there."""
    numbers = [Number("control_f1_difference", value=value, low=value, high=value, n=10) for value in (-0.1, -0.2)]
    estimate = over_seeds(numbers)
    assert estimate.low < estimate.value < estimate.high
    assert range_of("control_roc_auc") == (0.0, 1.0)


def test_a_value_lies_in_its_interval_on_every_page():
    """A wrong range would cut the mean off its interval."""
    for cell in all_cells():
        for number in cell.numbers:
            low, high = range_of(number.metric)
            assert math.isnan(number.value) or low - 1e-6 <= number.value <= high + 1e-6, (cell.file, number)


def test_a_difference_has_the_variances_of_both():
    first = over_seeds([Number("m", value=value, low=value, high=value, n=10) for value in (0.6, 0.7, 0.8)])
    second = over_seeds([Number("m", value=value, low=value, high=value, n=10) for value in (0.1, 0.2, 0.3)])
    gap = difference(first, second)
    assert gap.value == pytest.approx(0.5)
    # Welch: both have s = 0.1 and k = 3, so 4 degrees of freedom and t = 2.776
    reach = 2.776445 * math.sqrt(2 * 0.01 / 3)
    assert gap.high - gap.value == pytest.approx(reach, rel=1e-6)


def test_rank_correlation_over_seeds():
    settings = [1, 2, 3, 4, 5]
    estimate = rank_correlation(settings, [[5, 4, 3, 2, 1], [5, 4, 3, 1, 2]])
    assert estimate.value == pytest.approx((-1 - 0.8) / 2)
    assert (estimate.low, estimate.seeds) == (-1.0, 2)
    alone = rank_correlation(settings, [[5, 4, 3, 2, 1]])
    assert -1.0 <= alone.low <= alone.high < 0
    assert math.isnan(rank_correlation([1, 2, 3], [[1, 2, 3]]).low)
    assert Estimate().seeds == 0
