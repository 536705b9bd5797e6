"""Projections of any scores: on the simplex, masked as cut out, idempotent, and their limits."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.functional import projections as P
from tests.properties import made
from tests.properties.made import checked, same
from tests.reference import projections as slow

SPARSE = ("sparsemax", "sparsegen", "entmax15", "entmax")


@st.composite
def inputs(draw, longest=40, dtypes=made.DTYPES):
    allowed = draw(made.masks(longest))
    generator = np.random.default_rng(draw(made.seeds()))
    kind = draw(st.sampled_from(made.KINDS))
    scores = made.placed([made.scores(generator, int(m.sum()), kind) for m in allowed], allowed, 7.0)
    return scores.to(draw(st.sampled_from(dtypes))), torch.from_numpy(allowed), generator


@st.composite
def parameters(draw):
    name = draw(st.sampled_from(tuple(P.PROJECTIONS)))
    choices = {
        "softmax": {"temperature": st.floats(1e-3, 1e3)},
        "sparsegen": {"lam": st.floats(-100, 0.99)},
        "entmax": {"alpha": st.floats(1.0, 4.0)},
    }.get(name, {})
    return name, {key: draw(value) for key, value in choices.items()}


@given(inputs(), parameters(), st.integers(0, 3))
@checked(2)
def test_invariants(drawn, chosen, extra):
    scores, allowed, generator = drawn
    name, given_ = chosen
    a = P.project(name, scores, allowed, **given_)
    tolerance = 1e-5 if scores.dtype == torch.float32 else 1e-9
    assert a.dtype == scores.dtype
    assert (a >= 0).all()
    assert not (a * ~allowed).any()
    assert same(a.sum(-1), allowed.any(-1).double(), tolerance)
    # the order of tokens, padding, batch mates and what forbidden scores are change nothing; a shift does not either
    order = torch.from_numpy(generator.permutation(scores.shape[1]))
    assert same(P.project(name, scores[:, order], allowed[:, order], **given_), a[:, order], tolerance)
    wide = P.project(name, made.padded(scores, extra, 2, 99.0), made.padded(allowed, extra, 2), **given_)
    assert same(wide[:, extra : extra + scores.shape[1]], a, tolerance)
    assert same(P.project(name, scores[-1:], allowed[-1:], **given_), a[-1:], tolerance)
    assert same(
        P.project(name, torch.where(allowed, scores, -math.inf), torch.ones_like(allowed), **given_), a, tolerance
    )
    shift = P.project(name, scores.double() + 3.0, allowed, **given_)
    assert same(shift, P.project(name, scores.double(), allowed, **given_), 1e-8)
    # a larger score never has less attention
    for values, weights, inside in zip(scores, a, allowed, strict=True):
        order = values[inside].argsort()
        assert (weights[inside][order].diff() >= -tolerance).all()


@given(inputs(8, (torch.float64,)), parameters())
@checked()
def test_equal_the_optimisation_problem(drawn, chosen):
    scores, allowed, _ = drawn
    name, given_ = chosen
    if name == "entmax" and given_["alpha"] < 1.05:
        given_ = {"alpha": 1.0}
    a = P.project(name, scores, allowed, **given_)
    for z, weights, inside in zip(scores, a, allowed, strict=True):
        row = z[inside].tolist()
        if not row or max(row) - min(row) > 1e3:  # the reference subtracts large numbers
            continue
        if name == "entmax" and given_["alpha"] == 1.0:
            expected = slow.softmax(row)
        else:
            try:
                expected = getattr(slow, name)(row, *given_.values())
            except ValueError:  # one token has all: the change of sign that it looks for lies at the very end
                expected = np.eye(len(row))[int(np.argmax(row))]
        assert same(weights[inside], np.asarray(expected), 1e-7), (name, given_, row)


@given(inputs(20, (torch.float64,)))
@checked()
def test_idempotent_on_the_simplex_and_limits(drawn):
    scores, allowed, _ = drawn
    p = P.softmax(scores, allowed)
    assert same(P.sparsemax(p, allowed), p)
    assert same(P.sparsemax(P.sparsemax(scores, allowed), allowed), P.sparsemax(scores, allowed))
    assert same(P.sparsegen(scores, allowed, 0.0), P.sparsemax(scores, allowed))
    assert same(P.entmax(scores, allowed, 2.0), P.sparsemax(scores, allowed))
    assert same(P.entmax(scores, allowed, 1.0), P.softmax(scores, allowed))
    assert same(P.entmax(scores, allowed, 1.0 + 1e-6), P.softmax(scores, allowed), 1e-4)
    assert same(P.entmax(scores, allowed, 1.5), P.entmax15(scores, allowed), 1e-7)
    even = torch.where(allowed, 1 / allowed.sum(-1, keepdim=True).clamp(min=1), 0.0)
    flat = torch.where(allowed, scores.clamp(-100, 100), 0.0)
    assert same(P.softmax(flat, allowed, 1e9), even, 1e-6)
    assert same(P.sparsegen(flat, allowed, -1e9), even, 1e-6)
    top = (
        (scores == torch.where(allowed, scores, -math.inf).amax(-1, keepdim=True)) & allowed
        if scores.numel()
        else allowed
    )
    one = top.double() / top.sum(-1, keepdim=True).clamp(min=1)
    gap = torch.where(allowed & ~top, scores, -math.inf)
    clear = [
        not inside.any() or float(z[t].max() - g.max()) > 1e-3 if t.any() else True
        for z, t, g, inside in zip(scores, top, gap, allowed, strict=True)
    ]
    for rows in (P.softmax(scores, allowed, 1e-5), P.sparsegen(scores, allowed, 1 - 1e-5)):
        assert same(rows[clear], one[clear], 1e-6)


@given(inputs(12, (torch.float64,)), parameters())
@checked()
def test_gradients_are_finite_and_zero_where_nothing_is_allowed(drawn, chosen):
    scores, allowed, _ = drawn
    name, given_ = chosen
    z = scores.clone().requires_grad_()
    P.project(name, z, allowed, **given_).square().sum().backward()
    assert z.grad.isfinite().all()
    assert not (z.grad * ~allowed).any()
