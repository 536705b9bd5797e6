"""Rank correlations against pair loops, cases.md (C01 to C07, C13, C20, C26) and the fixtures of the originals."""

import dataclasses
import itertools
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from attn_faithful._checks import InputError
from attn_faithful.functional import rankings as R
from attn_faithful.functional import top_k as K
from attn_faithful.functional.kendall import tau_b
from tests.reference import rankings as reference

nan = math.nan
MEASURES = (R.kendall_tau_b, R.spearman)
FIRST = (K.overlap, K.top_k_kendall, K.top_k_tau)

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
NAMES = ("", "_lstm_dot", "_average_tanh", "_average_dot", "_cnn_tanh", "_multilabel")
EDGES = ("_edge_short", "_edge_flat", "_edge_saturated", "_edge_eps")
QUESTIONS = ("_qa_lstm_tanh", "_qa_lstm_dot")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def examples(n=150, longest=12, seed=0):
    """Random pairs of every length from 2, half of them with many ties, one in four with sparse attention."""
    generator = np.random.default_rng(seed)
    for i in range(n):
        length = int(generator.integers(2, longest))
        x, y = generator.random((2, length))
        if i % 2:
            x, y = np.round(4 * x), np.round(4 * y)
        if i % 4 == 2:
            x = np.where(x < np.median(x), 0, x)
        yield x, y


def same(a, b):
    return a == pytest.approx(b, abs=1e-10, nan_ok=True)


def test_merge_ties_equals_the_reference():
    generator = np.random.default_rng(0)
    for x, _ in examples():
        for values in (x, x * (1 + 1e-7 * generator.normal(size=len(x))), np.round(x - 0.5, 1), 1e300 * (x - 0.5)):
            for tolerance in (0, 1e-6, 0.1):
                assert R.merge_ties(values, tolerance).tolist() == reference.merge_ties(values.tolist(), tolerance)


def test_merge_ties_is_relative_and_chains():
    assert R.merge_ties([1.0, 1 + 0.9e-6, 1 + 1.8e-6]).tolist() == [0, 0, 0]
    assert R.merge_ties([1.0, 1 + 2.1e-6]).tolist() == [0, 1]
    assert R.merge_ties([1e-30, 2e-30, 0.0, 1.0]).tolist() == [1, 2, 0, 3]  # not relative to the largest
    assert R.merge_ties([-1.0, -1 - 1e-9, 1e-9, -1e-9]).tolist() == [0, 0, 2, 1]
    assert R.merge_ties([0.0, -0.0, 5e-324]).tolist() == [0, 0, 1]
    assert R.merge_ties([math.inf, 1e308, -math.inf, math.inf, -1e308]).tolist() == [3, 2, 0, 3, 1]
    assert R.merge_ties([math.inf, 1.0, math.inf], 0).tolist() == [1, 0, 1]
    assert R.merge_ties([]).tolist() == []


def test_merge_ties_bad_input():
    with pytest.raises(InputError, match="without NaN"):
        R.merge_ties([0.1, nan])
    with pytest.raises(InputError, match="`tie_tolerance` of at least 0 and below 1, but got -1"):
        R.merge_ties([0.1], -1)
    with pytest.raises(InputError, match=r"`values` of shape \(T\), but got \(1, 2\)"):
        R.merge_ties([[0.1, 0.2]])


@pytest.mark.parametrize("measure", MEASURES)
def test_equals_the_reference(measure):
    slow = getattr(reference, measure.__name__)
    defined = 0
    for x, y in examples(300):
        result = measure(x, y)
        assert same(result.value, slow(x, y))
        defined += result.reason is None
        for share, values in ((result.ties_x, x), (result.ties_y, y)):
            _, _, tied, _, both = reference.pair_counts(values, values[::-1] * 0 + np.arange(len(values)))
            assert same(share, (tied + both) / math.comb(len(values), 2))
        assert result.n == len(x)
    assert 200 < defined < 300  # some are constant


