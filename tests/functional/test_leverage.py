"""The loss of leverage: against loops, by gradcheck, at its ends, and where it is undefined."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.flip_distance import flip_distance
from attn_faithful.functional.leverage import leverage_loss
from attn_faithful.functional.reasons import first_reasons
from tests.functional.test_flip_distance import problems, rows, t
from tests.reference import leverage as reference

inf, nan = math.inf, math.nan
EXACT = 1e-10


def single(attention, leads, bias=(0.0, 0.0)):
    """The loss of one text of two classes in which class 1 leads class 0 by these numbers at its tokens."""
    token_logits = torch.stack([torch.zeros(len(leads)).double(), t(*leads)], dim=-1)[None]
    allowed = torch.ones(1, len(leads), dtype=torch.bool)
    value, flags = leverage_loss(t(attention), allowed, token_logits, t(bias))
    return value.item(), first_reasons(flags)[0]


# --- values


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_equals_the_loop(classes):
    given = problems(classes=classes, seed=classes)  # every length from 1, half of them sparse
    values, flags = leverage_loss(*given)
    reasons = first_reasons(flags)
    for i, text in enumerate(rows(*given)):
        expected = reference.leverage_loss(*text)
        if expected is None:
            assert reasons[i] == "one item"
            assert values[i].isnan()
            continue
        assert reasons[i] is None
        assert values[i].item() == pytest.approx(expected, abs=EXACT)
    assert values.dtype == torch.float64
    assert leverage_loss(given[0].float(), given[1], given[2].float(), given[3].float())[0].dtype == torch.float32


def test_ends():
    assert single([1.0, 0.0, 0.0], [3.0, -2.0, -1.0])[0] == 0  # even attention ties, the best token has it all
    assert single([0.0, 1.0], [50.0, 49.0])[0] == pytest.approx(2, abs=1e-12)  # nothing flips, and the worst has it
    assert single([0.5, 0.5], [1.0, 1.0]) == (pytest.approx(math.tanh(0.5) ** 2, abs=EXACT), None)  # no reach


def test_below_an_even_lead_of_0_nothing_is_attention_proof():
    given = problems(n=200, seed=7)
    proof = flip_distance(*given).attention_proof
    _, allowed, token_logits, bias = given
    even = (token_logits * allowed[..., None]).sum(1) / allowed.sum(1, keepdim=True) + bias
    attention = given[0] / given[0].sum(1, keepdim=True)
    decided = ((attention[..., None] * token_logits).sum(1) + bias).argmax(1)
    flips = even.argmax(1) != decided
    assert flips.any()
    assert proof.any()
    assert not (proof & flips).any()


def test_a_runner_up_of_three_classes():
    # class 0 is decided; 1 is the runner-up, 2 far behind and the only one that flips
    token_logits = t([[4.0, 3.0, 0.0], [4.0, 1.0, 9.0]])
    value, _ = leverage_loss(t([0.9, 0.1]), torch.ones(1, 2, dtype=torch.bool), token_logits, t([0.0, 0.0, 0.0]))
    # leads over 1 are 1 and 3: the attention's 1.2 leaves 0.9 of the reach; even attention decides 2
    assert value.item() == pytest.approx(0.9, abs=EXACT)


def test_ties_go_to_the_lowest_class():
    value, _ = single([0.5, 0.5], [1.0, -1.0])  # class 0 is decided, so token 1 speaks for it
    assert value == pytest.approx(0.5, abs=EXACT)
    skewed, _ = single([0.25, 0.75], [3.0, -1.0])
    assert skewed == pytest.approx(0.25, abs=EXACT)


def test_a_masked_class_does_not_count():
    attention, allowed, token_logits, bias = problems(classes=3, seed=3)
    bias[:, 2] = -inf
    masked = leverage_loss(attention, allowed, token_logits, bias)[0]
    without = leverage_loss(attention, allowed, token_logits[..., :2], bias[:, :2])[0]
    torch.testing.assert_close(masked, without, equal_nan=True, rtol=0, atol=0)


def test_padding_batch_and_what_is_not_allowed_change_nothing():
    attention, allowed, token_logits, bias = problems(classes=3, seed=5)
    whole = leverage_loss(attention, allowed, token_logits, bias)[0]
    token_logits = torch.where(allowed[..., None], token_logits, nan)
    attention = torch.where(allowed, attention, nan)
    pad = (0, 0, 3, 2)
    padded = leverage_loss(
        torch.nn.functional.pad(attention, pad[2:]),
        torch.nn.functional.pad(allowed, pad[2:]),
        torch.nn.functional.pad(token_logits, pad),
        bias,
    )[0]
    assert torch.equal(padded.nan_to_num(-1), whole.nan_to_num(-1))
    for i in range(len(whole)):
        part = slice(i, i + 1)
        alone = leverage_loss(attention[part], allowed[part], token_logits[part], bias[part])[0]
        assert torch.equal(alone.nan_to_num(-1), whole[part].nan_to_num(-1))


# --- gradients


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_of_the_attention(classes):
    dense = problems(classes=classes, seed=30 + classes, sparse=False)  # a step from 0 would be negative
    attention, allowed, token_logits, bias = (x[dense[1].sum(1) > 1] for x in dense)
    attention.requires_grad_()
    assert torch.autograd.gradcheck(lambda a: leverage_loss(a, allowed, token_logits, bias)[0], attention)
    with_zeros = problems(classes=classes, seed=10 + classes)
    attention, allowed, token_logits, bias = (x[with_zeros[1].sum(1) > 1] for x in with_zeros)
    attention.requires_grad_()
    (gradient,) = torch.autograd.grad(leverage_loss(attention, allowed, token_logits, bias)[0].sum(), attention)
    for i, text in enumerate(rows(attention.detach(), allowed, token_logits, bias)):
        expected = reference.slopes_of_attention(*text)
        assert gradient[i][allowed[i]].tolist() == pytest.approx(expected, abs=EXACT)
    assert not gradient[~allowed].any()


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_of_the_logits_is_that_of_even_attention(classes):
    attention, allowed, token_logits, bias = problems(n=20, classes=classes, seed=20 + classes)
    token_logits.requires_grad_()
    values, flags = leverage_loss(attention, allowed, token_logits, bias)
    (gradient,) = torch.autograd.grad(values.nan_to_num().sum(), token_logits)
    assert not gradient[flags["one item"]].any()
    assert not gradient[~allowed].any()
    moved = 0
    for i, text in enumerate(rows(attention, allowed, token_logits.detach(), bias)):
        if len(text[0]) < 2:
            continue
        expected = torch.tensor(reference.slopes_of_logits(*text), dtype=torch.float64)
        moved += bool(expected.any())
        torch.testing.assert_close(gradient[i][allowed[i]], expected, rtol=0, atol=1e-8)  # of the differences
    assert moved > 3


def test_gradcheck_in_all_inputs():
    """Of two tokens, whose part of the attention does not depend on the logits."""
    given = problems(n=24, longest=2, classes=3, seed=4, sparse=False)
    attention, allowed, token_logits, bias = (x[1::2] for x in given)
    inputs = [x.clone().requires_grad_() for x in (attention, token_logits, bias)]
    assert torch.autograd.gradcheck(lambda a, z, b: leverage_loss(a, allowed, z, b)[0], inputs)


def test_attention_moves_to_what_speaks_for_the_decision():
    scores = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    token_logits = t([[0.0, 3.0], [0.0, 1.0], [0.0, -2.0]])
    allowed = torch.ones(1, 3, dtype=torch.bool)
    value, _ = leverage_loss(scores.softmax(-1), allowed, token_logits, t([0.0, 0.0]))
    value.sum().backward()
    assert scores.grad[0, 0] < scores.grad[0, 1] < scores.grad[0, 2]
    assert scores.grad[0, 0] < 0 < scores.grad[0, 2]


# --- undefined


def test_undefined_texts():
    attention = t([0.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0])
    allowed = torch.tensor([[False, False], [True, False], [True, True], [True, True], [True, True]])
    token_logits = torch.ones(5, 2, 2, dtype=torch.float64)
    token_logits[3, 1, 0] = nan
    token_logits[4, 0, 1] = 3.0
    bias = torch.zeros(5, 2, dtype=torch.float64)
    bias[2, 1] = -inf
    inputs = [x.requires_grad_() for x in (attention, token_logits, bias)]
    values, flags = leverage_loss(inputs[0], allowed, *inputs[1:])
    assert first_reasons(flags) == ["no content token", "one item", "attention-proof", None, None]
    assert values.isnan().tolist() == [True, True, True, True, False]  # NaN scores have no reason
    values.nan_to_num().sum().backward()
    for given in inputs:
        assert given.grad.isfinite().all()
        assert not given.grad[:4].any()
    assert inputs[1].grad[4].any()


def test_no_text_and_no_token():
    for texts, tokens in ((0, 3), (2, 0)):
        given = torch.zeros(texts, tokens), torch.zeros(texts, tokens, dtype=torch.bool)
        values, flags = leverage_loss(*given, torch.zeros(texts, tokens, 2), torch.zeros(texts, 2))
        assert values.isnan().all()
        assert first_reasons(flags) == ["no content token"] * texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, ok, z, b: (a[:, 1:], ok, z, b), "Expected `attention` of shape"),
        (lambda a, ok, z, b: (a, ok.long(), z, b), "of type torch.bool"),
        (lambda a, ok, z, b: (a, ok, z[..., 0], b), "Expected `token_logits`"),
        (lambda a, ok, z, b: (a, ok, z, b[:, :1]), "Expected `bias` of shape"),
        (lambda a, ok, z, b: (2 * a, ok, z, b), "sums to 2"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        leverage_loss(*change(*problems(n=4)))
