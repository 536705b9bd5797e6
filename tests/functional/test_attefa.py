import dataclasses
import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional import attefa as F
from attn_faithful.functional import ragged, resampling
from attn_faithful.metrics.attefa import attefa_of_lists
from tests.reference import divergences as reference_divergences
from tests.reference import faithfulness as reference

nan = math.nan


def random_columns(seed, n=50):
    generator = np.random.default_rng(seed)
    return generator.random(n) * 0.4, generator.random(n) * F.LN2


def test_attefa_equals_the_reference():
    for seed in range(20):
        tvd, jsd = random_columns(seed)
        tvd[seed % 7], jsd[seed % 11] = nan, nan
        result = F.attefa(tvd, jsd)
        assert result.attefa == pytest.approx(reference.attefa(tvd, jsd), abs=1e-10)
        assert result.n + result.n_undefined == 50
        assert result.s_jsd == pytest.approx(result.jsd / math.log(2), abs=1e-15)
        assert result.reason is None


def test_attefa_takes_means_first_and_is_capped():
    # 0.5 * (0 + 0.5) / 1: the mean of the ratios would be 0.25 too, so one JSD is halved.
    result = F.attefa([0.0, 0.5], [F.LN2, F.LN2 / 2])
    assert result.attefa == pytest.approx(0.25 / 0.75)
    assert F.attefa([0.9], [0.1]).attefa == 1.0


@pytest.mark.parametrize("tvd", [[0.0, 0.0], [0.3, 0.1]])
@pytest.mark.parametrize("jsd", [[0.0, 0.0], [1e-16, 0.0]])
def test_a_twin_that_never_moved_is_undefined(tvd, jsd):
    result = F.attefa(tvd, jsd)
    assert math.isnan(result.attefa)
    assert result.reason == "twin attention never moved"
    assert (result.n, result.tvd) == (2, pytest.approx(np.mean(tvd)))


@pytest.mark.parametrize(("tvd", "jsd"), [([], []), ([nan, 0.2], [0.3, nan])])
def test_no_defined_example(tvd, jsd):
    result = F.attefa(tvd, jsd)
    assert math.isnan(result.attefa)
    assert (result.n, result.n_undefined, result.reason) == (0, len(tvd), "no defined example")


def test_per_example():
    values, reasons = F.attefa_per_example([0.5, 0.1, nan, 0.9, 0.0], [F.LN2, 0.0, 0.2, 0.1, 0.3])
    np.testing.assert_allclose(values, [0.5, nan, nan, 1.0, 0.0], atol=1e-12)
    assert reasons == [None, "twin attention never moved", "undefined divergence", None, None]


def test_result_is_frozen_and_bad_columns_are_named():
    with pytest.raises(dataclasses.FrozenInstanceError):
        F.attefa([0.1], [0.1]).attefa = 0.0  # type: ignore[misc]
    with pytest.raises(InputError, match=r"\(2,\) and \(1,\)"):
        F.attefa([0.1, 0.2], [0.1])
    with pytest.raises(InputError, match="half the L1 distance"):
        F.attefa([1.2], [0.1])
    with pytest.raises(InputError, match=r"`jsd` in 0 to 0\.693147, but got 0\.83 in example 1"):
        F.attefa([0.2, 0.2], [0.1, 0.83])


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_constant_twin_is_the_optimum_of_the_linear_program(classes, n):
    for seed in range(3):
        generator = np.random.default_rng(100 * seed + n)
        p = generator.dirichlet(np.full(classes, 0.5), size=n)
        if seed == 2:
            p = np.eye(classes)[generator.integers(0, classes, n)]  # ties everywhere
        q, distance = F.constant_twin(p)
        assert q.sum() == pytest.approx(1, abs=1e-12)
        assert (q >= 0).all()
        assert distance == pytest.approx(reference.constant_twin_tvd(p), abs=1e-9)
        own = np.mean([reference_divergences.tvd(row, q) for row in p])
        assert distance == pytest.approx(own, abs=1e-12)