@pytest.mark.parametrize("measure", MEASURES)
def test_exact_p_equals_enumeration(measure):
    slow = getattr(reference, measure.__name__)
    generator = np.random.default_rng(1)
    for n in (2, 3, 4, 5):
        for i in range(8):
            x, y = generator.random((2, n))
            if i > 3 and measure is R.spearman:  # tau with ties has the normal approximation
                x, y = np.round(3 * x), np.round(3 * y)
            result = measure(x, y)
            if result.reason is None:
                assert same(result.p_value, reference.exact_p(slow, x, y))


def test_p_beyond_enumeration():
    for x, y in examples(80, longest=60, seed=2):
        tau, rho = R.kendall_tau_b(x, y), R.spearman(x, y)
        if tau.reason is None and tau.ties_x + tau.ties_y > 0:
            assert same(tau.p_value, reference.kendall_normal_p(x, y))
        if len(x) > 7 and tau.reason is None:
            assert same(rho.p_value, stats.spearmanr(x, y).pvalue)
    # 7 tokens are enumerated, 8 are not: both near the truth, which for the same order is 2 / n!.
    assert R.spearman(range(7), range(7)).p_value == pytest.approx(2 / math.factorial(7))
    assert R.spearman(range(8), range(8)).p_value == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("measure", MEASURES)
def test_properties(measure):
    for x, y in examples(100, longest=50, seed=3):
        before = x.copy(), y.copy()
        result = measure(x, y)
        assert np.array_equal(before, (x, y))
        order = np.random.default_rng(len(x)).permutation(len(x))
        assert same(measure(x[order], y[order]).value, result.value)
        assert same(measure(np.exp(x), y**3).value, result.value)
        assert same(measure(y, x).value, result.value)
        assert same(measure(x, -y).value, -result.value)
        if result.reason is None:
            assert -1 <= result.value <= 1
            assert 0 <= result.p_value <= 1
            assert measure(x, x).value == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("measure", [*MEASURES, *(lambda x, y, m=m, **kw: m(x, y, k=10, **kw) for m in FIRST)])
@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([], [], "no content token"),
        ([1.0], [0.3], "n<2"),
        ([1.0], [nan], "n<2"),
        ([0.25] * 4, [1, 2, 3, 4], "constant attention"),
        ([1, 2, 3, 4], [0.0] * 4, "constant gradient"),
        ([0.5, 0.5], [0.0, 0.0], "constant attention"),
        ([0.1, 0.2, nan, 0.4], [1, 2, 3, 4], "nan in scores"),
        ([0.1, 0.2, 0.3], [1, nan, 3], "nan in scores"),
    ],
)
def test_undefined_is_nan_with_a_reason(measure, x, y, reason):
    result = measure(x, y)
    assert math.isnan(result.value)
    assert (result.reason, result.n) == (reason, len(x))
    named = measure(x, y, names=("head", "loo")).reason
    assert named == reason.replace("attention", "head").replace("gradient", "loo")


@pytest.mark.parametrize("measure", [*MEASURES, *(lambda x, y, m=m, **kw: m(x, y, k=10, **kw) for m in FIRST)])
def test_unequal_lengths_are_named(measure):
    with pytest.raises(InputError, match="in example 'text-7', but `attention` has 3, `gradient` has 2"):
        measure([0.1, 0.2, 0.7], [1.0, 2.0], example="text-7")
    with pytest.raises(InputError, match=r"`gradient` of shape \(T\), but got \(1, 2\)"):
        measure([0.1, 0.9], [[1.0, 2.0]])


def test_undefined_has_no_p_but_has_ties():
    result = R.kendall_tau_b([0.25] * 4, [1, 2, 3, 3])
    assert math.isnan(result.p_value)
    assert (result.ties_x, result.ties_y) == (1.0, pytest.approx(1 / 6))
    assert math.isnan(R.kendall_tau_b([1.0], [0.3]).ties_x)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0.0


