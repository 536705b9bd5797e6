import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import projections as P
from tests.reference import projections as reference

CASES = [
    ("softmax", {}),
    ("softmax", {"temperature": 0.3}),
    ("sparsemax", {}),
    ("sparsegen", {"lam": -1.5}),
    ("sparsegen", {"lam": 0.4}),
    ("entmax15", {}),
    ("entmax", {"alpha": 1.2}),
    ("entmax", {"alpha": 1.5}),
    ("entmax", {"alpha": 1.9}),
    ("entmax", {"alpha": 3.0}),
]
every_case = pytest.mark.parametrize(("name", "params"), CASES)


def rows(seed=0, shape=(6, 3, 7), dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    allowed = torch.rand(shape, generator=generator) > 0.3
    allowed[0, 0] = False
    return scores.to(dtype), allowed


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


def all_of(scores):
    return torch.ones_like(scores, dtype=torch.bool)


@every_case
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_equals_the_reference_of_the_truncated_row(name, params, dtype, bound):
    scores, allowed = rows(dtype=dtype)
    attention = P.project(name, scores, allowed, **params)
    assert attention.dtype == dtype
    for z, ok, a in zip(scores.flatten(0, 1), allowed.flatten(0, 1), attention.flatten(0, 1), strict=True):
        assert (a[~ok] == 0).all()
        if ok.any():
            expected = torch.as_tensor(getattr(reference, name)(z[ok].double().numpy(), **params), dtype=torch.float64)
            torch.testing.assert_close(a[ok].double(), expected, atol=bound, rtol=0)


@every_case
def test_masked_equals_truncated_and_ignores_what_is_forbidden(name, params):
    scores, allowed = rows()
    attention = P.project(name, scores, allowed, **params)
    for filler in (math.nan, math.inf, -math.inf, 1e30):
        filled = torch.where(allowed, scores, filler)
        assert torch.equal(P.project(name, filled, allowed, **params), attention)
    for z, ok, a in zip(scores.flatten(0, 1), allowed.flatten(0, 1), attention.flatten(0, 1), strict=True):
        torch.testing.assert_close(P.project(name, z[ok], ok[ok], **params), a[ok], atol=1e-12, rtol=0)


@every_case
def test_lies_on_the_simplex_and_ignores_shifts_and_order(name, params):
    scores, allowed = rows(seed=1)
    attention = P.project(name, scores, allowed, **params)
    assert (attention >= 0).all()
    sums = attention.sum(-1)
    torch.testing.assert_close(sums, allowed.any(-1).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(P.project(name, scores + 50, allowed, **params), attention, atol=1e-10, rtol=0)
    order = torch.randperm(scores.shape[-1], generator=torch.Generator().manual_seed(2))
    mixed = P.project(name, scores[..., order], allowed[..., order], **params)
    torch.testing.assert_close(mixed, attention[..., order], atol=1e-12, rtol=0)


@every_case
def test_empty_row_is_zero_with_zero_gradient(name, params):
    scores = torch.tensor([[math.nan, -math.inf, 3.0], [1.0, 0.5, 2.0]], requires_grad=True)
    allowed = torch.tensor([[False, False, False], [True, True, False]])
    attention = P.project(name, scores, allowed, **params)
    assert (attention[0] == 0).all()
    (gradient,) = torch.autograd.grad((attention * torch.arange(6.0).view(2, 3)).sum(), scores)
    assert (gradient[0] == 0).all()
    assert gradient[1, 2] == 0
    assert gradient.isfinite().all()
    assert P.project(name, scores[:, :0], allowed[:, :0], **params).shape == (2, 0)


@every_case
@pytest.mark.parametrize("size", [1e8, 1e30])
def test_extreme_scores_stay_on_the_simplex(name, params, size):
    scores = torch.tensor([[size, size, 0.0], [0.0, -size, -size], [size, -size, 3.0]], requires_grad=True)
    attention = P.project(name, scores, all_of(scores), **params)
    expected = torch.tensor([[0.5, 0.5, 0], [1, 0, 0], [1, 0, 0]])
    torch.testing.assert_close(attention, expected, atol=1e-6, rtol=0)
    (gradient,) = torch.autograd.grad(attention[:, 0].sum(), scores)
    assert gradient.isfinite().all()


@every_case
def test_nan_among_the_allowed_scores_makes_only_its_row_nan(name, params):
    scores = torch.tensor([[math.nan, 0.0, 1.0], [1.0, 2.0, 0.5]])
    attention = P.project(name, scores, all_of(scores), **params)
    assert attention[0].isnan().all()
    assert attention[1].sum().item() == pytest.approx(1, abs=1e-6)


@every_case
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, params, half):
    scores, allowed = rows(dtype=half)
    attention = P.project(name, scores, allowed, **params)
    assert attention.dtype == torch.float32
    assert torch.equal(attention, P.project(name, scores.float(), allowed, **params))


def test_softmax_keeps_ranks_that_half_precision_loses():
    weights = P.softmax(torch.tensor([0.0, -20.0, -30.0], dtype=torch.float16), torch.ones(3, dtype=torch.bool))
    assert weights[0] > weights[1] > weights[2] > 0


@every_case
def test_gradient(name, params):
    scores, allowed = rows(seed=3, shape=(3, 2, 5))
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: P.project(name, z, allowed, **params), scores)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "sparsegen"])
def test_second_gradient(name):
    scores, allowed = rows(seed=3, shape=(2, 2, 4))
    scores.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: P.project(name, z, allowed), scores)


