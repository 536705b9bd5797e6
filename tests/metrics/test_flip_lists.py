import copy
import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.decision_flip import decision_flip_of_lists
from tests.reference import aopc_limits as slow_aopc
from tests.reference import certified_core as slow_core
from tests.reference import erasure as reference

nan, inf = math.nan, math.inf
FLIPS = ("decision_flip", "mass", "single_flip", "smallest", "ratio", "optimal")
COLUMNS = (*FLIPS, "naopc", "core_size", "core_share", "core_is_top")
WHOLE = (
    "decision_flip",
    "std",
    "low",
    "high",
    "n",
    "n_undefined",
    "reasons",
    "reason",
    *COLUMNS[1:],
    "core_reasons",
    "naopc_reasons",
)
ALSO_OF_NEVER = ("single_flip", "core_size", "core_share")


def random_lists(seed, n=40, fewest=2):
    """Texts of 2 to 7 items and 2 to 4 classes; every other one has weights of 0."""
    generator = np.random.default_rng(seed)
    columns = [], [], [], []
    for i in range(n):
        items, classes = int(generator.integers(fewest, 8)), int(generator.integers(2, 5))
        attention = generator.dirichlet(np.ones(items)) if items else np.zeros(0)
        if i % 2 and items:
            attention[1:] *= generator.random(items - 1) < 0.6
            attention /= attention.sum()
        importance = attention if i % 4 < 2 else generator.standard_normal(items).round(1)
        rows = (
            importance,
            attention,
            2 * generator.standard_normal((items, classes)),
            generator.standard_normal(classes),
        )
        for column, row in zip(columns, rows, strict=True):
            column.append(row.tolist())
    return columns


def same(found, expected):
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_reference(seed):
    columns = random_lists(seed)
    expected = np.array([reference.decision_flip(*text) for text in zip(*columns, strict=True)])
    each = decision_flip_of_lists(*columns, reduction="none")
    assert list(each) == [*COLUMNS, "reason", "core_reason", "naopc_reason"]
    for name, values in zip(FLIPS, expected.T, strict=True):
        same(each[name], values)
    never = np.isnan(expected[:, 0])
    assert each["reason"] == ["never flips" if x else None for x in never]
    assert 3 < never.sum() < 30
    assert len(set(expected[~never, 4])) > 2
    whole = decision_flip_of_lists(*columns)
    assert list(whole) == list(WHOLE)
    for name, values in zip(FLIPS, expected.T, strict=True):
        same(whole[name], np.nanmean(values))
    same(whole["single_flip"], expected[:, 2].mean())  # over all, also those that never flip
    same(whole["std"], np.nanstd(expected[:, 0]))
    assert (whole["n"], whole["n_undefined"], whole["reasons"]) == (
        40 - never.sum(),
        never.sum(),
        {"never flips": never.sum()},
    )
    own = summarize(expected[:, :1], [each["reason"]])[0]
    assert (whole["low"], whole["high"]) == pytest.approx((own.low, own.high), abs=1e-10)
    assert whole["low"] < whole["decision_flip"] < whole["high"]
    assert whole["smallest"] < whole["decision_flip"]


def test_naopc_equals_all_subsets():
    importance, attention, token_logits, bias = random_lists(0)
    each = decision_flip_of_lists(importance, attention, token_logits, bias, reduction="none")
    judged = 0
    for i, values in enumerate(importance):
        if len(bias[i]) > 2:
            assert math.isnan(each["naopc"][i])
            assert each["naopc_reason"][i] == "more than two classes"
            continue
        p = slow_aopc.kept_probabilities(attention[i], token_logits[i], bias[i], 0)
        decision = int(p[-1] < 0.5)
        p = slow_aopc.kept_probabilities(attention[i], token_logits[i], bias[i], decision)
        order = sorted(range(len(values)), key=lambda t, values=values: -values[t])
        best, worst = slow_aopc.limits(p)
        share = (slow_aopc.aopc(p, order) - worst) / (best - worst)
        assert each["naopc"][i] == pytest.approx(share, abs=1e-3)  # limits are exact to 1e-6, of sparse weights to less
        assert each["naopc_reason"][i] is None
        judged += 1
    assert judged > 5
    whole = decision_flip_of_lists(importance, attention, token_logits, bias)
    same(whole["naopc"], np.nanmean(each["naopc"]))
    assert whole["naopc_reasons"] == {"more than two classes": 40 - judged}
    alike = decision_flip_of_lists([[1.0, 2.0]], [[0.5, 0.5]], [[[0.0, 1.0]] * 2], [[0.0, 0.0]], reduction="none")
    assert alike["naopc_reason"] == ["all orders alike"]