def test_two_tokens_are_never_significant():
    for measure in MEASURES:
        result = measure([0.2, 0.8], [3.0, 1.0])
        assert (result.value, result.p_value) == (pytest.approx(-1), 1.0)


@pytest.mark.parametrize("measure", MEASURES)
def test_one_unit_in_the_last_place_decides_nothing(measure):
    third = np.float32(1 / 3)
    up = np.nextafter(third, np.float32(1))
    attention = np.array([third, up, np.nextafter(up, np.float32(1))])
    assert stats.kendalltau(attention, [1, 2, 3]).statistic == pytest.approx(1)
    assert measure(attention, [1, 2, 3]).reason == "constant attention"
    assert measure(attention, [1, 2, 3], tie_tolerance=0).value == pytest.approx(1)
    noisy = np.array([0.1, 0.2, 0.2, 0.5], dtype=np.float32)
    noisy[2] = np.nextafter(noisy[1], np.float32(1))
    assert measure(noisy, [1, 3, 2, 4]).value == measure([0.1, 0.2, 0.2, 0.5], [1, 3, 2, 4]).value


@pytest.mark.parametrize(
    ("x", "y", "tau"),
    [
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], -1 / 3),  # C04, content tokens only
        ([0.5, 0.3, 0.2, 0, 0, 0], [0.2, 0.5, 0.3, 0, 0, 0], 2 / 3),  # C04, what padding would make of it
        ([0.40, 0.20, 0.10, 0.05, 0.25], [0.9, 0.1, 0.2, 0.3, 0.8], 0.4),  # C05, with special tokens
        ([0.20, 0.10, 0.05], [0.1, 0.2, 0.3], -1.0),  # C05, without
        ([0.6, 0.4, 0, 0, 0, 0], [5, 6, 1, 2, 3, 4], 0.602464),  # C06
        ([1, 0, 0], [0, 0, 1], -0.5),  # C06
        ([0.6, 0.3, 0.1], [0, 2, 0.5], -1 / 3),  # C20, sum over the embedding
        ([0.6, 0.3, 0.1], [6, 2, 0.5], 1.0),  # C20, L1
        ([0.1, 0.2, 0.7], [0.5, 0.1, 0.6], 1 / 3),  # C26, "good bad good": three tokens, not two words
    ],
)
def test_cases(x, y, tau):
    assert R.kendall_tau_b(x, y).value == pytest.approx(tau, abs=1e-6)


@pytest.mark.parametrize(("n", "p"), [(2, 1.0), (3, 1 / 3), (4, 1 / 12), (5, 1 / 60), (6, 1 / 360)])
def test_smallest_p_by_length(n, p):
    for measure in MEASURES:
        assert measure(range(n), range(n)).p_value == pytest.approx(p, abs=1e-12)


def test_p_under_ties_is_finite():
    assert R.kendall_tau_b([1, 0, 0], [0, 0, 1]).p_value == pytest.approx(0.479500, abs=1e-6)
    assert R.kendall_tau_b([0.6, 0.4, 0, 0, 0, 0], [5, 6, 1, 2, 3, 4]).p_value == pytest.approx(0.114461, abs=1e-6)


def test_half_precision_loses_ranks_that_single_precision_keeps():
    logits, attention = torch.tensor([0.0, -20, -30]), torch.tensor([0.1000, 0.1001, 0.1002, 0.6997])
    assert R.kendall_tau_b(logits.softmax(0), [3, 2, 1]).value == pytest.approx(1.0)
    assert R.kendall_tau_b(logits.half().softmax(0), [3, 2, 1]).value == pytest.approx(0.816497, abs=1e-6)
    assert R.kendall_tau_b(attention, [1, 2, 3, 4]).value == pytest.approx(1.0)
    rounded = attention.bfloat16().float()
    assert R.kendall_tau_b(rounded, [1, 2, 3, 4]).value == pytest.approx(0.707107, abs=1e-6)


