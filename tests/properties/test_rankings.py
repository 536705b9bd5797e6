"""Rank correlations of any two vectors against pair loops and scipy, and what must not change them."""

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from attn_faithful.functional import rankings, top_k
from tests.properties.made import checked, seeds, vectors
from tests.reference import rankings as slow

MEASURES = (rankings.kendall_tau_b, rankings.spearman)


def ranked(values, tolerance=0.0):
    """The reference's ranks; it cannot subtract infinities."""
    return slow.merge_ties(np.clip(values, -1.7e308, 1.7e308).tolist(), tolerance)


def near(a, b):
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) < 1e-10


@given(vectors(), st.sampled_from((0.0, 1e-6, 0.1)))
@checked()
def test_correlations_equal_the_loops(pair, tolerance):
    x, y = pair
    ranks = [ranked(values, tolerance) for values in (x, y)]
    assert rankings.merge_ties(x, tolerance).tolist() == ranks[0]
    for measure in MEASURES:
        found = measure(x, y, tolerance)
        assert (found.reason is None) == (not math.isnan(found.value))
        assert found.n == len(x)
        if len(x) < 2:
            assert found.reason == ("n<2" if len(x) else "no content token")
            continue
        assert near(found.value, getattr(slow, measure.__name__)(*ranks))
        if found.reason is None:
            assert -1 <= found.value <= 1
            assert 0 <= found.p_value <= 1
        else:
            assert found.reason.startswith("constant ")
            assert math.isnan(found.p_value)


@given(vectors(least=2, extremes=False))
@checked()
def test_tau_is_scipy_s(pair):
    x, y = pair
    found = rankings.kendall_tau_b(x, y, 0)
    expected = stats.kendalltau(x, y)
    assert near(found.value, float(expected.statistic))
    if found.reason is None:
        assert near(found.p_value, float(expected.pvalue))


@given(vectors(least=2), seeds())
@checked()
def test_what_does_not_change_a_correlation(pair, seed):
    """Order of tokens, of the two vectors, any rising map; a falling one turns the sign."""
    x, y = pair
    order = np.random.default_rng(seed).permutation(len(x))
    rising = {v: i for i, v in enumerate(sorted({*x.tolist()}))}
    mapped = np.array([rising[v] ** 3 - 50.0 for v in x.tolist()])
    for measure in MEASURES:
        found = measure(x, y, 0)
        assert near(measure(x[order], y[order], 0).value, found.value)
        assert near(measure(y, x, 0).value, found.value)
        assert near(measure(mapped, y, 0).value, found.value)
        assert near(measure(-mapped, y, 0).value, -found.value)
        assert near(measure(x, x, 0).value, 1.0 if len(rising) > 1 else math.nan)


@given(vectors(longest=12, least=1), st.integers(1, 14), st.floats(0, 1))
@checked()
def test_top_k(pair, k, p):
    x, y = pair
    ranks = [np.array(ranked(v)) for v in (x, y)]
    found = top_k.overlap(x, y, k, 0)
    assert (found.k, found.n) == (min(k, len(x)), len(x))
    if found.reason is None:
        assert 0 <= found.value <= 1 + 1e-12
        assert near(found.value, top_k.overlap(y, x, k, 0).value)
        assert near(top_k.overlap(x, x, k, 0).value, 1.0)
        assert near(top_k.overlap(x, y, len(x), 0).value, 1.0)
        for cut in (x, y):  # a tie over the last place has no one answer to compare with
            edge = np.sort(cut)[::-1]
            assume(k >= len(x) or edge[k - 1] != edge[k])
        assert near(found.value, slow.overlap(x, y, k))
        if k > 1:
            assert near(top_k.top_k_kendall(x, y, k, p, 0).value, slow.top_k_kendall(*ranks, k, p))


@given(seeds(), st.integers(2, 12), st.integers(2, 14), st.floats(0, 1))
@checked()
def test_top_k_tau(seed, n, k, p):
    generator = np.random.default_rng(seed)
    x, y = generator.permutation(n).astype(float), generator.permutation(n).astype(float)
    found = top_k.top_k_tau(x, y, k, p, 0)
    assert -1 <= found.value <= 1
    assert near(found.value, slow.top_k_tau(x, y, k, p))
    assert near(found.value, top_k.top_k_tau(y, x, k, p, 0).value)
    same_lists = top_k.top_k_tau(x, np.exp(x), k, 0.0, 0).value
    assert near(same_lists, 1.0)
    if k >= n:
        assert near(top_k.top_k_tau(x, y, k, 0.5, 0).value, rankings.kendall_tau_b(x, y, 0).value)
