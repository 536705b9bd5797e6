"""What reports compute themselves, against the definitions and `functional`."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.reports import divergences as statistics
from attn_faithful.reports.divergences import jsd_of_lists, tvd
from tests.reference import divergences as slow


def test_examples_in_docstrings():
    assert doctest.testmod(statistics).failed == 0


@pytest.mark.parametrize("multi_label", [False, True])
def test_tvd_equals_loops(multi_label):
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), (2, 20))
    reference = slow.multilabel_tvd if multi_label else slow.tvd
    assert tvd(p, q, multi_label) == pytest.approx([reference(*pair) for pair in zip(p, q, strict=True)], abs=1e-12)


def test_jsd_of_lists_equals_loops():
    rng = np.random.default_rng(1)
    pairs = [rng.dirichlet(np.full(n, 0.3), 2) for n in (1, 2, 5, 40, 3)]
    pairs[3][0][:20] = 0
    pairs[3][0] /= pairs[3][0].sum()
    found = jsd_of_lists(*zip(*[[*pair] for pair in pairs], strict=True))
    assert found == pytest.approx([slow.jsd(*pair) for pair in pairs], abs=1e-12)
    odd = jsd_of_lists([[], [math.nan, 1.0], [1.0]], [[], [0.5, 0.5], [0.999]])
    assert odd == pytest.approx([math.nan, math.nan, 0.0], nan_ok=True)


@pytest.mark.parametrize("multi_label", [False, True])
def test_reports_and_tests_measure_the_same(multi_label):
    """Two implementations of one definition, with torch and without: the numbers of runs and those of their reports."""
    rng = np.random.default_rng(2)
    p, q = rng.dirichlet(np.full(3, 0.2), (2, 40))
    attention = [[rng.dirichlet(np.full(1 + n % 9, 0.3)).tolist() for n in range(40)] for _ in range(2)]
    attention[0][7] = attention[1][7] = []
    attention[0][16], attention[1][16] = attention[1][16], attention[0][16]
    attention[1][8] = [1.0 if i == 3 else 0.0 for i in range(9)]
    expected = per_example_divergences(p, q, *attention, multi_label=multi_label)
    assert tvd(p, q, multi_label) == pytest.approx(expected[0], abs=1e-12)
    assert jsd_of_lists(*attention) == pytest.approx(expected[1], abs=1e-12, nan_ok=True)
    assert np.isnan(expected[1]).sum() == 1


def test_jsd_of_lists_of_the_smallest_weights():
    assert jsd_of_lists([[1.0, 5e-324], [1.0, 0.0]], [[1.0, 0.0], [1.0, 1e-310]]).tolist() == [0.0, 0.0]
