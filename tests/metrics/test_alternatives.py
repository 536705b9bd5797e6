import copy
import math
from pathlib import Path

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.divergences import LN2
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.adversarial import adversarial_of_lists
from attn_faithful.metrics.permutation import permutation_of_lists
from tests.reference import alternatives as reference

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
WITH_FIXTURES = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
nan = math.nan

PERMUTATION = ("attention_permutation", "std", "low", "high", "n", "n_undefined", "reasons", "reason", "flips")
ADVERSARIAL = (
    "adversarial_attention",
    "std",
    "low",
    "high",
    "n",
    "n_undefined",
    "reasons",
    "reason",
    "n_none",
    "jsd_reachable",
    "ratio",
    "n_ratio",
    "reason_ratio",
    "tvd",
)


def distributions(generator, k, size):
    """k rows that sum to 1; every other one has zeros."""
    rows = generator.dirichlet(np.ones(size), size=k)
    rows[::2, 1:] *= generator.random((len(rows[::2]), size - 1)) < 0.6
    return (rows / rows.sum(1, keepdims=True)).tolist()


def random_lists(seed, n=30, fewest=1):
    """Examples of 2 to 4 classes and 2 to 7 tokens, each with its own number of alternatives."""
    generator = np.random.default_rng(seed)
    predictions, references, attentions, own = [], [], [], []
    for _ in range(n):
        k, classes, tokens = (int(generator.integers(*ends)) for ends in ((fewest, 7), (2, 5), (2, 8)))
        references += distributions(generator, 1, classes)
        near = 0.02 * generator.random((k, 1)) * (generator.random((k, 1)) < 0.7)  # so that some are within eps
        far = np.array(distributions(generator, k, classes)).reshape(k, classes)
        predictions.append((np.array(references[-1]) + near * (far - np.array(references[-1]))).tolist())
        if generator.random() < 0.5:
            predictions[-1] = far.tolist()
        attentions.append(distributions(generator, k, tokens))
        own += distributions(generator, 1, tokens)
    return predictions, references, attentions, own


def same(found, expected):
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_permutation_equals_the_reference(seed):
    predictions, references, _, _ = random_lists(seed, fewest=0)
    medians, flips = reference.permutation(predictions, references)
    each = permutation_of_lists(predictions, references, reduction="none")
    assert list(each) == ["attention_permutation", "flips", "reason"]
    same(each["attention_permutation"], medians)
    same(each["flips"], flips)
    assert each["reason"] == [None if rows else "no permutation" for rows in predictions]
    assert 0 < np.nanmean(flips) < 1
    whole = permutation_of_lists(predictions, references)
    empty = sum(not rows for rows in predictions)
    assert list(whole) == list(PERMUTATION)
    assert (whole["n"], whole["n_undefined"], whole["reason"]) == (30 - empty, empty, None)
    assert whole["reasons"] == ({"no permutation": empty} if empty else {})
    same((whole["attention_permutation"], whole["std"]), reference.mean_and_std(medians))
    same(whole["flips"], reference.mean_and_std(flips)[0])
    expected = summarize(np.array([medians]).T, [each["reason"]])[0]
    assert (whole["low"], whole["high"]) == pytest.approx((expected.low, expected.high), abs=1e-10)
    assert whole["low"] < whole["attention_permutation"] < whole["high"]


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two():
    own, rows = [1.0, 0.0], [[1.0, 0.0], [0.9, 0.1], [0.6, 0.4], [0.0, 1.0]]
    for k, median in ((1, 0.0), (2, 0.05), (3, 0.1), (4, 0.25)):
        each = permutation_of_lists([rows[:k]], [own], reduction="none")
        assert each["attention_permutation"] == pytest.approx([median], abs=1e-12)


