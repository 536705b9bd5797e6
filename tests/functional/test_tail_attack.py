"""Attacks through a tail against dense grids, closed forms of affine tails, and their promises."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful._checks import InputError
from attn_faithful.functional.readout import flipped, lead
from attn_faithful.functional.simplices import Simplices
from attn_faithful.functional.tail import Activation, Linear, Norm, Sum, Tail
from attn_faithful.functional.tail_attack import attack_radius, head_attack, joint_attack
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn
from tests.reference import tail_attack as slow


def small_steps(generator, width=4, hidden=8, classes=2, spread=1.0):
    """Those of a BERT: norm, MLP with residual, norm, pooler, classifier."""

    def linear(of, out, size):
        return Linear(of, spread * drawn(generator, out, size), 0.3 * drawn(generator, out))

    def norm(of):
        return Norm(of, 1 + 0.3 * drawn(generator, width), 0.3 * drawn(generator, width), 1e-5)

    return (
        norm(0),
        linear(1, hidden, width),
        Activation(2, "gelu"),
        linear(3, width, hidden),
        Sum(1, 4),
        norm(5),
        linear(6, width, width),
        Activation(7, "tanh"),
        linear(8, classes, width),
    )


def problem(generator, steps, texts=4, slots=2, items=4, width=4, holes=False):
    """A tail, simplices of random attention, and what is decided."""
    tail = Tail(drawn(generator, texts, width), drawn(generator, texts, slots, items, width), steps)
    attention = torch.from_numpy(generator.dirichlet(np.ones(items), (texts, slots)))
    is_item = torch.ones(texts, slots, items, dtype=torch.bool)
    if holes:
        is_item = torch.from_numpy(generator.random((texts, slots, items)) < 0.7)
    decision = tail.logits(attention[:, None])[:, 0].argmax(-1)
    return tail, Simplices.of(tail, attention, is_item), decision


def vectors(simplices, shares):
    """Vectors (B, ..., D) of shares (B, ..., S, T)."""
    return torch.einsum("b...st,bstd->b...d", shares, simplices.moves) + simplices.origin.view(
        len(shares), *[1] * (shares.ndim - 3), -1
    )


def check_shares(simplices, shares):
    """Shares (B, S, T) are in the set."""
    assert bool((shares >= 0).all())
    assert not bool(shares[~simplices.items].any())
    torch.testing.assert_close(shares.sum(-1), simplices.items.any(-1).double())


def check_found(tail, simplices, decision, found):
    """The joint attack's numbers are those of its shares, and no worse than the own ones."""
    check_shares(simplices, found.shares)
    logits = tail.after(vectors(simplices, found.shares))
    torch.testing.assert_close(found.lead, lead(logits, decision), rtol=1e-9, atol=1e-9)
    sure = found.lead.abs() > 1e-9
    assert torch.equal(found.flips[sure], flipped(logits[:, None], decision)[sure, 0])
    own = lead(tail.after(vectors(simplices, simplices.shares)), decision)
    assert bool((found.lead <= own + 1e-9).all())


@pytest.mark.parametrize(("items", "cuts"), [(3, 12), (4, 7)])
def test_the_joint_attack_finds_the_least_lead_of_a_dense_grid(items, cuts):
    generator = np.random.default_rng(items)
    tail, simplices, decision = problem(generator, small_steps(generator), texts=10, items=items)
    found = joint_attack(tail, simplices, decision)
    check_found(tail, simplices, decision, found)
    expected = []
    for text in range(10):
        origin, moves = simplices.origin[text].numpy(), simplices.moves[text].numpy()
        expected.append(slow.least_lead(tails.as_arrays(tail.steps), origin, moves, int(decision[text]), cuts))
    behind = found.lead.numpy() - np.array(expected)
    assert (behind < 1e-3).mean() >= 0.8  # a search: it may miss some, as the norm of four numbers bends strongly


def test_a_head_is_attacked_alone():
    generator = np.random.default_rng(1)
    tail, simplices, decision = problem(generator, small_steps(generator, classes=3), texts=6, items=3)
    found = head_attack(tail, simplices, decision)
    grid = torch.from_numpy(np.array(list(slow.grid(3, 24))))  # (N, 3)
    for slot in range(2):
        alone = found.shares[:, slot]
        check_shares(simplices, alone)
        assert torch.equal(alone[:, 1 - slot], simplices.shares[:, 1 - slot])
        leads = lead(tail.after(vectors(simplices, alone)), decision)
        torch.testing.assert_close(found.lead[:, slot], leads)
        shares = simplices.shares[:, None].repeat(1, len(grid), 1, 1)
        shares[:, :, slot] = grid
        on_grid = tail.after(vectors(simplices, shares))  # (B, N, C)
        least = lead(on_grid, decision[:, None].expand(-1, len(grid))).amin(1)
        behind = found.lead[:, slot] - least
        assert int((behind < 1e-3).sum()) >= 5  # of 6
    joint = joint_attack(tail, simplices, decision)
    assert bool((joint.lead[:, None] <= found.lead + 0.1).all())