def tied_at(values, k):
    ordered = np.sort(values)[::-1]
    return k < len(values) and ordered[k - 1] == ordered[k]


def test_overlap_equals_the_reference():
    for x, y in examples(120, longest=7, seed=4):
        for k in (1, 2, 3, 9):
            result = K.overlap(x, y, k)
            assert result.k == min(k, len(x))
            if result.reason:
                continue
            shares = zip(reference.top_k_share(x, k), reference.top_k_share(y, k), strict=True)
            assert same(result.value, sum(min(pair) for pair in shares) / result.k)
            assert same(K.overlap(y, x, k).value, result.value)
            assert same(K.overlap(x[::-1], y[::-1], k).value, result.value)
            assert same(K.overlap(x, x, k).value, 1.0)
            if not (tied_at(x, k) or tied_at(y, k)):
                assert same(result.value, reference.overlap(x, y, k))


def test_overlap_of_unrelated_rankings_is_k_of_n():
    generator = np.random.default_rng(0)
    values = [K.overlap(np.maximum(generator.random(20), 0.7), generator.random(20), 5).value for _ in range(2000)]
    # standard deviation of one value is at most .2: four standard errors
    assert np.mean(values) == pytest.approx(0.25, abs=4 * 0.2 / math.sqrt(2000))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_top_k_equals_the_reference(p):
    for i, (x, y) in enumerate(examples(80, longest=15, seed=5)):
        for k in (2, 3, 5, 20):
            distance, tau = (m(x, y, k, p) for m in (K.top_k_kendall, K.top_k_tau))
            if distance.reason:
                continue
            assert same(distance.value, reference.top_k_kendall(x, y, k, p))
            assert 0 <= distance.value <= 1
            assert -1 <= tau.value <= 1
            if i % 4 == 0:  # without ties
                assert same(tau.value, reference.top_k_tau(x, y, k, p))
            if k >= len(x):
                assert same(distance.value, (1 - R.kendall_tau_b(x, y).value) / 2)
            assert same(K.top_k_tau(y, x, k, p).value, tau.value)
            assert K.top_k_tau(x, x, k, p).value == 1
            assert K.top_k_kendall(x, x, k, p).value == pytest.approx(0, abs=1e-12)


def test_top_k_tau_of_all_tokens_is_tau():
    for x, y in list(examples(40, seed=6))[::4]:
        assert same(K.top_k_tau(x, y, 20).value, R.kendall_tau_b(x, y).value)
    assert K.top_k_tau([1, 2, 3, 4], [4, 3, 2, 1], 4).value == -1
    # Lists without a common token: the papers' distance hardly sees it.
    far = K.top_k_kendall(range(20), range(20)[::-1], 10).value, K.top_k_tau(range(20), range(20)[::-1], 10).value
    assert far == (pytest.approx(90 / 800), pytest.approx(-10 / 19))


def test_ties_at_the_last_place_go_to_the_first_in_the_text():
    sparse, y = [0.6, 0, 0, 0.4, 0], [0.1, 0.5, 0.3, 0.2, 0.4]
    for measure in (K.top_k_kendall, K.top_k_tau):
        broken = measure([0.6, 0.2, 0.1, 0.4, 0], y, 3).value, measure([0.6, 0.1, 0.2, 0.4, 0], y, 3).value
        assert measure([0.6, 1e-9, 1e-9, 0.4, 1e-9 - 1e-17], y, 3).value == broken[0] != broken[1]
        assert measure(sparse, y, 3).value == broken[0]


def test_top_k_bad_input():
    for measure, least in zip(FIRST, (1, 2, 2), strict=True):
        for k in (least - 1, 2.5):
            with pytest.raises(InputError, match=f"`k` as a whole number of at least {least}, but got {k}"):
                measure([1, 2], [1, 2], k)
    for measure in FIRST[1:]:
        with pytest.raises(InputError, match="`p` between 0 and 1"):
            measure([1, 2], [1, 2], 2, p=2)