def test_a_tie_decides_for_the_lowest_class():
    found = permutation_of_lists([[[0.5, 0.5]], [[0.5, 0.5]], [[0.2, 0.4, 0.4]]], [[0.9, 0.1], [0.1, 0.9], [0, 0, 1]])
    assert found["flips"] == pytest.approx(2 / 3)
    each = permutation_of_lists([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.9, 0.1], [0.1, 0.9]], reduction="none")
    assert each["flips"] == [0.0, 1.0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("eps", [0.0, 0.01, 0.2, 0.99])
def test_adversarial_equals_the_reference(seed, eps):
    columns = random_lists(seed)
    expected = reference.adversarial(*columns, eps)
    each = adversarial_of_lists(*columns, eps=eps, reduction="none")
    assert list(each) == [
        "adversarial_attention",
        "jsd_reachable",
        "ratio",
        "tvd",
        "n_within",
        "reason",
        "reason_ratio",
    ]
    best, reach, cost, within = zip(*expected, strict=True)
    ratio = [b / r for b, r in zip(best, reach, strict=True)]
    for name, values in (("adversarial_attention", best), ("jsd_reachable", reach), ("ratio", ratio), ("tvd", cost)):
        same(each[name], values)
    assert each["n_within"] == list(within)
    assert each["reason"] == each["reason_ratio"] == [None] * 30
    whole = adversarial_of_lists(*columns, eps=eps)
    assert list(whole) == list(ADVERSARIAL)
    same((whole["adversarial_attention"], whole["std"]), reference.mean_and_std(best))
    same((whole["jsd_reachable"], whole["ratio"], whole["tvd"]), [np.mean(x) for x in (reach, ratio, cost)])
    assert whole["n_none"] == within.count(0)
    assert (whole["n"], whole["n_ratio"], whole["n_undefined"], whole["reasons"]) == (30, 30, 0, {})
    assert whole["low"] <= whole["adversarial_attention"] <= whole["high"]
    assert 0 <= whole["adversarial_attention"] <= whole["jsd_reachable"] <= LN2


@pytest.mark.parametrize("seed", range(3))
def test_more_room_and_more_alternatives_never_bring_attention_nearer(seed):
    columns = random_lists(seed)
    before = np.zeros(30)
    for eps in (0.0, 0.005, 0.02, 0.1, 0.5):
        found = np.array(adversarial_of_lists(*columns, eps=eps, reduction="none")["adversarial_attention"])
        assert (found >= before).all()
        before = found
    assert before.max() > 0
    fewer = [rows[:1] for rows in columns[0]], columns[1], [rows[:1] for rows in columns[2]], columns[3]
    found = np.array(adversarial_of_lists(*fewer, eps=0.5, reduction="none")["adversarial_attention"])
    assert (found <= before).all()
    assert (found < before).any()


@pytest.mark.parametrize("seed", range(3))
def test_the_own_attention_as_an_alternative_changes_no_value(seed):
    """It keeps every limit at a JSD of 0, so it says what "none within eps" means: 0."""
    predictions, references, attentions, own = random_lists(seed)
    with_own = (
        [[*rows, row] for rows, row in zip(predictions, references, strict=True)],
        references,
        [[*rows, row] for rows, row in zip(attentions, own, strict=True)],
        own,
    )
    found, expected = (adversarial_of_lists(*c) for c in (with_own, (predictions, references, attentions, own)))
    assert expected["n_none"] > 0
    assert found == {**expected, "n_none": 0}


def test_eps_allows_for_the_rounding_of_float32():
    for beyond, within in ((0.0, 1), (9e-7, 1), (1.1e-6, 0), (1e-5, 0)):
        prediction = [0.5 + 0.01 + beyond, 0.5 - 0.01 - beyond]
        each = adversarial_of_lists([[prediction]], [[0.5, 0.5]], [[[0.0, 1.0]]], [[1.0, 0.0]], reduction="none")
        assert each["n_within"] == [within]
        assert each["adversarial_attention"] == pytest.approx([within * LN2])
        assert each["tvd"] == pytest.approx([within * (0.01 + beyond)])


@pytest.mark.parametrize(
    ("own", "other", "value", "reach"),
    [
        ([1.0, 0.0], [0.0, 1.0], 0.693147, 0.693147),
        ([0.5, 0.5], [0.9, 0.1], 0.101749, 0.215762),
        ([0.6, 0.3, 0.1], [0.0, 0.0, 1.0], 0.525597, 0.525597),
        ([0, 0.25, 0.25, 0, 0.25, 0.25], [0, 0, 0.25, 0.25, 0.25, 0.25], 0.173287, 0.693147),
        ([1.0], [1.0], 0.0, 0.0),
        ([0.9995], [1.0], 0.0, 0.0),  # within the tolerance of a distribution
    ],
)
def test_known_divergences(own, other, value, reach):
    each = adversarial_of_lists([[[0.3, 0.7]]], [[0.3, 0.7]], [[other]], [own], reduction="none")
    assert each["adversarial_attention"] == pytest.approx([value], abs=1e-6)
    assert each["jsd_reachable"] == pytest.approx([reach], abs=1e-6)
    assert each["reason"] == [None]
    single = len(own) == 1
    assert not single or each["adversarial_attention"] == each["jsd_reachable"] == [0.0]
    assert each["reason_ratio"] == ["n<2" if single else None]
    assert each["ratio"] == pytest.approx([nan if single else value / reach], abs=1e-5, nan_ok=True)
    whole = adversarial_of_lists([[[0.3, 0.7]]], [[0.3, 0.7]], [[other]], [own])
    assert (whole["n"], whole["n_ratio"]) == (1, 1 - single)
    assert whole["reason_ratio"] == ("no defined example of 2 tokens" if single else None)
    assert np.isnan([whole["low"], whole["high"]]).all()


def test_the_share_of_reach_is_capped():
    """Weights that sum to 1.0009 are accepted and seem to reach farther than any distribution."""
    each = adversarial_of_lists([[[1.0]]], [[1.0]], [[[0.0, 0.0, 1.0009]]], [[0.6, 0.3, 0.1]], reduction="none")
    assert each["adversarial_attention"] > each["jsd_reachable"]
    assert each["ratio"] == [1.0]


def test_undefined_examples_have_a_reason_and_stay_out_of_the_mean():
    own = [[0.6, 0.4], [0.6, 0.4], [], [nan, 0.4], [0.6, 0.4], []]
    attentions = [[[0.1, 0.9]], [], [[]], [[0.1, 0.9]], [[0.1, 0.9], [0.5, nan]], []]
    predictions = [[[0.5, 0.5] for _ in rows] for rows in attentions]
    columns = (predictions, [[0.5, 0.5]] * 6, attentions, own)
    each = adversarial_of_lists(*columns, reduction="none")
    reasons = [None, "no alternative", "no content token", "nan in attention", "nan in attention", "no content token"]
    assert each["reason"] == each["reason_ratio"] == reasons
    assert each["n_within"] == [1, 0, 1, 1, 2, 0]
    for name in ("adversarial_attention", "jsd_reachable", "ratio", "tvd"):
        assert np.isnan(each[name]).tolist() == [reason is not None for reason in reasons]
    whole, alone = adversarial_of_lists(*columns), adversarial_of_lists(*(column[:1] for column in columns))
    assert (whole["n"], whole["n_undefined"], whole["n_none"]) == (1, 5, 0)
    assert whole["reasons"] == {"nan in attention": 2, "no alternative": 1, "no content token": 2}
    for name in ("adversarial_attention", "jsd_reachable", "ratio", "tvd"):
        assert whole[name] == alone[name] > 0 or name == "tvd"


@pytest.mark.parametrize("n", [0, 2])
def test_no_defined_example(n):
    whole = permutation_of_lists([[]] * n, [[0.5, 0.5]] * n)
    assert np.isnan([whole["attention_permutation"], whole["flips"]]).all()
    assert (whole["n"], whole["n_undefined"], whole["reason"]) == (0, n, "no defined example")
    whole = adversarial_of_lists([[]] * n, [[0.5, 0.5]] * n, [[]] * n, [[0.5, 0.5]] * n)
    assert all(math.isnan(whole[name]) for name in ("adversarial_attention", "jsd_reachable", "ratio", "tvd"))
    assert (whole["n"], whole["n_none"], whole["reason"]) == (0, 0, "no defined example")
    assert whole["reason_ratio"] == "no defined example"
    each = adversarial_of_lists([[]] * n, [[0.5, 0.5]] * n, [[]] * n, [[0.5, 0.5]] * n, reduction="none")
    assert each["adversarial_attention"] == pytest.approx([nan] * n, nan_ok=True)


@pytest.mark.parametrize("function", [permutation_of_lists, adversarial_of_lists])
def test_an_example_is_on_its_own_and_orders_do_not_matter(function):
    columns = random_lists(7, fewest=0)[: 4 if function is adversarial_of_lists else 2]
    given = copy.deepcopy(columns)
    each = function(*columns, reduction="none")
    assert columns == given
    alone = [function(*([column[i]] for column in columns), reduction="none") for i in range(30)]
    for name, values in each.items():
        assert [one[name][0] for one in alone] == pytest.approx(values, abs=1e-12, nan_ok=True)
    turned = function(*(column[::-1] for column in columns), reduction="none")
    for name, values in each.items():
        assert turned[name][::-1] == pytest.approx(values, abs=1e-12, nan_ok=True)
    other_order = [[rows[::-1] for rows in column] if i % 2 == 0 else column for i, column in enumerate(columns)]
    for name, values in function(*other_order, reduction="none").items():
        assert values == pytest.approx(each[name], abs=1e-12, nan_ok=True)


def test_more_rows_than_one_chunk_and_arrays_as_columns():
    generator = np.random.default_rng(0)
    predictions, references = generator.dirichlet([1, 1, 1], (20, 100)), generator.dirichlet([1, 1, 1], 20)
    each = permutation_of_lists(predictions, references, reduction="none")
    medians, flips = reference.permutation(predictions.tolist(), references.tolist())
    same(each["attention_permutation"], medians)
    same(each["flips"], flips)


HALF = [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([HALF], HALF * 2), "`predictions` has 1, `references` has 2"),
        (([HALF, [*HALF, [1.0]]], HALF * 2), r"`predictions\[1\]\[1\]` has 1, `references\[1\]` has 2"),
        (([HALF, [*HALF, [0.5, 0.6]]], HALF * 2), r"rows of `predictions\[1\]`.*row 1 sums to 1\.1"),
        (([HALF, [*HALF, [0.5, nan]]], HALF * 2), r"rows of `predictions\[1\]`.*row 1 holds a negative or non-finite"),
        (([HALF, HALF], [HALF[0], [2.0, -1.0]]), "rows of `references`.*row 1 holds a negative"),
        ((HALF, HALF), r"`predictions\[0\]` to be a list of rows"),
    ],
)
def test_errors_of_predictions_name_the_example(columns, message):
    with pytest.raises(InputError, match=message):
        permutation_of_lists(*columns)
    attentions = [[HALF[0] for _ in rows] for rows in columns[0]], HALF * len(columns[1])
    with pytest.raises(InputError, match="`prediction_attentions`|" + message):
        adversarial_of_lists(*columns, *attentions)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([HALF], HALF * 2), "`prediction_attentions` has 1, `reference_attentions` has 2"),
        (([HALF, HALF * 2], HALF * 2), "in example 1, but `predictions` has 1, `prediction_attentions` has 2"),
        (([HALF, [[1.0]]], HALF * 2), r"`prediction_attentions\[1\]\[0\]` has 1, `reference_attentions\[1\]` has 2"),
        (([HALF, [[0.5, 0.6]]], HALF * 2), r"rows of `prediction_attentions\[1\]`.*row 0 sums to 1\.1"),
        (([HALF, HALF], [HALF[0], [1.0, 0.1]]), r"rows of `reference_attentions`.*row 1 sums to 1\.1"),
    ],
)
def test_errors_of_attention_name_the_example(columns, message):
    with pytest.raises(InputError, match=message):
        adversarial_of_lists([HALF, HALF], HALF * 2, *columns)


