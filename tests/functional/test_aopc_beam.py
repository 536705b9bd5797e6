"""Beam search over orders of removals against all orders, a greedy loop, and its budget."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.aopc_beam import beam_widths, searched_aopc
from attn_faithful.functional.attention_removal import removal_order
from attn_faithful.functional.naopc import normalized_aopc
from tests.reference import aopc_limits as reference


class Model:
    """A probability for every set of items of every text, drawn at random; counts what it is asked."""

    def __init__(self, counts, seed, classes=3, size=None):
        generator = np.random.default_rng(seed)
        self.counts = counts
        size = size or max(counts) + 1
        self.items = torch.arange(size) < torch.tensor(counts)[:, None]
        self.logits = [torch.tensor(generator.standard_normal((1 << n, classes))) for n in counts]
        self.asked = [set() for _ in counts]
        self.decision = torch.tensor([int(logits[-1].argmax()) for logits in self.logits])

    def __call__(self, keep, text):
        assert bool((text[1:] >= text[:-1]).all())
        assert bool((keep | self.items[text]).all())  # what is no item stays
        found = []
        for row, number in zip(keep.tolist(), text.tolist(), strict=True):
            kept = sum(1 << t for t in range(self.counts[number]) if row[t])
            self.asked[number].add(kept)
            found.append(self.logits[number][kept])
        return torch.stack(found)

    def p(self, number):
        return self.logits[number].softmax(-1)[:, self.decision[number]].numpy()

    def orders(self, how_many, seed=0):
        generator = torch.Generator().manual_seed(seed)
        importance = torch.rand(how_many, *self.items.shape, generator=generator)
        orders = torch.zeros(importance.shape, dtype=torch.long)
        for place, one in enumerate(importance):
            orders[place] = removal_order(one, self.items)
        return orders

    def search(self, width, budget=10**6, orders=2):
        return searched_aopc(self, self.orders(orders), self.items, self.decision, width, budget)


def greedy(p, sign):
    """A beam of one set, as a loop: AOPC and how many sets it asks for."""
    n = len(p).bit_length() - 1
    kept, lost = (1 << n) - 1, 0.0
    for _ in range(n - 1):
        without = [kept - (1 << t) for t in range(n) if kept >> t & 1]
        kept = max(without, key=lambda one: sign * (p[-1] - p[one]))
        lost += p[-1] - p[kept]
    return lost / (n - 1)


def test_a_beam_of_every_set_is_exact():
    model = Model((6, 2, 5, 7), 0)
    found = model.search(width=200)
    for number in range(4):
        assert found.limits.best[number] == pytest.approx(reference.limits(model.p(number))[0], abs=1e-12)
        assert found.limits.worst[number] == pytest.approx(reference.limits(model.p(number))[1], abs=1e-12)
    assert found.limits.reason == [None] * 4


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy_and_wider_ones_find_more(seed):
    model = Model((8, 3, 6, 7), seed)
    found = model.search(width=1, orders=0)
    wide = model.search(width=4, orders=0)
    for number, n in enumerate(model.counts):
        p = model.p(number)
        for limits in (found.limits, wide.limits):
            for order, value in ((limits.best_order, limits.best), (limits.worst_order, limits.worst)):
                own = reference.aopc(p, order[number, :n].tolist())
                assert own == pytest.approx(value[number].item(), abs=1e-12)
        best, worst = reference.limits(p)
        assert found.limits.best[number] == pytest.approx(greedy(p, 1), abs=1e-12)
        assert found.limits.worst[number] == pytest.approx(greedy(p, -1), abs=1e-12)
        assert worst - 1e-12 <= wide.limits.worst[number] <= wide.limits.best[number] <= best + 1e-12
    # wider is better as a rule, not always
    assert (wide.limits.best - wide.limits.worst).sum() > (found.limits.best - found.limits.worst).sum()


def test_orders_are_the_definition_and_widen_the_limits():
    model = Model((9, 4), 3)
    orders = model.orders(60)
    found = searched_aopc(model, orders, model.items, model.decision, 1, 10**6)
    for number, n in enumerate(model.counts):
        for order, aopc in zip(orders[:, number], found.aopc[:, number], strict=True):
            assert reference.aopc(model.p(number), order[:n].tolist()) == pytest.approx(aopc.item(), abs=1e-12)
    alone = model.search(width=1, orders=0)
    assert found.limits.best.tolist() == torch.maximum(alone.limits.best, found.aopc.amax(0)).tolist()
    assert found.limits.worst.tolist() == torch.minimum(alone.limits.worst, found.aopc.amin(0)).tolist()
    for aopc in found.aopc:
        value = normalized_aopc(aopc, found.limits).value
        assert bool(((value >= 0) & (value <= 1)).all())


@pytest.mark.parametrize(("width", "orders"), [(1, 0), (1, 3), (2, 5), (3, 0)])
def test_no_text_is_asked_more_than_its_budget(width, orders):
    model = Model((10, 5, 7, 2), 1)
    least = 1 + 10 + orders * 9 + 88  # that a beam of one set may ask of ten items
    for budget in (least, least - 1):
        model.asked = [set() for _ in model.counts]
        found = model.search(width, budget, orders)
        assert max(len(asked) for asked in model.asked) <= budget
        fits = budget == least
        assert found.limits.reason[0] == (None if fits else "too long for the beam's budget")
        assert bool(model.asked[0]) == fits
        assert math.isnan(found.limits.best[0]) == (not fits)
        assert found.aopc[:, 0].isnan().tolist() == [not fits] * orders
        assert found.limits.reason[1:] == [None] * 3


def test_width_shrinks_to_the_budget():
    count = torch.arange(2, 40)
    for orders in (0, 4):
        widths = beam_widths(count, orders, 6, 1000)
        assert widths[0] == 6
        assert bool((widths[1:] <= widths[:-1]).all())
        assert set(widths.tolist()) == set(range(7))
    assert beam_widths(torch.tensor([400]), 4, 3, 1000).tolist() == [0]


def test_sets_are_counted_once_in_the_beam():
    """Two ways to one set leave room for another: a beam of two of three sets holds two different ones."""
    logits = torch.zeros(8, 2, dtype=torch.float64)
    model = Model((3,), 0, 2)
    logits[0b111] = torch.tensor([5.0, 0])
    logits[0b001] = torch.tensor([0, 5.0])
    model.logits, model.decision = [logits], torch.tensor([0])
    found = model.search(width=2, orders=0)
    assert found.limits.best.item() == pytest.approx(reference.limits(model.p(0))[0], abs=1e-12)
    four = Model((4,), 5, 2)
    # after the first two steps the set that leads again is reached on two ways
    p = torch.full((16,), 0.9, dtype=torch.float64)
    for kept, value in {0b1110: 0.4, 0b1101: 0.4, 0b1100: 0.2, 0b0110: 0.3, 0b0101: 0.35, 0b0010: 0.01}.items():
        p[kept] = value
    four.logits, four.decision = [torch.stack([p.log(), (1 - p).log()], -1)], torch.tensor([0])
    found = four.search(width=2, orders=0)
    # of 0b0110, the second best set, comes the best end
    expected = sum(0.9 - x for x in (0.4, 0.3, 0.01)) / 3
    assert found.limits.best.item() == pytest.approx(expected, abs=1e-12)


def test_reasons():
    model = Model((0, 1, 4, 4), 0)
    model.logits[3][0b0111] = math.nan
    found = model.search(width=2)
    assert found.limits.reason == ["no content token", "one item", None, "nan in probabilities"]
    assert found.limits.best.isnan().tolist() == [True, True, False, True]
    assert found.aopc[0].isnan().tolist() == [True, True, False, True]
    nothing = searched_aopc(model, torch.zeros(1, 0, 5).long(), torch.zeros(0, 5).bool(), torch.zeros(0).long(), 1, 9)
    assert nothing.aopc.shape == (1, 0)
    for width, budget in ((0, 5), (5, 0)):
        with pytest.raises(InputError, match="at least 1"):
            model.search(width, budget)


def test_padding_and_batch_change_nothing():
    together = Model((6, 4, 5), 2).search(width=2)
    wide = Model((6, 4, 5), 2, size=11)
    padded = searched_aopc(wide, Model((6, 4, 5), 2, size=11).orders(0), wide.items, wide.decision, 2, 10**6)
    plain = Model((6, 4, 5), 2).search(width=2, orders=0)
    torch.testing.assert_close(padded.limits.best, plain.limits.best, rtol=0, atol=1e-14)
    alone = Model((6,), 2).search(width=2, orders=0)
    assert alone.limits.best.item() == pytest.approx(plain.limits.best[0].item(), abs=1e-14)
    assert together.limits.reason == [None] * 3
