"""Masks and RACU against loops."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.roar import mask_top, racu, seed_interval
from tests.reference import roar as reference

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("seed", range(20))
def test_masks_are_those_of_a_loop(seed):
    """With ties, NaN, infinities, texts of no and of one token, and tokens that are masked already."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, size=8)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    importance = rng.choice([0.0, 0.5, 0.5, 1.0, -1.0, math.nan, math.inf, -math.inf], size=bounds[-1])
    masked = rng.random(bounds[-1]) < 0.3
    counts = np.minimum(rng.integers(0, 6, size=8), lengths)
    found = mask_top(importance, masked, bounds, counts)
    for text, count in enumerate(counts):
        inside = slice(bounds[text], bounds[text + 1])
        assert found[inside].tolist() == reference.masked_top(importance[inside], masked[inside], count)


def test_masks_along_one_order_are_nested():
    bounds = np.array([0, 7, 12])
    importance = RNG.random(12)
    before = np.zeros(12, dtype=bool)
    for count in range(6):
        at_once = mask_top(importance, np.zeros(12, dtype=bool), bounds, np.array([count, count]))
        step_by_step = mask_top(importance, before, bounds, np.array([count, count]))
        assert (at_once == step_by_step).all()
        assert at_once[before].all()
        before = at_once


@pytest.mark.parametrize("seed", range(20))
def test_area_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    shares = [*np.sort(rng.random(5)), 1.0]
    random, source = rng.random(6), rng.random(6)
    random[-1] = min(random[-1], 0.2 * (seed % 5))
    found, expected = racu(shares, random, source), reference.racu(shares, random, source)
    assert found == pytest.approx(expected, abs=1e-10, nan_ok=True)
    assert math.isnan(found) or -1 <= found <= 1


def test_the_ends_of_the_scale():
    shares, random = [0.1, 0.4, 1.0], [0.9, 0.8, 0.5]
    assert racu(shares, random, [0.5, 0.5, 0.5]) == 1.0
    assert racu(shares, random, random) == 0.0
    assert racu(shares, random, [0.1, 0.1, 0.1]) == 1.0  # clipped
    assert racu(shares, random, [1.0, 1.0, 1.0]) < 0
    assert math.isnan(racu(shares, [0.5, 0.5, 0.5], [0.4, 0.4, 0.5]))  # random masks cost nothing
    assert math.isnan(racu(shares, random, [0.5, math.nan, 0.5]))
    assert math.isnan(racu(shares, [0.9, math.nan, 0.5], random))


@pytest.mark.parametrize("values", [[0.1, 0.4, 0.2], [0.3, math.nan, 0.5], [0.2, 0.2], [0.4], [math.nan], []])
def test_interval_over_seeds(values):
    assert seed_interval(values) == pytest.approx(reference.interval(values), abs=1e-10, nan_ok=True)


@pytest.mark.parametrize("shares", [[], [1.0], [0.5, 0.4, 1.0], [0.0, 1.0], [0.5, 0.9], [0.5, 0.5, 1.0], [-1.0, 1.0]])
def test_shares_that_do_not_rise_to_the_whole(shares):
    with pytest.raises(InputError, match="rise from above 0 to 1"):
        racu(shares, [0.5] * len(shares), [0.5] * len(shares))


def test_lengths_that_do_not_fit():
    with pytest.raises(InputError, match="for each of the 2 shares"):
        racu([0.5, 1.0], [0.5], [0.5, 0.5])
    with pytest.raises(InputError, match="of the 3 tokens"):
        mask_top(np.zeros(2), np.zeros(3, dtype=bool), np.array([0, 3]), np.array([1]))
