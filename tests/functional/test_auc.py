"""AUC and its intervals against loops over pairs; what intervals cover, by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from attn_faithful._checks import InputError
from attn_faithful.functional.auc import (
    auc,
    auc_interval,
    clustered_auc,
    draw_groups,
    independent_values,
    within_text_auc,
)
from attn_faithful.functional.summaries import wilson
from tests.reference.auc import auc_by_pairs, newcombe, worth

CASES = {
    "random": ([0.3, 0.7, 0.1, 0.9], [0.2, 0.5, 0.4]),
    "ties": ([1, 2, 2, 3, 1], [2, 1, 1, 0]),
    "nan": ([math.nan, 2, 1, math.inf], [0, math.nan, 1.5]),
    "one value": ([1], [2]),
    "all equal": ([1, 1, 1], [1, 1]),
    "separated": ([4, 5, 6], [1, 2, 3, 0]),
    "the wrong way around": ([1, 2], [3, 4, 5]),
}


@pytest.mark.parametrize("case", CASES)
def test_auc_is_the_share_of_pairs(case):
    assert auc(*CASES[case]) == pytest.approx(auc_by_pairs(*CASES[case]), abs=1e-12)


def test_auc_of_many_ties_and_shifts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        positive, negative = rng.integers(0, 5, rng.integers(1, 20)), rng.integers(0, 5, rng.integers(1, 20))
        value = auc(positive, negative)
        assert value == pytest.approx(auc_by_pairs(positive, negative), abs=1e-12)
        assert value == pytest.approx(1 - auc(negative, positive), abs=1e-12)
        assert value == auc(np.exp(positive), np.exp(negative))  # the order alone counts
        assert value == auc(rng.permutation(positive), rng.permutation(negative))


def test_without_a_value_on_a_side_nothing_is_defined():
    for positive, negative in (([], [1.0]), ([1.0], []), ([math.nan], [1.0])):
        assert math.isnan(auc(positive, negative))
        assert np.isnan(auc_interval(positive, negative)).all()
        found = clustered_auc([positive], [negative])
        assert np.isnan([found.auc, found.low, found.high]).all()
        assert (found.n_positive, found.n_negative) == (0, 0)
    assert np.isnan(within_text_auc([[math.nan], []])).all()


@pytest.mark.parametrize("case", CASES)
def test_interval_holds_what_the_value_is_within_z_of(case):
    positive, negative = (np.array(side, dtype=float) for side in CASES[case])
    m, n = np.isfinite(positive).sum(), np.isfinite(negative).sum()
    expected = newcombe(auc_by_pairs(positive, negative), m, n)
    assert auc_interval(positive, negative) == pytest.approx(expected, abs=1e-9)  # the bracket of the reference


def test_interval_of_separated_values():
    """10 against 10 with an AUC of 1: the low end has (1 - theta) / sqrt(V(theta)) = z."""
    low, high = auc_interval(range(10, 20), range(10))
    assert high == 1.0
    v = low * (1 - low) * (1 + 9 * (1 - low) / (2 - low) + 9 * low / (1 + low)) / 100
    assert (1 - low) / math.sqrt(v) == pytest.approx(1.959964, abs=1e-9)


def test_interval_covers_independent_values():
    """At least 93 of 100, and not always: 600 draws have a standard error of 1%."""
    rng = np.random.default_rng(0)
    for truth in (0.5, 0.9):
        shift = math.sqrt(2) * norm.ppf(truth)
        covered = [_within(truth, auc_interval(rng.normal(shift, 1, 15), rng.normal(0, 1, 10))) for _ in range(600)]
        assert 0.93 <= np.mean(covered) < 1


def _within(truth, ends):
    return ends[0] <= truth <= ends[1]


def _grouped(rng, n_groups, n_values, correlation, shift=0.0):
    """Groups of normal values with an intraclass correlation, variance 1."""
    of_group = math.sqrt(correlation) * rng.standard_normal((n_groups, 1))
    return shift + of_group + math.sqrt(1 - correlation) * rng.standard_normal((n_groups, n_values))


def test_grouped_auc_is_that_of_all_values():
    rng = np.random.default_rng(0)
    positive = [rng.integers(0, 6, size).astype(float) for size in (3, 1, 4, 0)]
    negative = [rng.integers(0, 6, size).astype(float) for size in (2, 5)]
    negative[1][2] = math.nan
    found = clustered_auc(positive, negative)
    assert found.auc == pytest.approx(auc_by_pairs(np.concatenate(positive), np.concatenate(negative)), abs=1e-12)
    assert (found.n_positive, found.n_negative) == (8, 6)
    assert found.low < found.auc < found.high


def test_grouped_interval_is_the_union_of_both():
    """The bootstrap by loops over pairs of values; Newcombe's with what the values are worth."""
    rng = np.random.default_rng(1)
    positive = [rng.integers(2, 9, size).astype(float) for size in (3, 2, 4)]
    negative = [rng.integers(0, 7, size).astype(float) for size in (5, 2, 3, 3)]
    found = clustered_auc(positive, negative, n_resamples=50, seed=3)
    generator = np.random.default_rng(3)
    drawn = [generator.multinomial(n, np.full(n, 1 / n), size=50) for n in (3, 4)]
    resampled = []
    for counts, other_counts in zip(*drawn, strict=True):
        inside = [x for group, count in zip(positive, counts, strict=True) for x in np.tile(group, count)]
        others = [y for group, count in zip(negative, other_counts, strict=True) for y in np.tile(group, count)]
        resampled.append(auc_by_pairs(inside, others))
    ranks = rankdata(np.concatenate([*positive, *negative]))
    groups = np.split(ranks, np.cumsum([3, 2, 4, 5, 2, 3]))
    low, high = newcombe(found.auc, worth(groups[:3]), worth(groups[3:]))
    percentile_low, percentile_high = np.quantile(resampled, [0.025, 0.975])
    expected = min(low, percentile_low), max(high, percentile_high)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)


