"""List versions equal the tensor ones, text by text and in any order; whatever is no list of numbers is refused."""

import contextlib
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful._checks import InputError
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional import concentration, divergences, flip_set, plausibility, ragged, rankings
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.adversarial import adversarial_of_lists
from attn_faithful.metrics.attefa import attefa_of_lists
from attn_faithful.metrics.correlation import correlation_of_lists
from attn_faithful.metrics.decision_flip import decision_flip_of_lists
from attn_faithful.metrics.erasure import erasure_of_lists
from attn_faithful.metrics.importance_entropy import importance_entropy_of_lists
from attn_faithful.metrics.permutation import permutation_of_lists
from attn_faithful.metrics.plausibility import plausibility_of_lists
from tests.properties import made
from tests.properties.made import checked, same
from tests.reference import alternatives as slow_alternatives
from tests.reference import faithfulness as slow_faithfulness


@st.composite
def texts(draw, least=0, longest=15):
    """Rows of attention and of importance; a generator for whatever else is needed."""
    lengths = draw(st.lists(st.integers(least, longest), max_size=6))
    generator = np.random.default_rng(draw(made.seeds()))
    kind = draw(st.sampled_from(made.KINDS))
    attention = [made.weights(generator, n, kind).tolist() for n in lengths]
    importance = [made.scores(generator, n, kind).tolist() for n in lengths]
    return attention, importance, generator


def rows(found, columns):
    return [[found[column][i] for column in columns] for i in range(len(found["reason"]))]


def alone_and_reversed(measure, *columns, exact=1e-12, **settings):
    """The result of all texts, after it was seen that neither order nor company changes a text's own."""
    found = measure(*columns, reduction="none", **settings)
    names = [name for name, values in found.items() if isinstance(values, list)]
    backward = measure(*(list(reversed(column)) for column in columns), reduction="none", **settings)
    for name in names:
        assert len(found[name]) == len(columns[0])
        for a, b in zip(found[name], reversed(backward[name]), strict=True):
            assert a == b or same(a, b, exact)
    for i in range(min(2, len(columns[0]))):
        one = measure(*([column[i]] for column in columns), reduction="none", **settings)
        for name in names:
            assert one[name][0] == found[name][i] or same(one[name][0], found[name][i], exact)
    whole = measure(*columns, reduction="mean", **settings)
    undefined = sum(reason is not None for reason in found["reason"])
    assert (whole["n"], whole["n_undefined"]) == (len(columns[0]) - undefined, undefined)
    return found, whole


@given(texts())
@checked(0.5)
def test_correlation_and_entropy(drawn):
    attention, importance, _ = drawn
    found, whole = alone_and_reversed(correlation_of_lists, attention, importance)
    for i, (x, y) in enumerate(zip(attention, importance, strict=True)):
        one = rankings.kendall_tau_b(x, np.abs(y), names=("attention", "importance"))
        assert same(found["kendall_tau_b"][i], one.value)
        assert found["reason"][i] == one.reason
    defined = [v for v in found["kendall_tau_b"] if not math.isnan(v)]
    assert same(whole["kendall_tau_b"], sum(defined) / len(defined) if defined else math.nan)
    found, _ = alone_and_reversed(importance_entropy_of_lists, importance)
    for i, row in enumerate(importance):
        values, mask = torch.tensor([row], dtype=torch.float64), torch.ones(1, len(row), dtype=torch.bool)
        shares, why = concentration.distribution(values, mask)
        normal, short = concentration.normalized_entropy(shares, mask)
        assert same(found["importance_entropy"][i], float(normal))
        assert same(found["gini"][i], float(concentration.gini(shares, mask)))
        assert found["reason"][i] == (why[0] or short[0])


@given(texts())
@checked()
def test_attefa(drawn):
    attention, _, generator = drawn
    twin = [generator.permutation(row).tolist() for row in attention]
    p, q = (generator.dirichlet(np.ones(3), len(attention)).reshape(-1, 3).tolist() for _ in range(2))
    tvds, jsds, reasons = ragged.per_example_divergences(p, q, twin, attention)
    for i in range(len(attention)):
        assert same(tvds[i], float(divergences.tvd(torch.tensor(p[i]).double(), torch.tensor(q[i]).double())), 1e-6)
        if reasons[i] is None:
            a, b = (torch.tensor(x[i], dtype=torch.float64) for x in (twin, attention))
            assert same(jsds[i], float(divergences.jsd(a, b)))
        else:
            assert math.isnan(jsds[i])
    whole = attefa_of_lists(p, q, twin, attention)
    if whole["reason"] is None:
        assert same(whole["attefa"], slow_faithfulness.attefa(tvds.tolist(), jsds.tolist()), 1e-8)
        assert 0 <= whole["attefa"] <= 1


@given(texts(), st.floats(0, 0.5), st.integers(0, 4))
@checked()
def test_alternatives(drawn, eps, k):
    attention, _, generator = drawn
    own = generator.dirichlet(np.ones(3), len(attention)).reshape(-1, 3).tolist()
    counts = generator.integers(0, k + 1, len(attention))
    other = [generator.dirichlet(np.ones(3), n).reshape(-1, 3).tolist() for n in counts]
    moved = [[generator.permutation(row).tolist() for _ in range(n)] for row, n in zip(attention, counts, strict=True)]
    found, _ = alone_and_reversed(permutation_of_lists, other, own)
    medians, flips = slow_alternatives.permutation(other, own)
    assert same(found["attention_permutation"], medians)
    assert same(found["flips"], flips)
    found, _ = alone_and_reversed(adversarial_of_lists, other, own, moved, attention, eps=eps)
    names = ("adversarial_attention", "jsd_reachable", "tvd")
    for i, row in enumerate(rows(found, names)):
        if found["reason"][i] is None and len(attention[i]) > 1:
            one = slow_alternatives.adversarial([other[i]], [own[i]], [moved[i]], [attention[i]], eps)[0]
            assert same(row, one[:3], 1e-9)
            assert found["n_within"][i] == one[3]