def test_constant_twin_of_two_classes_is_the_median():
    for n in (7, 8):
        first = np.random.default_rng(n).random(n)
        q, _ = F.constant_twin(np.stack([first, 1 - first], -1))
        assert q[0] == pytest.approx(np.median(first), abs=1e-12)


def test_constant_twin_of_float32_rows_and_many_examples():
    p = np.random.default_rng(0).dirichlet([0.3] * 4, size=10_000).astype(np.float32)
    q, distance = F.constant_twin(p)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    generator = np.random.default_rng(1)
    for _ in range(50):
        other = np.abs(q + generator.normal(size=4) * 0.05)
        assert 0.5 * np.abs(p - other / other.sum()).sum(-1).mean() >= distance - 1e-6


def test_multilabel_constant_twin():
    p = np.random.default_rng(2).random((9, 3))
    q, distance = F.multilabel_constant_twin(p)
    np.testing.assert_allclose(q, np.median(p, axis=0))
    expected = np.mean([reference_divergences.multilabel_tvd(row, q) for row in p])
    assert distance == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("p", [np.zeros((0, 2)), np.zeros(3), [[0.5, nan]], [[-0.1, 1.1]], [[0.5, 0.2]]])
def test_constant_twin_bad_input(p):
    with pytest.raises(InputError):
        F.constant_twin(p)


def test_is_collapsed():
    assert F.is_collapsed(0.32, 0.35)
    assert not F.is_collapsed(0.31, 0.35)
    assert F.is_collapsed(0.31, 0.35, share=0.8)
    assert not F.is_collapsed(0.0, 0.0)
    assert not F.is_collapsed(nan, 0.3)
    with pytest.raises(InputError, match="`share`"):
        F.is_collapsed(0.1, 0.1, share=0)


def test_bootstrap_equals_the_reference():
    """Three twins of the same texts, one of which has no value for some."""
    seeds = [random_columns(seed, n=30) for seed in range(3)]
    seeds[1][0][:4] = nan
    tvd, jsd = [s[0] for s in seeds], [s[1] for s in seeds]
    interval = F.bootstrap_attefa(tvd, jsd, n_resamples=100, level=0.9, seed=7)
    kept = [dict(enumerate(zip(t, j, strict=True))) for t, j in seeds]
    for i in range(4):
        del kept[1][i]
    assert interval == pytest.approx(reference.bootstrap_attefa(kept, 100, 0.9, 7), abs=1e-10)
    low, high = interval
    assert low < np.mean([F.attefa(t, j).attefa for t, j in seeds]) < high
    assert interval == F.bootstrap_attefa(tvd, jsd, n_resamples=100, level=0.9, seed=7)
    assert interval != F.bootstrap_attefa(tvd, jsd, n_resamples=100, level=0.9, seed=8)


def test_equal_ids_are_one_text():
    """Two twins whose texts overlap in part and come in another order."""
    (a, b), (c, d) = random_columns(0, n=12), random_columns(1, n=9)
    ids = [[f"t{i}" for i in range(12)], [f"t{i}" for i in (8, 3, 20, 21, 0, 1, 22, 5, 11)]]
    interval = F.bootstrap_attefa([a, c], [b, d], n_resamples=100, examples_by_seed=ids)
    twins = [
        dict(zip(names, zip(*columns, strict=True), strict=True))
        for names, columns in zip(ids, ((a, b), (c, d)), strict=True)
    ]
    assert interval == pytest.approx(reference.bootstrap_attefa(twins, 100, 0.95, 0), abs=1e-10)
    apart = F.bootstrap_attefa([a, c], [b, d], n_resamples=100, examples_by_seed=[ids[0], list("abcdefghi")])
    assert apart != interval
    for wrong in ([ids[0], ids[1][:8]], [ids[0], ["t1"] * 9]):
        with pytest.raises(InputError, match="different ids in `examples_by_seed`"):
            F.bootstrap_attefa([a, c], [b, d], examples_by_seed=wrong)


