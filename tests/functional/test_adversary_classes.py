"""Bounds for more than two classes: the lower one is feasible, the upper one is never exceeded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reference import adversary as slow

from attn_faithful._checks import InputError
from attn_faithful.functional.adversary import decision_keeping_adversary, exact_adversary
from attn_faithful.functional.adversary_classes import adversary_interval, decision_keeping_interval
from attn_faithful.functional.divergences import jsd, tvd

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
    assert bool((found.lower > 0.05).all())  # the search moved


def test_two_classes_give_the_exact_answer_from_above_and_nearly_from_below():
    attention, allowed, logits, bias = given = problem(9, 2, 1, batch=5)
    margins = logits[..., 1] - logits[..., 0] + (bias[:, 1] - bias[:, 0])[:, None]
    exact = exact_adversary(attention, allowed, margins, 0.05).jsd[:, 0]
    found = adversary_interval(*given, eps=0.05)
    torch.testing.assert_close(found.upper, exact, rtol=0, atol=1e-9)
    # the search stops after twelve widenings
    assert bool((found.lower >= exact - 0.02).all())
    keeping = decision_keeping_interval(*given)
    best = decision_keeping_adversary(attention, allowed, margins).jsd[:, 0]
    torch.testing.assert_close(keeping.upper, best, rtol=0, atol=1e-9)
    assert bool((keeping.lower >= best - 0.02).all())


def test_no_point_of_a_grid_within_eps_exceeds_the_upper_bound():
    for seed in range(3):
        attention, allowed, logits, bias = problem(3, 3, seed)
        before = predicted(attention, logits, bias)[0]

        def kept(other, logits=logits, bias=bias, before=before):
            after = predicted(torch.from_numpy(other)[None], logits, bias)[0]
            return float(tvd(after, before)) <= 0.1

        best = slow.best_on_grid(attention[0].numpy(), kept, 60)
        found = adversary_interval(attention, allowed, logits, bias, eps=0.1)
        assert best <= float(found.upper) + EXACT
        assert best > 0


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
        assert best <= float(found.lower) + 0.1  # the search comes near what chance finds
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
    together = adversary_interval(attention, allowed, logits, bias, 0.05)
    padded = adversary_interval(
        torch.nn.functional.pad(attention, (2, 3)), torch.nn.functional.pad(allowed, (2, 3)),
        torch.nn.functional.pad(logits, (0, 0, 2, 3), value=5.0), bias, 0.05,
    )  # fmt: skip
    torch.testing.assert_close(padded.lower, together.lower)
    torch.testing.assert_close(padded.upper, together.upper)
    alone = adversary_interval(attention[1:2], allowed[1:2], logits[1:2], bias[1:2], 0.05)
    torch.testing.assert_close(alone.lower[0], together.lower[1])
    torch.testing.assert_close(alone.attention[0], together.attention[1])


def test_without_a_search_the_upper_bound_alone():
    given = problem(5, 3, 5)
    found = adversary_interval(*given, eps=0.05, starts=0)
    assert bool(found.lower.isnan().all())
    torch.testing.assert_close(found.upper, adversary_interval(*given, eps=0.05).upper)


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
