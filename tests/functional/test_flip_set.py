"""The smallest flip set against all subsets."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attn_faithful._checks import InputError
from attn_faithful.functional import attention_removal as erasure
from attn_faithful.functional.flip_set import smallest_flip_set
from tests.reference import erasure as reference

nan, inf = math.nan, math.inf


def problem(generator, most=9):
    """One text of 1 to ``most`` items and 2 to 5 classes: weights, token logits, bias.

    Half have weights of 0, a third whole numbers and equal weights, so that sums and decisions tie exactly.
    """
    n, classes = int(generator.integers(1, most + 1)), int(generator.integers(2, 6))
    whole = generator.random() < 1 / 3
    if whole:
        weights = np.ones(n)
        z, b = generator.integers(-2, 3, (n, classes)), generator.integers(-1, 2, classes)
    else:
        weights = np.exp(1.5 * generator.standard_normal(n))
        z, b = 2 * generator.standard_normal((n, classes)), generator.standard_normal(classes)
    if generator.random() < 0.5:
        weights[generator.random(n) < 0.5] = 0
        weights[generator.integers(n)] = 1
    if generator.random() < 0.2:  # one class leads everywhere
        b = b + 9 * (np.arange(classes) == generator.integers(classes))
    if generator.random() < 0.1 and classes > 2:
        b = np.where(np.arange(classes) == generator.integers(classes), -inf, b)
    return weights.tolist(), z.tolist(), [float(x) for x in b]


def batch(problems, left=0, right=0):
    """Padded to one length and one number of classes: log weights, items, token logits, bias."""
    size, classes = (max(map(len, column)) for column in ([p[0] for p in problems], [p[2] for p in problems]))
    w = torch.full((len(problems), left + size + right), nan, dtype=torch.float64)
    items = torch.zeros(w.shape, dtype=torch.bool)
    z, b = torch.full((*w.shape, classes), nan).double(), torch.full((len(problems), classes), -inf).double()
    for i, (weights, logits, bias) in enumerate(problems):
        place = slice(left, left + len(weights))
        w[i, place], items[i, place] = torch.tensor(weights).double().log(), True
        z[i, place, : len(bias)], b[i, : len(bias)] = torch.tensor(logits).double(), torch.tensor(bias).double()
    return w, items, z, b


def check(problems):
    """Sizes, sets and classes are those of the brute force; how many flip, and how many only without any weight."""
    found = smallest_flip_set(*batch(problems))
    flips, only_empty = 0, 0
    for i, (weights, z, b) in enumerate(problems):
        sets = reference.smallest_flip_sets(weights, z, b)
        removed = tuple(found.removed[i].nonzero()[:, 0].tolist())
        if not sets:
            assert found.size[i].isnan()
            assert (removed, found.flips_to[i].item(), found.reason[i]) == ((), -1, "never flips")
            continue
        flips += 1
        assert found.reason[i] is None
        assert found.size[i] == len(next(iter(sets)))
        assert sets[removed] == found.flips_to[i]
        only_empty += sum(w > 0 for t, w in enumerate(weights) if t not in removed) == 0
    return flips, only_empty


@pytest.mark.parametrize("seed", range(3))
def test_equals_all_subsets(seed):
    generator = np.random.default_rng(seed)
    problems = [problem(generator) for _ in range(150)] + [problem(generator, 12) for _ in range(5)]
    flips, only_empty = check(problems)
    assert 90 < flips < 150
    assert only_empty > 10


def single(log_weights, z, bias):
    w = torch.tensor([log_weights], dtype=torch.float64)
    return smallest_flip_set(
        w, torch.ones(w.shape, dtype=torch.bool), torch.tensor([z]).double(), torch.tensor([bias]).double()
    )


def test_the_largest_terms_go_first_whatever_their_weights():
    found = single([math.log(0.6), math.log(0.3), math.log(0.1)], [[0, 1], [0, 4], [1, 0]], [0.0, 0.0])
    assert (found.size.item(), found.removed.tolist(), found.flips_to.item()) == (2, [[True, True, False]], 0)
    found = single([math.log(0.6), math.log(0.3), math.log(0.1)], [[1, 0], [0, 4], [0, 0]], [0.0, 0.0])
    assert (found.size.item(), found.removed.tolist(), found.flips_to.item()) == (1, [[False, True, False]], 0)


def test_a_tie_changes_the_decision_only_for_a_lower_class():
    assert single([0, 0], [[0, 1], [0, 0]], [0, 0]).size.item() == 1
    tied = single([0, 0], [[1, 0], [0, 0]], [0, 0])
    assert (tied.size.isnan().item(), tied.reason) == (True, ["never flips"])
    assert single([0, 0], [[1, 0], [0, 0]], [0, 1e-9]).size.item() == 1


def test_nothing_kept_is_the_bias():
    found = single([0, -1, -inf], [[0, 1], [0, 2], [9, 0]], [0.5, 0.0])
    assert (found.size.item(), found.removed.tolist(), found.flips_to.item()) == (2, [[True, True, False]], 0)
    assert single([0, -1], [[0, 1], [0, 2]], [0.5, 1.0]).reason == ["never flips"]


def test_the_class_that_is_decided_then_is_named():
    """Removing the first item lets class 0 overtake, and class 2 still further."""
    found = single([0, 0], [[0, 5, 0], [2, 1, 3]], [0, 0, 0])
    assert (found.size.item(), found.flips_to.item()) == (1, 2)


def test_one_item_and_no_item():
    assert single([3.0], [[0.0, 1.0]], [0.5, 0.0]).size.item() == 1
    assert single([3.0], [[0.0, 1.0]], [0.0, 0.5]).reason == ["never flips"]
    assert single([-inf, -inf], [[0.0, 1.0], [5.0, 0.0]], [0.0, 0.5]).reason == ["never flips"]
    for n, tokens in ((0, 3), (2, 0), (0, 0)):
        found = smallest_flip_set(
            torch.zeros(n, tokens), torch.zeros(n, tokens).bool(), torch.zeros(n, tokens, 2), torch.zeros(n, 2)
        )
        assert found.reason == ["no content token"] * n
        assert found.size.isnan().all()
        assert found.removed.shape == (n, tokens)


def test_a_single_class_never_flips():
    for bias in ([0.0], [0.0, -inf], [-inf, -inf]):
        found = single([0, 0], [[1.0] * len(bias), [-1.0] * len(bias)], bias)
        assert (found.reason, found.flips_to.item()) == (["never flips"], -1)


@pytest.mark.parametrize("far", [30, 700, 2000])
def test_weights_far_apart(far):
    """Each weight hides all below it, so what is decided is what the largest that is left says."""
    generator = np.random.default_rng(far)
    seen = set()
    for _ in range(60):
        n = int(generator.integers(2, 9))
        scores = far * generator.permutation(n).astype(float)
        votes = generator.integers(0, 3, n)
        found = single(scores.tolist(), (3 * np.eye(3)[votes]).tolist(), [0.0, 0.0, 0.0])
        order = np.argsort(-scores)
        size = next((k for k in range(1, n) if votes[order[k]] != votes[order[0]]), nan)
        if math.isnan(size) and votes[order[0]] != 0:
            size = n
        assert found.size.item() == pytest.approx(size, nan_ok=True)
        if size < n:
            assert found.removed[0].nonzero()[:, 0].tolist() == sorted(order[:size].tolist())
            assert found.flips_to.item() == votes[order[size]]
        seen.add(size)
    assert len(seen) > 3


def test_what_no_float_holds_still_decides():
    """exp(-1500) is 0 in float64, and the first item says the same for both classes."""
    found = single([0.0, -1500.0, -1500.5], [[1, 1], [0, 2], [4, 0]], [0, 0])
    assert (found.size.item(), found.removed.tolist()) == (1, [[False, False, True]])
    found = single([-1500.0, -1500.5, -1499.0], [[0, 2], [3, 0], [0, 2]], [0, 0])
    assert (found.size.item(), found.removed.tolist()) == (2, [[True, False, True]])


def test_logits_of_a_hundred():
    generator = np.random.default_rng(1)
    problems = []
    for _ in range(60):
        weights, z, b = problem(generator, 7)
        problems.append((weights, [[100 * x for x in row] for row in z], [100 * x for x in b]))
    assert check(problems)[0] > 30


def test_padding_and_batch_change_no_bit():
    generator = np.random.default_rng(2)
    problems = [problem(generator) for _ in range(60)]
    given = batch(problems)
    given[0][:20] *= 400  # some rows are summed step by step
    found = smallest_flip_set(*given)
    for left, right in ((0, 40), (7, 0), (3, 30)):
        w, items, z, b = given
        pad = lambda x, value, dim=(): F.pad(x, (*dim, left, right), value=value)  # noqa: B023, E731
        wide = smallest_flip_set(pad(w, nan), pad(items, False), pad(z, nan, (0, 0)), b)
        torch.testing.assert_close(wide.size, found.size, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(wide.removed, pad(found.removed, False))
        assert torch.equal(wide.flips_to, found.flips_to)
        assert wide.reason == found.reason
    for i in range(60):
        alone = smallest_flip_set(*(x[i : i + 1] for x in given))
        torch.testing.assert_close(alone.size, found.size[i : i + 1], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(alone.removed[0], found.removed[i])


def test_invariances():
    generator = np.random.default_rng(3)
    problems = [p for p in (problem(generator) for _ in range(90)) if len(set(p[0])) > 2]
    assert len(problems) > 30
    given = w, items, z, b = batch(problems)
    copies = [x.clone() for x in given]
    found = smallest_flip_set(*given)
    for left, right in zip(given, copies, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
    turned = smallest_flip_set(w.flip(1), items.flip(1), z.flip(1), b)
    shift = torch.from_numpy(generator.standard_normal((len(w), 1)))
    for other in (
        turned,
        smallest_flip_set(w - 1000 * shift, items, z, b),
        smallest_flip_set(w, items, z + shift[..., None], b),
        smallest_flip_set(w, items, 1e8 * z, 1e8 * b),
        smallest_flip_set(w, items, z.clone().requires_grad_(), b),
    ):
        torch.testing.assert_close(other.size, found.size, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(other.flips_to, found.flips_to)
    assert torch.equal(turned.removed.flip(1), found.removed)


@pytest.mark.parametrize("seed", range(3))
def test_no_ranking_is_faster(seed):
    """Neither on random numbers nor where whole numbers tie."""
    generator = np.random.default_rng(seed)
    given = w, items, z, b = batch([problem(generator, 30) for _ in range(200)])
    found = smallest_flip_set(*given)
    importance = [torch.from_numpy(generator.standard_normal(w.shape)) for _ in range(3)]
    equal = 0
    for ranking in (w, -w, *importance, found.removed.double()):
        order = erasure.removal_order(ranking, items)
        after = erasure.prefix_logits(w, order, items, z, b)
        decision = torch.tensor([reference.decision(row[0].tolist()) for row in after])
        size = erasure.first_flip(after, decision)
        assert not (found.size.isnan() & ~size.isnan()).any()
        assert (size >= found.size)[~size.isnan()].all()
        equal += (size == found.size).sum().item()
    assert equal > 200
    torch.testing.assert_close(size, found.size, rtol=0, atol=0, equal_nan=True)  # the last ranking was the set itself
    for i in (~found.size.isnan()).nonzero()[:, 0].tolist():
        assert reference.decision(after[i, int(found.size[i])].tolist()) == found.flips_to[i]


def test_undefined_is_nan_with_a_reason():
    generator = np.random.default_rng(4)
    given = w, items, z, b = batch(
        [
            ([1.0, 2.0, 3.0], *(x.tolist() for x in (generator.standard_normal((3, 3)), generator.standard_normal(3))))
            for _ in range(8)
        ]
    )
    plain = smallest_flip_set(*given)
    items[0] = False
    w[1, 1], w[2, 0], z[3, 0, 0], z[4, 1, 2], b[5, 1], b[6, 0] = nan, inf, nan, inf, nan, inf
    found = smallest_flip_set(*given)
    assert found.reason == ["no content token", *["nan in scores"] * 6, plain.reason[7]]
    assert found.size[:7].isnan().all()
    assert not found.removed[:7].any()
    assert (found.flips_to[:7] == -1).all()
    torch.testing.assert_close(found.size[7:], plain.size[7:], rtol=0, atol=0, equal_nan=True)


def test_bad_input_is_named():
    w, items, z, b = torch.zeros(4, 3), torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, 3, 2), torch.zeros(4, 2)
    with pytest.raises(InputError, match=r"`token_logits` of shape \(B, T, C\), but got \(4, 3\)"):
        smallest_flip_set(w, items, z[..., 0], b)
    with pytest.raises(InputError, match=r"`log_weights` of shape \(4, 3\) beside .*, but got \(4, 1, 3\)"):
        smallest_flip_set(w[:, None], items, z, b)
    with pytest.raises(InputError, match=r"`bias` of shape \(4, 2\) beside .*, but got \(2,\)"):
        smallest_flip_set(w, items, z, b[0])
    with pytest.raises(InputError, match=r"`items` of shape \(4, 3\), but got \(4, 2\)"):
        smallest_flip_set(w, items[:, :2], z, b)
    with pytest.raises(InputError, match=r"`items` of type torch.bool, but got torch.int64"):
        smallest_flip_set(w, items.long(), z, b)
