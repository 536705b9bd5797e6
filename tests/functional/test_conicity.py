"""Conicity and the distance of tied states: against loops, by gradcheck, and where they are undefined."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.conicity import conicity, mean_conicity
from attn_faithful.functional.reasons import first_reasons
from attn_faithful.functional.tying import tying_distance
from tests.reference import conicity as reference

EXACT = 1e-10


def texts(seed=0):
    """States (5, 6, 4), embeddings of the same shape, and content with none, one, two, four and all tokens."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(5, 6, 4, generator=generator, dtype=torch.float64)
    embedded = torch.randn(5, 6, 4, generator=generator, dtype=torch.float64)
    content = torch.zeros(5, 6, dtype=torch.bool)
    content[1, 3] = True
    content[2, [0, 5]] = True
    content[3, 1:5] = True
    content[4] = True
    return states, embedded, content


def agree(values, expected):
    for value, other in zip(values.tolist(), expected, strict=True):
        if other is None:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(other, abs=EXACT)


def test_conicity_against_the_loop():
    states, _, content = texts()
    values, flags = conicity(states, content)
    expected = [reference.conicity(text[kept].numpy()) for text, kept in zip(states, content, strict=True)]
    agree(values, expected)
    assert first_reasons(flags) == ["no content token", "n<2", None, None, None]
    assert values.dtype == torch.float64


def test_distance_against_the_loop():
    states, embedded, content = texts()
    values, flags = tying_distance(states, embedded, content)
    expected = []
    for state, embedding, kept in zip(states, embedded, content, strict=True):
        expected.append(reference.tying_distance(state[kept].numpy(), embedding[kept].numpy()))
    agree(values, expected)
    assert first_reasons(flags) == ["no content token", None, None, None, None]


def test_known_values():
    along = torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]])
    opposed = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])  # signs do not count
    across = torch.eye(3)
    states = torch.stack([along, opposed]).double()
    everything = torch.ones(2, 3, dtype=torch.bool)
    torch.testing.assert_close(conicity(states, everything)[0], torch.ones(2).double(), atol=EXACT, rtol=0)
    value, _ = conicity(across[None].double(), everything[:1])
    assert float(value) == pytest.approx(1 / math.sqrt(3), abs=EXACT)
    assert tying_distance(states, states, everything)[0].tolist() == [0, 0]


def test_conicity_does_not_know_scale_or_order():
    states, _, content = texts(1)
    value, _ = conicity(states, content)
    scaled, _ = conicity(-7 * states, content)
    turned, _ = conicity(states.flip(1), content.flip(1))
    torch.testing.assert_close(scaled, value, equal_nan=True, atol=EXACT, rtol=0)
    torch.testing.assert_close(turned, value, equal_nan=True, atol=EXACT, rtol=0)


def test_gradients():
    states, embedded, content = texts(2)
    states.requires_grad_()
    embedded.requires_grad_()
    assert torch.autograd.gradcheck(lambda h: conicity(h, content)[0][2:], states)
    assert torch.autograd.gradcheck(lambda h, e: tying_distance(h, e, content)[0][1:], (states, embedded))


def test_states_of_0_have_no_direction():
    states, _, content = texts(5)
    states[3, 2] = 0
    states[4, :3] = 0
    values, flags = conicity(states, content)
    assert first_reasons(flags)[2:] == [None, None, None]
    agree(values, [reference.conicity(text[kept].numpy()) for text, kept in zip(states, content, strict=True)])
    states.requires_grad_()
    assert torch.autograd.grad(conicity(states, content)[0][2:].sum(), states)[0].isfinite().all()