@given(texts(least=0, longest=10), st.integers(2, 4))
@checked(0.5)
def test_flips(drawn, classes):
    attention, importance, generator = drawn
    said = [np.round(generator.standard_normal((len(row), classes)), 2).tolist() for row in attention]
    biases = np.round(generator.standard_normal((len(attention), classes)), 2).tolist()
    found, _ = alone_and_reversed(decision_flip_of_lists, importance, attention, said, biases)
    for i, row in enumerate(attention):
        if found["reason"][i] is None:
            weights, z = torch.tensor([row]).double(), torch.tensor([said[i]]).double()
            mask, bias = torch.ones(1, len(row), dtype=torch.bool), torch.tensor([biases[i]]).double()
            size = float(flip_set.smallest_flip_set(weights.log(), mask, z, bias).size)
            assert 0 < found["smallest"][i] <= found["decision_flip"][i] <= 1
            assert same(found["smallest"][i] * len(row), size, 1e-6) or found["smallest"][i] * len(row) < size
            assert 0 <= found["mass"][i] <= 1 + 1e-9


@given(texts(), st.sampled_from((None, 0.1, 0.5, 1.0)), st.integers(1, 4))
@checked(0.5)
def test_erasure_and_plausibility(drawn, share, k):
    _, importance, generator = drawn
    marks = [(generator.random(len(row)) < 0.4).astype(int).tolist() for row in importance]
    found, _ = alone_and_reversed(plausibility_of_lists, importance, marks, share=share)
    for i, row in enumerate(importance):
        values, mask = torch.tensor([row], dtype=torch.float64), torch.ones(1, len(row), dtype=torch.bool)
        one, why = plausibility.auprc(values, torch.tensor([marks[i]], dtype=torch.bool), mask)
        assert same(found["auprc"][i], float(one))
        assert found["reason"][i] == why[0]
    some = generator.random(len(importance)) < 0.8
    full = generator.random(len(importance)).tolist()
    without, only = ([generator.random(k if held else 0).tolist() for held in some] for _ in range(2))
    found, _ = alone_and_reversed(erasure_of_lists, without, full, only)
    for i, held in enumerate(some):
        assert same(found["comprehensiveness"][i], full[i] - np.mean(without[i]) if held else math.nan)
        assert same(found["sufficiency"][i], full[i] - np.mean(only[i]) if held else math.nan)


@given(made.seeds(), st.integers(0, 30), st.integers(1, 3))
@checked()
def test_summaries(seed, n, columns):
    """Means, spreads and counts; the interval lies within the values and around no order of examples."""
    generator = np.random.default_rng(seed)
    values = np.where(
        generator.random((n, columns)) < 0.2, np.nan, np.round(generator.standard_normal((n, columns)), 1)
    )
    reasons = [["why" if math.isnan(v) else None for v in column] for column in values.T]
    for column, one in zip(values.T, summarize(values, reasons, n_resamples=50), strict=True):
        defined = column[~np.isnan(column)]
        assert (one.n, one.n_undefined, sum(one.reasons.values())) == (len(defined), n - len(defined), n - len(defined))
        assert same(one.mean, defined.mean() if len(defined) else math.nan)
        assert same(one.std, defined.std() if len(defined) else math.nan)
        if len(defined) > 1:
            assert defined.min() - 1e-12 <= one.low <= one.high <= defined.max() + 1e-12
        else:
            assert math.isnan(one.low)
            assert math.isnan(one.high)


@given(made.seeds(), st.integers(1, 12), st.integers(2, 4))
@checked(0.5)
def test_the_constant_twin_is_the_nearest(seed, n, classes):
    p = np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), n)
    q, distance = faithfulness.constant_twin(p)
    assert same(q.sum(), 1.0)
    assert (q >= -1e-12).all()
    assert same(distance, slow_faithfulness.constant_twin_tvd(p), 1e-7)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=2) | st.just(0.5),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.floats(0, 1), max_size=3),
    max_leaves=6,
)
OF_LISTS = {
    correlation_of_lists: 2,
    importance_entropy_of_lists: 1,
    attefa_of_lists: 4,
    permutation_of_lists: 2,
    adversarial_of_lists: 4,
    decision_flip_of_lists: 4,
    plausibility_of_lists: 2,
    erasure_of_lists: 3,
}


@pytest.mark.parametrize("measure", OF_LISTS, ids=lambda measure: measure.__name__)
@given(st.data())
@checked()
def test_no_lists_of_numbers(measure, data):
    columns = [data.draw(st.lists(ANYTHING, max_size=3)) for _ in range(OF_LISTS[measure])]
    if columns[0] and data.draw(st.booleans()):  # of one length, so that more is reached than the check of that
        columns = [(column * 3)[: len(columns[0])] or columns[0] for column in columns]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reduction in ("none", "mean"):
            with contextlib.suppress(InputError):
                measure(*columns, reduction=reduction)