@pytest.mark.parametrize("eps", [-0.01, 1.0, nan])
def test_errors_of_options(eps):
    with pytest.raises(InputError, match="Expected `eps`"):
        adversarial_of_lists([], [], [], [], eps=eps)
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        adversarial_of_lists([], [], [], [], reduction="means")
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        permutation_of_lists([], [], reduction="means")


def fixture(name):
    arrays = np.load(FIXTURES / f"jw_fixture{name}.npz")
    kept = np.flatnonzero(arrays["lengths"] > 2)  # a text without content has no prediction: NaN
    n = len(arrays["lengths"])
    return {key: arrays[key][kept] for key in arrays.files if arrays[key].shape[:1] == (n,)}


def both(p):
    """Probabilities of the two classes of a one-label model."""
    p = p.astype(np.float64)
    return np.concatenate([1 - p, p], axis=-1).tolist()


MODELS = (
    "",
    "_lstm_dot",
    "_average_tanh",
    "_average_dot",
    "_cnn_tanh",
    "_edge_flat",
    "_edge_saturated",
    "_edge_eps",
    "_edge_short",
)


@WITH_FIXTURES
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("step", ["_it1", "_it10", "_it100", ""])
def test_fixtures_adversarial(name, step):
    arrays = fixture(name)
    inside = arrays["mask"] == 0
    own = [row[held].tolist() for row, held in zip(arrays["attn"], inside, strict=True)]
    attentions = [rows[:, held].tolist() for rows, held in zip(arrays[f"adv_attn{step}"], inside, strict=True)]
    columns = (both(arrays[f"adv_pred{step}"]), both(arrays["pred"]), attentions, own)
    each = adversarial_of_lists(*columns, eps=0.05, reduction="none")
    expected, best = arrays[f"adv_max_jsd{step}"], arrays[f"adv_argmax{step}"]
    np.testing.assert_allclose(each["adversarial_attention"], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(  # index K is the original attention: none was within
        each["tvd"], np.take_along_axis(arrays[f"adv_delta_y{step}"], best[:, None], 1)[:, 0], rtol=0, atol=1e-6
    )
    none = best == arrays["adv_attn"].shape[1]
    assert [n == 0 for n in each["n_within"]] == none.tolist()
    assert adversarial_of_lists(*columns, eps=0.05)["n_none"] == none.sum()


@WITH_FIXTURES
@pytest.mark.parametrize("name", MODELS)
def test_fixtures_permutation(name):
    arrays = fixture(name)
    each = permutation_of_lists(both(arrays["perm_pred"]), both(arrays["pred"]), reduction="none")
    np.testing.assert_allclose(each["attention_permutation"], arrays["perm_median"], rtol=0, atol=1e-6)
