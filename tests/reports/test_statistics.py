"""What reports compute themselves, against the definitions, scipy and `functional`."""

from __future__ import annotations

import doctest
import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from attn_faithful.functional import faithfulness
from attn_faithful.reports import statistics
from attn_faithful.reports.statistics import attefa_interval, holm, jsd_of_lists, paired, tvd
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


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_of_attefa_is_that_of_functional(seeds):
    rng = np.random.default_rng(2)
    columns = [(rng.random(50) * 0.2, rng.random(50) * 0.6) for _ in range(seeds)]
    columns[0][0][:5] = math.nan
    both = list(zip(*columns, strict=True))
    assert attefa_interval(*both) == faithfulness.bootstrap_attefa(*both)
    still = [np.zeros(9)]
    assert all(math.isnan(value) for value in attefa_interval(still, still))
    assert all(math.isnan(value) for value in attefa_interval([np.zeros(0)], [np.zeros(0)]))


def biserial_by_pairs(difference):
    """The share of the ranks above 0 minus that below, each rank counted as the differences that it is no less than."""
    sizes = [abs(d) for d in difference]
    ranks = [sum(s < size for s in sizes) + (1 + sum(s == size for s in sizes)) / 2 for size in sizes]
    above = sum(r for r, d in zip(ranks, difference, strict=True) if d > 0)
    below = sum(r for r, d in zip(ranks, difference, strict=True) if d < 0)
    return (above - below) / (above + below)


def p_by_signs(difference):
    """The share of all choices of signs whose sum of ranks above 0 is as far out, doubled."""
    ranks = rankdata(np.abs(difference))[difference != 0]
    above = rankdata(np.abs(difference))[difference > 0].sum()
    sums = [np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=len(ranks))]
    tails = [np.mean([total <= above + 1e-9 for total in sums]), np.mean([total >= above - 1e-9 for total in sums])]
    return min(1.0, 2 * min(tails))


def differences(n, kind):
    difference = np.random.default_rng(n).normal(size=n)
    if kind in ("ties", "zeros"):
        difference = np.round(difference * 2) / 2
    if kind == "ties":
        difference[difference == 0] = 0.5
    return difference + 0.5 * (kind == "shifted")


@pytest.mark.parametrize("n", [1, 3, 11])
@pytest.mark.parametrize("kind", ["plain", "ties", "zeros", "shifted"])
def test_few_pairs_count_every_choice_of_signs(n, kind):
    difference = differences(n, kind)
    (found,) = paired(difference[:, None])
    assert found.p == pytest.approx(p_by_signs(difference), abs=1e-12)


# scipy counts up to 50 pairs without ties, and approximates more of them
@pytest.mark.parametrize(
    ("n", "kind"),
    [(12, "plain"), (50, "shifted"), (51, "plain"), (51, "ties"), (51, "zeros"), (400, "zeros"), (400, "shifted")],
)
def test_paired_equals_scipy_and_loops(n, kind):
    difference = differences(n, kind)
    (found,) = paired(difference[:, None])
    assert found.p == pytest.approx(wilcoxon(difference, zero_method="pratt").pvalue, rel=1e-9)
    assert found.effect == pytest.approx(biserial_by_pairs(difference), abs=1e-12)
    assert (found.n, found.mean) == (n, pytest.approx(difference.mean()))
    assert found.low <= found.mean <= found.high


def test_the_interval_of_a_difference_is_that_of_resampling():
    difference = np.random.default_rng(5).exponential(size=200)
    (found,) = paired(difference[:, None], n_resamples=4000)
    picks = np.random.default_rng(6).integers(0, 200, (4000, 200))
    expected = np.quantile(difference[picks].mean(1), [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02)  # two samples of 4,000: error about 0.004


def test_columns_are_each_other_s_business():
    rng = np.random.default_rng(7)
    columns = rng.normal(size=(30, 4))
    columns[:25, 1] = math.nan
    columns[:, 2] = math.nan
    columns[:, 3] = 0
    found = paired(columns)
    (alone,) = paired(columns[:, :1])
    assert astuple(found[0]) == pytest.approx(astuple(alone), abs=1e-12)
    assert found[1].n == 5
    assert (found[2].n, math.isnan(found[2].p), math.isnan(found[2].mean)) == (0, True, True)
    assert (found[3].effect, math.isnan(found[3].p)) == (0.0, True)
    (single,) = paired(np.array([[1.0]]))
    assert (single.n, single.p, math.isnan(single.low)) == (1, 1.0, True)
    assert paired(np.zeros((5, 0))) == []


def holm_by_definition(p):
    """An adjusted p is the largest, over the tests with no larger p, of p times how many are no smaller."""
    order = sorted(p)
    adjusted = [min(1.0, max(order[j] * (len(p) - j) for j in range(i + 1))) for i in range(len(p))]
    return [adjusted[order.index(value)] for value in p]


def test_holm_equals_its_definition():
    for p in itertools.permutations([0.001, 0.02, 0.021, 0.6]):
        assert holm(p) == pytest.approx(holm_by_definition(p))
    assert holm([0.02, math.nan]) == pytest.approx([0.02, math.nan], nan_ok=True)
    assert holm([]) == []