@pytest.mark.parametrize("alpha", [[1.1], [1.5], [2.5], [[1.2], [1.7]]])
def test_gradient_of_a_learned_alpha(alpha):
    scores, allowed = rows(seed=4, shape=(3, 2, 5))
    alpha = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda z, a: P.entmax(z, allowed, a), (scores, alpha))


@pytest.mark.parametrize("lam", [[-2.0], [0.3], [[-1.0], [0.5]]])
def test_gradient_of_lambda(lam):
    scores, allowed = rows(seed=5, shape=(3, 2, 5))
    lam = torch.tensor(lam, dtype=torch.float64, requires_grad=True)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda z, x: P.sparsegen(z, allowed, x), (scores, lam))


def test_alpha_near_one_joins_softmax_in_value_and_gradient():
    scores, allowed = rows(seed=6)
    torch.testing.assert_close(P.entmax(scores, allowed, 1.0), P.softmax(scores, allowed), atol=1e-12, rtol=0)
    slopes = []
    for distance in (0.0, 0.99e-4, 1.01e-4, 1e-3):
        alpha = torch.tensor(1 + distance, dtype=torch.float64, requires_grad=True)
        attention = P.entmax(scores, allowed, alpha)
        torch.testing.assert_close(attention, P.softmax(scores, allowed), atol=5 * distance + 1e-12, rtol=0)
        slopes.append(torch.autograd.grad(attention[..., 0].square().sum(), alpha)[0].item())
    # The gradient is exact at 1; the tolerance is its own change over the distance.
    assert slopes == pytest.approx([slopes[0]] * 4, rel=1e-2)
    # A learned alpha may be one number a row, some at 1 and some above.
    alpha = torch.tensor([[1.0], [1.5], [2.0]], dtype=torch.float64)
    mixed = P.entmax(scores, allowed, alpha)
    torch.testing.assert_close(mixed[:, 0], P.softmax(scores, allowed)[:, 0], atol=1e-10, rtol=0)
    torch.testing.assert_close(mixed[:, 1], P.entmax15(scores, allowed)[:, 1], atol=1e-10, rtol=0)
    torch.testing.assert_close(mixed[:, 2], P.sparsemax(scores, allowed)[:, 2], atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (t(2, 1, 0), t(1, 0, 0)),
        (t(1, 0.5, 0), t(0.75, 0.25, 0)),
        (t(0, 0, 0, 0), t(0.25, 0.25, 0.25, 0.25)),
        (t(1e8, 1e8, 0), t(0.5, 0.5, 0)),
        (t(1, 0.5, -math.inf), t(0.75, 0.25, 0)),
    ],
)
def test_c12_sparsemax(scores, expected):
    torch.testing.assert_close(P.sparsemax(scores, all_of(scores)), expected, atol=1e-10, rtol=0)


def test_c12_gradient_and_mask():
    scores = t(1, 0.5, -math.inf).requires_grad_()
    (gradient,) = torch.autograd.grad(P.sparsemax(scores, all_of(scores))[0], scores)
    torch.testing.assert_close(gradient, t(0.5, -0.5, 0))
    attention = P.sparsemax(t(0.3, 0.1, 9), torch.tensor([True, True, False]))
    torch.testing.assert_close(attention, t(0.6, 0.4, 0), atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("lam", "expected"),
    [
        (-1, (0.583333, 0.333333, 0.083333)),
        (0, (0.75, 0.25, 0)),
        (0.5, (1, 0, 0)),
        (0.75, (1, 0, 0)),
        (0.99, (1, 0, 0)),
        (-1e6, (1 / 3, 1 / 3, 1 / 3)),
        (-1e300, (1 / 3, 1 / 3, 1 / 3)),
        (1 - 1e-16, (1, 0, 0)),
    ],
)
def test_c12_sparsegen(lam, expected):
    for dtype in (torch.float64, torch.float32):
        scores = t(1, 0.5, 0).to(dtype)
        attention = P.sparsegen(scores, all_of(scores), lam)
        torch.testing.assert_close(attention.double(), t(*expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("lam", [1, 1.5, math.inf, -math.inf, math.nan])
def test_lambda_out_of_range(lam):
    with pytest.raises(InputError, match=r"Expected `lam` in \(-inf, 1\)"):
        P.sparsegen(t(1, 0), torch.tensor([True, True]), lam)


def test_bad_input_is_named():
    z, ok = t(1, 0), torch.tensor([True, True])
    with pytest.raises(InputError, match="Did you mean 'sparsemax'"):
        P.project("sparsmax", z, ok)
    with pytest.raises(InputError, match=r"Unknown parameter 'temprature' of projection 'softmax'.*'temperature'"):
        P.project("softmax", z, ok, temprature=2.0)
    with pytest.raises(InputError, match="It takes none"):
        P.project("sparsemax", z, ok, lam=0.5)
    with pytest.raises(InputError, match="`temperature` above 0"):
        P.softmax(z, ok, 0.0)
    with pytest.raises(InputError, match="`alpha` in"):
        P.entmax(z, ok, 0.5)
    with pytest.raises(InputError, match="`alpha` to broadcast"):
        P.entmax(z, ok, t(1.5, 1.6))
    with pytest.raises(InputError, match=r"torch\.bool"):
        P.softmax(z, ok.float())
    with pytest.raises(InputError, match="floating type"):
        P.softmax(z.long(), ok)
    with pytest.raises(InputError, match="shape of `scores`"):
        P.softmax(z, ok[:1].expand(3))


def test_every_projection_declares_its_parameters():
    assert list(P.PROJECTIONS) == list(P.PROJECTION_PARAMETERS)
