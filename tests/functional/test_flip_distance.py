"""Flip distance against nested root searches, SLSQP, bounds from convexity, and closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F

from attn_faithful._checks import InputError
from attn_faithful.functional.flip_distance import attention_proof, flip_distance
from tests.reference import divergences, permutations
from tests.reference import flip_distance as reference

nan, inf = math.nan, math.inf


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


def problems(n=60, longest=9, classes=2, seed=0, sparse=None, peak=1.5):
    """Random padded examples of every length from 1; where ``sparse``, about half of the weights are exactly 0.

    By default every other example is sparse.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    lengths = torch.arange(n) % longest + 1
    allowed = torch.arange(longest) < lengths[:, None]
    scores = (peak * draw(n, longest)).masked_fill(~allowed, -inf)
    zeros = (draw(n, longest) > 0) & (scores < scores.amax(1, keepdim=True))
    rows = torch.arange(n) % 2 == 1 if sparse is None else torch.full((n,), sparse)
    attention = scores.masked_fill(zeros & rows[:, None], -inf).softmax(-1)
    return attention, allowed, 2 * draw(n, longest, classes), 0.5 * draw(n, classes)


def single(attention, margins):
    """One example of two classes in which class 1 leads class 0 by these margins."""
    token_logits = torch.stack([torch.zeros(len(margins)).double(), t(*margins)], dim=-1)[None]
    return flip_distance(t(attention), torch.ones(1, len(margins), dtype=torch.bool), token_logits, torch.zeros(1, 2))


def rows(attention, allowed, token_logits, bias):
    for a, ok, z, b in zip(attention, allowed, token_logits, bias, strict=True):
        yield (a[ok] / a[ok].sum()).tolist(), z[ok].tolist(), b.tolist()


def check_optimal(given, found, slack=1e-10):
    """Every end point is feasible and provably within ``slack`` of the smallest JSD of every class; how many flip."""
    flips = 0
    for i, (a0, z, b) in enumerate(rows(*given)):
        margins = reference.margins_by_class(z, b, reference.decision(a0, z, b))
        if not any(min(m) < 0 for m in margins.values()):
            assert found.reason[i] == "attention-proof"
            continue
        flips += 1
        assert found.reason[i] is None
        a = found.attention[i][given[1][i]].tolist()
        m = margins[found.flips_to[i].item()]
        assert min(a) >= 0
        assert sum(a) == pytest.approx(1, abs=1e-12)
        assert abs(sum(x * y for x, y in zip(a, m, strict=True))) <= 1e-12 * max(map(abs, m))
        assert found.jsd[i].item() == pytest.approx(divergences.jsd(a, a0), abs=1e-12)
        assert abs(reference.excess(a, a0, m)) <= slack
    return flips


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_equals_the_reference(classes):
    given = problems(classes=classes, seed=classes)
    found = flip_distance(*given)
    flips = 0
    for i, (a0, z, b) in enumerate(rows(*given)):
        distance, end, to = reference.flip_distance(a0, z, b)
        assert found.flips_to[i] == to
        if end is None:
            assert found.reason[i] == "attention-proof"
            assert found.jsd[i].isnan()
            continue
        flips += 1
        assert found.jsd[i].item() == pytest.approx(distance, abs=1e-10)
        # The JSD is flat at its smallest value: the weights are known to the root of its rounding only.
        assert found.attention[i][given[1][i]].tolist() == pytest.approx(end, abs=1e-7)
    assert 30 < flips < 60
    assert check_optimal(given, found) == flips