def test_worth_of_grouped_values():
    rng = np.random.default_rng(0)
    for sizes in ((3, 4, 2), (5, 1, 1, 7), (2, 2)):
        groups = [rng.standard_normal(size) for size in sizes]
        assert independent_values(np.concatenate(groups), np.array(sizes)) == pytest.approx(worth(groups), abs=1e-10)
    alike = np.repeat([1.0, 2.0, 3.0], 4)
    assert independent_values(alike, np.array([4, 4, 4])) == pytest.approx(3)  # those of a group are one
    constant = np.ones(12)
    assert independent_values(constant, np.array([4, 4, 4])) == 3  # nothing is known: the least
    assert independent_values(constant, np.array([12])) == 1
    assert independent_values(alike, np.ones(12)) == 12  # one a group
    many = _grouped(rng, 200, 10, 0.5)
    assert independent_values(many.ravel(), np.full(200, 10)) == pytest.approx(2000 / 5.5, rel=0.15)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("truth", [0.5, 0.95])
def test_grouped_interval_covers(correlation, truth):
    """At least 90 of 100 (200 draws: standard error 2%); the bootstrap alone covers 63% at 0.9 and 0.95."""
    rng = np.random.default_rng(7)
    shift = math.sqrt(2) * norm.ppf(truth)
    covered = []
    for _ in range(200):
        positive = _grouped(rng, 8, 20, correlation, shift)
        found = clustered_auc(list(positive), list(_grouped(rng, 6, 20, correlation)), n_resamples=300)
        covered.append(_within(truth, (found.low, found.high)))
    assert np.mean(covered) >= 0.90


def test_grouped_interval_is_no_longer_than_needed():
    """Values that know nothing of their group are worth as many as there are, those that are their group are one."""
    rng = np.random.default_rng(0)
    lengths = {}
    for correlation in (0.0, 0.9):
        sides = [list(_grouped(rng, 10, 40, correlation)) for _ in range(2)]
        found = clustered_auc(*sides)
        lengths[correlation] = found.high - found.low
    assert lengths[0.0] < 0.12 < 0.3 < lengths[0.9]


