"""The limits of AOPC against dynamic programming over all subsets, and the place between them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.aopc_limits import aopc_limits
from attn_faithful.functional.attention_removal import prefix_logits, removal_order
from attn_faithful.functional.kept_leads import greatest_leads
from attn_faithful.functional.naopc import AopcLimits, normalized_aopc, order_aopc
from attn_faithful.functional.nested_leads import nested_leads
from tests.reference import aopc_limits as reference

nan, inf = math.nan, math.inf


def problem(generator, most=9):
    """One text of 2 to ``most`` items and two classes: weights, token logits, bias, decision.

    A third has weights of 0, a fifth whole numbers, so that leads tie.
    """
    n = int(generator.integers(2, most + 1))
    weights = generator.dirichlet(np.full(n, generator.choice([0.3, 1, 3])))
    z, b = 2 * generator.standard_normal((n, 2)), 0.5 * generator.standard_normal(2)
    if generator.random() < 1 / 5:
        weights, z, b = np.ones(n), generator.integers(-2, 3, (n, 2)).astype(float), np.round(b)
    if generator.random() < 1 / 3:
        weights[generator.random(n) < 0.5] = 0
    return weights, z, b, int(generator.integers(2))


def batch(problems, left=0, right=0):
    """Padded to one length: log weights, items, token logits, bias, decision."""
    size = max(len(p[0]) for p in problems)
    w = torch.full((len(problems), left + size + right), nan, dtype=torch.float64)
    items = torch.zeros(w.shape, dtype=torch.bool)
    z = torch.full((*w.shape, 2), nan, dtype=torch.float64)
    for i, (weights, logits, *_) in enumerate(problems):
        place = slice(left, left + len(weights))
        w[i, place], items[i, place] = torch.tensor(weights).double().log(), True
        z[i, place] = torch.tensor(logits)
    b = torch.tensor(np.array([p[2] for p in problems])).double()
    return w, items, z, b, torch.tensor([p[3] for p in problems])


def sets_of(one):
    """p of every set of kept items of a problem."""
    return reference.kept_probabilities(*one)


def all_orders(p, n):
    return [reference.aopc(p, order) for order in itertools.permutations(range(n))]


def test_the_reference_is_the_best_of_all_orders():
    generator = np.random.default_rng(0)
    for _ in range(40):
        one = problem(generator, 6)
        p = sets_of(one)
        every = all_orders(p, len(one[0]))
        assert reference.limits(p) == pytest.approx((max(every), min(every)), abs=1e-12)


def test_limits_hold_all_orders_and_are_reached():
    """Equal to dynamic programming; what was found is what an order has."""
    generator = np.random.default_rng(0)
    problems = [problem(generator, 11) for _ in range(300)]
    found = aopc_limits(*batch(problems))
    gaps = []
    for i, one in enumerate(problems):
        p, n = sets_of(one), len(one[0])
        best, worst = reference.limits(p)
        assert found.best[i] >= best - 1e-10
        assert found.worst[i] <= worst + 1e-10
        gaps += [float(found.best[i]) - best, worst - float(found.worst[i])]
        for order, value in ((found.best_order[i], found.best_found[i]), (found.worst_order[i], found.worst_found[i])):
            assert reference.aopc(p, order[:n].tolist()) == pytest.approx(float(value), abs=1e-10)
        assert found.best_found[i] == pytest.approx(best, abs=1e-3)
        assert found.worst_found[i] == pytest.approx(worst, abs=1e-3)
    gaps = np.array(gaps)
    assert gaps.max() < 1e-6  # a gap that small is not searched
    assert (gaps < 1e-9).mean() > 0.99


def test_sets_that_are_not_nested():
    """Without the search the sum of the greatest leads would lie beyond every order on a few texts."""
    generator = np.random.default_rng(0)
    differ = 0
    for _ in range(150):
        n = int(generator.integers(6, 12))
        weights, z, b, decision = (
            generator.dirichlet(np.full(n, 0.5)),
            generator.standard_normal((n, 2)),
            np.zeros(2),
            1,
        )
        margins = z[:, 1] - z[:, 0]
        w, m = torch.tensor(weights)[None].double().log(), torch.tensor(margins)[None]
        of_sizes = greatest_leads(w, m).lead[0, : n - 1].sigmoid().sum().item()
        p = reference.kept_probabilities(weights, z, b, decision)
        of_orders = (n - 1) * (p[-1] - reference.limits(p)[1])
        gap = of_sizes - of_orders
        assert gap > -1e-9
        closed = nested_leads(w, m, torch.tensor([gap + 0.01], dtype=torch.float64)).beyond.item()
        assert closed == pytest.approx(gap, abs=1e-8)
        differ += gap > 1e-6
    assert differ > 2


def test_the_best_order_where_the_sets_of_all_simpler_ones_miss():
    """One of 20,000 drawn texts: the half without the item has the best order, which no simpler order reaches."""
    scores = torch.tensor([[-1.36, -2.11, -2.48, -3.17, -4.69, -0.72]], dtype=torch.float64)
    margins = torch.tensor([-2.75, -10.43, 1.29, 7.49, -6.71, -3.94], dtype=torch.float64)
    z = torch.stack([torch.zeros_like(margins), margins], -1)[None]
    items, bias, decision = torch.ones(1, 6, dtype=torch.bool), torch.zeros(1, 2), torch.tensor([1])
    found = aopc_limits(scores, items, z, bias, decision)
    p = reference.kept_probabilities(scores[0].exp().numpy(), z[0].numpy(), np.zeros(2), 1)
    best, worst = reference.limits(p)
    assert (found.best.item(), found.best_found.item()) == pytest.approx((best, best), abs=1e-10)
    assert (found.worst.item(), found.worst_found.item()) == pytest.approx((worst, worst), abs=1e-10)


def test_leads_of_every_size_equal_all_subsets():
    generator = np.random.default_rng(5)
    for _ in range(60):
        weights, z, _, _ = problem(generator, 8)
        weights = np.where(weights > 0, weights, 0.1)
        margins = z[:, 0]
        found = greatest_leads(torch.tensor(weights)[None].double().log(), torch.tensor(margins)[None])
        for size in range(1, len(weights) + 1):
            ratios = [
                (weights[list(kept)] @ margins[list(kept)]) / weights[list(kept)].sum()
                for kept in itertools.combinations(range(len(weights)), size)
            ]
            assert float(found.lead[0, size - 1]) == pytest.approx(max(ratios), abs=1e-10)


@pytest.mark.parametrize("seed", [3, 6])  # in which light items are hidden by the rounding of a ratio
def test_weights_far_apart(seed):
    """Without the heaviest items the others share all attention, though they are 1e-17 or 1e-400 of it."""
    generator = np.random.default_rng(seed)
    texts, n = 300, 5
    scale = generator.choice([1.0, 20.0, 40.0, 1000.0], (texts, 1))
    scores = torch.tensor(scale * generator.integers(-3, 1, (texts, n)) + generator.standard_normal((texts, n)))
    z = torch.tensor(generator.standard_normal((texts, n, 2)))
    margins = z[..., 1] - z[..., 0]
    for sign in (1, -1):
        lead = greatest_leads(scores, sign * margins).lead
        for size in range(1, n + 1):
            sets = [list(kept) for kept in itertools.combinations(range(n), size)]
            every = [(scores[:, kept].softmax(1) * margins[:, kept]).sum(1) for kept in sets]
            greatest = (sign * torch.stack(every)).amax(0)
            torch.testing.assert_close(lead[:, size - 1], greatest, rtol=0, atol=1e-10)

    items, bias = torch.ones(texts, n, dtype=torch.bool), torch.zeros(texts, 2)
    decision = torch.ones(texts, dtype=torch.long)
    found = aopc_limits(scores, items, z, bias, decision)
    every = []
    for order in itertools.permutations(range(n)):
        after = prefix_logits(scores, torch.tensor([order]).expand(texts, -1), items, z, bias)
        every.append(order_aopc(after, items, decision))
    best, worst = torch.stack(every).amax(0), torch.stack(every).amin(0)
    for gap in (found.best - best, worst - found.worst):
        assert gap.min() > -1e-10
        assert gap.max() < 1e-6
    torch.testing.assert_close(found.best_found, best, rtol=0, atol=1e-3)
    torch.testing.assert_close(found.worst_found, worst, rtol=0, atol=1e-3)


def test_one_weight_of_one_and_the_bias():
    """Attention of 0 on all but one item: only when it goes matters, and then the bias decides."""
    weights = np.array([0.0, 1.0, 0.0, 0.0])
    one = (weights, np.array([[0, 5.0], [0, 2.0], [0, -5.0], [0, 1.0]]), np.array([0.0, -1.0]), 1)
    found = aopc_limits(*batch([one]))
    p_all, p_bias = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))
    assert found.best.item() == pytest.approx(p_all - p_bias, abs=1e-12)  # it goes first
    assert found.worst.item() == pytest.approx(0, abs=1e-12)  # it goes last
    assert found.best_found.item() == pytest.approx(found.best.item(), abs=1e-12)
    assert found.worst_found.item() == pytest.approx(0, abs=1e-12)


def test_padding_and_batch_change_nothing():
    generator = np.random.default_rng(7)
    problems = [problem(generator) for _ in range(12)]
    together = aopc_limits(*batch(problems))
    for shifted in (aopc_limits(*batch(problems, left=3)), aopc_limits(*batch(problems, right=4))):
        for name in ("best", "worst", "best_found", "worst_found"):
            torch.testing.assert_close(getattr(shifted, name), getattr(together, name), rtol=0, atol=1e-14)
    for i, one in enumerate(problems):
        alone = aopc_limits(*batch([one]))
        for name in ("best", "worst", "best_found", "worst_found"):
            assert getattr(alone, name).item() == pytest.approx(getattr(together, name)[i].item(), abs=1e-14)


def test_order_aopc_is_the_definition():
    generator = np.random.default_rng(8)
    for _ in range(20):
        one = problem(generator)
        w, items, z, b, decision = batch([one], right=2)
        importance = torch.tensor(generator.standard_normal(items.shape))
        order = removal_order(importance, items)
        after = prefix_logits(w, order, items, z, b)
        expected = reference.aopc(sets_of(one), order[0, : len(one[0])].tolist())
        assert order_aopc(after, items, decision).item() == pytest.approx(expected, abs=1e-10)


def test_reasons():
    two = problem(np.random.default_rng(0))
    w, items, z, b, decision = batch([two, two, two, two])
    items[1] = False
    items[2, 1:] = False
    z = z.clone()
    z[3, 0, 0] = nan
    found = aopc_limits(w, items, z, b, decision)
    assert found.reason == [None, "no content token", "one item", "nan in scores"]
    assert found.best.isnan().tolist() == [False, True, True, True]
    normalized = normalized_aopc(found.best_found.nan_to_num(0.0), found)
    assert normalized.reason == found.reason
    assert normalized.value.isnan().tolist() == normalized.width.isnan().tolist() == [False, True, True, True]
    empty = aopc_limits(w[:1, :0], items[:1, :0], z[:1, :0], b[:1], decision[:1])
    assert empty.reason == ["no content token"]
    assert empty.best.isnan().all()
    more = aopc_limits(w[:1], items[:1], torch.zeros(*w[:1].shape, 3), torch.zeros(1, 3), decision[:1])
    assert more.reason == ["more than two classes"]
    masked = torch.tensor([[0.0, -inf, 0.5]])  # of three classes one never counts
    z3 = torch.stack([z[:1, :, 0], torch.full_like(w[:1], nan), z[:1, :, 1]], -1)
    of_three = aopc_limits(w[:1], items[:1], z3, masked, torch.tensor([2]))
    of_two = aopc_limits(w[:1], items[:1], z[:1], masked[:, [0, 2]], torch.tensor([1]))
    assert of_three.best.item() == of_two.best.item()
    only = aopc_limits(w[:1], items[:1], z[:1], torch.tensor([[-inf, 0.0]]), torch.tensor([1]))
    assert normalized_aopc(torch.zeros(1), only).reason == ["all orders alike"]


def test_all_orders_alike():
    one = (np.array([0.5, 0.3, 0.2]), np.tile([0.1, 0.7], (3, 1)), np.zeros(2), 1)
    found = normalized_aopc(torch.zeros(1), aopc_limits(*batch([one])))
    assert found.reason == ["all orders alike"]
    assert math.isnan(found.value)
    assert math.isnan(found.width)


def made_limits(best, worst, best_found, worst_found):
    order = torch.arange(3)[None]
    numbers = (torch.tensor([value], dtype=torch.float64) for value in (best, worst, best_found, worst_found))
    return AopcLimits(*numbers, order, order, [None])


def test_width_is_what_the_limits_leave_possible():
    limits = made_limits(0.6, -0.2, 0.5, -0.1)
    found = normalized_aopc(torch.tensor([0.3]), limits)
    assert found.value.item() == pytest.approx(0.5 / 0.8, abs=1e-7)
    ends = [(0.3 - worst) / (best - worst) for best in (0.5, 0.6) for worst in (-0.2, -0.1)]
    assert found.width.item() == pytest.approx(max(ends) - min(ends), abs=1e-6)  # 0.3 is a float32
    # an order that reaches more than any that was found narrows what is possible
    beyond = normalized_aopc(torch.tensor([0.55], dtype=torch.float64), limits)
    assert beyond.width.item() == pytest.approx(1 * 0.75 / 0.75 - 0.65 / 0.7, abs=1e-12)
    ends = [normalized_aopc(torch.tensor([x], dtype=torch.float64), limits) for x in (0.6, -0.2)]
    assert [end.value.item() for end in ends] == [1.0, 0.0]
    assert [end.width.item() for end in ends] == [0.0, 0.0]
    with pytest.raises(InputError, match="between its limits"):
        normalized_aopc(torch.tensor([0.7]), limits)
    with pytest.raises(InputError, match="as many `aopc`"):
        normalized_aopc(torch.zeros(2), limits)


def test_limits_include_orders():
    limits = made_limits(0.6, -0.2, 0.5, -0.1)
    wider = limits.including(torch.tensor([[0.7], [nan], [-0.15]], dtype=torch.float64))
    assert (wider.best.item(), wider.best_found.item()) == (0.7, 0.7)
    assert (wider.worst.item(), wider.worst_found.item()) == (-0.2, -0.15)
    undefined = replace(limits, best=torch.tensor([nan]).double())
    assert undefined.including(torch.tensor([[0.7]]).double()).best.isnan().all()