def test_is_never_worse_than_a_solver():
    given = problems(n=180, longest=9, seed=5)
    found = flip_distance(*given)
    dense, sparse = 0, 0
    for i, (a0, z, b) in enumerate(rows(*given)):
        if found.reason[i] is None:
            (m,) = reference.margins_by_class(z, b, reference.decision(a0, z, b)).values()
            assert found.jsd[i].item() <= reference.by_solver(a0, m) + 1e-6
            dense, sparse = dense + (i % 2 == 0), sparse + (i % 2 == 1)
    assert dense >= 60
    assert sparse >= 60


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("peak", [0.0, 1.5, 8.0])
def test_is_provably_the_smallest(classes, peak):
    given = problems(n=90, longest=30, classes=classes, seed=11, peak=peak)
    assert check_optimal(given, flip_distance(*given)) > 70


def test_long_texts():
    given = problems(n=200, longest=200, classes=3, seed=12)
    part = [x[190:] for x in given]
    assert check_optimal(part, flip_distance(*part)) == 10


def test_hard_numbers():
    """Margins of very different sizes, barely negative ones, weights near 0, decisions near a tie."""
    attention, allowed, z, b = problems(n=90, seed=13)
    for power in (5, 11):
        given = attention, allowed, z.sign() * z.abs() ** power, b
        check_optimal(given, flip_distance(*given))
    for size in (1e-3, 1e-8, 1e-13):
        barely = torch.where(allowed, z[..., 0], inf).amin(1) + size
        given = attention, allowed, torch.stack([z[..., 0] - barely[:, None], 0 * z[..., 0]], -1), 0 * b
        assert check_optimal(given, flip_distance(*given)) > 70
        almost = (attention + size) * allowed
        given = almost / almost.sum(1, keepdim=True), allowed, z, b
        check_optimal(given, flip_distance(*given))
        logits = (attention[:, None] @ z)[:, 0]
        given = attention, allowed, z, torch.stack([logits[:, 1] - logits[:, 0] + size, 0 * b[:, 0]], -1)
        found = flip_distance(*given)
        assert check_optimal(given, found) > 70
        assert found.jsd.nan_to_num().amax() < 10 * size
    for tiny in (1e-30, 1e-199, 1e-201, 1e-320):  # from some point on it is 0, which makes no difference
        assert single([1 - tiny, tiny, 0], [1, -1, -0.5]).jsd.item() == pytest.approx(
            single([1, 0, 0], [1, -1, -0.5]).jsd.item(), abs=1e-10
        )
    tiny = single([1.0, 0.0], [1.0, -1e-300])
    assert tiny.jsd.item() == pytest.approx(math.log(2), abs=1e-12)
    assert tiny.attention[0].tolist() == pytest.approx([0, 1], abs=1e-12)


def test_two_tokens_have_one_tie():
    found = single([0.6, 0.4], [3, -1])
    assert found.attention[0].tolist() == pytest.approx([0.25, 0.75], abs=1e-12)
    assert found.jsd.item() == pytest.approx(divergences.jsd([0.25, 0.75], [0.6, 0.4]), abs=1e-12)
    assert (found.flips_to.item(), found.reason, found.attention_proof.item()) == (0, [None], False)
    assert found.smallest_margin.item() == -1


def test_from_one_token_to_the_one_with_the_smallest_margin():
    found = single([0, 1, 0, 0], [-1, 2, -3, 0.5])
    assert found.attention[0].tolist() == pytest.approx([0, 0.6, 0.4, 0], abs=1e-12)
    assert found.jsd.item() == pytest.approx(divergences.jsd([0, 0.6, 0.4, 0], [0, 1, 0, 0]), abs=1e-12)


def test_a_token_without_attention_enters_only_below_all_others():
    tied = single([0.5, 0.5, 0], [2, -1, -1])
    assert tied.attention[0, 2] == 0
    assert tied.jsd.item() == pytest.approx(single([0.5, 0.5], [2, -1]).jsd.item(), abs=1e-14)
    assert single([0.5, 0.5, 0], [2, -1, -1.01]).attention[0, 2] == 0  # below, but not by enough
    assert single([0.5, 0.5, 0], [2, -1, -9]).attention[0, 2] > 0.01
    first = single([0.5, 0, 0.5, 0], [2, -9, -1, -9])
    assert first.attention[0, 1] > 0.01
    assert first.attention[0, 3] == 0


