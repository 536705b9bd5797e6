"""Branch and bound against dense enumeration, and its promises on tails of any steps."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from mpmath import mp

from attn_faithful.functional.tail import Activation, Norm
from attn_faithful.functional.tail_bounds import lowest_leads
from attn_faithful.functional.tail_branching import least_lead
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.functional.tail_forms import Form, Sets
from attn_faithful.functional.tail_tangents import Tangent
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn
from tests.reference import tail_attack as dense
from tests.reference import tail_bounds as slow

LEAD = torch.tensor([[1.0, -1.0]]).double()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])  # of 0 and 4 it takes some thousands of boxes
def test_two_heads_of_three_items_end_at_the_least_lead_of_a_dense_grid(seed):
    generator = np.random.default_rng(seed)
    steps = tails.post_norm(generator, 8, hidden=8, size=0.4)
    sets = Sets(2 * drawn(generator, 1, 8), 0.5 * drawn(generator, 1, 2, 3, 8))
    least = least_lead(sets, Chain(steps), LEAD, 20_000, gap=5e-7)
    assert least.upper - least.lower <= 5e-7
    expected = dense.refined_least_lead(tails.as_arrays(steps), sets.centre[0].numpy(), sets.vertices[0].numpy(), 0, 12)
    assert least.upper == pytest.approx(expected, abs=1e-6)
    assert least.lower <= expected + 1e-12
    at_shares = slow.lead(steps, sets.centre[0], sets.vertices[0], least.shares, LEAD[0])
    assert float(at_shares) == pytest.approx(least.upper, abs=1e-9)
    assert bool((least.shares >= 0).all())
    torch.testing.assert_close(least.shares.sum(-1), torch.ones(2).double())


@given(made.seeds())
@checked()
def test_no_point_is_below_the_lower_and_none_found_is_made_up(seed):
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 5))
    steps = tails.steps_of(generator, width)
    sets = tails.sets_of(generator, width, 1)
    margins = drawn(generator, 2, len(steps[-1].bias))
    shares = tails.lowest_found(generator, sets, steps, margins[None])
    before = math.inf
    for boxes in (60, 1):
        least = least_lead(sets, Chain(steps), margins, boxes)
        assert least.lower <= least.upper
        assert least.lower <= before
        before = least.lower
        for row in range(2):
            at = slow.lead(steps, sets.centre[0], sets.vertices[0], shares[0, row], margins[row])
            assert mp.mpf(least.lower) <= at
        at_shares = [
            slow.lead(steps, sets.centre[0], sets.vertices[0], least.shares, margin.tolist()) for margin in margins
        ]
        assert mp.mpf(least.lower) <= min(at_shares)
    whole = lowest_leads(sets, Chain(steps), margins[None]).min()
    assert least.lower >= float(whole) - 1e-6 * (1 + abs(float(whole)))


def test_affine_tails_need_one_box():
    generator = np.random.default_rng(0)
    sets = Sets(drawn(generator, 1, 2), drawn(generator, 1, 3, 4, 2))
    least = least_lead(sets, Chain(()), LEAD, 100, gap=1e-12)
    expected = sets.centre[0] @ LEAD[0] + (sets.vertices[0] @ LEAD[0]).amin(-1).sum()
    assert least.upper == pytest.approx(float(expected), abs=1e-12)
    assert least.boxes == 1


def test_a_line_ends_the_search_on_either_side():
    generator = np.random.default_rng(1)
    steps = tails.post_norm(generator, 8, hidden=8, size=0.4)
    sets = Sets(2 * drawn(generator, 1, 8), 0.5 * drawn(generator, 1, 2, 3, 8))
    end = least_lead(sets, Chain(steps), LEAD, 4000, gap=1e-6)
    above = least_lead(sets, Chain(steps), LEAD, 4000, line=end.lower - 0.05)
    assert above.lower > end.lower - 0.05
    assert above.boxes < end.boxes
    below = least_lead(sets, Chain(steps), LEAD, 4000, line=end.upper + 0.05)
    assert below.upper <= end.upper + 0.05
    assert below.boxes < end.boxes


def test_vertices_that_are_there_several_times_are_cut_like_one():
    generator = np.random.default_rng(3)
    steps = tails.post_norm(generator, 4, hidden=4, size=0.4)
    vertices = 0.5 * drawn(generator, 1, 1, 3, 4)
    centre = 2 * drawn(generator, 1, 4)
    repeated = torch.cat([vertices, vertices[:, :, :1], vertices[:, :, 1:2]], 2)
    once = least_lead(Sets(centre, vertices), Chain(steps), LEAD, 4000, gap=1e-6)
    again = least_lead(Sets(centre, repeated), Chain(steps), LEAD, 4000, gap=1e-6)
    assert again.upper - again.lower <= 1e-6
    assert again.lower == pytest.approx(once.lower, abs=2e-6)


def test_nan_is_never_a_bound():
    sets = Sets(torch.tensor([[math.nan, 1.0]]).double(), torch.zeros(1, 1, 2, 2).double())
    least = least_lead(sets, Chain((Activation(0, "gelu"),)), LEAD, 8, line=0.0)
    assert least.lower == -math.inf
    assert least.upper == math.inf


@given(made.seeds())
@checked()
def test_tangents_of_norms_are_off_by_their_error_at_most_and_touch(seed):
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 5))
    sets = tails.sets_of(generator, width)
    step = Norm(0, torch.ones(width).double(), torch.zeros(width).double(), 1e-5, centred=False)
    form = Form.of(sets)
    tangent = Tangent.of(step, form, None)
    vectors = tails.vectors(sets, tails.points(generator, sets, 100))  # (N, K, D)
    near = tangent.matrix_times(vectors) + tangent.constant[:, None]
    off = (step(vectors) - near).abs()
    assert bool((off <= tangent.error[:, None] + 1e-9).all())
    at = tangent.at[:, None]
    torch.testing.assert_close(tangent.matrix_times(at) + tangent.constant[:, None], step(at))


def test_the_error_of_a_tangent_shrinks_with_the_square_of_the_set():
    generator = np.random.default_rng(0)
    step = Norm(0, torch.ones(4).double(), torch.zeros(4).double(), 1e-5, centred=False)
    centre, vertices = 3 * drawn(generator, 5, 4), drawn(generator, 5, 2, 3, 4)
    errors = []
    for size in (1e-2, 1e-3):
        errors.append(Tangent.of(step, Form.of(Sets(centre, size * vertices)), None).error)
    assert bool((errors[0] / errors[1] > 80).all())
