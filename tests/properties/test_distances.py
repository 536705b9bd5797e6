"""Divergences, concentration and agreement of any distributions: ranges, symmetries, masks, slow references."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.functional import concentration, divergences, plausibility
from attn_faithful.functional import erasure as sufficiency
from tests.properties import made
from tests.properties.made import checked, same
from tests.reference import divergences as slow
from tests.reference import plausibility as slow_plausibility

LN2 = math.log(2)


@st.composite
def pairs(draw, dtype=torch.float64):
    """Two distributions a row over the same tokens, and which tokens are allowed."""
    allowed = draw(made.masks())
    generator = np.random.default_rng(draw(made.seeds()))
    two = [
        made.placed(
            [made.weights(generator, int(m.sum()), draw(st.sampled_from(made.KINDS))) for m in allowed], allowed
        )
        for _ in range(2)
    ]
    return two[0].to(dtype), two[1].to(dtype), torch.from_numpy(allowed)


@given(pairs(), st.integers(0, 3), made.seeds())
@checked()
def test_divergences(pair, extra, seed):
    p, q, allowed = pair
    found = divergences.jsd(p, q)
    assert ((found >= 0) & (found <= LN2)).all()
    assert same(found, divergences.jsd(q, p), 1e-12)
    assert torch.equal(divergences.jsd(p, p), torch.zeros(len(p), dtype=torch.float64))
    assert same(found / LN2, divergences.scaled_jsd(p, q))
    change = divergences.tvd(p, q)
    assert ((change >= 0) & (change <= 1 + 1e-12)).all()
    assert (divergences.kl(p, q) >= 0).all()
    assert (change**2 / 2 <= found + 1e-12).all()  # Pinsker
    assert (found <= change * LN2 + 1e-12).all()  # Lin (1991)
    reach = divergences.largest_jsd(p, allowed)
    some = allowed.any(-1)
    assert (found[some] <= reach[some] + 1e-9).all()
    assert torch.equal(reach.isnan(), ~some)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(p.shape[1]))
    for measure in (divergences.jsd, divergences.tvd, divergences.kl):
        value = measure(p, q)
        assert same(value, [getattr(slow, measure.__name__)(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True)])
        assert same(value, measure(p[:, order], q[:, order]))
        wide = measure(made.padded(p, extra, 2), made.padded(q, extra, 2))
        assert same(value, wide, 1e-12)
        assert same(value[:1], measure(p[:1], q[:1]), 1e-12)


@given(pairs(torch.float32))
@checked()
def test_training_divergences_are_finite_with_their_gradients(pair):
    p, q = (x.clone().requires_grad_() for x in pair[:2])
    exact = [divergences.jsd(*pair[:2]), divergences.jsd(*pair[:2])]
    for value, near in (
        (divergences.jsd(p, q, 1e-10), exact[0]),
        (divergences.scaled_jsd(p, q, 1e-10) * LN2, exact[1]),
    ):
        assert same(value.detach(), near, 1e-4)
    (divergences.kl(p, q, 1e-10).sum() + divergences.jsd(p, q, 1e-10).sum()).backward()
    assert p.grad.isfinite().all()
    assert q.grad.isfinite().all()


@given(pairs(), st.floats(1e-3, 1e3), made.seeds())
@checked()
def test_concentration(pair, scale, seed):
    """Range, scale and order; equal weights have the most entropy and one token has none."""
    p, _, allowed = pair
    n = allowed.sum(-1)
    sign = torch.from_numpy(np.random.default_rng(seed).choice([-1.0, 1.0], p.shape))
    shares, reasons = concentration.distribution(torch.where(allowed, scale * sign * p, 9.0), allowed)
    assert [r is None for r in reasons] == (n > 0).tolist()
    normal, short = concentration.normalized_entropy(shares, allowed)
    gini, size = concentration.gini(shares, allowed), concentration.support_size(shares)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(p.shape[1]))
    assert same(concentration.gini(shares[:, order], allowed[:, order]), gini)
    for i, row in enumerate(p.tolist()):
        own = [a for a, inside in zip(row, allowed[i].tolist(), strict=True) if inside]
        if not own:
            assert short[i] == "no content token"
            assert gini[i].isnan()
            continue
        assert same(shares[i][allowed[i]], own)
        entropy = -sum(a * math.log(a) for a in own if a > 0)
        assert abs(float(concentration.entropy(shares[i])) - entropy) < 1e-10
        assert float(size[i]) == sum(a > 0 for a in own)
        apart = sum(abs(a - b) for a in own for b in own) / (2 * len(own))
        assert abs(float(gini[i]) - apart) < 1e-10
        if len(own) > 1:
            assert 0 <= float(normal[i]) <= 1
            assert abs(float(normal[i]) - min(entropy / math.log(len(own)), 1)) < 1e-10
        else:
            assert short[i] == "n<2"
            assert normal[i].isnan()


@st.composite
def marked(draw, longest=12):
    content = draw(made.masks(longest))
    generator = np.random.default_rng(draw(made.seeds()))
    kind = draw(st.sampled_from(made.KINDS))
    importance = made.placed([made.scores(generator, int(m.sum()), kind) for m in content], content, math.nan)
    rationale = generator.random(content.shape) < draw(st.sampled_from((0.1, 0.5, 1.0)))
    return importance, torch.from_numpy(rationale), torch.from_numpy(content), generator


@given(marked(), st.floats(0.5, 1.0), st.integers(0, 3))
@checked()
def test_plausibility(drawn, threshold, extra):
    importance, rationale, content, generator = drawn
    value, reasons = plausibility.auprc(importance, rationale, content)
    chance, _ = plausibility.random_auprc(rationale, content)
    share, _ = plausibility.rationale_share(rationale, content)
    selected, _ = plausibility.select_top(importance, content, (rationale & content).sum(-1))
    real = rationale & content
    token, span = plausibility.token_f1(selected, real), plausibility.iou_f1(selected, real, threshold)
    for i in range(len(content)):
        args = importance[i].tolist(), rationale[i].tolist(), content[i].tolist()
        assert same(value[i], slow_plausibility.average_precision(*args))
        assert (reasons[i] is None) == (not value[i].isnan())
        for found, expected in (
            (token, slow_plausibility.tokens(selected[i].tolist(), real[i].tolist())),
            (span, slow_plausibility.spans(selected[i].tolist(), real[i].tolist(), threshold)),
        ):
            assert same(torch.stack([found.precision[i], found.recall[i], found.f1[i]]), expected)
        if reasons[i] is None:
            assert 0 < value[i] <= 1
            assert share[i] - 1e-12 <= chance[i] <= 1
            assert int(selected[i].sum()) == int(real[i].sum())
    flat, _ = plausibility.auprc(torch.zeros_like(importance), rationale, content)
    assert same(flat, share)
    best, _ = plausibility.auprc(rationale.double(), rationale, content)
    assert same(best[~best.isnan()], torch.ones(int((~best.isnan()).sum())))
    order = torch.from_numpy(generator.permutation(content.shape[1]))
    assert same(plausibility.auprc(importance[:, order], rationale[:, order], content[:, order])[0], value)
    wide = [made.padded(x, extra, 2) for x in (importance, rationale, content)]
    assert same(plausibility.auprc(*wide)[0], value, 1e-12)


@given(marked(), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4))
@checked()
def test_the_top_of_a_share_is_nested_and_as_large_as_said(drawn, shares):
    importance, _, content, _ = drawn
    counts = sufficiency.erasure_counts(content.sum(-1), sorted(shares))
    masks, _ = sufficiency.top_masks(importance, content, counts)
    assert torch.equal(masks.sum(-1), counts)
    assert not (masks & ~content[:, None]).any()
    assert (masks[:, 1:] | ~masks[:, :-1]).all()
    for mask, values, inside in zip(masks, importance, content, strict=True):
        for one in mask:
            if one.any() and (inside & ~one).any():
                assert values[one].min() >= values[inside & ~one].max()