def test_a_tie_is_at_distance_0():
    found = single([0.5, 0.5], [1, -1])
    assert (found.jsd.item(), found.flips_to.item(), found.reason) == (0, 1, [None])
    assert found.attention.tolist() == [[0.5, 0.5]]
    assert found.smallest_margin.item() == -1


def test_a_tie_alone_is_no_change():
    for margins in ([0, 2], [0, 0], [1, 2]):
        found = single([0.5, 0.5], margins)
        assert found.reason == ["attention-proof"]
        assert found.attention_proof.item()
        assert found.smallest_margin.item() == min(margins)
        token_logits = torch.tensor([[[x, 0.0] for x in margins]])
        assert attention_proof(token_logits, torch.zeros(1, 2), torch.ones(1, 2) > 0, torch.tensor([0])).item()
    assert single([0.5, 0.5], [-1e-14, 2]).reason == [None]


def test_just_before_the_end_nothing_changes_and_just_past_it_the_decision_does():
    attention, allowed, z, b = problems(n=90, longest=12, classes=4, seed=3)
    found = flip_distance(attention, allowed, z, b)
    flips = 0
    for i, (a0, logits, bias) in enumerate(rows(attention, allowed, z, b)):
        if found.reason[i] is None:
            y, to = reference.decision(a0, logits, bias), found.flips_to[i].item()
            m = reference.margins_by_class(logits, bias, y)[to]
            end = found.attention[i][allowed[i]]
            past = 1e-6 * F.one_hot(torch.tensor(m.index(min(m))), len(m)) + (1 - 1e-6) * end
            before = 1e-6 * t(*a0) + (1 - 1e-6) * end
            assert reference.decision(past.tolist(), logits, bias) == to
            assert reference.decision(before.tolist(), logits, bias) == y
            flips += 1
    assert flips > 70


def test_equally_near_classes_give_the_lowest():
    votes = torch.eye(3, dtype=torch.float64)[None]
    allowed = torch.ones(1, 3, dtype=torch.bool)
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        found = flip_distance(torch.full((1, 3), 1 / 3), allowed, votes[:, order], t([0.1, 0, 0]))
        assert found.flips_to.item() == 1
        assert flip_distance(t([1, 0, 0])[:, order], allowed, votes[:, order], t([0, 0, 0])).flips_to.item() == 1


def test_rounding_does_not_choose_between_equally_near_classes():
    """Classes 1 and 2 are mirror images: what one has at a token, the other has at the opposite one."""
    generator = torch.Generator().manual_seed(0)
    half, votes = torch.rand(300, 6, generator=generator), torch.randn(300, 12, generator=generator)
    attention = torch.cat([half, half.flip(1)], 1).double().softmax(1)
    z = torch.stack([0 * votes, votes, votes.flip(1)], -1).double()
    found = flip_distance(attention, torch.ones(300, 12, dtype=torch.bool), z, t([9, 0, 0]).expand(300, -1) / 10)
    flips_to = found.flips_to[(attention * votes).sum(1) < 0.9].tolist()
    assert set(flips_to) == {1, -1}
    assert flips_to.count(1) > 200


def test_masked_classes_never_count():
    attention, allowed, z, b = problems(classes=3)
    masked = torch.cat([b[:, :1], torch.full_like(b[:, :1], -inf), b[:, 1:]], 1)
    for filler in (0.0, 9.0, -inf, nan):
        filled = torch.cat([z[..., :1], torch.full_like(z[..., :1], filler), z[..., 1:]], -1)
        found, plain = flip_distance(attention, allowed, filled, masked), flip_distance(attention, allowed, z, b)
        torch.testing.assert_close(found.jsd, plain.jsd, atol=1e-14, rtol=0, equal_nan=True)
        assert torch.equal(found.flips_to, plain.flips_to + (plain.flips_to > 0))
    for bias in (t([0.0, -inf, -inf]), t([-inf, -inf, -inf])):
        alone = flip_distance(attention[8:9], allowed[8:9], z[8:9], bias)
        assert (alone.reason, alone.smallest_margin.item(), alone.flips_to.item()) == (["attention-proof"], inf, -1)