def test_separated_groups_have_an_interval_with_a_length():
    found = clustered_auc([[3.0, 4.0], [5.0, 6.0]], [[1.0, 2.0]])
    assert (found.auc, found.high) == (1.0, 1.0)
    assert found.low < 0.6  # a single model on a side
    assert clustered_auc([[1.0]] * 3, [[2.0]] * 3).low == 0.0


def test_draws_follow_the_seed_alone():
    rng = np.random.default_rng(0)
    sides = [list(_grouped(rng, 5, 4, 0.9)) for _ in range(2)]
    assert clustered_auc(*sides, seed=1) == clustered_auc(*sides, seed=1)
    assert clustered_auc(*sides, seed=1) != clustered_auc(*sides, seed=2)


def test_mean_within_texts():
    rng = np.random.default_rng(0)
    by_model = [rng.random(size) for size in (30, 40, 10, 50, 60, 50)]
    mean, low, high = within_text_auc([*by_model, [math.nan]])
    assert mean == pytest.approx(np.concatenate(by_model).mean(), abs=1e-12)
    assert low < 0.5 < high
    assert high - low < 0.2
    truth = within_text_auc([np.ones(50), np.ones(50)])
    assert truth[0] == truth[2] == 1.0
    assert 0.2 < truth[1] < 0.5  # two models: as if each were a single text


def test_mean_within_texts_covers():
    """At least 93 of 100 for texts that are alike in a model, 300 draws."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(300):
        by_model = np.clip(rng.normal(0.7, 0.1, (8, 1)) + rng.normal(0, 0.1, (8, 20)), 0, 1)
        _, low, high = within_text_auc(list(by_model), n_resamples=300)
        covered.append(low <= 0.7 <= high)
    assert np.mean(covered) >= 0.93


def test_texts_that_models_share_are_no_new_texts():
    """Importance that is the same in every model: 40 texts, however many models; 300 draws."""
    rng = np.random.default_rng(0)
    names = [[f"t{j}" for j in range(40)]] * 50
    covered, forgetful = [], []
    for _ in range(300):
        of_texts = rng.random(40)
        by_model = [of_texts] * 50
        _, low, high = within_text_auc(by_model, names, n_resamples=200)
        covered.append(low <= 0.5 <= high)
        _, low, high = within_text_auc(by_model, n_resamples=200)
        forgetful.append(low <= 0.5 <= high)
    assert np.mean(covered) >= 0.93
    assert np.mean(forgetful) < 0.6


def test_crossed_resamples_are_those_of_a_loop():
    """Each resample: a value counts as often as its model was drawn times as often as its text was."""
    by_model, names = [[0.2, 0.9, 1.0], [0.4, 0.5]], [["a", "b", "c"], ["a", "c"]]
    models = draw_groups(np.random.default_rng(3), 2, 200)
    texts = draw_groups(np.random.default_rng(4), 3, 200)
    means = []
    for of_model, of_text in zip(models, texts, strict=True):
        total = count = 0.0
        for i, values in enumerate(by_model):
            for value, name in zip(values, names[i], strict=True):
                times = of_model[i] * of_text["abc".index(name)]
                total += times * value
                count += times
        if count:
            means.append(total / count)
    low, high = np.quantile(means, (0.025, 0.975))
    mean, found_low, found_high = within_text_auc(by_model, names, n_resamples=200, seed=3)
    assert mean == pytest.approx(0.6)
    assert found_low <= low + 1e-12
    assert found_high >= high - 1e-12
    worth_of_both = min(worth([[0.2, 0.9, 1.0], [0.4, 0.5]]), worth([[0.2, 0.4], [0.9], [1.0, 0.5]]))
    wilson_low, wilson_high = wilson(0.6, worth_of_both, 1.959964)
    assert found_low == pytest.approx(min(low, wilson_low), abs=1e-12)
    assert found_high == pytest.approx(max(high, wilson_high), abs=1e-12)


def test_inputs_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="n_resamples"):
        clustered_auc([[1.0]], [[0.0]], n_resamples=0)
    with pytest.raises(InputError, match=r"values \(n,\) in `positive`"):
        auc([[1.0]], [0.0])
    with pytest.raises(InputError, match="AUCs from 0 to 1"):
        within_text_auc([[1.5]])