def test_a_copy_of_a_twin_tells_nothing_new():
    """The same twin five times has the interval of the one: its texts are no more than they were."""
    tvd, jsd = random_columns(2, n=80)
    assert F.bootstrap_attefa([tvd] * 5, [jsd] * 5) == pytest.approx(F.bootstrap_attefa([tvd], [jsd]), abs=1e-12)


def twins_of_a_base(generator, n, twins=5):
    """TVD and JSD of each twin on n new texts; most of what makes a text hard for one is hard for all."""
    hard = generator.normal(size=n)
    found = []
    for twin in range(twins):
        own = 0.95 * hard + 0.3 * generator.normal(size=n)
        tvd = 0.8 / (1 + np.exp(2.2 - 0.2 * twin - 1.5 * own))
        jsd = F.LN2 / (1 + np.exp(-0.5 - 0.7 * hard - 0.5 * generator.normal(size=n)))
        found.append((tvd, jsd))
    return [tvd for tvd, _ in found], [jsd for _, jsd in found]


def test_the_interval_covers_the_value_on_all_texts_as_often_as_it_says():
    """Simulated: 200 data sets of 100 texts, five twins each; the value on all texts is that on 400,000.

    A share of 200 of 0.95 has a standard error of 0.015, and percentile intervals of 100 texts fall a little short of
    their level (0.93 of 2,000 data sets). With texts drawn for each twin apart it is 0.65.
    """
    true = float(
        np.mean(
            [F.attefa(t, j).attefa for t, j in zip(*twins_of_a_base(np.random.default_rng(0), 400_000), strict=True)]
        )
    )
    generator = np.random.default_rng(1)
    covered = []
    for seed in range(200):
        low, high = F.bootstrap_attefa(*twins_of_a_base(generator, 100), n_resamples=200, seed=seed)
        covered.append(low <= true <= high)
    assert 0.88 < np.mean(covered) < 0.99


def test_bootstrap_is_joint():
    # TVD is a fixed share of JSD in every example, so a joint resample leaves the ratio alone.
    jsd = np.random.default_rng(0).random(40) * F.LN2
    low, high = F.bootstrap_attefa([0.3 * jsd / F.LN2], [jsd])
    assert low == pytest.approx(0.3, abs=1e-12)
    assert high == pytest.approx(0.3, abs=1e-12)


def test_bootstrap_does_not_depend_on_chunks(monkeypatch):
    values = [np.random.default_rng(1).random(64)]
    whole = resampling.bootstrap_mean(values)
    monkeypatch.setattr(resampling, "_CHUNK", 64 * 100)
    assert resampling.bootstrap_mean(values) == whole


def test_bootstrap_leaves_undefined_out():
    tvd, jsd = random_columns(3)
    expected = F.bootstrap_attefa([tvd], [jsd])
    assert F.bootstrap_attefa([np.append(tvd, nan)], [np.append(jsd, 0.1)]) == expected
    assert F.bootstrap_attefa([np.append(nan, tvd)], [np.append(0.1, jsd)], examples_by_seed=[range(51)]) == expected
    still = np.zeros(50)
    skipped = F.bootstrap_attefa([tvd, tvd], [jsd, still])
    assert skipped == expected
    for undefined in (
        F.bootstrap_attefa([tvd], [still]),
        resampling.bootstrap_mean([[nan]]),
        resampling.bootstrap_mean([]),
    ):
        assert all(math.isnan(end) for end in undefined)
    low, high = resampling.bootstrap_mean([[1.0, 2.0, 3.0, nan], [1.0, 2.0, 3.0]])
    assert 1 < low < 2 < high < 3


def test_bootstrap_interval_has_the_size_of_theory():
    values = np.random.default_rng(4).normal(size=10_000)
    low, high = resampling.bootstrap_mean([values])
    # Standard error 0.01, 1,000 resamples: the width is within 15% of 2 * 1.96 * 0.01.
    assert high - low == pytest.approx(0.0392, rel=0.15)