def test_no_gradient_comes_from_an_undefined_text():
    states = torch.randn(6, 3, 2, dtype=torch.float64)
    states[1, :2] = 0  # one direction
    states[2] = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0]])
    states[3] = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [5.0, 5.0]])
    states[5] = 0
    content = torch.ones(6, 3, dtype=torch.bool)
    content[3, 2] = False  # the mean of the others is 0
    content[4] = False
    states.requires_grad_()
    values, flags = conicity(states, content)
    zero = "states or their mean are 0"
    assert first_reasons(flags) == [None, zero, zero, zero, "no content token", zero]
    assert values.isnan().tolist() == [False, True, True, True, True, True]
    values.nan_to_num().sum().backward()
    assert states.grad.isfinite().all()
    assert states.grad[0].abs().sum() > 0
    assert not states.grad[1:].any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_content_does_not_count_whatever_it_is(value):
    states, embedded, content = texts(3)
    before = conicity(states, content)[0], tying_distance(states, embedded, content)[0]
    states[~content] = value
    states.requires_grad_()
    after = conicity(states, content)[0], tying_distance(states, embedded, content)[0]
    for mine, other in zip(before, after, strict=True):
        torch.testing.assert_close(mine, other, equal_nan=True, rtol=0, atol=0)
        (gradient,) = torch.autograd.grad(other.nan_to_num().sum(), states, retain_graph=True)
        assert gradient.isfinite().all()


def test_nan_states_are_nan_without_a_reason():
    states, embedded, content = texts(4)
    states[4, 2, 1] = torch.nan
    for values, flags in (conicity(states, content), tying_distance(states, embedded, content)):
        assert values.isnan().tolist()[4]
        assert first_reasons(flags)[4] is None


def in_slots(seed=0):
    """States (5, 7, 4) in slots (5, 3, 7): none, one state each, some, one of 0 alone beside another, all in one."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(5, 7, 4, generator=generator, dtype=torch.float64)
    slots = torch.zeros(5, 3, 7, dtype=torch.bool)
    slots[1, [0, 2], [3, 0]] = True
    slots[2, 0, [0, 4]] = True  # a slot's states need not stand beside one another
    slots[2, 1, 6] = True
    slots[2, 2, [1, 2, 3]] = True
    slots[3, 1, :3] = True
    slots[3, 2, 3:5] = True
    states[3, 3:5] = 0
    slots[4, 1] = True
    return states, slots


def test_mean_conicity_against_the_loop():
    states, slots = in_slots()
    values, flags = mean_conicity(states, slots)
    expected = []
    for text, of_text in zip(states, slots, strict=True):
        expected.append(reference.mean_conicity([text[kept].numpy() for kept in of_text]))
    agree(values, expected)
    assert first_reasons(flags) == ["no content token", "n<2", None, None, None]
    one, _ = conicity(states[4:], torch.ones(1, 7, dtype=torch.bool))
    assert float(values[4]) == float(one)


def test_mean_conicity_without_a_direction():
    states, slots = in_slots(1)
    states[2, [0, 4]], states[2, 1:4] = 0, 0
    states.requires_grad_()
    values, flags = mean_conicity(states, slots)
    assert first_reasons(flags)[2] == "states or their mean are 0"
    values.nan_to_num().sum().backward()
    assert values.isnan().tolist() == [True, True, True, False, False]
    assert states.grad.isfinite().all()
    assert not states.grad[:3].any()


def test_gradients_of_mean_conicity():
    states, slots = in_slots(2)
    states.requires_grad_()
    assert torch.autograd.gradcheck(lambda h: mean_conicity(h, slots)[0][[2, 4]], states)


def test_nan_outside_the_slots_does_not_count_and_inside_gives_nan():
    states, slots = in_slots(3)
    before, _ = mean_conicity(states, slots)
    states[2, 5] = torch.nan
    torch.testing.assert_close(mean_conicity(states, slots)[0], before, equal_nan=True, rtol=0, atol=0)
    states[2, 2] = torch.nan
    values, flags = mean_conicity(states, slots)
    assert values.isnan().tolist() == [True, True, True, False, False]
    assert first_reasons(flags)[2] is None


@pytest.mark.parametrize(
    "call",
    [
        lambda h, e, c: mean_conicity(h, c),
        lambda h, e, c: mean_conicity(h, c[:, None].long()),
        lambda h, e, c: mean_conicity(h[0], c[:, None]),
        lambda h, e, c: conicity(h[0], c),
        lambda h, e, c: conicity(h, c.long()),
        lambda h, e, c: conicity(h, c[:, 1:]),
        lambda h, e, c: tying_distance(h, e[:, :, 1:], c),
        lambda h, e, c: tying_distance(h, e, c.long()),
    ],
)
def test_other_shapes(call):
    with pytest.raises(InputError, match="Expected"):
        call(*texts())
