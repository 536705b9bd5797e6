"""The searched set against all subsets, the greedy search over every item, and its promises."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.flip_set import greedy_flip_size, smallest_flip_set
from attn_faithful.functional.readout import flipped, lead
from attn_faithful.functional.searched_flip_set import Tangent, searched_flip_set

nan = math.nan


class Model:
    """A read-out of two slots that is bent in the attention, of texts of several lengths."""

    def __init__(self, seed, lengths=(8, 5, 12, 1, 20, 0, 7, 9), classes=3, bend=1.0, texts=1):
        generator = torch.Generator().manual_seed(seed)
        lengths = lengths * texts
        size = max(lengths)
        self.items = torch.arange(size) < torch.tensor(lengths)[:, None]
        scores = 1.5 * torch.randn(len(lengths), 2, size, generator=generator, dtype=torch.float64)
        self.scores = scores.masked_fill(~self.items[:, None], -math.inf)
        self.logits_of_tokens = torch.randn(len(lengths), 2, size, classes, generator=generator, dtype=torch.float64)
        self.bend = bend
        self.asked = []
        self.weights = self.attention(torch.ones_like(self.items), torch.arange(len(lengths)))
        everything = self.after(torch.ones_like(self.items), torch.arange(len(lengths)))
        self.decision = everything.argmax(-1)
        self.asked.clear()

    def attention(self, keep, text):
        scores = self.scores[text].masked_fill(~keep[:, None], -math.inf)
        return scores.softmax(-1).nan_to_num()

    def decode(self, attention, text):
        by_slot = torch.einsum("rst,rstc->rsc", attention, self.logits_of_tokens[text])
        first, second = by_slot.unbind(1)
        return first + second + self.bend * torch.tanh(first * second)

    def after(self, keep, text):
        assert bool((keep | self.items[text]).all())
        assert bool((text.diff() >= 0).all())
        self.asked += list(zip(text.tolist(), keep.tolist(), strict=True))
        return self.decode(self.attention(keep, text), text)

    def slopes(self, keep, text):
        attention = self.attention(keep, text).requires_grad_()
        with torch.enable_grad():
            leads = lead(self.decode(attention, text), self.decision[text])
        return torch.autograd.grad(leads.sum(), attention)[0]

    def searched(self, **given):
        return searched_flip_set(self.after, self.slopes, self.weights, self.items, self.decision, **given)

    def greedy(self):
        def after(keep):
            text = torch.arange(len(keep)).repeat_interleave(keep.shape[1])
            return self.after(keep.flatten(0, 1), text).view(*keep.shape[:2], -1)

        return greedy_flip_size(after, self.items, self.decision)


@pytest.mark.parametrize("seed", range(3))
def test_sets_are_verified_and_no_larger_than_the_greedy_ones(seed):
    model = Model(seed, texts=4)
    found = model.searched()
    has_set = ~found.size.isnan()
    text = has_set.nonzero()[:, 0]
    flips = flipped(model.after(~found.removed[text], text)[:, None], model.decision[text])[:, 0]
    assert bool(flips.all())
    assert bool((found.removed <= model.items).all())
    assert torch.equal(found.removed.sum(1)[has_set].double(), found.size[has_set])
    assert not bool(found.removed[~has_set].any())
    greedy, _ = model.greedy()
    lost = greedy.isfinite() & found.size.isnan()
    larger = found.size > greedy
    assert int((lost | larger).sum()) <= 1  # it is a search still, and this read-out is bent strongly
    assert int((found.size == greedy).sum()) > 10


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_smallest_of_a_linear_lead_of_one_slot(seed):
    model = Model(seed, classes=2, bend=0.0, texts=3)
    model.scores[:, 1] = -math.inf
    model.weights = model.attention(torch.ones_like(model.items), torch.arange(len(model.items)))
    model.decision = model.decode(model.weights, torch.arange(len(model.items))).argmax(-1)
    no_bias = torch.zeros(len(model.items), 2, dtype=torch.float64)
    exact = smallest_flip_set(model.scores[:, 0], model.items, model.logits_of_tokens[:, 0], no_bias)
    found = model.searched()
    torch.testing.assert_close(found.size, exact.size, equal_nan=True)
    assert int(exact.size.isfinite().sum()) > 8


def test_few_removals_are_tried():
    model = Model(4, lengths=(60, 45))
    found = model.searched()
    assert bool((found.tried <= 4 * (1 + model.items.sum(1))).all())
    assert len(model.asked) <= int(found.tried.sum())
    for budget in (1, 7, 50):
        model.asked.clear()
        bounded = model.searched(budget=budget)
        assert bool((bounded.tried <= budget + 64).all())
        assert len(model.asked) <= int(bounded.tried.sum())


def test_a_known_set_is_given_where_none_is_smaller():
    model = Model(1, texts=2)
    found = model.searched()
    again = model.searched(known=found.removed)
    assert torch.equal(again.removed, found.removed)
    large = model.items & found.removed.any(1, keepdim=True)  # as if nothing less were known
    better = model.searched(known=large)
    smaller = found.size < model.items.sum(1)
    torch.testing.assert_close(better.size[smaller], found.size[smaller])
    assert int(smaller.sum()) > 4
    model.asked.clear()
    one = torch.zeros_like(model.items)
    one[:, 0] = True
    assert not model.searched(known=one).tried[model.items.any(1)].any()
    assert not model.asked


@pytest.mark.parametrize("hidden", [[3], [1, 3], [0, 1, 2]])
def test_of_few_items_every_one_is_asked(hidden):
    """Slopes of 0 propose the items in their order, and nothing but one set changes the decision."""
    only = torch.ones(4, dtype=torch.bool)
    only[hidden] = False

    def after(keep, text):
        near = (keep == only).double().mean(-1)
        return torch.stack([near, torch.full(near.shape, 0.9)], -1)

    items = torch.ones(1, 4, dtype=torch.bool)
    flat = lambda keep, text: torch.zeros(len(text), 1, 4)  # noqa: E731
    even = torch.full((1, 1, 4), 0.25)
    found = searched_flip_set(after, flat, even, items, torch.tensor([1]))
    assert found.removed[0].nonzero()[:, 0].tolist() == hidden
    never = lambda keep, text: torch.tensor([0.0, 1.0]).expand(len(keep), 2)  # noqa: E731
    nothing = searched_flip_set(never, flat, even, items, torch.tensor([1]))
    assert nothing.size.isnan().item()
    assert nothing.tried.item() == 2 + 4 + 10


def test_logits_that_are_nan_change_no_decision():
    model = Model(2)
    inner = model.after
    model.after = lambda keep, text: torch.where((text == 0)[:, None], nan, inner(keep, text))
    found = model.searched()
    assert found.size[0].isnan().item()
    assert int(found.size.isfinite().sum()) > 2


def test_the_order_of_a_tangent_equals_a_loop():
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.ones(9), (4, 3))
    slopes = generator.standard_normal((4, 3, 9))
    items = generator.random((4, 9)) < 0.8
    tangent = Tangent(torch.from_numpy(weights), torch.from_numpy(slopes))
    found, predicted = tangent.order(torch.from_numpy(items), 9)
    for row in range(4):
        kept = list(range(9))
        expected = []
        while any(items[row, t] for t in kept):
            leads = {}
            for t in kept:
                if items[row, t]:
                    rest = [other for other in kept if other != t]
                    a = weights[row][:, rest]
                    mass = a.sum(1)
                    leads[t] = ((a * slopes[row][:, rest]).sum(1) / np.where(mass > 0, mass, 1)).sum()
            expected.append(min(leads, key=leads.get))
            kept.remove(expected[-1])
            assert predicted[row, len(expected) - 1].item() == pytest.approx(leads[expected[-1]], abs=1e-9)
            left = torch.zeros(4, 9, dtype=torch.bool)
            left[row, kept] = True
            assert tangent.lead(left)[row].item() == pytest.approx(leads[expected[-1]], abs=1e-9)
        assert found[row, : len(expected)].tolist() == expected


def test_bad_input_is_named():
    model = Model(0)
    with pytest.raises(InputError, match="budget"):
        model.searched(budget=0)
    with pytest.raises(InputError, match="weights"):
        searched_flip_set(model.after, model.slopes, model.weights[:, 0], model.items, model.decision)
    with pytest.raises(InputError, match="items"):
        searched_flip_set(model.after, model.slopes, model.weights, model.items.long(), model.decision)
