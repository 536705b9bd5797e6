"""Certificates: certified heads and radii withstand a million points, and affine tails are decided exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given

from attn_faithful.functional.simplices import Simplices
from attn_faithful.functional.tail import Tail
from attn_faithful.functional.tail_attack import attack_radius, head_attack, joint_attack
from attn_faithful.functional.tail_certificates import Certifier, Effort, margins_of
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.functional.tail_forms import Sets
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn
from tests.reference import tail_attack as slow

POINTS = 1_000_000


def problem(generator, steps, texts, slots, items, width, spread=1.0, holes=0.0):
    """A tail, simplices of random attention over some of the items, and what is decided."""
    tail = Tail(2 * drawn(generator, texts, width), spread * drawn(generator, texts, slots, items, width), steps)
    attention = torch.from_numpy(generator.dirichlet(np.ones(items), (texts, slots)))
    is_item = torch.from_numpy(generator.random((texts, slots, items)) >= holes)
    decision = tail.logits(attention[:, None])[:, 0].argmax(-1)
    return tail, Simplices.of(tail, attention, is_item), decision


def proved_heads(tail, simplices, decision, effort=None):
    """(B, S)."""
    effort = effort or Effort()
    chain = Chain(tail.steps)
    wanted = torch.ones(simplices.items.shape[1], dtype=torch.bool)
    rows = []
    for text, label in enumerate(decision.tolist()):
        rows.append(Certifier(chain, simplices, text, label).proved_heads(wanted, effort))
    return torch.stack(rows)


def head_sets(simplices):
    """The sets of each (text, slot), B * S in order."""
    own = (simplices.shares[..., None] * simplices.moves).sum(2)  # (B, S, D)
    centre = simplices.origin[:, None] + own.sum(1, keepdim=True) - own
    vertices = simplices.moves[:, :, None].flatten(0, 1)  # (B * S, 1, T, D)
    return Sets(centre.flatten(0, 1), vertices)


def margins_each(decision, classes, slots):
    """(B * S, C - 1, C)."""
    rows = torch.stack([margins_of(classes, label) for label in decision.tolist()])
    return rows.repeat_interleave(slots, 0)


def test_certified_heads_withstand_a_million_points():
    left = POINTS
    certified = pairs = 0
    for seed in range(4):
        generator = np.random.default_rng(seed)
        steps = tails.post_norm(generator, 16, hidden=32, classes=2 + seed % 2, size=0.25)
        tail, simplices, decision = problem(generator, steps, 20, 4, 8, 16, spread=0.4)
        proved = proved_heads(tail, simplices, decision).flatten().nonzero()[:, 0]
        sets = head_sets(simplices).rows(proved)
        margins = margins_each(decision, 2 + seed % 2, 4)[proved]
        shares = tails.lowest_found(generator, sets, steps, margins, 100)
        assert bool((tails.leads(sets, steps, margins, shares).diagonal(dim1=1, dim2=2) > 0).all())
        found = 0
        while found < POINTS // 4:
            shares = tails.points(generator, sets, 200)
            assert bool((tails.leads(sets, steps, margins, shares) > 0).all())
            found += shares.shape[0] * shares.shape[1]
        left -= found
        certified += len(proved)
        pairs += 80
    assert left <= 0
    assert 0.3 < certified / pairs < 0.95  # neither all nor nothing


def test_certified_radii_withstand_mixtures_and_the_attack():
    radii, attacked = [], []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        steps = tails.post_norm(generator, 8, hidden=16, classes=2 + seed % 2, size=0.4)
        tail, simplices, decision = problem(generator, steps, 8, 3, 5, 8, spread=1.5)
        found = attack_radius(tail, simplices, decision, joint_attack(tail, simplices, decision)).radius
        chain = Chain(steps)
        for text, label in enumerate(decision.tolist()):
            certifier = Certifier(chain, simplices, text, label)
            limit = float(found[text].nan_to_num(1.0))
            radius = certifier.proved_radius(limit, Effort())
            assert 0 <= radius <= limit
            own = (simplices.shares[text, ..., None] * simplices.moves[text]).sum((0, 1))
            centre = simplices.origin[text] + (1 - radius) * own
            sets = Sets(centre[None], radius * simplices.moves[text][None])
            margins = margins_of(2 + seed % 2, label)[None]
            shares = tails.lowest_found(generator, sets, steps, margins, 1000)
            assert bool((tails.leads(sets, steps, margins, shares) > 0).all())
            shares = tails.points(generator, sets, 2000)
            assert bool((tails.leads(sets, steps, margins, shares) > 0).all())
            radii.append(radius)
            attacked.append(limit)
    assert np.median(np.array(radii) / attacked) > 0.2


@given(made.seeds())
@checked()
def test_no_certified_head_of_any_tail_flips(seed):
    generator = np.random.default_rng(seed)
    width, slots, items = (int(n) for n in generator.integers(1, 5, 3))
    steps = tails.steps_of(generator, width)
    spread = 10 ** generator.uniform(-2, 0.5)
    tail, simplices, decision = problem(generator, steps, 3, slots, items, width, spread, holes=0.3)
    proved = proved_heads(tail, simplices, decision, Effort(bins=(1, 3))).flatten().nonzero()[:, 0]
    if not len(proved):
        return
    sets = head_sets(simplices).rows(proved)
    # items that are none are a first item again
    is_item = simplices.items.flatten(0, 1)[proved]
    first = sets.vertices[torch.arange(len(proved)), 0, is_item.long().argmax(-1)]
    first = torch.where(is_item.any(-1, keepdim=True), first, 0.0)
    sets = Sets(sets.centre, torch.where(is_item[:, None, :, None], sets.vertices, first[:, None, None]))
    margins = margins_each(decision, len(steps[-1].bias), slots)[proved]
    shares = tails.lowest_found(generator, sets, steps, margins)
    assert bool((tails.leads(sets, steps, margins, shares).diagonal(dim1=1, dim2=2) > 0).all())


@given(made.seeds())
@checked()
def test_affine_tails_are_decided_exactly(seed):
    generator = np.random.default_rng(seed)
    slots, items, classes = (int(n) for n in generator.integers([1, 1, 2], 5))
    steps = (tails.linear(generator, 0, classes, 3, 1.0),) if seed % 2 else ()
    width = 3 if steps else classes
    tail, simplices, decision = problem(generator, steps, 4, slots, items, width, 0.5, holes=0.3)
    proved = proved_heads(tail, simplices, decision)
    least = head_attack(tail, simplices, decision).lead
    sure = least.abs() > 1e-9
    assert torch.equal(proved[sure], least[sure] > 0)
    joint = joint_attack(tail, simplices, decision).lead
    if steps:  # as logits
        weight, bias = steps[0].weight, steps[0].bias
        origin, moves = simplices.origin @ weight.T + bias, simplices.moves @ weight.T
    else:
        origin, moves = simplices.origin, simplices.moves
    for text, label in enumerate(decision.tolist()):
        numbers = (origin[text].numpy(), moves[text].numpy(), simplices.items[text].numpy())
        expected = slow.affine_radius(*numbers, simplices.shares[text].numpy(), label)
        certifier = Certifier(Chain(steps), simplices, text, label)
        radius = certifier.proved_radius(1.0, Effort(halvings=30))
        if np.isnan(expected):
            assert radius == 1.0
        else:
            assert expected - 1e-6 < radius < expected
            assert certifier.proved_radius(expected, Effort(halvings=3)) == pytest.approx(expected * 7 / 8)
    assert joint.shape == decision.shape


def test_cutting_the_simplex_of_open_heads_proves_more_of_them():
    generator = np.random.default_rng(0)
    steps = tails.post_norm(generator, 8, hidden=8, size=0.4)
    tail, simplices, decision = problem(generator, steps, 10, 3, 4, 8, spread=1.0)
    least = head_attack(tail, simplices, decision).lead
    before = proved_heads(tail, simplices, decision, Effort(bins=(1,)))
    after = proved_heads(tail, simplices, decision, Effort(bins=(1,), boxes=150))
    assert not bool((after & (least <= 0)).any())
    assert not bool((before & ~after).any())
    unsettled = (~before & (least > 0)).sum()
    assert int((after & ~before).sum()) > 0.5 * int(unsettled) > 3


def test_only_wanted_heads_are_tried_and_one_class_has_no_rival():
    generator = np.random.default_rng(0)
    _, simplices, _ = problem(generator, (), 1, 3, 2, 1)
    certifier = Certifier(Chain(()), simplices, 0, 0)
    wanted = torch.tensor([True, False, True])
    assert torch.equal(certifier.proved_heads(wanted, Effort()), wanted)
    assert certifier.proved_radius(1.0, Effort()) == 1.0


def test_a_slot_without_items_keeps_the_decision():
    tail = Tail(torch.tensor([[1.0, 0.0]]).double(), torch.ones(1, 2, 1, 2).double(), ())
    items = torch.zeros(1, 2, 1, dtype=torch.bool)
    simplices = Simplices.of(tail, torch.ones(1, 2, 1), items)
    certifier = Certifier(Chain(()), simplices, 0, 0)
    assert certifier.proved_heads(torch.tensor([True, True]), Effort()).tolist() == [True, True]
    assert certifier.proved_radius(1.0, Effort()) == 1.0


def test_nan_is_never_certified():
    values = torch.tensor([[[[2.0, 0.0], [float("nan"), 0.0]]]]).double()
    tail = Tail(torch.zeros(1, 2).double(), values, ())
    simplices = Simplices.of(tail, torch.tensor([[[0.5, 0.5]]]), torch.ones(1, 1, 2, dtype=torch.bool))
    certifier = Certifier(Chain(()), simplices, 0, 0)
    assert not bool(certifier.proved_heads(torch.tensor([True]), Effort()))
    assert certifier.proved_radius(1.0, Effort()) == 0.0


def test_a_tie_is_not_certified():
    tail = Tail(torch.zeros(1, 2).double(), torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]]).double(), ())
    simplices = Simplices.of(tail, torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 1, 2, dtype=torch.bool))
    assert not bool(Certifier(Chain(()), simplices, 0, 0).proved_heads(torch.tensor([True]), Effort()))
