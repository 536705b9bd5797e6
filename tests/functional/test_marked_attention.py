"""Attention on marked tokens: against loops, by gradcheck, at the edges of the simplex, and where it is undefined."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.marked_attention import hidden_mass_loss, marked_mass, rationale_divergence
from attn_faithful.functional.reasons import first_reasons
from tests.reference import marked_attention as reference

EXACT = 1e-10
KERNELS = {
    "mass": (marked_mass, reference.marked_mass),
    "hidden": (hidden_mass_loss, reference.hidden_mass_loss),
    "rationale": (rationale_divergence, reference.rationale_divergence),
}


def texts(seed=0):
    """Attention (6, 7), marks and content: none, one, one marked, nothing marked, some, marks beside content."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([0, 1, 1, 4, 6, 5])
    content = torch.arange(7) < lengths[:, None]
    content[5, 0] = False  # a special token
    scores = 2 * torch.randn(6, 7, generator=generator, dtype=torch.float64)
    attention = scores.masked_fill(~content, -math.inf).softmax(-1).nan_to_num(0.0)
    marked = torch.zeros(6, 7, dtype=torch.bool)
    marked[2, 0] = True
    marked[4, [1, 4]] = True
    marked[5, [0, 2, 6]] = True
    return attention, marked, content


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", KERNELS)
def test_values_equal_loops(kernel, seed):
    own, slow = KERNELS[kernel]
    attention, marked, content = texts(seed)
    values, flags = own(attention, marked, content)
    reasons = first_reasons(flags)
    for row in range(len(content)):
        if kernel == "hidden" and row == 2:  # all attention is on the marked token: see below
            continue
        kept = content[row]
        expected = slow(attention[row][kept].tolist(), marked[row][kept].tolist())
        if expected is None:
            assert math.isnan(values[row])
            assert reasons[row] is not None
        else:
            assert float(values[row]) == pytest.approx(expected, abs=EXACT)
            assert reasons[row] is None
    assert values.dtype == torch.float64


def test_reasons():
    found = {name: first_reasons(own(*texts())[1]) for name, (own, _) in KERNELS.items()}
    assert found["mass"] == [
        "no content token",
        *["no impermissible token"] * 1,
        None,
        "no impermissible token",
        None,
        None,
    ]
    assert found["hidden"] == ["no content token", None, None, None, None, None]
    assert found["rationale"] == ["no content token", "no rationale token", None, "no rationale token", None, None]


def test_nothing_marked_is_no_loss_and_no_gradient():
    attention = torch.full((1, 7), 1 / 7, dtype=torch.float32, requires_grad=True)  # its sum is not quite 1
    everything = torch.ones(1, 7, dtype=torch.bool)
    loss, _ = hidden_mass_loss(attention, torch.zeros_like(everything), everything)
    loss.sum().backward()
    assert float(loss.detach()) == 0
    assert not attention.grad.any()


def test_at_the_edges_of_the_simplex():
    everything, marked = torch.ones(1, 3, dtype=torch.bool), torch.tensor([[True, True, False]])
    tiny = -math.log(torch.finfo(torch.float32).tiny)
    for loss, attention in ((hidden_mass_loss, [[0.5, 0.5, 0.0]]), (rationale_divergence, [[0.0, 0.0, 1.0]])):
        weights = torch.tensor(attention, requires_grad=True)
        value, _ = loss(weights, marked, everything)
        value.sum().backward()
        assert 80 < float(value.detach()) < tiny + 1
        assert weights.grad.isfinite().all()
        assert not weights.grad.any()


def test_a_mass_near_1_does_not_cancel():
    scores = torch.tensor([[60.0, 0.0]], requires_grad=True)
    loss, _ = hidden_mass_loss(scores.softmax(-1), torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool))
    loss.sum().backward()
    assert float(loss.detach()) == pytest.approx(60, rel=1e-6)  # 1 - mass is 0 in float32
    torch.testing.assert_close(scores.grad, torch.tensor([[1.0, -1.0]]))


@pytest.mark.parametrize("kernel", ["hidden", "rationale"])
def test_gradients(kernel):
    own, _ = KERNELS[kernel]
    attention, marked, content = texts(3)
    kept = [3, 4, 5]
    scores = attention[kept].clamp(min=1e-9).log().requires_grad_()

    def loss(given):
        weights = given.masked_fill(~content[kept], -math.inf).softmax(-1)
        value, flags = own(weights, marked[kept], content[kept])
        undefined = torch.stack(list(flags.values())).any(0)
        return torch.where(undefined, 0.0, value).sum()

    assert torch.autograd.gradcheck(loss, scores)


def test_nan_attention_is_seen():
    attention, marked, content = texts()
    attention[4, 1] = math.nan
    for name, (own, _) in KERNELS.items():
        values, flags = own(attention, marked, content)
        if name == "hidden":
            continue  # what is on the marked tokens does not enter it
        assert math.isnan(values[4])
        assert first_reasons(flags)[4] is None


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_shapes_are_refused(kernel):
    own, _ = KERNELS[kernel]
    attention, marked, content = texts()
    for given in (
        (attention[0], marked[0], content[0]),
        (attention, marked[:, :3], content),
        (attention, attention, content),
    ):
        with pytest.raises(InputError, match="Expected attention"):
            own(*given)