@pytest.mark.parametrize("seed", range(3))
def test_cores_equal_all_subsets(seed):
    columns = random_lists(seed, n=60)
    two_classes = [i for i, bias in enumerate(columns[3]) if len(bias) == 2]
    columns = [[column[i] for i in two_classes] for column in columns]
    each = decision_flip_of_lists(*columns, reduction="none")
    tops = []
    for i, (importance, attention, token_logits, bias) in enumerate(zip(*columns, strict=True)):
        size = len(slow_core.smallest_cores(attention, token_logits, bias)[0])
        assert each["core_size"][i] == size
        assert each["core_share"][i] == pytest.approx(size / len(attention))
        if not size:
            assert math.isnan(each["core_is_top"][i])
            assert each["core_reason"][i] == "attention-proof"
            continue
        first = sorted(range(len(attention)), key=lambda t: -importance[t])[:size]
        margins = slow_core.margins_by_class(attention, token_logits, bias)
        tops.append(slow_core.stands(attention, margins, first))
        assert each["core_is_top"][i] == tops[-1]
        assert each["core_reason"][i] is None
    assert 0 < sum(tops) < len(tops)
    whole = decision_flip_of_lists(*columns)
    same(whole["core_size"], np.mean(each["core_size"]))
    same(whole["core_share"], np.mean(each["core_share"]))
    same(whole["core_is_top"], np.mean(tops))
    assert whole["core_reasons"] == {"attention-proof": each["core_size"].count(0)}


def test_undefined_texts_have_a_reason_and_stay_out_of_the_mean():
    texts = [
        ([0.6, 0.4], [0.6, 0.4], [[0, 1], [1, 0]], [0, 0], None),
        ([], [], [], [0, 0], "no content token"),
        ([nan], [1.0], [[0, 1]], [0.5, 0], "one item"),
        ([0.6, 0.4], [nan, 0.4], [[0, 1], [1, 0]], [0, 0], "nan in attention"),
        ([nan, 0.4], [0.6, 0.4], [[0, 1], [1, 0]], [0, 0], "nan in scores"),
        ([0.6, 0.4], [0.6, 0.4], [[0, 1], [nan, 0]], [0, 0], "nan in scores"),
        ([0.6, 0.4], [0.6, 0.4], [[0, 1], [1, 0]], [0, inf], "nan in scores"),
        ([0.6, 0.4], [0.6, 0.4], [[0, 1], [0, 1]], [0, 0.5], "never flips"),
    ]
    *columns, reasons = zip(*texts, strict=True)
    each = decision_flip_of_lists(*columns, reduction="none")
    assert each["reason"] == list(reasons)
    for name in COLUMNS:
        also = (None, "never flips") if name in ALSO_OF_NEVER else (None,)
        assert (~np.isnan(each[name])).tolist() == [reason in also for reason in reasons]
    assert each["core_reason"] == [*reasons[:-1], "attention-proof"]
    whole = decision_flip_of_lists(*columns)
    assert (whole["n"], whole["n_undefined"]) == (1, 7)
    assert whole["reasons"] == {
        "nan in attention": 1,
        "nan in scores": 3,
        "never flips": 1,
        "no content token": 1,
        "one item": 1,
    }
    assert (whole["decision_flip"], whole["single_flip"], whole["optimal"]) == (0.5, 0.5, 1.0)
    assert np.isnan([whole["low"], whole["high"]]).all()


def test_a_ranking_may_never_reach_a_decision_that_others_reach():
    """Class 1 is decided by the bias too; without the first item alone it would be class 0."""
    text = [[0.5, 0.5]], [[[0, 3], [1, 0]]], [[0, 0.5]]
    assert decision_flip_of_lists([[0.1, 0.9]], *text, reduction="none")["reason"] == ["never flips"]
    assert decision_flip_of_lists([[0.9, 0.1]], *text)["decision_flip"] == 0.5


