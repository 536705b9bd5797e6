"""Bounds for more than two classes: the lower one is feasible, the upper one is never exceeded."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import adversary_bounds
from attn_faithful.functional.adversary import decision_keeping_adversary, exact_adversary, vertex_between
from attn_faithful.functional.adversary_classes import adversary_interval, decision_keeping_interval
from attn_faithful.functional.adversary_region import TvdRegion
from attn_faithful.functional.divergences import jsd, tvd
from tests.reference import adversary as slow

EXACT = 1e-9


def problem(n, classes, seed, batch=1):
    generator = torch.Generator().manual_seed(seed)
    attention = torch.rand(batch, n, generator=generator, dtype=torch.float64) ** 2
    attention = attention / attention.sum(1, keepdim=True)
    logits = 1.5 * torch.randn(batch, n, classes, generator=generator, dtype=torch.float64)
    bias = 0.5 * torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    return attention, torch.ones(batch, n, dtype=torch.bool), logits, bias


def predicted(attention, logits, bias):
    return ((attention[:, :, None] * logits).sum(1) + bias).softmax(-1)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_lower_bound_is_feasible_and_the_upper_one_above_it(classes):
    given = problem(8, classes, 0, batch=6)
    attention, _, logits, bias = given
    found = adversary_interval(*given, eps=0.05)
    assert bool((found.lower <= found.upper + EXACT).all())
    torch.testing.assert_close(found.attention.sum(1), torch.ones(6, dtype=torch.float64))
    assert bool((found.attention >= 0).all())
    moved = tvd(predicted(found.attention, logits, bias), predicted(attention, logits, bias))
    assert bool((moved <= 0.05 + EXACT).all())
    torch.testing.assert_close(jsd(found.attention, attention), found.lower, rtol=0, atol=1e-9)


def test_two_classes_give_the_exact_answer_from_above_and_nearly_from_below():
    attention, allowed, logits, bias = given = problem(9, 2, 1, batch=5)
    margins = logits[..., 1] - logits[..., 0] + (bias[:, 1] - bias[:, 0])[:, None]
    exact = exact_adversary(attention, allowed, margins, 0.05).jsd[:, 0]
    found = adversary_interval(*given, eps=0.05)
    torch.testing.assert_close(found.upper, exact, rtol=0, atol=1e-9)
    assert bool((found.lower >= exact - 1e-4).all())
    keeping = decision_keeping_interval(*given)
    best = decision_keeping_adversary(attention, allowed, margins).jsd[:, 0]
    torch.testing.assert_close(keeping.upper, best, rtol=0, atol=1e-9)
    assert bool((keeping.lower >= best - 1e-4).all())


@pytest.mark.parametrize("eps", [0.02, 0.1, 0.4])
def test_a_grid_is_never_farther_and_comes_near(eps):
    """Three classes, three tokens: what is found is the best there is, up to the width of the grid."""
    for seed in range(5):
        attention, allowed, logits, bias = problem(3, 3, seed)
        points = torch.from_numpy(np.stack(list(slow.grid(3, 150))))
        before = predicted(attention, logits, bias)
        kept = points[tvd((points @ logits[0] + bias).softmax(-1), before) <= eps]
        best = float(jsd(kept, attention).max()) if len(kept) else 0.0
        found = adversary_interval(attention, allowed, logits, bias, eps=eps)
        assert best <= float(found.lower) + 1e-5
        assert float(found.lower) <= best + 0.03 + 0.1 * (eps < 0.1)  # few points of the grid lie in a small region
        assert float(found.lower) <= float(found.upper) + EXACT


@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("eps", [0.01, 0.1])
def test_a_general_solver_from_several_starts_finds_nothing_farther(classes, eps):
    attention, allowed, logits, bias = problem(9, classes, 7, batch=4)
    found = adversary_interval(attention, allowed, logits, bias, eps=eps)
    for row in range(4):
        given = (array[row].numpy() for array in (attention, logits, bias))
        best = slow.general_solver(*given, eps, starts=4)
        assert best <= float(found.upper[row]) + 1e-6
        assert best <= float(found.lower[row]) + 2e-3
    assert float((found.upper - found.lower).mean()) < 0.03


@pytest.mark.parametrize(("classes", "scale", "eps"), [(3, 1.0, 0.05), (4, 3.0, 0.1), (5, 4.0, 0.01), (8, 1.0, 0.05)])
def test_forms_of_the_region_hold_for_every_point_within(classes, scale, eps):
    """Also where a class has less than eps, and where the region is curved."""
    generator = np.random.default_rng(1)
    own, logits = generator.dirichlet(np.ones(6)), scale * generator.standard_normal((6, classes))
    region = TvdRegion.of(own, logits, generator.standard_normal(classes), eps)
    points = generator.dirichlet(np.full(6, 0.5), size=3000)
    points = np.concatenate([own + step * (points - own) for step in (1.0, 0.3, 0.1, 0.03)])
    within = points[region.holds(points)]
    matrix, limits = region.outer
    assert len(within) > 50
    assert (within @ matrix.T <= limits + 1e-9).all()
    closest = (limits - within @ matrix.T).min(axis=0)
    assert (closest < 0.5 * (limits - matrix @ own)).any()  # some come near, so the limits are not idle


@pytest.mark.parametrize(("classes", "eps"), [(3, 0.05), (4, 0.12), (5, 0.01), (8, 0.02)])
def test_forms_of_the_region_hold_at_its_corners(classes, eps):
    """Tokens that each speak for one class, so that any probabilities can be had: also where one class loses all."""
    generator = np.random.default_rng(classes)
    q = generator.dirichlet(np.full(classes, 3.0))
    corners = []
    for gains, loses in itertools.permutations(range(classes), 2):
        p = q.copy()
        p[gains] += eps
        p[loses] -= eps
        corners.append(p)
    changes = generator.dirichlet(np.full(classes, 0.3), size=(500, 2))
    corners += list(q + eps * (changes[:, 0] - changes[:, 1]))
    p = np.stack([q, *(p for p in corners if p.min() > 1e-6)])
    # attention whose logits, 40 times it, are ln p up to a constant
    attention = (np.log(p) - np.log(p).mean(1, keepdims=True)) / 40 + 1 / classes
    assert attention.min() >= 0
    region = TvdRegion.of(attention[0], 40 * np.eye(classes), np.zeros(classes), eps * (1 + 1e-9))
    assert region.holds(attention).all()
    matrix, limits = region.outer
    room = limits - attention @ matrix.T
    assert room.min() >= -1e-9
    assert (room.min(axis=0) < 1e-6 * limits).sum() >= np.count_nonzero(q > eps)  # forms that a corner lies on


@pytest.mark.parametrize("classes", [3, 5, 8])
def test_forms_near_a_point_are_the_limits_there(classes):
    """A short step keeps them exactly if it stays within: with a limit so low that a short step leaves it."""
    generator = np.random.default_rng(2)
    own, logits = generator.dirichlet(np.ones(6)), generator.standard_normal((6, classes))
    region = TvdRegion.of(own, logits, generator.standard_normal(classes), 1e-4)
    lengths = np.logspace(-4.5, -2.5, 200)[:, None]
    points = own + lengths * (generator.dirichlet(np.ones(6), size=200) - own)
    within = region.holds(points)
    change = points @ region.shift.T
    matrix, limits = region.near(own)
    gains = np.exp(region.before) * (change - (change @ np.exp(region.before))[:, None])
    gains = np.clip(gains, 0, None)[:, : matrix.shape[1] - 6]  # of many classes these are variables too
    kept = (np.concatenate([points, gains], axis=1) @ matrix.T <= limits + 1e-7).all(axis=1)
    assert 20 < within.sum() < 180
    assert (kept == within).mean() > 0.98


def test_a_bound_holds_whatever_its_multipliers(monkeypatch):
    """Weak duality: a solver that is wrong makes the bound loose and never false."""
    attention, allowed, logits, bias = problem(6, 3, 2, batch=3)
    true = adversary_interval(attention, allowed, logits, bias, eps=0.1)
    whole = adversary_bounds._program

    def wrong(slope, rows, low, high):
        point, multipliers = whole(slope, rows, low, high)
        return point, 0.7 * multipliers

    monkeypatch.setattr(adversary_bounds, "_program", wrong)
    loose = adversary_interval(attention, allowed, logits, bias, eps=0.1)
    assert bool((loose.upper >= true.lower - EXACT).all())


def test_more_boxes_close_the_interval_of_a_decision():
    given = problem(10, 4, 8, batch=4)
    few, many = decision_keeping_interval(*given, nodes=1), decision_keeping_interval(*given, nodes=60)
    assert bool((many.upper - many.lower < 1e-3).all())
    assert bool((many.upper <= few.upper + EXACT).all())
    assert bool((few.upper - few.lower > 1e-3).any())


@pytest.mark.parametrize("eps", [0.0, 1e-9, 0.999])
def test_extreme_limits(eps):
    attention, allowed, logits, bias = problem(7, 3, 9, batch=2)
    found = adversary_interval(attention, allowed, logits, bias, eps=eps)
    assert bool((found.lower <= found.upper + EXACT).all())
    assert bool((found.lower > 0.05).all())  # four free directions are left where two margins are held
    moved = tvd(predicted(found.attention, logits, bias), predicted(attention, logits, bias))
    assert bool((moved <= max(eps, 1e-7)).all())


def test_predictions_that_are_sure_and_huge_scores():
    attention, allowed, logits, bias = problem(6, 3, 10, batch=2)
    logits[0] *= 0.01
    bias[0, 0] = 800.0  # the other classes have no probability left
    logits[1] *= 1e12
    found = adversary_interval(attention, allowed, logits, bias, eps=0.05)
    free = vertex_between(
        attention, allowed, torch.zeros_like(attention), *(torch.full((2,), s * torch.inf) for s in (-1, 1)), [None] * 2
    )
    assert float(found.lower[0]) == pytest.approx(float(free[0]), abs=1e-9)
    assert 0 <= float(found.lower[1]) <= float(found.upper[1])


def test_many_classes():
    """Beyond a few classes not every set of them has a form; both bounds stay what they are."""
    attention, allowed, logits, bias = problem(8, 12, 11)
    found = adversary_interval(attention, allowed, logits, bias, eps=0.1)
    given = (array[0].numpy() for array in (attention, logits, bias))
    best = slow.general_solver(*given, 0.1, starts=3)
    assert best <= float(found.lower) + 2e-3
    assert float(found.lower) <= float(found.upper)


def test_no_random_point_that_keeps_the_decision_exceeds_the_upper_bound():
    generator = np.random.default_rng(0)
    for seed in range(4):
        attention, allowed, logits, bias = problem(5, 4, seed)
        points = torch.from_numpy(generator.dirichlet(np.full(5, 0.3), size=4000))
        after = (points @ logits[0] + bias[0]).argmax(-1)
        kept = points[after == predicted(attention, logits, bias).argmax()]
        found = decision_keeping_interval(attention, allowed, logits, bias)
        assert len(kept) > 10
        best = float(jsd(kept, attention[0]).max())
        assert best <= float(found.upper) + EXACT
        assert best <= float(found.lower) + 1e-6
        end = (found.attention @ logits[0] + bias)[0]
        y = int(predicted(attention, logits, bias).argmax())
        assert float(end[y]) >= float(end.max()) - 1e-6


def test_masked_classes_do_not_count():
    attention, allowed, logits, bias = problem(6, 2, 3)
    more = torch.cat([logits, 9 * torch.ones(1, 6, 1, dtype=torch.float64)], -1)
    masked = torch.cat([bias, torch.full((1, 1), -torch.inf, dtype=torch.float64)], -1)
    for solver, given in ((adversary_interval, (0.05,)), (decision_keeping_interval, ())):
        plain, other = (
            solver(attention, allowed, logits, bias, *given),
            solver(attention, allowed, more, masked, *given),
        )
        torch.testing.assert_close(other.upper, plain.upper)
        torch.testing.assert_close(other.lower, plain.lower)
    alone = torch.tensor([[0.0, -torch.inf]], dtype=torch.float64)  # one class is left: nothing binds
    free = adversary_interval(attention, allowed, logits, alone, 0.05)
    reach = exact_adversary(attention, allowed, torch.zeros_like(attention), 0.05).reachable
    torch.testing.assert_close(free.upper, reach)
    torch.testing.assert_close(free.lower, reach, rtol=0, atol=1e-6)


def test_padding_and_batch_mates_change_nothing():
    attention, allowed, logits, bias = problem(7, 3, 4, batch=3)
    all_gather = adversary_interval(attention, allowed, logits, bias, 0.05)
    padded = adversary_interval(
        torch.nn.functional.pad(attention, (2, 3)),
        torch.nn.functional.pad(allowed, (2, 3)),
        torch.nn.functional.pad(logits, (0, 0, 2, 3), value=5.0),
        bias,
        0.05,
    )
    torch.testing.assert_close(padded.lower, all_gather.lower)
    torch.testing.assert_close(padded.upper, all_gather.upper)
    alone = adversary_interval(attention[1:2], allowed[1:2], logits[1:2], bias[1:2], 0.05)
    torch.testing.assert_close(alone.lower[0], all_gather.lower[1])
    torch.testing.assert_close(alone.attention[0], all_gather.attention[1])


def test_without_a_search_the_upper_bound_alone():
    given = problem(5, 3, 5)
    found = adversary_interval(*given, eps=0.05, nodes=0)
    assert bool(found.lower.isnan().all())
    assert bool((found.upper >= adversary_interval(*given, eps=0.05).upper).all())


def test_one_token_and_undefined_examples():
    attention, allowed, logits, bias = problem(3, 3, 6, batch=3)
    allowed[1] = False
    allowed[0, 1:] = False
    attention[0] = torch.tensor([1.0, 0.0, 0.0])
    logits[2, 0, 0] = torch.nan
    found = adversary_interval(attention, allowed, logits, bias, 0.05)
    assert found.reason == [None, "no content token", "nan in scores"]
    assert (float(found.lower[0]), float(found.upper[0])) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert found.upper.isnan().tolist() == [False, True, True]


def test_bad_input():
    with pytest.raises(InputError, match="`eps`"):
        adversary_interval(*problem(3, 3, 0), eps=1.5)
