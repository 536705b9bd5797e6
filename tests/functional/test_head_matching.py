"""Matching of heads: against brute force over every permutation, and the properties that make swapping no change."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import head_matching as M
from attn_faithful.functional.divergences import LN2
from tests.reference import head_matching as reference

REAL = [4, 1, 0, 3, 4]  # real queries of each example


def heads(seed=0, examples=5, h=3, queries=4, tokens=6, dtype=torch.float64, sparse=True):
    """Attention of random texts; some weights, and a whole row, are exact zeros."""
    generator = np.random.default_rng(seed)
    attention = generator.dirichlet(np.full(tokens, 0.5), size=(examples, h, queries))
    if sparse:
        attention[generator.random(attention.shape) < 0.3] = 0.0
        attention[0, 0, 1] = 0.0
        total = attention.sum(-1, keepdims=True)
        attention = np.divide(attention, total, out=np.zeros_like(attention), where=total > 0)
    return torch.tensor(attention, dtype=dtype)


def real_rows(lengths=REAL, queries=4):
    return torch.arange(queries) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("h", [1, 2, 5])
def test_distances_equal_loops(dtype, bound, h):
    twin, base, rows = heads(1, h=h, dtype=dtype), heads(2, h=h, dtype=dtype), real_rows()
    found = M.head_distances(twin, base, rows)
    expected = torch.tensor(reference.distances(twin.tolist(), base.tolist(), rows.tolist()), dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=bound, rtol=0, equal_nan=True)
    assert found[2].isnan().all()  # no real row
    assert found.dtype == torch.float64


def test_distances_do_not_depend_on_how_much_is_held_at_once(monkeypatch):
    twin, base, rows = heads(1), heads(2), real_rows()
    whole = M.head_distances(twin, base, rows)
    monkeypatch.setattr(M, "_CELLS", 1)
    torch.testing.assert_close(M.head_distances(twin, base, rows), whole, atol=1e-15, rtol=0, equal_nan=True)


@pytest.mark.parametrize("h", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_assignment_is_the_best_of_all_permutations(h, seed):
    distances = M.head_distances(heads(seed, h=h), heads(seed + 50, h=h), real_rows())
    assignment = M.match_heads(distances)
    order, total, costs = reference.best_assignment(distances.tolist())
    assert sorted(assignment.tolist()) == list(range(h))
    assert sum(costs[i][j] for i, j in enumerate(assignment)) == pytest.approx(total, abs=1e-12)
    assert assignment.tolist() == list(order)  # random distances have one best
    assert M.match_heads(distances.nanmean(0)).tolist() == list(order)


def test_matched_jsd_equals_loops_and_the_distances():
    twin, base, rows = heads(1, h=4), heads(2, h=4), real_rows()
    distances, assignment = M.head_distances(twin, base, rows), [2, 0, 3, 1]
    slow = reference.distances(twin.tolist(), base.tolist(), rows.tolist())
    expected = torch.tensor([reference.matched(example, assignment) for example in slow], dtype=torch.float64)
    for found in (M.matched_jsd(twin, base, rows, assignment), M.matched_distances(distances, assignment)):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0, equal_nan=True)
    # a weight of 0 costs up to eps times the logarithm of eps
    smooth = M.matched_jsd(twin, base, rows, assignment, eps=1e-10)
    torch.testing.assert_close(smooth, expected, atol=1e-8, rtol=0, equal_nan=True)


def test_permuted_heads_are_no_change():
    base, rows = heads(3, h=5), real_rows()
    order = [3, 0, 4, 1, 2]
    twin = base[:, order]
    distances = M.head_distances(twin, base, rows)
    assignment = M.match_heads(distances)
    assert assignment.tolist() == order
    assert M.matched_distances(distances, assignment)[[0, 1, 3, 4]].tolist() == pytest.approx([0.0] * 4, abs=1e-15)
    assert M.matched_jsd(twin, base, rows, assignment)[[0, 1, 3, 4]].tolist() == [0.0] * 4
    assert (M.matched_jsd(twin, base, rows, range(5))[[0, 1, 3, 4]] > 0.01).all()


def test_one_assignment_for_all_examples():
    """Heads that swap in one text only have changed there."""
    base = torch.eye(2, dtype=torch.float64).repeat(3, 1, 1)[:, :, None]
    twin = base.clone()
    twin[0] = twin[0].flip(0)
    distances = M.head_distances(twin, base, torch.ones(3, 1, dtype=torch.bool))
    assignment = M.match_heads(distances)
    assert assignment.tolist() == [0, 1]
    assert M.matched_distances(distances, assignment).tolist() == pytest.approx([LN2, 0, 0])


def test_symmetric_and_in_range():
    twin, base, rows = heads(4), heads(5), real_rows()
    one, other = M.head_distances(twin, base, rows), M.head_distances(base, twin, rows)
    torch.testing.assert_close(one, other.transpose(1, 2), atol=1e-14, rtol=0, equal_nan=True)
    there = M.match_heads(one)
    back = M.match_heads(other)
    assert back[there].tolist() == list(range(3))
    defined = one[~one.isnan()]
    assert ((defined >= 0) & (defined <= LN2)).all()


def test_batches_order_and_padding_change_nothing():
    twin, base, rows = heads(6), heads(7), real_rows()
    whole = M.head_distances(twin, base, rows)
    alone = torch.cat([M.head_distances(twin[[i]], base[[i]], rows[[i]]) for i in (4, 3, 2, 1, 0)]).flip(0)
    torch.testing.assert_close(alone, whole, atol=1e-15, rtol=0, equal_nan=True)
    assert M.match_heads(alone).tolist() == M.match_heads(whole).tolist()
    wide = torch.nn.functional.pad(torch.stack([twin, base]), (0, 3, 0, 2), value=0.0)
    wide[:, :, :, 4:] = 0.125  # what stands in padded rows
    more = torch.nn.functional.pad(rows, (0, 2))
    torch.testing.assert_close(M.head_distances(*wide, more), whole, atol=1e-15, rtol=0, equal_nan=True)
    found = M.matched_jsd(*wide, more, [1, 2, 0])
    torch.testing.assert_close(found, M.matched_jsd(twin, base, rows, [1, 2, 0]), atol=1e-15, rtol=0, equal_nan=True)


def test_inputs_stay_as_they_are():
    given = heads(6), heads(7)
    copies = [x.clone() for x in given]
    M.match_heads(M.head_distances(*given, real_rows()))
    M.matched_jsd(*given, real_rows(), [1, 2, 0])
    assert all(torch.equal(a, b) for a, b in zip(given, copies, strict=True))


def test_rows_without_mass_count_nowhere():
    base = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    twin = torch.tensor([[[[0.0, 0.0], [1.0, 0.0]]]])
    rows = torch.ones(1, 2, dtype=torch.bool)
    assert M.head_distances(twin, base, rows).item() == pytest.approx(LN2)
    assert M.matched_jsd(twin, base, rows, [0]).item() == pytest.approx(LN2)
    nothing = torch.zeros_like(base)
    assert M.head_distances(nothing, base, rows).isnan().all()
    assert M.matched_jsd(nothing, base, rows, [0]).isnan().all()
    assert M.matched_jsd(nothing, base, rows, [0], eps=1e-10).isnan().all()


def test_a_pair_without_any_value_is_matched_last():
    nan = math.nan
    assert M.match_heads(torch.tensor([[nan, 0.1], [0.2, nan]])).tolist() == [1, 0]
    assert M.match_heads(torch.tensor([[[nan, 0.6], [0.6, 0.1]], [[0.1, nan], [nan, nan]]])).tolist() == [0, 1]
    assert M.match_heads(torch.full((2, 2), nan)).tolist() in ([0, 1], [1, 0])


def test_content_attention_equals_loops_and_is_left_out_without_mass():
    attention = heads(8)
    content = torch.tensor([[0, 1, 1, 0, 1, 0], [1] * 6, [0] * 6, [0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]).bool()
    found = M.content_attention(attention, content)
    for b in range(5):
        for h in range(3):
            for q in range(4):
                expected = reference.content_attention(attention[b, h, q].tolist(), content[b].tolist())
                assert found[b, h, q].tolist() == pytest.approx(expected, abs=1e-12)
    distances = M.head_distances(found, found, real_rows())
    assert distances[2].isnan().all()  # a text without content
    single = distances[3][~distances[3].isnan()]
    assert len(single) > 0
    assert (single < 1e-15).all()  # one content token: nothing can move


@pytest.mark.parametrize("restricted", [False, True])
def test_gradient(restricted):
    scores = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    base = heads(9, examples=2, h=2, queries=3, tokens=4)
    rows = torch.tensor([[True, True, False], [True, False, False]])
    content = torch.tensor([[True, False, True, True], [True, True, True, False]])

    def value(scores):
        twin, other = scores.softmax(-1), base
        if restricted:
            twin, other = M.content_attention(twin, content), M.content_attention(other, content)
        return M.matched_jsd(twin, other, rows, [1, 0], eps=1e-10)

    assert torch.autograd.gradcheck(value, scores.requires_grad_())
    gradient = torch.autograd.grad(value(scores).sum(), scores)[0]
    assert (gradient[0, :, 2] == 0).all()  # a query that is padding
    assert gradient.abs().sum() > 0


def test_gradients_are_finite_at_zeros():
    twin, base = heads(10, dtype=torch.float32).requires_grad_(), heads(11, dtype=torch.float32)
    value = M.matched_jsd(twin, base, real_rows(), [1, 2, 0], eps=1e-10)
    value.nansum().backward()
    assert twin.grad.isfinite().all()
    assert value.dtype == torch.float32


def test_bad_input_is_named():
    twin, rows = heads(0), real_rows()
    with pytest.raises(InputError, match=r"`twin` of shape \(B, H, Q, T\)"):
        M.head_distances(twin[0], twin[0], rows)
    with pytest.raises(InputError, match=r"the twin's is \(5, 3, 4, 6\), the base's \(5, 2, 4, 6\)"):
        M.head_distances(twin, twin[:, :2], rows)
    with pytest.raises(InputError, match="`rows`"):
        M.matched_jsd(twin, twin, rows[:, :3], [0, 1, 2])
    with pytest.raises(InputError, match=r"each of 3 heads once, but got \[0, 0, 1\]"):
        M.matched_jsd(twin, twin, rows, [0, 0, 1])
    with pytest.raises(InputError, match=r"`distances` \(B, H, H\)"):
        M.match_heads(torch.zeros(2, 3))
    with pytest.raises(InputError, match="`content`"):
        M.content_attention(twin, rows)