def test_rounding_never_makes_the_smallest_set_larger_than_the_ranking_s():
    """Sums that tie but for rounding: on either side of it, the two counts agree with one another."""
    generator = np.random.default_rng(0)
    columns = [], [], [], []
    for _ in range(400):
        half = generator.dirichlet(np.ones(3)) / 2
        votes = generator.standard_normal(3)
        z = np.stack([np.zeros(7), [9, *votes, *-votes]], 1)
        attention = np.array([0.1, *0.9 * half, *0.9 * half])
        for column, row in zip(columns, (np.arange(7)[::-1], attention, z, np.zeros(2)), strict=True):
            column.append(row.tolist())
    each = decision_flip_of_lists(*columns, reduction="none")
    ratio = np.array(each["ratio"])
    assert (ratio[~np.isnan(ratio)] >= 1).all()
    assert (~np.isnan(ratio)).sum() > 100


def test_the_ranking_alone_decides_what_goes_first():
    text = [[0.6, 0.3, 0.1]], [[[0, 1], [0, 4], [3, 0]]], [[0, 0]]
    for importance, size, mass in (([3, 2, 1], 2, 0.9), ([2, 3, 1], 2, 0.9), ([0, 0, 9], 3, 1.0), ([1, 1, 1], 2, 0.9)):
        each = decision_flip_of_lists([importance], *text, reduction="none")
        assert each["decision_flip"] == pytest.approx([size / 3])
        assert each["mass"] == pytest.approx([mass])
        assert each["ratio"] == pytest.approx([size / 2])


def test_classes_masked_by_their_bias_never_count():
    columns = random_lists(3)
    masked = copy.deepcopy(columns)
    for rows, bias in zip(masked[2], masked[3], strict=True):
        bias.insert(1, -inf)
        for row in rows:
            row.insert(1, 99.0)
    for name, values in decision_flip_of_lists(*masked, reduction="none").items():
        assert values == pytest.approx(decision_flip_of_lists(*columns, reduction="none")[name], nan_ok=True)


@pytest.mark.parametrize("n", [0, 2])
def test_no_defined_example(n):
    whole = decision_flip_of_lists([[1.0]] * n, [[1.0]] * n, [[[0.0, 1.0]]] * n, [[0.5, 0.0]] * n)
    assert all(math.isnan(whole[name]) for name in COLUMNS)
    assert (whole["n"], whole["n_undefined"], whole["reason"]) == (0, n, "no defined example")


def test_an_example_is_on_its_own_and_orders_do_not_matter():
    columns = random_lists(7, n=600, fewest=0)  # more than are padded together
    given = copy.deepcopy(columns)
    each = decision_flip_of_lists(*columns, reduction="none")
    assert columns == given
    for i in range(0, 600, 15):
        alone = decision_flip_of_lists(*([column[i]] for column in columns), reduction="none")
        for name, values in each.items():
            assert repr(alone[name][0]) == repr(values[i])
    turned = decision_flip_of_lists(*(column[::-1] for column in columns), reduction="none")
    assert repr({name: values[::-1] for name, values in turned.items()}) == repr(each)
    distinct = [[r + 1e-3 * t for t, r in enumerate(row)] for row in columns[0]]  # equal items go by position
    each = decision_flip_of_lists(distinct, *columns[1:], reduction="none")
    mirrored = decision_flip_of_lists(*([r[::-1] for r in c] for c in (distinct, *columns[1:3])), columns[3], "none")
    for name, values in mirrored.items():
        assert values == pytest.approx(each[name], abs=1e-12, nan_ok=True)


def test_bad_input_is_named():
    good = [[0.6, 0.4]], [[0.6, 0.4]], [[[0.0, 1.0], [1.0, 0.0]]], [[0.0, 0.0]]
    assert decision_flip_of_lists(*good)["n"] == 1
    for i, wrong, message in (
        (0, [[0.6]], "in example 0, but `predictions` has 1, `references` has 2, `token_logits` has 2"),
        (1, [[0.6, 0.4], [1.0]], "Expected equal lengths, but `predictions` has 1, `references` has 2"),
        (1, [[0.6, 0.6]], "rows of `references` that are distributions .* but row 0 sums to 1.2"),
        (2, [[[0.0, 1.0], [1.0]]], r"`token_logits\[0\]\[1\]` has 1, `biases\[0\]` has 2"),
        (2, [[0.0, 1.0]], r"`token_logits\[0\]` to be a list of rows, one an item, but got one row of numbers"),
        (3, [[]], r"`biases\[0\]` with one number a class, but got none"),
    ):
        columns = list(good)
        columns[i] = wrong
        with pytest.raises(InputError, match=message):
            decision_flip_of_lists(*columns)
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        decision_flip_of_lists(*good, reduction="means")
