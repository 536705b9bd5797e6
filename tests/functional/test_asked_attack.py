"""Short attacks that ask for every point, against every vertex, dense grids, and the search through the same tail."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.functional.asked_attack import heads_by_asking, joint_by_asking, radius_by_asking
from attn_faithful.functional.readout import flipped, lead
from attn_faithful.functional.search_space import Space, TailReadout, VectorMoves, WeightMoves
from attn_faithful.functional.simplices import Deal
from attn_faithful.functional.tail import Activation, Linear, Tail
from attn_faithful.functional.tail_attack import attack_radius, joint_attack
from tests.functional.test_tail_attack import check_shares, problem, small_steps
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn
from tests.reference import tail_attack as slow
from tests.reference import vertices


def space_of(tail, simplices, decision):
    """What is searched through a tail, in float64."""
    moves = VectorMoves(torch.where(simplices.items[..., None], simplices.moves, 0.0))
    return Space(TailReadout(tail), decision, simplices.origin, moves, simplices.items, simplices.shares)


def attention_space(generator, texts=6, slots=3, items=4, classes=2, kept=True):
    """Small tails as functions of the attention itself, whose vectors are all weights; and that attention."""
    width = slots * items
    steps = (
        Linear(0, 2 * drawn(generator, 8, width), drawn(generator, 8)),
        Activation(1, "gelu"),
        Linear(2, 1.5 * drawn(generator, 8, 8), drawn(generator, 8)),
        Activation(3, "tanh"),
        Linear(4, drawn(generator, classes, 8), 2 * drawn(generator, classes)),
    )
    attention = torch.from_numpy(generator.dirichlet(np.ones(items), (texts, slots)))
    is_item = torch.from_numpy(generator.random((texts, slots, items)) < (0.8 if kept else 1.0))
    deal = Deal.of(attention, is_item)
    tail = Tail(torch.zeros(texts, slots * items).double(), torch.zeros(texts, 0, 0, slots * items).double(), steps)
    decision = tail.after(attention.flatten(1)).argmax(-1)
    space = Space(
        TailReadout(tail), decision, deal.kept.flatten(1), WeightMoves(deal.mass, items), is_item, deal.shares
    )
    return space, attention


def as_vectors(space):
    """The same space, with the moves as vectors."""
    _, s, t = space.items.shape
    places = torch.eye(s * t, dtype=torch.float64).view(1, s, t, s * t)
    moves = torch.where(space.items[..., None], space.moves.mass[..., None] * places, 0.0)
    return Space(space.readout, space.decision, space.origin, VectorMoves(moves), space.items, space.own)


def test_the_attention_itself_as_the_vector_is_the_space_of_its_dense_moves():
    generator = np.random.default_rng(0)
    space, attention = attention_space(generator)
    dense = as_vectors(space)
    own = space.own[:, None]
    torch.testing.assert_close(space.vectors(own)[:, 0], attention.flatten(1))
    index = torch.where(space.items, drawn(generator, *space.items.shape).sigmoid(), -1.0).argmax(-1)[
        :, None
    ]  # an item a slot
    rho = torch.linspace(0.1, 0.9, len(own)).double()
    for one, other in ((space, dense), (space.near(rho), dense.near(rho)), (space.rows([3, 1]), dense.rows([3, 1]))):
        rows = slice(None) if len(one.own) == len(own) else [3, 1]
        torch.testing.assert_close(one.vectors(own[rows]), other.vectors(own[rows]))
        torch.testing.assert_close(one.at_vertices(index[rows]), other.at_vertices(index[rows]))
        at = one.vectors(own[rows])
        torch.testing.assert_close(one.slopes(at), other.slopes(at))


def numpy_logits(space, text):
    """Logits (N, C) of one text under attention (N, S, T), by the reference of tails."""
    steps = tails.as_arrays(space.readout.tail.steps)
    return lambda attention: slow.logits(steps, attention.reshape(len(attention), -1))


def test_single_heads_are_all_vertices_where_they_are_few():
    flips = 0
    for seed in range(4):
        space, attention = attention_space(np.random.default_rng(seed), classes=3)
        found = heads_by_asking(space)
        for text in range(len(attention)):
            items = space.items[text].numpy()
            arguments = (numpy_logits(space, text), attention[text].numpy(), items, int(space.decision[text]))
            expected = vertices.single_leads(*arguments)
            np.testing.assert_allclose(found.lead[text].numpy(), expected, atol=1e-9)
            np.testing.assert_array_equal(found.flips[text].numpy(), expected < 0)
            for slot in np.flatnonzero(items.any(1)):
                choice = [None] * len(items)
                choice[slot] = int(found.item[text, slot])
                scores = arguments[0](vertices.dealt(arguments[1], items, choice)[None])
                assert vertices.leads(scores, arguments[3])[0] == pytest.approx(expected[slot], abs=1e-9)
        flips += int(found.flips.sum())
    assert flips > 3


def test_few_heads_are_asked_those_that_promise_most():
    space, _ = attention_space(np.random.default_rng(5), texts=20, slots=6)
    every, few, one = heads_by_asking(space), heads_by_asking(space, 12), heads_by_asking(space, 2)
    assert bool((few.lead >= every.lead - 1e-12).all())
    asked = space.items.any(-1)
    assert torch.equal(few.lead.isfinite(), asked)  # two items of each
    gap = (few.lead - every.lead)[asked]
    assert (gap < 1e-9).double().mean() > 0.8  # a slope names the best of four items nearly always
    assert bool((one.lead.isfinite().sum(1) == asked.sum(1).clamp(max=2)).all())
    assert bool(space.items.gather(2, one.item[..., None])[..., 0][asked].all())  # of slots that were not asked too
    check_told(space, joint_by_asking(space, one))
    at_best = every.lead.argmin(1, keepdim=True)
    assert one.lead.isfinite().gather(1, at_best).double().mean() > 0.7


@pytest.mark.parametrize("classes", [2, 3])
def test_the_joint_attack_finds_most_flips_that_some_vertex_is(classes):
    least, found, own = [], [], []
    for seed in range(5):
        space, attention = attention_space(np.random.default_rng(seed), classes=classes)
        joint = joint_by_asking(space, heads_by_asking(space))
        check_told(space, joint)
        found += zip(joint.lead.tolist(), joint.flips.tolist(), strict=True)
        own += space.leads(space.vectors(space.own[:, None]))[:, 0].tolist()
        for text in range(len(attention)):
            arguments = (numpy_logits(space, text), attention[text].numpy(), space.items[text].numpy())
            least.append(vertices.joint_leads(*arguments, int(space.decision[text])).min())
    least, own = np.array(least), np.array(own)
    leads, flips = np.array(found).T
    assert 20 < (least < 0).sum() < 30
    assert flips[least < 0].mean() > 0.85  # a short search: it may miss some
    unchanged = flips == 0
    assert (leads - least)[unchanged].mean() < 0.5 * (own - least)[unchanged].mean()


def check_told(space, joint):
    """Shares are in the set, numbers are those at the shares, and none is worse than the own ones."""
    check_shares(space, joint.shares)
    logits = space.logits(space.vectors(joint.shares[:, None]))
    torch.testing.assert_close(joint.lead, space.lead(logits)[:, 0], rtol=0, atol=1e-9)
    assert torch.equal(joint.flips, flipped(logits, space.decision)[:, 0])
    own = space.leads(space.vectors(space.own[:, None]))[:, 0]
    assert bool((joint.lead <= own + 1e-12).all())


def test_points_between_vertices_are_tried_where_no_vertex_changes_anything():
    # the decision is 3 |x - y| - 1 ahead of the other class: least where both items share
    logits = Linear(3, torch.tensor([[3.0], [0.0]]).double(), torch.tensor([-1.0, 0.0]).double())
    nothing = torch.zeros(1, 2).double()
    tail = Tail(nothing, torch.zeros(1, 0, 0, 2).double(), (*made_absolute_difference(), logits))
    own = torch.tensor([[[0.9, 0.1]]]).double()
    items = torch.ones(1, 1, 2, dtype=torch.bool)
    moves = WeightMoves(torch.ones(1, 1, 1).double(), 2)
    space = Space(TailReadout(tail), torch.tensor([0]), nothing, moves, items, own)
    found = joint_by_asking(space, heads_by_asking(space))
    assert bool(found.flips)
    assert heads_by_asking(space).flips.tolist() == [[False]]  # of single heads vertices alone are asked
    radius = radius_by_asking(space, found).radius.item()
    assert 0 < radius <= 1


def made_absolute_difference():
    """Steps to |x - y| as relu(x - y) + relu(y - x)."""
    weight = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double()
    total = torch.ones(1, 2).double()
    return (
        Linear(0, weight, torch.zeros(2).double()),
        Activation(1, "relu"),
        Linear(2, total, torch.zeros(1).double()),
    )


def test_a_radius_flips_and_is_near_that_of_the_long_search():
    generator = np.random.default_rng(3)
    tail, simplices, decision = problem(generator, small_steps(generator), texts=30, items=3)
    space = space_of(tail, simplices, decision)
    joint = joint_by_asking(space, heads_by_asking(space))
    found = radius_by_asking(space, joint)
    assert torch.equal(found.radius.isfinite(), joint.flips)
    assert 8 < int(joint.flips.sum()) < 30
    check_shares(simplices, found.shares)
    rho = found.radius.nan_to_num(nan=0.0)[:, None, None]
    mixture = (1 - rho) * space.own + rho * found.shares
    flips = space.flips(space.vectors(mixture[:, None]))[:, 0]
    assert torch.equal(flips, joint.flips)
    long = attack_radius(tail, simplices, decision, joint_attack(tail, simplices, decision)).radius
    both = joint.flips & long.isfinite()
    ratio = (found.radius / long)[both]
    assert float(ratio.median()) < 1.05
    assert (ratio < 1.25).double().mean() > 0.8


@given(made.seeds(), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
@checked(0.1)
def test_alone_equals_together_and_what_is_found_is_true(seed, slots, items, classes):
    space, _ = attention_space(np.random.default_rng(seed), 3, slots, items, classes)
    heads = heads_by_asking(space)
    joint = joint_by_asking(space, heads)
    radius = radius_by_asking(space, joint)
    check_told(space, joint)
    assert torch.equal(radius.radius.isfinite(), joint.flips)
    for text in range(3):
        one = space.rows(slice(text, text + 1))
        alone = joint_by_asking(one, heads_by_asking(one))
        torch.testing.assert_close(alone.lead, joint.lead[text : text + 1])
        torch.testing.assert_close(heads_by_asking(one).lead, heads.lead[text : text + 1])
        again = radius_by_asking(one, alone).radius
        torch.testing.assert_close(again, radius.radius[text : text + 1], equal_nan=True)


def test_logits_that_are_nan_change_nothing_and_name_nothing():
    generator = np.random.default_rng(1)
    tail, simplices, decision = problem(generator, (Linear(0, drawn(generator, 2, 4), drawn(generator, 2)),))
    space = space_of(tail, simplices, decision)
    broken = space.vectors(space.own[:, None]) * math.nan
    assert bool((space.leads(broken) == math.inf).all())
    assert not bool(space.flips(broken).any())
    slopes = space.slopes(broken)
    assert not bool(slopes.isnan().any())
    assert float(lead(tail.after(torch.zeros(1, 4).double()), decision[:1])) < math.inf


@dataclass
class Counting:
    """A readout that counts what it is asked of the text that is asked most: points, and gradients."""

    of: TailReadout
    points: list[int]
    gradients: list[int]

    is_affine = False
    width = 1

    def logits(self, vectors, together):
        self.points[0] += vectors.shape[1]
        return self.of.logits(vectors, together)

    def traced(self, vectors):
        self.gradients[0] += vectors.shape[1]
        return self.of.traced(vectors)

    def rows(self, texts):
        return Counting(self.of, self.points, self.gradients)


def test_no_more_is_asked_than_is_told():
    space, _ = attention_space(np.random.default_rng(0), texts=40, slots=6, items=9)
    space = space.near(torch.full((40,), 0.3).double())  # of which less flips
    counted = replace(space, readout=Counting(space.readout, [0], [0]))
    told = []

    def asked():
        found = counted.readout.points[0], counted.readout.gradients[0]
        counted.readout.points[0] = counted.readout.gradients[0] = 0
        told.append(found)

    heads = heads_by_asking(counted)
    asked()
    joint = joint_by_asking(counted, heads)
    asked()
    assert 0 < int(joint.flips.sum()) < 40
    radius_by_asking(counted, joint)
    asked()
    assert told == [(48, 1), (21, 15), (55, 14)]  # as the module's first words say