def test_bootstrap_bad_input():
    with pytest.raises(InputError, match="as many seeds"):
        F.bootstrap_attefa([[0.1]], [])
    with pytest.raises(InputError, match="`level`"):
        resampling.bootstrap_mean([[0.1]], level=95)
    with pytest.raises(InputError, match="`n_resamples`"):
        resampling.bootstrap_mean([[0.1]], n_resamples=0)
    with pytest.raises(InputError, match="for each seed"):
        resampling.bootstrap_mean([[[0.1]]])


def ragged_lists(n=600, seed=0):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 12, n)
    attention = [[generator.dirichlet(np.full(k, 0.3)).tolist() for k in lengths] for _ in range(2)]
    probabilities = generator.dirichlet([1, 1, 1], size=(2, n)).tolist()
    return [*probabilities, *attention]


def test_ragged_equals_one_by_one():
    p, q, a, b = ragged_lists()
    tvd, jsd, reasons = ragged.per_example_divergences(p, q, a, b)
    for i in range(len(p)):
        assert tvd[i] == pytest.approx(reference_divergences.tvd(p[i], q[i]), abs=1e-10)
        assert jsd[i] == pytest.approx(reference_divergences.jsd(a[i], b[i]), abs=1e-10)
    assert reasons == [None] * len(p)
    order = np.random.default_rng(1).permutation(len(p))
    mixed = ragged.per_example_divergences(*([column[i] for i in order] for column in (p, q, a, b)))
    np.testing.assert_allclose(mixed[1], jsd[order], atol=1e-15)


def test_ragged_undefined_examples_and_single_tokens():
    p = [[0.7, 0.3]] * 4
    a = [[], [1.0], [nan, 0.4], [0.5, 0.5]]
    b = [[], [0.9999], [0.5, 0.5], [1.0, 0.0]]
    tvd, jsd, reasons = ragged.per_example_divergences(p, p, a, b)
    assert reasons == ["no content token", None, "nan in attention", None]
    np.testing.assert_allclose(jsd, [nan, 0.0, nan, reference_divergences.jsd(a[3], b[3])], atol=1e-12)
    np.testing.assert_allclose(tvd, 0.0)
    result = attefa_of_lists(p, p, a, b)
    assert (result["attefa"], result["n"], result["n_undefined"]) == (0.0, 2, 2)
    each = attefa_of_lists(p, p, a, b, reduction="none")
    assert each["reason"] == ["no content token", "twin attention never moved", "nan in attention", None]
    empty = attefa_of_lists([], [], [], [])
    assert (empty["n"], empty["reason"]) == (0, "no defined example")


@pytest.mark.parametrize(
    ("column", "row", "message"),
    [
        (0, [0.5, 0.4], "rows of `predictions`.*row 1 sums to 0.9"),
        (1, [1.5, -0.5], "rows of `references`.*row 1 holds a negative"),
        (1, [nan, 1.0], "rows of `references`.*row 1 holds a negative or non-finite"),
        (2, [0.0, 0.0], "rows of `prediction_attentions`.*row 1 sums to 0"),
        (3, [math.inf, 0.0], "rows of `reference_attentions`.*row 1 holds"),
        (3, [1.0], "in example 1, but `prediction_attentions` has 2, `reference_attentions` has 1"),
        (0, [0.2, 0.3, 0.5], "in example 1, but `predictions` has 3, `references` has 2"),
    ],
)
def test_ragged_bad_rows_are_named(column, row, message):
    columns = [[[0.5, 0.5], [0.5, 0.5]] for _ in range(4)]
    columns[column][1] = row
    with pytest.raises(InputError, match=message):
        ragged.per_example_divergences(*columns)


def test_ragged_unequal_numbers_of_examples_and_unknown_reduction():
    row = [[0.5, 0.5]]
    with pytest.raises(InputError, match="`predictions` has 1, `references` has 2"):
        ragged.per_example_divergences(row, row * 2, row, row)
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        attefa_of_lists(row, row, row, row, reduction="means")
