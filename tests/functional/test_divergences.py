import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import divergences as D
from tests.reference import divergences as reference


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


def pairs(seed=0, n=40, items=6, dtype=torch.float64):
    """Random distributions, many with exact zeros, some equal, some with disjoint supports."""
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.rand((2, n, items), generator=generator, dtype=torch.float64) ** 3
    keep = torch.rand((2, n, items), generator=generator) > 0.4
    keep[..., 0] = True
    p, q = p * keep[0], q * keep[1]
    p[0, :3], q[0, 3:], p[0, 3:], q[0, :3] = 0, 0, 1, 1
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    q[1] = p[1]
    return p.to(dtype), q.to(dtype)


@pytest.mark.parametrize("name", ["tvd", "multilabel_tvd", "kl", "jsd"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_reference(name, dtype):
    p, q = pairs(dtype=dtype)
    values = getattr(D, name)(p, q)
    expected = [getattr(reference, name)(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    if name == "jsd":  # rows of float32 sum to 1 within rounding only, the bound is kept nevertheless
        expected = [min(value, D.LN2) for value in expected]
    in_double = dtype == torch.float64 or name in ("kl", "jsd")
    assert values.dtype == (torch.float64 if in_double else torch.float32)
    torch.testing.assert_close(values.double(), t(*expected), atol=1e-10 if in_double else 1e-6, rtol=0)


@pytest.mark.parametrize("name", ["kl", "jsd"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_training_form_equals_the_paper(name, dtype, bound):
    p, q = pairs(dtype=dtype)
    values = getattr(D, name)(p, q, eps=1e-10)
    expected = [getattr(reference, name)(a, b, 1e-10) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    assert values.dtype == dtype
    # float32: a KL of 20 nats has 1e-6 relative, which is 1e-5 absolute.
    torch.testing.assert_close(values.double(), t(*expected), atol=bound, rtol=0)


def test_properties():
    p, q = pairs(seed=1)
    forward, backward = D.jsd(p, q), D.jsd(q, p)
    torch.testing.assert_close(forward, backward, atol=1e-14, rtol=0)
    assert ((forward >= 0) & (forward <= D.LN2)).all()
    assert forward[0].item() == pytest.approx(D.LN2, abs=1e-15)
    assert forward[1] == 0
    assert not torch.signbit(forward).any()
    assert not torch.signbit(D.kl(p, p)).any()
    assert (D.kl(p, q) >= 0).all()
    tvd = D.tvd(p, q)
    assert ((tvd >= 0) & (tvd <= 1 + 1e-12)).all()
    # Lin (1991): JSD lies between TVD^2 / 2 and TVD ln 2.
    assert (forward <= tvd * D.LN2 + 1e-12).all()
    assert (forward >= tvd**2 / 2 - 1e-12).all()
    torch.testing.assert_close(D.scaled_jsd(p, q), forward / math.log(2))


def test_padding_and_order_change_nothing():
    p, q = pairs(seed=2)
    for function in (D.tvd, D.kl, D.jsd, lambda a, b: D.jsd(a, b, 1e-10)):
        value = function(p, q)
        zeros = torch.zeros(len(p), 9, dtype=p.dtype)
        torch.testing.assert_close(function(torch.cat([p, zeros], -1), torch.cat([q, zeros], -1)), value)
        torch.testing.assert_close(
            function(torch.cat([zeros, p.flip(-1)], -1), torch.cat([zeros, q.flip(-1)], -1)), value
        )
        torch.testing.assert_close(function(p[:, None], q[:, None]), value[:, None])


def test_nan_is_not_hidden():
    nan, one = t(math.nan, 0.5), t(0.0, 1.0)
    for function in (D.tvd, D.multilabel_tvd, D.kl, D.jsd, D.scaled_jsd):
        assert function(nan, one).isnan()
        assert function(one, nan).isnan()


@pytest.mark.parametrize("name", ["kl", "jsd"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_training_gradients_are_finite_at_zeros(name, dtype):
    p, q = (x.requires_grad_() for x in pairs(seed=3, dtype=dtype))
    for gradient in torch.autograd.grad(getattr(D, name)(p, q, eps=1e-10).sum(), (p, q)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("function", [lambda a, b: D.kl(a, b, 1e-10), lambda a, b: D.jsd(a, b, 1e-10), D.tvd])
def test_gradient(function):
    generator = torch.Generator().manual_seed(4)
    p, q = torch.softmax(torch.randn((2, 5, 6), generator=generator, dtype=torch.float64), -1)
    assert torch.autograd.gradcheck(function, (p.requires_grad_(), q.requires_grad_()))


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ((1, 0), (0, 1), 0.693147),
        ((0.5, 0.5), (0.9, 0.1), 0.101749),
        ((0, 0.25, 0.25, 0, 0.25, 0.25), (0, 0, 0.25, 0.25, 0.25, 0.25), 0.173287),
    ],
)
def test_c08_divergence_in_nats(p, q, expected):
    assert D.jsd(t(*p), t(*q)).item() == pytest.approx(expected, abs=1e-6)
    assert D.jsd(t(*p), t(*q), eps=1e-10).item() == pytest.approx(expected, abs=1e-6)


def test_c08_largest_jsd():
    allowed = torch.tensor([[True] * 3, [True] * 3, [False, True, False], [False] * 3])
    attention = t((0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3), (0, 1, 0), (0, 0, 0))
    values = D.largest_jsd(attention, allowed)
    assert values[:2].tolist() == pytest.approx([0.525597, 0.318257], abs=1e-6)
    assert values[2] == 0
    assert values[3].isnan()
    assert D.largest_jsd(attention[:, :0], allowed[:, :0]).isnan().all()


def test_largest_jsd_equals_the_reference_and_is_never_exceeded():
    p, q = pairs(seed=5)
    largest = D.largest_jsd(p, torch.ones_like(p, dtype=torch.bool))
    expected = [reference.largest_jsd(a) for a in p.tolist()]
    torch.testing.assert_close(largest, t(*expected), atol=1e-10, rtol=0)
    assert (D.jsd(p, q) <= largest + 1e-12).all()


def test_largest_jsd_leaves_forbidden_tokens_out():
    attention, allowed = t(0.6, 0.4, 0), torch.tensor([True, True, False])
    value = D.largest_jsd(attention, allowed)
    torch.testing.assert_close(value, D.jsd(attention[:2], t(0, 1)))
    assert value < D.largest_jsd(attention, torch.ones(3, dtype=torch.bool))


def test_c09_loss_of_the_twin():
    base, twin = t(0.9, 0.05, 0.05), t(0.2, 0.4, 0.4)
    assert D.tvd(t(0.7, 0.3), t(0.4, 0.6)).item() == pytest.approx(0.3)
    assert D.tvd(t(0.5, 0.3, 0.2), t(0.2, 0.3, 0.5)).item() == pytest.approx(0.3)
    assert D.kl(twin, base).item() == pytest.approx(1.362738, abs=1e-6)
    assert D.kl(base, twin).item() == pytest.approx(1.145726, abs=1.1e-6)
    assert D.jsd(twin, base).item() == pytest.approx(0.275396, abs=1e-6)
    loss = D.tvd(t(0.7, 0.3), t(0.4, 0.6)) - D.kl(twin, base, 1e-10)
    assert loss.item() == pytest.approx(-1.062738, abs=1e-6)
    assert D.kl(t(0.5, 0.5), t(1, 0)).item() == math.inf
    assert D.kl(t(0.5, 0.5), t(1, 0), 1e-10).isfinite()


def test_half_precision_is_not_summed_in_half():
    p, q = pairs(dtype=torch.float16)
    assert D.tvd(p, q).dtype == torch.float32
    assert D.jsd(p, q, 1e-10).isfinite().all()


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"\(2,\) and \(3,\)"):
        D.tvd(t(1, 0), t(1, 0, 0))
    with pytest.raises(InputError, match="`eps`"):
        D.jsd(t(1, 0), t(1, 0), eps=-1.0)
    with pytest.raises(InputError, match="same tokens"):
        D.largest_jsd(t(1, 0), torch.ones(3, dtype=torch.bool))