def test_undefined_is_nan_with_a_reason():
    attention, allowed, z, b = problems(n=9, classes=3)
    plain = flip_distance(attention, allowed, z, b)
    allowed[0] = False
    attention[1, 1] = nan
    z[2, 0, 0], b[3, 1], z[4, 0, 1], b[5, 2] = nan, nan, inf, inf
    found = flip_distance(attention, allowed, z, b)
    assert found.reason == ["no content token", *["nan in scores"] * 5, *plain.reason[6:]]
    for values in (found.jsd, found.smallest_margin):
        assert values[:6].isnan().all()
    assert torch.equal(found.flips_to[:6], torch.full((6,), -1))
    assert not found.attention_proof[:6].any()
    assert torch.equal(found.jsd[6:], plain.jsd[6:])
    assert (found.attention[0] == 0).all()
    assert torch.equal(found.attention[1:6].isnan(), allowed[1:6])
    one = single([1.0], [0.3])
    assert (one.reason, one.smallest_margin.item(), one.attention_proof.item()) == (["attention-proof"], 0.3, True)


def test_padding_and_batch_change_nothing():
    given = problems(n=60, classes=3, seed=7)
    attention, allowed, z, b = given
    found = flip_distance(*given)
    gap = torch.zeros(60, 5, dtype=torch.bool)
    for left, right in ((0, 40), (7, 0), (3, 30)):
        pad = lambda x, value, dim=(): F.pad(x, (*dim, left, right), value=value)  # noqa: B023, E731
        wide = flip_distance(pad(attention, nan), pad(allowed, False), pad(z, nan, (0, 0)), b)
        torch.testing.assert_close(wide.jsd, found.jsd, atol=1e-13, rtol=0, equal_nan=True)
        torch.testing.assert_close(wide.attention, pad(found.attention, 0), atol=1e-10, rtol=0, equal_nan=True)
        assert torch.equal(wide.flips_to, found.flips_to)
        assert wide.reason == found.reason
    inside = [torch.cat([x[:, :4], f, x[:, 4:]], 1) for x, f in ((attention, 1.0 * gap), (allowed, gap))]
    inside.append(torch.cat([z[:, :4], torch.ones(60, 5, 3), z[:, 4:]], 1))
    torch.testing.assert_close(flip_distance(*inside, b).jsd, found.jsd, atol=1e-13, rtol=0, equal_nan=True)
    for i in range(60):
        alone = flip_distance(*(x[i : i + 1] for x in given))
        torch.testing.assert_close(alone.jsd, found.jsd[i : i + 1], atol=0, rtol=0, equal_nan=True)
        torch.testing.assert_close(alone.attention, found.attention[i : i + 1], atol=0, rtol=0, equal_nan=True)


def test_invariances():
    attention, allowed, z, b = problems(n=60, classes=3, seed=8)
    copies = [x.clone() for x in (attention, allowed, z, b)]
    found = flip_distance(attention, allowed, z, b)
    assert all(map(torch.equal, copies, (attention, allowed, z, b)))
    order = torch.arange(8, -1, -1)
    shift = torch.randn(60, 9, 1, generator=torch.Generator().manual_seed(0)).double()
    for other in (
        flip_distance(attention[:, order], allowed[:, order], z[:, order], b),
        flip_distance(attention, allowed, 1e8 * z, 1e8 * b),
        flip_distance(attention, allowed, 1e-8 * z, 1e-8 * b),
        flip_distance(attention, allowed, z + shift, b + 3),
        flip_distance(attention, allowed, z + b[:, None], 0 * b),
        flip_distance(0.9995 * attention, allowed, z, b),
        flip_distance(*(x if x is allowed else x.clone().requires_grad_() for x in (attention, allowed, z, b))),
    ):
        torch.testing.assert_close(other.jsd, found.jsd, atol=1e-10, rtol=0, equal_nan=True)
        assert torch.equal(other.flips_to, found.flips_to)
    assert not other.jsd.requires_grad
    flipped = flip_distance(attention, allowed, z.flip(-1), b.flip(-1))
    torch.testing.assert_close(flipped.jsd, found.jsd, atol=1e-10, rtol=0, equal_nan=True)
    assert torch.equal(flipped.flips_to, torch.where(found.flips_to < 0, -1, 2 - found.flips_to))


