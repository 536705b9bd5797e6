"""Removal of attention weights against loops over one text."""

import math

import pytest
import torch
import torch.nn.functional as F

from attn_faithful._checks import InputError
from attn_faithful.functional import attention_removal as erasure
from attn_faithful.functional.flip_set import greedy_flip_size
from attn_faithful.functional.projections import PROJECTIONS
from tests.reference import erasure as reference
from tests.reference import projections

nan, inf = math.nan, math.inf
EXACT = {"rtol": 0, "atol": 0, "equal_nan": True}
CLOSE = {"rtol": 1e-10, "atol": 1e-10, "equal_nan": True}


def problems(n=40, longest=9, classes=3, seed=0, spread=1.5):
    """Random padded texts of every length from 1; every other one has weights of 0, every fifth only those.

    Importance has ties, NaN and infinities.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    rows = torch.arange(n)
    items = torch.arange(longest) < rows[:, None] % longest + 1
    w = spread * draw(n, longest)
    w[(rows % 2 == 1)[:, None] & (draw(n, longest) > 0)] = -inf
    w[rows % 5 == 4] = -inf
    importance = (2 * draw(n, longest)).round()
    importance[draw(n, longest) > 1.5], importance[draw(n, longest) > 1.5] = nan, -inf
    return w.where(items, nan), importance, items, 2 * draw(n, longest, classes), draw(n, classes)


def each(w, importance, items, z, b):
    """The texts as lists: log weights, order, token logits, bias."""
    for row, rank, ok, logits, bias in zip(w, importance, items, z, b, strict=True):
        yield row[ok].tolist(), reference.removal_order(rank[ok].tolist()), logits[ok].tolist(), bias.tolist()


def compare(found, items, expected):
    """``found`` (B, T + 1, C) is the lists, and NaN behind them."""
    for row, ok, rows in zip(found, items, expected, strict=True):
        n = int(ok.sum())
        torch.testing.assert_close(row[: n + 1], torch.tensor(rows, dtype=torch.float64), **CLOSE)
        assert row[n + 1 :].isnan().all()


def test_removal_order_equals_the_reference():
    _, importance, items, _, _ = problems()
    gaps = torch.rand(items.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    for there in (items, items & ~gaps):
        found = erasure.removal_order(importance, there)
        for order, rank, ok in zip(found.tolist(), importance, there, strict=True):
            positions = ok.nonzero()[:, 0].tolist()
            expected = [positions[i] for i in reference.removal_order(rank[ok].tolist())]
            assert order == expected + [t for t in range(items.shape[1]) if t not in positions]


def test_ties_nan_and_infinities_have_their_place():
    importance = torch.tensor([[1, nan, -inf, inf, 1, nan, 9]])
    items = torch.tensor([[True] * 6 + [False]])
    assert erasure.removal_order(importance, items).tolist() == [[3, 0, 4, 2, 1, 5, 6]]


@pytest.mark.parametrize("spread", [1.5, 100.0, 700.0, 3000.0])
@pytest.mark.parametrize("by", ["importance", "attention", "rising attention"])
def test_prefix_logits_equal_the_reference(spread, by):
    w, importance, items, z, b = problems(spread=spread)
    importance = {"importance": importance, "attention": w, "rising attention": -w}[by]
    found = erasure.prefix_logits(w, erasure.removal_order(importance, items), items, z, b)
    compare(found, items, [reference.prefix_logits(*text) for text in each(w, importance, items, z, b)])


def test_long_texts():
    for spread in (1.0, 300.0):
        w, importance, items, z, b = problems(n=300, longest=300, seed=2, spread=spread)
        part = [x[290:] for x in (w, importance, items, z, b)]
        found = erasure.prefix_logits(part[0], erasure.removal_order(*part[1:3]), *part[2:])
        compare(found, part[2], [reference.prefix_logits(*text) for text in each(*part)])


@pytest.mark.parametrize("far", [[0, -120, -121], [0, -2000, -2001], [3000, 0, -1], [-5000, -7000, -7001]])
def test_what_a_large_weight_hid(far):
    w, items = torch.tensor([far]).double(), torch.ones(1, 3, dtype=torch.bool)
    z = torch.eye(3)[None].double()
    expected = torch.tensor([0, 1, math.exp(-1)], dtype=torch.float64) / (1 + math.exp(-1))
    after = erasure.prefix_logits(w, torch.tensor([[0, 1, 2]]), items, z, torch.zeros(1, 3))
    torch.testing.assert_close(after[0, 1], expected, rtol=0, atol=1e-12)
    single = erasure.single_removals(w, items, z, torch.zeros(1, 3))
    torch.testing.assert_close(single[0, 0], expected, rtol=0, atol=1e-12)


def test_masked_classes_stay_so():
    w, importance, items, z, b = problems()
    order = erasure.removal_order(importance, items)
    plain = erasure.prefix_logits(w, order, items, z, b), erasure.single_removals(w, items, z, b)
    b = torch.cat([b[:, :1], torch.full_like(b[:, :1], -inf), b[:, 1:]], 1)
    for filler in (0.0, nan, inf):
        filled = torch.cat([z[..., :1], torch.full_like(z[..., :1], filler), z[..., 1:]], -1)
        found = erasure.prefix_logits(w, order, items, filled, b), erasure.single_removals(w, items, filled, b)
        for left, right in zip(found, plain, strict=True):
            torch.testing.assert_close(left[..., [0, 2, 3]], right, **EXACT)
            assert (left[..., 1][~right.isnan().any(-1)] == -inf).all()


def test_equal_sums_stay_equal():
    """Class 0 has 1/3 + 1 and class 1 has 4/3: whole numbers until the last division."""
    items = torch.ones(1, 3, dtype=torch.bool)
    z = torch.tensor([[[1.0, 4.0], [0.0, 0.0], [0.0, 0.0]]])
    for scale in (0.0, 0.1, -7.3):
        after = erasure.prefix_logits(
            torch.full((1, 3), scale), torch.tensor([[2, 1, 0]]), items, z, torch.tensor([[1.0, 0.0]])
        )
        assert after[0, 0, 0] == after[0, 0, 1]


@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_recomputed_prefixes_equal_the_reference(name, chunk):
    w, importance, items, z, b = problems(n=18, longest=6)
    w = torch.where(items & (w == -inf), 0.3, w)  # the references know no score of -inf, which is forbidden
    order = erasure.removal_order(importance, items)
    found = erasure.recompute_prefix_logits(w, PROJECTIONS[name], order, items, z, b, chunk)
    project = getattr(projections, name)
    texts = each(w, importance, items, z, b)
    compare(found, items, [reference.recomputed_prefix_logits(s, project, *text) for s, *text in texts])
    renormalized = erasure.prefix_logits(w, order, items, z, b)
    assert torch.allclose(found, renormalized, rtol=0, atol=1e-10, equal_nan=True) == (name == "softmax")


def test_recomputed_softmax_is_renormalized_softmax():
    w, importance, items, z, b = problems(spread=300.0)
    order = erasure.removal_order(importance, items)
    found = erasure.recompute_prefix_logits(w, PROJECTIONS["softmax"], order, items, z, b, 5)
    torch.testing.assert_close(found, erasure.prefix_logits(w, order, items, z, b), **CLOSE)


def test_first_flip_equals_the_reference():
    w, importance, items, _, b = problems(n=200)
    generator = torch.Generator().manual_seed(3)
    z = torch.randint(-2, 3, (200, 9, 3), generator=generator).double()
    w, b = torch.where(w > -inf, 0.0, w), b.round()  # ties
    given = w, importance, items, z, b
    after = erasure.prefix_logits(w, erasure.removal_order(importance, items), items, z, b)
    decision = torch.tensor([reference.decision(row[0].tolist()) for row in after])
    found = erasure.first_flip(after, decision)
    expected = [reference.first_flip(row[: int(ok.sum()) + 1].tolist()) for row, ok in zip(after, items, strict=True)]
    assert found.tolist() == pytest.approx(expected, nan_ok=True)
    assert found.dtype == torch.float64
    sizes = set(found[~found.isnan()].tolist())
    assert len(sizes) > 4
    assert 20 < found.isnan().sum() < 150
    assert [first for first, text in zip(expected, each(*given), strict=True) if first > len(text[0])] == []


def test_the_decision_is_the_lowest_class_on_ties():
    after = torch.tensor([[[1.0, 2.0, 0.0], [2.0, 2.0, 2.0], [0.0, 2.0, 9.0]]])
    assert erasure.first_flip(after, torch.tensor([1])).item() == 1
    assert erasure.first_flip(after[..., [1, 0, 2]], torch.tensor([0])).item() == 2
    assert erasure.first_flip(after[:, :2, [1, 0, 2]], torch.tensor([0])).isnan().item()
    assert erasure.first_flip(torch.full((1, 3, 2), nan), torch.tensor([0])).isnan().item()


def test_removed_mass():
    w, importance, items, _, _ = problems(spread=30.0)
    order = erasure.removal_order(importance, items)
    for k in range(5):
        size = torch.where(items.sum(1) >= k, float(k), nan)
        found = erasure.removed_mass(w, order, items, size).tolist()
        for mass, row, rank, ok in zip(found, w, importance, items, strict=True):
            weights = [math.exp(x) for x in row[ok].tolist()]
            expected = nan
            if len(weights) >= k and sum(weights) > 0:
                first = reference.removal_order(rank[ok].tolist())[:k]
                expected = sum(weights[t] for t in first) / sum(weights)
            assert mass == pytest.approx(expected, abs=1e-12, nan_ok=True)
    everything = erasure.removed_mass(w, order, items, items.sum(1).float())
    some = (w > -inf).any(1)
    assert (everything[some] == 1).all()
    assert everything[~some].isnan().all()
    assert erasure.removed_mass(w - 4000, order, items, size).tolist() == pytest.approx(found, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("spread", [1.5, 40.0, 700.0])
def test_single_removals_equal_the_reference(spread):
    w, importance, items, z, b = problems(spread=spread)
    found = erasure.single_removals(w, items, z, b)
    for row, ok, (logs, _, logits, bias) in zip(found, items, each(w, importance, items, z, b), strict=True):
        n = len(logs)
        expected = [reference.from_logs(logs, [u for u in range(n) if u != t], logits, bias) for t in range(n)]
        torch.testing.assert_close(row[ok], torch.tensor(expected, dtype=torch.float64), **CLOSE)
        assert row[~ok].isnan().all()


def affine(w, z, b):
    """``after`` of an affine read-out, and what it was asked."""
    asked = []

    def after(keep):
        asked.append(keep)
        kept = torch.where(keep, w[:, None], -inf)
        attention = torch.where(kept.amax(-1, keepdim=True) > -inf, kept.softmax(-1), 0.0)
        return attention @ z + b[:, None]

    return after, asked


def test_greedy_equals_the_reference():
    w, importance, items, z, b = problems(n=60, seed=5)
    w = w.where(items, -inf)
    after, asked = affine(w, z, b)
    everything = after(torch.ones_like(items)[:, None])[:, 0]
    decision = everything.argmax(-1)
    asked.clear()
    size, removed = greedy_flip_size(after, items, decision)
    assert all((keep | items[:, None]).all() for keep in asked)
    assert sum(keep.shape[1] for keep in asked) <= 9 * 9
    found = 0
    for i, (logs, _, logits, bias) in enumerate(each(w, importance, items, z, b)):
        only = lambda kept: reference.from_logs(logs, kept, logits, bias)  # noqa: B023, E731
        expected = reference.greedy(only, len(logs))
        assert removed[i].nonzero()[:, 0].tolist() == sorted(expected or [])
        assert size[i].item() == pytest.approx(nan if expected is None else len(expected), nan_ok=True)
        found += expected is not None
    assert 15 < found < 60
    by_text = torch.arange(len(items)) % 3 + 1
    for limit in (1, 2, 50, by_text):
        bounded, part = greedy_flip_size(after, items, decision, limit)
        torch.testing.assert_close(bounded, torch.where(size <= limit, size, nan), **EXACT)
        assert torch.equal(part, removed & (size <= limit)[:, None])


def test_greedy_takes_the_first_of_equal_items_and_asks_in_chunks():
    items = torch.ones(1, 150, dtype=torch.bool)
    items[0, 0] = False
    asked = []

    def after(keep):
        asked.append(keep.shape[1])
        return torch.stack([torch.full(keep.shape[:2], 147.5), keep.sum(-1)], -1)

    size, removed = greedy_flip_size(after, items, torch.tensor([1]))
    assert (size.item(), removed[0].nonzero()[:, 0].tolist()) == (3, [1, 2, 3])
    assert asked == [64, 64, 21, 64, 64, 20, 64, 64, 19]


def test_greedy_passes_over_nan():
    items = torch.tensor([[True, True, True], [True, True, True], [False, False, False]])

    def after(keep):
        logits = torch.stack([torch.full(keep.shape[:2], 1.5), keep.double().sum(-1)], -1)
        logits[0, ~keep[0, :, 0]] = nan
        logits[1] = nan
        return logits

    size, removed = greedy_flip_size(after, items, torch.tensor([1, 1, 1]))
    assert size.tolist() == pytest.approx([2, nan, nan], nan_ok=True)
    assert removed.tolist() == [[False, True, True], [False] * 3, [False] * 3]


@pytest.mark.parametrize("spread", [1.5, 700.0])
def test_padding_and_batch_change_no_bit(spread):
    given = w, importance, items, z, b = problems(spread=spread, seed=7)
    w[::3] /= spread  # both ways of summing in one batch

    def everything(w, importance, items, z, b):
        order = erasure.removal_order(importance, items)
        after = erasure.prefix_logits(w, order, items, z, b)
        size = erasure.first_flip(after, after[:, 0].nan_to_num().argmax(-1))
        return order, after, size, erasure.removed_mass(w, order, items, size), erasure.single_removals(w, items, z, b)

    order, after, size, mass, single = everything(*given)
    for left, right in ((0, 40), (7, 0), (3, 30)):
        pad = lambda x, value, dim=(): F.pad(x, (*dim, left, right), value=value)  # noqa: B023, E731
        wide = everything(pad(w, nan), pad(importance, 5), pad(items, False), pad(z, nan, (0, 0)), b)
        for row, expected, n in zip(wide[0], order, items.sum(1).tolist(), strict=True):
            assert torch.equal(row[:n], expected[:n] + left)
        torch.testing.assert_close(wide[1][:, :10], after, **EXACT)
        torch.testing.assert_close(wide[2], size, **EXACT)
        torch.testing.assert_close(wide[3], mass, **EXACT)
        torch.testing.assert_close(wide[4][:, left : left + 9], single, **EXACT)
    for i in range(len(b)):
        alone = everything(*(x[i : i + 1] for x in given))
        for one, all_ in zip(alone, (order, after, size, mass, single), strict=True):
            torch.testing.assert_close(one[0], all_[i], **EXACT)


def test_inputs_stay_and_carry_no_gradient():
    w, importance, items, z, b = problems()
    given = w, erasure.removal_order(importance, items), items, z, b
    copies = [x.clone() for x in given]
    plain = erasure.prefix_logits(*given)
    for left, right in zip(given, copies, strict=True):
        torch.testing.assert_close(left, right, **EXACT)
    tracked = [x.requires_grad_() if x.dtype == torch.float64 else x for x in copies]
    for found in (
        erasure.prefix_logits(*tracked),
        erasure.recompute_prefix_logits(tracked[0], PROJECTIONS["softmax"], *tracked[1:]),
        erasure.single_removals(tracked[0], *tracked[2:]),
    ):
        assert not found.requires_grad
    single = erasure.prefix_logits(*(x.float() if x.dtype == torch.float64 else x for x in given))
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, plain, rtol=1e-5, atol=1e-5, equal_nan=True)  # of inputs of 1e-7


def test_undefined_rows_are_nan_and_leave_the_others_alone():
    w, importance, items, z, b = problems()
    order = erasure.removal_order(importance, items)
    plain = erasure.prefix_logits(w, order, items, z, b), erasure.single_removals(w, items, z, b)
    items = items.clone()
    items[0] = False
    w[1, 0], w[2, 0], z[3, 0, 0], b[4, 1], b[5, 2] = nan, inf, nan, nan, inf
    order = erasure.removal_order(importance, items)
    recomputed = erasure.recompute_prefix_logits(w, PROJECTIONS["softmax"], order, items, z, b)
    for found in (erasure.prefix_logits(w, order, items, z, b), recomputed):
        assert found[1:6].isnan().all()
        assert torch.equal(found[0, 0], b[0])  # without items: the bias
        assert found[0, 1:].isnan().all()
        torch.testing.assert_close(found[6:], plain[0][6:], **CLOSE)
    single = erasure.single_removals(w, items, z, b)
    assert single[:6].isnan().all()
    torch.testing.assert_close(single[6:], plain[1][6:], **EXACT)


def test_no_examples_and_no_tokens():
    for n, tokens in ((0, 3), (2, 0), (0, 0)):
        w, items = torch.zeros(n, tokens), torch.zeros(n, tokens, dtype=torch.bool)
        z, b = torch.zeros(n, tokens, 2), torch.ones(n, 2)
        order = erasure.removal_order(w, items)
        after = erasure.prefix_logits(w, order, items, z, b)
        recomputed = erasure.recompute_prefix_logits(w, PROJECTIONS["softmax"], order, items, z, b)
        assert after.shape == recomputed.shape == (n, tokens + 1, 2)
        assert (after[:, 0] == 1).all()
        size = erasure.first_flip(after, torch.zeros(n).long())
        assert size.isnan().all()
        assert erasure.removed_mass(w, order, items, size).isnan().all()
        assert erasure.single_removals(w, items, z, b).shape == (n, tokens, 2)
        sizes, removed = greedy_flip_size(lambda keep: torch.zeros(*keep.shape[:2], 2), items, size.long() * 0)
        assert sizes.isnan().all()
        assert removed.shape == (n, tokens)


def test_bad_input_is_named():
    w, items, z, b = torch.zeros(4, 3), torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, 3, 2), torch.zeros(4, 2)
    order, decision = torch.arange(3).expand(4, -1), torch.zeros(4, dtype=torch.long)
    with pytest.raises(InputError, match=r"`items` of shape \(4, 3\), but got \(4, 2\)"):
        erasure.removal_order(w, items[:, :2])
    with pytest.raises(InputError, match=r"`items` of type torch.bool, but got torch.int64"):
        erasure.removal_order(w, items.long())
    with pytest.raises(
        InputError, match=r"`order` of shape \(4, 3\) and type torch.int64, but got \(4, 3\) and torch.fl"
    ):
        erasure.prefix_logits(w, order.float(), items, z, b)
    with pytest.raises(InputError, match=r"`log_weights` of shape \(4, 3\) beside .* but got \(4, 1, 3\)"):
        erasure.single_removals(w[:, None], items, z, b)
    with pytest.raises(InputError, match="`chunk` of at least 1, but got 0"):
        erasure.recompute_prefix_logits(w, PROJECTIONS["softmax"], order, items, z, b, 0)
    with pytest.raises(InputError, match="`decision` with one class from 0 to 1 for each of 4 examples"):
        erasure.first_flip(torch.zeros(4, 4, 2), decision + 2)
    with pytest.raises(InputError, match="`size` with a number from 0 to 3, or NaN, for each of 4 examples"):
        erasure.removed_mass(w, order, items, torch.full((4,), 4.0))
    with pytest.raises(InputError, match="`limit` of at least 1 or None, but got 0"):
        greedy_flip_size(lambda keep: torch.zeros(4, keep.shape[1], 2), items, decision, 0)
    with pytest.raises(InputError, match="`decision` with one class from 0 to 1"):
        greedy_flip_size(lambda keep: torch.zeros(4, keep.shape[1], 2), items, decision - 1)
