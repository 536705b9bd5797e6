"""The certified core against all subsets in exact arithmetic."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.certified_core import certified_core, is_core
from attn_faithful.functional.flip_distance import flip_distance
from attn_faithful.functional.readout import decided
from tests.reference import certified_core as reference

nan, inf = math.nan, math.inf


def problem(generator, classes):
    """One text of 1 to 9 items: attention, token logits, bias; dyadic, so that float64 rounds no sum.

    Many weights are 0 and many margins tie, exactly.
    """
    n = int(generator.integers(1, 10))
    cuts = np.sort(generator.integers(0, 33, n - 1))
    attention = np.diff([0, *cuts, 32]) / 32
    token_logits = generator.integers(-3, 4, (n, classes)) / 2
    bias = generator.integers(-1, 2, classes) / 2
    if classes > 2 and generator.random() < 0.2:
        bias[generator.integers(classes)] = -inf
    return attention.tolist(), token_logits.tolist(), bias.tolist()


def batch(problems, left=0, right=0):
    """Padded to one length: attention, allowed, token logits, bias."""
    size, classes = max(len(a) for a, _, _ in problems), len(problems[0][2])
    attention = torch.full((len(problems), left + size + right), nan).double()
    allowed = torch.zeros(attention.shape, dtype=torch.bool)
    token_logits = torch.full((*attention.shape, classes), nan).double()
    for i, (a, z, _) in enumerate(problems):
        place = slice(left, left + len(a))
        attention[i, place], allowed[i, place] = torch.tensor(a, dtype=torch.float64), True
        token_logits[i, place] = torch.tensor(z, dtype=torch.float64)
    return attention, allowed, token_logits, torch.tensor([b for _, _, b in problems], dtype=torch.float64)


def single(attention, token_logits, bias):
    return certified_core(*batch([(attention, token_logits, bias)]))


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_equal_all_subsets(seed):
    generator = np.random.default_rng(seed)
    problems = [problem(generator, 2) for _ in range(2500)]
    found = certified_core(*batch(problems))
    sizes = np.zeros(10, dtype=int)
    for i, one in enumerate(problems):
        smallest = reference.smallest_cores(*one)
        sizes[len(smallest[0])] += 1
        assert found.size[i] == found.lower[i] == len(smallest[0])
        assert tuple(found.core[i].nonzero()[:, 0].tolist()) in smallest
    assert (sizes[:6] > 20).all()


@pytest.mark.parametrize("classes", [3, 4])
def test_more_classes_are_bounded_by_a_core_that_is_nearly_always_smallest(classes):
    generator = np.random.default_rng(classes)
    problems = [problem(generator, classes) for _ in range(1500)]
    found = certified_core(*batch(problems))
    smallest = [len(reference.smallest_cores(*one)[0]) for one in problems]
    for i, (attention, z, bias) in enumerate(problems):
        assert found.lower[i] <= smallest[i] <= found.size[i] < len(attention)
        core = found.core[i].nonzero()[:, 0].tolist()
        assert len(core) == found.size[i]
        margins = reference.margins_by_class(attention, z, bias)
        assert reference.stands(attention, margins, core)
        # it can do without none of its items, unless it is known to be smallest
        if found.lower[i] < found.size[i]:
            assert not any(reference.stands(attention, margins, [u for u in core if u != t]) for t in core)
    assert float((found.size == found.lower).double().mean()) > 0.8
    assert np.mean(found.size.numpy() == smallest) > 0.95
    assert np.mean(found.lower.numpy() < smallest) > 0.02


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_any_set_is_judged_as_the_definition_does(classes):
    generator = np.random.default_rng(classes)
    problems = [problem(generator, classes) for _ in range(600)]
    readout = batch(problems)
    believed = torch.from_numpy(generator.random(readout[0].shape) < 0.5)
    said = is_core(*readout, believed)
    for i, (attention, z, bias) in enumerate(problems):
        chosen = believed[i, : len(attention)].nonzero()[:, 0].tolist()
        assert said[i] == reference.stands(attention, reference.margins_by_class(attention, z, bias), chosen)
    assert classes == 1 or 100 < said.sum() < 500


@pytest.mark.parametrize("classes", [2, 4])
def test_padding_on_either_side_and_other_texts_change_nothing(classes):
    generator = np.random.default_rng(7)
    problems = [problem(generator, classes) for _ in range(60)]
    for i in range(60):  # weights and logits that round
        a, z, b = problems[i]
        a, z = generator.dirichlet(np.ones(len(a))), generator.standard_normal((len(a), classes))
        problems[i] = a.tolist(), z.tolist(), b
    found, wide = certified_core(*batch(problems)), certified_core(*batch(problems, left=2, right=3))
    assert torch.equal(found.size, wide.size)
    assert torch.equal(found.core, wide.core[:, 2:-3])
    for i, one in enumerate(problems):
        alone = single(*one)
        assert (alone.size[0], alone.lower[0]) == (found.size[i], found.lower[i])
        assert torch.equal(alone.core[0], found.core[i, : len(one[0])])


def test_no_item_is_needed_exactly_where_the_decision_is_attention_proof():
    generator = np.random.default_rng(3)
    readout = batch([problem(generator, 3) for _ in range(500)])
    proof = flip_distance(*readout).attention_proof
    assert torch.equal(certified_core(*readout).size == 0, proof)
    assert torch.equal(is_core(*readout, torch.zeros_like(readout[1])), proof)
    assert 50 < proof.sum() < 450


def test_what_is_left_goes_to_the_worst_item_outside():
    # .5 on the first, .5 anywhere else: .5 * 3 - .5 * 2
    found = single([0.5, 0.3, 0.2], [[0, 3], [0, 1], [0, -2]], [0, 0])
    assert (found.size.item(), found.core.tolist()) == (1, [[True, False, False]])
    # a weight of 0 may have to be believed: with the last item out of the way nothing speaks against
    found = single([0.25, 0.25, 0.25, 0.25, 0], [[0, 1], [0, 1], [0, 1], [0, 1], [0, -4]], [0, 0])
    assert (found.size.item(), found.core.tolist()) == (1, [[False, False, False, False, True]])


def test_a_tie_is_no_change():
    assert single([0.5, 0.5], [[0, 1], [0, -1]], [0, 0]).size.item() == 1
    assert single([0.5, 0.5], [[0, 1], [0, 0]], [0, 0]).size.item() == 0
    assert single([0.25, 0.25, 0.5], [[0, 2], [0, 2], [0, -2]], [0, 0]).size.item() == 1  # the sum is 0 already


def test_equal_items_join_in_order():
    found = single([0.25, 0.25, 0.125, 0.125, 0.25], [[0, 4], [0, 4], [0, -1], [0, -1], [0, 4]], [0, 0])
    assert found.core.tolist() == [[True, False, False, False, False]]


def test_a_word_that_speaks_against_the_decision_may_be_the_core():
    found = single([0.25] * 4, [[0, 3], [0, 3], [0, 3], [0, -3]], [0, 0])
    assert found.core.tolist() == [[False, False, False, True]]


def test_one_item_attention_on_one_item_and_equal_margins_need_none_or_one():
    assert single([1.0], [[0, 1]], [0.0, -0.5]).size.item() == 0
    assert single([1.0], [[0, -1]], [0.0, 0.5]).size.item() == 0  # class 0
    found = single([0.0, 1.0, 0.0], [[0, -9], [0, 1], [0, -1]], [0, 0])
    assert (found.size.item(), found.core.tolist()) == (1, [[False, True, False]])
    assert single([0.25, 0.25, 0.5], [[0, 1]] * 3, [0, 0]).size.item() == 0


def test_a_tie_but_for_rounding_stands_with_what_the_model_attends_to():
    tie, bias = [-0.9, -0.7], [0.2, 0.0]  # class 0 leads by -5.6e-17
    assert single([1.0], [tie], bias).size.item() == 0
    assert is_core(*batch([([1.0], [tie], bias)]), torch.zeros(1, 1, dtype=torch.bool)).item()
    problems = [([i / 20, 1 - i / 20, 0.0], [tie, tie, [-9.0, 0.0]], bias) for i in range(1, 20)]
    attention, allowed, token_logits, biases = batch(problems)
    of_class_0 = decided(attention, token_logits, biases) == 0
    assert of_class_0.sum() > 5
    readout = attention[of_class_0], allowed[of_class_0], token_logits[of_class_0], biases[of_class_0]
    found = certified_core(*readout)
    assert (found.core == torch.tensor([False, False, True])).all()
    assert is_core(*readout, found.core).all()


def test_a_class_that_never_wins_does_not_count():
    assert single([0.5, 0.5], [[0, 1, 9], [0, 1, 9]], [0, 0, -inf]).size.item() == 0
    assert single([0.5, 0.5], [[0.0], [1.0]], [0.0]).size.item() == 0  # the only class


def test_undefined_texts_have_a_reason_and_no_core():
    attention, allowed, z, bias = batch([([0.5, 0.5], [[0.0, 1.0], [0.0, -1.0]], [0.0, 0.0])] * 4)
    allowed[1] = False
    z[2, 0, 1] = nan
    attention[3, 0] = nan
    found = certified_core(attention, allowed, z, bias)
    assert found.reason == [None, "no content token", "nan in scores", "nan in scores"]
    assert found.size.isnan().tolist() == found.lower.isnan().tolist() == [False, True, True, True]
    assert not found.core[1:].any()
    assert is_core(attention, allowed, z, bias, torch.ones_like(allowed)).tolist() == [True, False, False, False]
    empty = certified_core(*(x[:0] for x in (attention, allowed, z, bias)))
    assert empty.size.shape == (0,)
    no_width = certified_core(attention[:, :0], allowed[:, :0], z[:, :0], bias)
    assert no_width.reason == ["no content token"] * 4


def test_inputs_are_left_as_they_are_and_others_are_refused():
    readout = batch([([0.5, 0.5], [[0.0, 1.0], [0.0, -1.0]], [0.0, 0.0])])
    before = [x.clone() for x in readout]
    certified_core(*readout)
    assert all(torch.equal(x, y) for x, y in zip(before, readout, strict=True))
    with pytest.raises(InputError, match=r"sums to 0\.5"):
        certified_core(torch.tensor([[0.25, 0.25]]), *readout[1:])
    with pytest.raises(InputError, match=r"`items` of shape \(1, 2\), but got \(1, 3\)"):
        is_core(*readout, torch.zeros(1, 3, dtype=torch.bool))
    with pytest.raises(InputError, match=r"torch\.bool"):
        is_core(*readout, torch.zeros(1, 2))