def test_single_precision():
    given = problems(n=60, classes=3, seed=9)
    single_precision = [x if x.dtype == torch.bool else x.float() for x in given]
    found, exact = flip_distance(*single_precision), flip_distance(*given)
    assert found.jsd.dtype == found.attention.dtype == torch.float64
    torch.testing.assert_close(found.jsd, exact.jsd, atol=1e-6, rtol=0, equal_nan=True)
    ends = found.attention[exact.flips_to >= 0]
    torch.testing.assert_close(ends.sum(-1), torch.ones(len(ends)).double(), atol=1e-14, rtol=0)


def test_attention_proof_looks_at_single_tokens():
    given = _, allowed, z, b = problems(n=90, longest=5, classes=3, seed=10)
    b[::4, 2] = -inf
    found = flip_distance(*given)
    decision = torch.tensor([reference.decision(*row) for row in rows(*given)])
    proof = attention_proof(z, b, allowed, decision)
    assert torch.equal(proof, found.attention_proof)
    assert 10 < proof.sum() < 80
    for i, (a0, logits, bias) in enumerate(rows(*given)):
        corners = torch.eye(len(a0)).tolist()
        assert proof[i].item() == all(reference.decision(a, logits, bias) == decision[i] for a in corners)
        if proof[i]:
            assert permutations.certificate(a0, logits, bias)
    allowed[0], z[1] = False, nan
    assert not attention_proof(z, b, allowed, decision)[:2].any()


def test_no_examples_and_no_tokens():
    for n, tokens in ((0, 3), (2, 0), (0, 0)):
        found = flip_distance(
            torch.zeros(n, tokens),
            torch.zeros(n, tokens, dtype=torch.bool),
            torch.zeros(n, tokens, 2),
            torch.zeros(n, 2),
        )
        assert found.reason == ["no content token"] * n
        assert found.attention.shape == (n, tokens)


def test_bad_input_is_named():
    given = attention, allowed, z, b = problems(n=4)
    with pytest.raises(InputError, match=r"`token_logits` of shape \(B, T, C\), but got \(4, 9\)"):
        flip_distance(attention, allowed, z[..., 0], b)
    with pytest.raises(InputError, match=r"`attention` of shape \(4, 9\) beside .*, but got \(4, 1, 9\)"):
        flip_distance(attention[:, None], *given[1:])
    with pytest.raises(InputError, match=r"`bias` of shape \(4, 2\) beside .*, but got \(2,\)"):
        flip_distance(attention, allowed, z, b[0])
    with pytest.raises(InputError, match=r"`allowed` of type torch.bool, but got torch.int64"):
        flip_distance(attention, allowed.long(), z, b)
    negative = attention + F.pad(t(-2, 2).expand(4, 2) * allowed[:, 1:2], (0, 7))
    for wrong, came in ((0.5 * attention, "0 sums to 0.5"), (negative, "1 sums to 1 and has a smallest weight of -1")):
        with pytest.raises(InputError, match=f"at least 0 that sums to 1 over `allowed`, but example {came}"):
            flip_distance(wrong, allowed, z, b)
    for decision in (torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, -1, 0]), torch.tensor([0, 1])):
        with pytest.raises(InputError, match="`decision` with one class from 0 to 1 for each of 4 examples"):
            attention_proof(z, b, allowed, decision)