def test_a_radius_flips_and_no_direction_of_the_grid_flips_much_earlier():
    generator = np.random.default_rng(3)
    tail, simplices, decision = problem(generator, small_steps(generator), texts=12, items=3)
    joint = joint_attack(tail, simplices, decision)
    found = attack_radius(tail, simplices, decision, joint)
    assert torch.equal(found.radius.isfinite(), joint.flips)
    assert 3 < int(joint.flips.sum()) < 12
    check_shares(simplices, found.shares)
    grid = np.array(list(slow.grid(3, 6)))
    pairs = torch.from_numpy(np.stack([np.repeat(grid, len(grid), 0), np.tile(grid, (len(grid), 1))], 1))  # (N, 2, 3)
    for text in joint.flips.nonzero()[:, 0].tolist():
        rows = slice(text, text + 1)
        own, rho = simplices.shares[rows], float(found.radius[text])
        for share, expected in ((rho, True), (rho - 1e-6, False)):
            mixture = (1 - share) * own + share * found.shares[rows]
            logits = tail.after(vectors(simplices_rows(simplices, rows), mixture))
            assert flipped(logits[:, None], decision[rows]).item() is expected
        earlier = 0.97 * rho
        mixtures = (1 - earlier) * own[:, None] + earlier * pairs[None]
        logits = tail.after(vectors(simplices_rows(simplices, rows), mixtures))
        assert not bool(flipped(logits, decision[rows]).any())


def simplices_rows(simplices, rows):
    return Simplices(simplices.origin[rows], simplices.moves[rows], simplices.items[rows], simplices.shares[rows])


@given(made.seeds(), st.integers(1, 4), st.integers(1, 6), st.integers(2, 4), st.booleans())
@checked()
def test_affine_tails_are_exact(seed, slots, items, classes, as_linear):
    """Padded, with slots that have no items: the sum of least margins, and where the line to it crosses."""
    generator = np.random.default_rng(seed)
    steps = ()
    if as_linear:
        steps = (Linear(0, torch.eye(classes).double(), torch.zeros(classes).double()),)
    tail, simplices, decision = problem(generator, steps, 3, slots, items, classes, holes=True)
    joint = joint_attack(tail, simplices, decision)
    radius = attack_radius(tail, simplices, decision, joint).radius
    heads = head_attack(tail, simplices, decision)
    check_found(tail, simplices, decision, joint)
    for text in range(3):
        origin, moves = simplices.origin[text].numpy(), simplices.moves[text].numpy()
        is_item, own, decided = simplices.items[text].numpy(), simplices.shares[text].numpy(), int(decision[text])
        expected = slow.affine_least_lead(origin, moves, is_item, decided)
        assert joint.lead[text].item() == pytest.approx(expected, abs=1e-10)
        expected = slow.affine_radius(origin, moves, is_item, own, decided)
        assert radius[text].item() == pytest.approx(expected, abs=1e-8, nan_ok=True)
        for slot in range(slots):
            others = origin + np.einsum("st,stc->c", np.delete(own, slot, 0), np.delete(moves, slot, 0))
            one = slice(slot, slot + 1)
            expected = slow.affine_least_lead(others, moves[one], is_item[one], decided)
            assert heads.lead[text, slot].item() == pytest.approx(expected, abs=1e-10)


@given(made.seeds(), st.integers(1, 5), st.integers(1, 5), st.integers(2, 4))
@checked(0.1)
def test_what_is_found_is_in_the_set_and_alone_equals_together(seed, slots, items, classes):
    generator = np.random.default_rng(seed)
    steps = small_steps(generator, classes=classes)
    tail, simplices, decision = problem(generator, steps, 3, slots, items, holes=True)
    joint = joint_attack(tail, simplices, decision)
    check_found(tail, simplices, decision, joint)
    heads = head_attack(tail, simplices, decision)
    radius = attack_radius(tail, simplices, decision, joint)
    for text in range(3):
        rows = slice(text, text + 1)
        one = simplices_rows(simplices, rows)
        padded = Simplices(
            one.origin, *(torch.cat([x, torch.zeros_like(x)], 2) for x in (one.moves, one.items, one.shares))
        )
        again = joint_attack(tail, padded, decision[rows])
        # another width of the products may round a search of float32 to another point
        torch.testing.assert_close(again.lead, joint.lead[rows], rtol=1e-3, atol=1e-3)
        again_heads = head_attack(tail, padded, decision[rows])
        torch.testing.assert_close(again_heads.lead, heads.lead[rows], rtol=1e-3, atol=1e-3)
    reached = radius.radius.isfinite()
    assert bool((reached >= joint.flips).all())
    rho = radius.radius.nan_to_num()[:, None, None]
    mixture = (1 - rho) * simplices.shares + rho * radius.shares
    logits = tail.after(vectors(simplices, mixture))
    assert bool((lead(logits, decision)[reached] <= 1e-9).all())