def fixture_pairs(name):
    if not FIXTURES.is_dir():
        pytest.skip(f"no fixtures at {FIXTURES}")
    arrays = np.load(FIXTURES / f"jw_fixture{name}.npz")
    loo = arrays["loo_l1" if "qa" in name else "loo_delta"]
    for i, mask in enumerate(arrays["mask"]):
        content = mask == 0
        a, g, d = (column[i][content] for column in (arrays["attn"], arrays["grad_norm"], loo))
        pairs = {"tau_attn_grad": (a, g), "tau_attn_loo": (a, d), "tau_grad_loo": (g, d)}
        for j, (key, (x, y)) in enumerate(pairs.items()):
            yield x, y, arrays[key][i], arrays["topk_dist"][i, j] if "topk_dist" in arrays else nan, arrays


@pytest.mark.parametrize("name", [*NAMES, *EDGES, *QUESTIONS])
def test_tau_of_the_fixtures(name):
    defined = []
    for x, y, (tau, p), _, _ in fixture_pairs(name):
        result = R.kendall_tau_b(x, y, tie_tolerance=0)
        assert same(result.value, tau)
        assert same(result.p_value, p)
        assert (result.reason is None) == (not math.isnan(tau))
        defined.append(result.reason is None)
    assert any(defined)
    assert all(defined) == (name not in EDGES)


@pytest.mark.parametrize("name", [*NAMES, *EDGES])
def test_top_k_distance_of_the_fixtures(name):
    compared = []
    for x, y, _, distance, arrays in fixture_pairs(name):
        k = int(arrays["topk_k"])
        result = K.top_k_kendall(x, y, k, tie_tolerance=0)
        # Theirs depends on the sort where a tie crosses the last place of these.
        compared.append(result.reason is None and not (name in EDGES and (tied_at(x, k) or tied_at(y, k))))
        assert same(result.value, distance) or not compared[-1]
    assert any(compared)
    assert all(compared) == (name not in EDGES)


def test_four_tokens_are_never_significant_even_under_ties():
    ascending = list(itertools.combinations_with_replacement(range(4), 4))
    assert len(ascending) == 35
    others = [[0, 0, 1, 2], [0, 1, 1, 2], [0, 0, 1, 1], [0, 1, 2, 3], [0, 0, 0, 1]]
    for measure in MEASURES:
        p_values = [measure(x, y).p_value for x, y in itertools.product(ascending, others)]
        assert np.nanmin(p_values) > 0.05


# --- Kendall's tau-b by hand


def _dense(values):
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


@pytest.mark.parametrize("n", [2, 3, 5, 20, 33, 34, 60, 600])
@pytest.mark.parametrize("values", [2, 4, 10**6])
def test_tau_b_and_its_p_value_are_those_of_scipy(n, values):
    generator = np.random.default_rng(n)
    compared = 0
    for repeat in range(20):
        x = _dense(generator.integers(0, values, n))
        y = _dense(x + (generator.random(n) < 0.05)) if repeat % 3 == 0 else _dense(generator.integers(0, values, n))
        if x.any() and y.any():
            tau, p = tau_b(x, y)
            known = stats.kendalltau(x, y)
            assert tau == pytest.approx(known.statistic, abs=1e-12)
            assert p == pytest.approx(known.pvalue, rel=1e-9, abs=1e-14)
            compared += 1
    assert compared


@pytest.mark.parametrize("n", [2, 10, 40, 200])
def test_p_of_the_same_and_of_nearly_the_same_order_is_exact(n):
    order = np.arange(n)
    near = order.copy()
    near[[0, 1]] = near[[1, 0]]
    assert tau_b(order, order) == (1.0, pytest.approx(min(1.0, 2 / math.factorial(n)), rel=1e-12, abs=0))
    assert tau_b(order, near)[1] == pytest.approx(min(1.0, 2 * n / math.factorial(n)), rel=1e-12, abs=0)
