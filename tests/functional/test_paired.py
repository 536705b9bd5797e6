"""Paired comparisons: Wilcoxon's test against all choices of signs and scipy, Holm against its definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy.stats import binomtest, wilcoxon

from attn_faithful._checks import InputError
from attn_faithful.functional.summaries import holm, paired, signed_rank, wilson
from tests.reference.paired import biserial_by_pairs, holm_by_definition, p_by_signs


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
    [(12, "plain"), (50, "shifted"), (51, "plain"), (51, "ties"), (90, "zeros"), (400, "zeros"), (400, "shifted")],
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


def test_holm_equals_its_definition():
    for p in itertools.permutations([0.001, 0.02, 0.021, 0.6]):
        assert holm(p) == pytest.approx(holm_by_definition(p))
    assert holm([0.02, math.nan]) == pytest.approx([0.02, math.nan], nan_ok=True)
    assert holm([]) == []


def test_one_p_for_one_set_of_pairs():
    """Fourteen pairs with zeros and ties, for which there were two p-values, .776 and .795."""
    difference = np.array([0.0, 0.0, 0.1, -0.1, 0.2, 0.2, -0.2, 0.3, -0.3, 0.4, -0.4, 0.4, -0.5, 0.1])
    (found,) = paired(difference[:, None])
    assert found.p == pytest.approx(p_by_signs(difference), abs=1e-12)
    assert signed_rank(difference)[1] == found.p


def test_rounding_breaks_no_tie_and_no_zero():
    """0.3 - 0.2, 0.2 - 0.1 and 0.1 differ in the last bit: fractions of ten items, as tables hold them."""
    pairs = [(0.3, 0.2), (0.2, 0.1), (0.1, 0.2), (0.8, 0.6), (0.6, 0.8), (0.7, 0.1), (0.1 + 0.2, 0.3), (1.0, 0.9)]
    rounded = np.array([a - b for a, b in pairs])
    whole = np.array([round(10 * a) - round(10 * b) for a, b in pairs], dtype=float)
    assert len(set(np.abs(rounded))) > len(set(np.abs(whole)))
    assert signed_rank(rounded) == signed_rank(whole)
    assert signed_rank(1e-9 * rounded) == signed_rank(whole)
    assert signed_rank(whole)[1] == pytest.approx(p_by_signs(whole), abs=1e-12)


def test_zeros_leave_the_test_exact():
    """Exact by the pairs that differ, however many do not: 12 of 300."""
    difference = np.zeros(300)
    difference[:12] = differences(12, "shifted")
    assert signed_rank(difference)[1] == pytest.approx(p_by_signs(difference), abs=1e-12)
    many = np.zeros(20_000)
    many[:12] = difference[:12]
    assert 0 < signed_rank(many)[1] < 1


def test_of_signs_alone_it_is_a_binomial_test():
    """All differences as large as each other: the ranks say nothing."""
    difference = np.array([1.0] * 31 + [-1.0] * 12)
    effect, p = signed_rank(difference)
    assert p == pytest.approx(binomtest(31, 43).pvalue, rel=1e-9)
    assert effect == pytest.approx(19 / 43)
    assert signed_rank(-difference) == pytest.approx((-effect, p))


def test_bad_differences():
    for given in (np.array([1.0, math.nan]), np.zeros((2, 2))):
        with pytest.raises(InputError, match="finite `differences`"):
            signed_rank(given)
    assert all(math.isnan(x) for x in signed_rank(np.zeros(0)))


def test_wilson_is_where_the_normal_test_of_a_share_ends():
    """At each end e: (share - e)^2 = z^2 e (1 - e) / n."""
    for share, n in ((0.0, 20), (0.3, 50), (1.0, 7), (0.98, 5000)):
        for end in wilson(share, n):
            assert (share - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / n, abs=1e-12)
    assert wilson(0.3, 50)[0] < 0.3 < wilson(0.3, 50)[1]