def test_a_tie_that_the_lower_class_wins_is_a_flip():
    values = torch.tensor([[[[0.0, 2.0], [2.0, 2.0]]]], dtype=torch.float64)
    tail = Tail(torch.zeros(1, 2).double(), values, ())
    for decision, flips in ((1, True), (0, False)):
        at = values if decision == 1 else values.flip(-1)
        simplices = Simplices.of(Tail(tail.base, at, ()), torch.tensor([[[0.5, 0.5]]]), torch.ones(1, 1, 2).bool())
        found = joint_attack(tail, simplices, torch.tensor([decision]))
        assert found.lead.item() == 0
        assert found.flips.item() is flips
        radius = attack_radius(tail, simplices, torch.tensor([decision]), found).radius.item()
        assert radius == 1 if flips else math.isnan(radius)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 2, 0), (2, 2, 3)])
def test_nothing_to_share_leaves_the_lead(shape):
    generator = np.random.default_rng(0)
    b, s, t = shape
    steps = small_steps(generator)
    tail = Tail(drawn(generator, b, 4), drawn(generator, b, s, t, 4), steps)
    simplices = Simplices.of(tail, torch.full(shape, 0.3), torch.zeros(shape, dtype=torch.bool))
    logits = tail.logits(torch.full(shape, 0.3)[:, None])[:, 0]
    decision = logits.argmax(-1)
    found = joint_attack(tail, simplices, decision)
    torch.testing.assert_close(found.lead, lead(logits, decision))
    assert not bool(found.flips.any())
    heads = head_attack(tail, simplices, decision)
    torch.testing.assert_close(heads.lead, found.lead[:, None].expand(-1, s))
    assert bool(attack_radius(tail, simplices, decision, found).radius.isnan().all())


def test_one_class_cannot_be_changed():
    generator = np.random.default_rng(0)
    tail, simplices, _ = problem(generator, small_steps(generator, classes=1))
    decision = torch.zeros(4, dtype=torch.long)
    found = joint_attack(tail, simplices, decision)
    assert bool((found.lead == math.inf).all())
    assert not bool(found.flips.any())
    assert bool(attack_radius(tail, simplices, decision, found).radius.isnan().all())


def test_memory_in_parts_gives_the_same(monkeypatch):
    generator = np.random.default_rng(2)
    tail, simplices, decision = problem(generator, small_steps(generator, classes=3), texts=3, slots=3)
    whole = joint_attack(tail, simplices, decision)
    asked = []
    after = Tail.after
    monkeypatch.setattr(Tail, "after", lambda self, vectors: asked.append(vectors.shape) or after(self, vectors))
    monkeypatch.setattr("attn_faithful.functional.tail_attack._CELLS", 100)
    monkeypatch.setattr("attn_faithful.functional.search_space._CELLS", 2400)
    parts = joint_attack(tail, simplices, decision)
    torch.testing.assert_close(parts.lead, whole.lead, rtol=1e-4, atol=1e-4)
    rows = [shape[:-1].numel() for shape in asked]
    assert 100 < max(rows) <= 2400 // 12


def test_bad_input_is_named():
    generator = np.random.default_rng(0)
    tail, simplices, decision = problem(generator, ())
    origin, moves, items, shares = simplices.origin, simplices.moves, simplices.items, simplices.shares
    with pytest.raises(InputError, match="decision"):
        joint_attack(tail, simplices, decision + 9)
    with pytest.raises(InputError, match="moves"):
        Simplices(origin, moves[0], items, shares)
    with pytest.raises(InputError, match="origin"):
        Simplices(origin[:1], moves, items, shares)
    with pytest.raises(InputError, match="items"):
        Simplices(origin, moves, items.long(), shares)
    for wrong in (2 * shares, -shares, shares * math.nan, shares.roll(1, -1) * 0):
        with pytest.raises(InputError, match="shares"):
            Simplices(origin, moves, items, wrong)
    with pytest.raises(InputError, match="shares"):
        Simplices(origin, moves, items & (torch.arange(4) > 0), shares)
