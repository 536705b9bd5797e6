"""The correlation distance of two attentions: against the formula, by gradcheck, and where it is undefined."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.correlation_distance import correlation_distance
from attn_faithful.functional.reasons import first_reasons
from tests.reference import stability as reference

EXACT = 1e-10


def texts(seed=0):
    """Two attentions (6, 5) over texts of no item, one, two, four, and twice five, of which one is equal."""
    generator = torch.Generator().manual_seed(seed)
    one = torch.rand(6, 5, generator=generator, dtype=torch.float64)
    other = torch.rand(6, 5, generator=generator, dtype=torch.float64)
    content = torch.zeros(6, 5, dtype=torch.bool)
    content[1, 3] = True
    content[2, [0, 4]] = True
    content[3, 1:] = True
    content[4:] = True
    other[5] = 0.2
    return one, other, content


def test_against_the_formula():
    one, other, content = texts()
    values, flags = correlation_distance(one, other, content)
    for row, kept in enumerate(content):
        expected = reference.correlation_distance(one[row][kept].tolist(), other[row][kept].tolist())
        if expected is None:
            assert math.isnan(values[row])
        else:
            assert float(values[row]) == pytest.approx(expected, abs=EXACT)
    assert first_reasons(flags) == ["no content token", "n<2", None, None, None, "constant attention"]


def test_known_values():
    one, _, content = texts(1)
    for other, expected in ((one, 0.0), (0.2 + 0.001 * one, 0.0), (3 - one, 2.0)):
        values, _ = correlation_distance(one, other, content)
        torch.testing.assert_close(values[2:], torch.full((4,), expected).double(), atol=EXACT, rtol=0)


def test_small_distances_keep_their_digits_in_float32():
    one, other, content = texts(2)
    near = one + 1e-4 * other
    exact, _ = correlation_distance(one[3:5], near[3:5], content[3:5])
    found, _ = correlation_distance(one[3:5].float(), near[3:5].float(), content[3:5])
    torch.testing.assert_close(found.double(), exact, rtol=1e-2, atol=0)
    assert bool((exact < 1e-7).all())


def test_gradients():
    one, other, content = texts(3)
    one.requires_grad_()
    other.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: correlation_distance(a, b, content)[0][3:5], (one, other))
    values, _ = correlation_distance(one, other, content)
    values.nan_to_num().sum().backward()
    for given in (one, other):
        assert given.grad.isfinite().all()
        assert not given.grad[[0, 1, 5]].any()


def test_equal_weights_are_constant_but_for_rounding():
    one, other, content = texts(4)
    equal = torch.full((6, 5), 1 / 7) + 1e-9 * other.float()
    _, flags = correlation_distance(one.float(), equal, content)
    assert first_reasons(flags)[2:] == ["constant attention"] * 4


def test_what_is_not_content_does_not_count_and_nan_is_nan():
    one, other, content = texts(5)
    before, _ = correlation_distance(one, other, content)
    one[~content] = torch.nan
    after, _ = correlation_distance(one, other, content)
    torch.testing.assert_close(after, before, equal_nan=True, rtol=0, atol=0)
    one[4, 0] = torch.nan
    values, flags = correlation_distance(one, other, content)
    assert values.isnan()[4]
    assert first_reasons(flags)[4] is None


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, c: correlation_distance(a, b[1:], c),
        lambda a, b, c: correlation_distance(a, b, c.long()),
        lambda a, b, c: correlation_distance(a[0], b[0], c[0]),
    ],
)
def test_other_inputs(call):
    with pytest.raises(InputError, match="Expected"):
        call(*texts())
