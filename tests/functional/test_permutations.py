"""Answers over all permutations against going through all of them; the sampled permutations."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attn_faithful._checks import InputError
from attn_faithful.functional import permutations as P
from tests.reference import permutations as reference

nan, inf = math.nan, math.inf


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


def problems(n=28, longest=7, classes=3, seed=0, whole=False):
    """Random padded examples of every length from 1, half of them with equal weights among theirs.

    Where ``whole``, weights are multiples of 1/8 and logits are whole numbers, so that ties are exact.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.arange(n) % longest + 1
    allowed = torch.arange(longest) < lengths[:, None]
    weights = torch.rand(n, longest, generator=generator, dtype=torch.float64)
    weights = torch.where(torch.arange(n)[:, None] % 2 == 1, (3 * weights).round(), weights) * allowed
    attention = weights / weights.sum(1, keepdim=True).clamp(min=1e-9)
    token_logits = 2 * torch.randn(n, longest, classes, generator=generator, dtype=torch.float64)
    bias = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    if whole:
        attention, token_logits, bias = (8 * attention).round() / 8, token_logits.round(), bias.round()
    return attention, allowed, token_logits, bias


def rows(*tensors):
    """Each example alone, as lists, the tensors over tokens cut to what the second of them allows."""
    for row in zip(*tensors, strict=True):
        ok = row[1]
        yield [x[ok].tolist() if i != 3 else x.tolist() for i, x in enumerate(row)]


@pytest.mark.parametrize(("name", "bound"), [("extremes", 1e-10), ("moments", 1e-10)])
def test_equals_enumeration(name, bound):
    attention, allowed, z, _ = problems()
    function, slow = getattr(P, f"permutation_{name}"), getattr(reference, name)
    by_class, one = function(attention, allowed, z), function(attention, allowed, z[..., 1])
    assert by_class[0].shape == (28, 3)
    for i, (weights, _, values) in enumerate(rows(attention, allowed, z)):
        for c in range(3):
            expected = slow(weights, [v[c] for v in values])
            assert [x[i, c].item() for x in by_class] == pytest.approx(expected, abs=bound)
    for x, y in zip(one, by_class, strict=True):
        torch.testing.assert_close(x, y[:, 1], atol=1e-14, rtol=0)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("whole", [False, True])
def test_certificate_equals_enumeration(classes, whole):
    given = problems(classes=classes, seed=classes, whole=whole)
    given[3][::3, 0] += 4  # so that some are certified
    found = P.permutation_certificate(*given)
    assert found.dtype == torch.bool
    assert found.tolist() == [reference.certificate(a, z, b) for a, _, z, b in rows(*given)]
    assert 5 < found.sum() < 24


def test_certificate_at_ties():
    """The lowest index wins a tie: a smallest margin of 0 keeps the decision for the lower class only."""
    attention, allowed = t([0.75, 0.25]), torch.ones(1, 2, dtype=torch.bool)
    # two tokens say 1 and -1 for one class: 0.5 as they are, -0.5 exchanged
    for says, bias, lower, higher in (
        ([1.0, -1.0], 0.5, True, False),
        ([1.0, -1.0], 0.5 + 2**-40, True, True),
        ([1.0, -1.0], 0.5 - 2**-40, False, False),
        ([2.0, 2.0], -2.0, True, True),  # a tie whatever the permutation: the lower class, which is always the same
    ):
        z = torch.tensor([[[x, 0.0] for x in says]]).double()
        assert P.permutation_certificate(attention, allowed, z, t([bias, 0])).item() is lower
        assert P.permutation_certificate(attention, allowed, z.flip(-1), t([0, bias])).item() is higher


def test_certificate_of_masked_classes_and_other_mass():
    attention, allowed, z, b = problems(n=56, seed=4)
    b[:, 1] = -inf
    z_masked = z.clone()
    z_masked[..., 1] = nan
    found = P.permutation_certificate(attention, allowed, z_masked, b)
    two = P.permutation_certificate(attention, allowed, z[..., [0, 2]], b[:, [0, 2]])
    assert torch.equal(found, two)
    assert 5 < found.sum() < 51
    # half of the mass on other positions, whose logits are in the bias
    half = P.permutation_certificate(attention / 2, allowed, 2 * z[..., [0, 2]], b[:, [0, 2]])
    assert torch.equal(half, two)
    assert P.permutation_certificate(attention, allowed, z, torch.full_like(b, -inf)).all()


def test_random_permutations_stay_inside_and_average_out():
    attention, s = torch.rand(2, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    attention, allowed = attention / attention.sum(), torch.ones(1, 40, dtype=torch.bool)
    dealt = attention[P.permuted_indices(40, 4000, torch.Generator().manual_seed(0))] @ s
    smallest, largest = P.permutation_extremes(attention[None], allowed, s[None])
    mean, variance = P.permutation_moments(attention[None], allowed, s[None])
    assert smallest < dealt.min() < dealt.max() < largest
    # four standard errors of the mean; the variance of 4000 draws of a nearly normal value is known to 2.2%
    assert dealt.mean().item() == pytest.approx(mean.item(), abs=4 * math.sqrt(variance.item() / 4000))
    assert dealt.var().item() == pytest.approx(variance.item(), rel=0.09)


@pytest.mark.parametrize("function", [P.permutation_extremes, P.permutation_moments])
def test_undefined_is_nan(function):
    attention, allowed, z, _ = problems(n=7)
    plain = function(attention, allowed, z)
    allowed[6] = False
    attention[5, 1], z[4, 0, 1], z[3, 2, 2] = nan, inf, nan
    for x, y in zip(function(attention, allowed, z), plain, strict=True):
        expected = torch.zeros(7, 3, dtype=torch.bool)
        expected[5:], expected[4, 1], expected[3, 2] = True, True, True
        assert torch.equal(x.isnan(), expected)
        assert torch.equal(x[~expected], y[~expected])
    certified = P.permutation_certificate(attention, allowed, z, torch.full((7, 3), 0.0))
    assert not certified[3:].any()


def test_one_token():
    attention, allowed = t([1.0, 0.0]), torch.tensor([[True, False]])
    assert [x.item() for x in P.permutation_extremes(attention, allowed, t([-3.0, nan]))] == [-3, -3]
    assert [x.item() for x in P.permutation_moments(attention, allowed, t([-3.0, nan]))] == [-3, 0]
    assert P.permutation_certificate(attention, allowed, t([1.0, -3.0], [nan, nan])[None], t([0.0, 0.0])).item()
    assert P.permutable(attention, allowed)[1] == ["n<2"]


def test_padding_order_and_batch_change_nothing():
    attention, allowed, z, b = problems(n=28, seed=2, whole=False)
    functions = [
        lambda a, ok, z, b: torch.stack(P.permutation_extremes(a, ok, z), -1),
        lambda a, ok, z, b: torch.stack(P.permutation_moments(a, ok, z), -1),
        P.permutation_certificate,
        lambda a, ok, z, b: P.permutable(a, ok)[0],
    ]
    order = torch.arange(6, -1, -1)
    copies = [x.clone() for x in (attention, allowed, z, b)]
    for function in functions:
        value = function(attention, allowed, z, b)
        for left, right in ((0, 30), (9, 0), (3, 11)):
            wide = (F.pad(attention, (left, right), value=nan), F.pad(allowed, (left, right), value=False))
            padded = function(*wide, F.pad(z, (0, 0, left, right), value=nan), b)
            torch.testing.assert_close(padded, value, atol=1e-13, rtol=0)
        moved = function(attention[:, order], allowed[:, order], z[:, order], b)
        torch.testing.assert_close(moved, value, atol=1e-13, rtol=0)
        for i in range(28):
            alone = function(attention[i : i + 1], allowed[i : i + 1], z[i : i + 1], b[i : i + 1])
            torch.testing.assert_close(alone, value[i : i + 1], atol=1e-13, rtol=0)
    assert all(map(torch.equal, copies, (attention, allowed, z, b)))


def test_padding_decides_no_tie():
    """Thirds do not add up exactly: the order of the sum may decide, so padding must leave it as it is."""
    generator = torch.Generator().manual_seed(3)
    for n in (3, 5, 6, 7, 9, 11):
        z = torch.randint(-3, 4, (200, n, 2), generator=generator).double() / 3
        attention, allowed = torch.full((200, n), 1 / n, dtype=torch.float64), torch.ones(200, n, dtype=torch.bool)
        bias = -z.mean(1)
        value = P.permutation_certificate(attention, allowed, z, bias)
        for left, right in ((0, 1), (0, 40), (5, 0), (17, 4)):
            wide = (F.pad(attention, (left, right)), F.pad(allowed, (left, right)), F.pad(z, (0, 0, left, right)))
            assert torch.equal(P.permutation_certificate(*wide, bias), value)


def test_single_precision():
    attention, allowed, z, _ = problems()
    for function in (P.permutation_extremes, P.permutation_moments):
        for x, y in zip(function(attention.float(), allowed, z.float()), function(attention, allowed, z), strict=True):
            assert x.dtype == torch.float64
            torch.testing.assert_close(x, y, atol=1e-6, rtol=0)


def test_permutable():
    third = np.float32(1 / 3)
    up = np.nextafter(third, np.float32(1))
    cases = [
        ([], "no content token"),
        ([1.0], "n<2"),
        ([nan], "n<2"),
        ([0.25] * 4, "constant attention"),
        ([third, up, np.nextafter(up, np.float32(1))], "constant attention"),
        ([0.0, 0.0], "constant attention"),
        ([0.5, 0.5 - 4e-7], "constant attention"),
        ([0.5, 0.5 - 6e-7], None),
        ([1e-9, 2e-9, 2e-9], None),
        ([1.0, 0.0], None),
        ([0.2, nan, 0.8], "nan in scores"),
        ([0.5, inf], "nan in scores"),
        ([nan] * 3, "nan in scores"),
    ]
    attention, allowed = torch.full((len(cases), 5), 9.0, dtype=torch.float64), torch.zeros(len(cases), 5).bool()
    for i, (weights, _) in enumerate(cases):
        attention[i, 1 : 1 + len(weights)] = torch.tensor(np.array(weights, dtype=np.float64))
        allowed[i, 1 : 1 + len(weights)] = True
    possible, reason = P.permutable(attention, allowed)
    assert reason == [r for _, r in cases]
    assert possible.tolist() == [r is None for r in reason]


def test_permutable_equals_the_reference():
    generator = np.random.default_rng(0)
    found = []
    for _ in range(200):
        weights = 1 + generator.choice([0, 4e-7, 9e-7, 1.1e-6], size=generator.integers(2, 6)).cumsum()
        weights = generator.permutation(weights)
        found.append(P.permutable(torch.tensor(weights)[None], torch.ones(1, len(weights)).bool())[0].item())
        assert found[-1] != reference.constant(weights)
    assert 40 < sum(found) < 160


def test_permutations_are_drawn_evenly():
    index = P.permuted_indices(4, 24_000, torch.Generator().manual_seed(0), identity=True)
    assert index.dtype == torch.int64
    assert torch.equal(index.sort(1).values, torch.arange(4).expand(24_000, -1))
    counts = torch.unique(index, dim=0, return_counts=True)[1]
    assert len(counts) == 24
    # chi-squared with 23 degrees of freedom: above 49.7 in 1 of 1000 seeds
    assert ((counts - 1000) ** 2 / 1000).sum() < 49.7


@pytest.mark.parametrize("n", range(6))
def test_few_items_have_all_permutations_but_the_identity(n):
    """Whatever the seed and however many are asked for."""
    expected = [list(order) for order in itertools.permutations(range(n)) if list(order) != list(range(n))]
    for k, seed in ((1, 0), (100, 1), (500, 2)):
        index = P.permuted_indices(n, k, torch.Generator().manual_seed(seed))
        assert index.dtype == torch.int64
        assert index.shape == (max(0, math.factorial(n) - 1), n)
        assert sorted(index.tolist()) == expected


def test_the_identity_is_drawn_again_and_the_rest_evenly():
    """Of six items 719 permutations; drawn with it the identity comes 40 times in 28,760."""
    k = 719 * 40
    index = P.permuted_indices(6, k, torch.Generator().manual_seed(0))
    assert index.shape == (k, 6)
    assert torch.equal(index.sort(1).values, torch.arange(6).expand(k, -1))
    kinds, counts = torch.unique(index, dim=0, return_counts=True)
    assert len(kinds) == 719
    assert not (kinds == torch.arange(6)).all(1).any()
    # chi-squared with 718 degrees of freedom: mean 718, standard deviation 38; above 843 in 1 of 1000 seeds
    assert ((counts - 40) ** 2 / 40).sum() < 843
    with_it = P.permuted_indices(6, k, torch.Generator().manual_seed(0), identity=True)
    still = (with_it == torch.arange(6)).all(1)
    assert 15 < still.sum() < 70
    assert torch.equal(index[~still], with_it[~still])  # the other draws stay as they were


@pytest.mark.parametrize("counts", [[2, 2], [3, 0, 2, 1], [5], [2, 3, 2], [4, 2, 2], [1], [0, 1], []])
def test_few_permutations_of_several_slots_are_gone_through(counts):
    generators = [torch.Generator().manual_seed(7) for _ in counts]
    joint = P.joint_permutations(counts, 3, generators)
    assert [order.shape[1] for order in joint] == counts
    every = list(itertools.product(*(itertools.permutations(range(n)) for n in counts)))
    found = sorted(zip(*(map(tuple, order.tolist()) for order in joint), strict=True)) if counts else []
    assert found == sorted(every)[1:]


def test_many_permutations_of_several_slots_are_drawn():
    """Seven slots of two items: 128, of which each draw that moves nothing is drawn again; each alone may stay."""
    generators = [torch.Generator().manual_seed(seed) for seed in range(7)]
    joint = torch.stack(P.joint_permutations([2] * 7, 12_700, generators), dim=1)  # (K, S, 2)
    swapped = joint[:, :, 0] == 1
    assert swapped.any(1).all()
    kinds, counts = torch.unique(swapped, dim=0, return_counts=True)
    assert len(kinds) == 127
    # chi-squared with 126 degrees of freedom: above 179 in 1 of 1000 seeds
    assert ((counts - 100) ** 2 / 100).sum() < 179
    again = P.joint_permutations([2] * 7, 12_700, [torch.Generator().manual_seed(seed) for seed in range(7)])
    assert torch.equal(torch.stack(again, dim=1), joint)


def test_permutations_depend_on_the_generator_alone():
    state = torch.get_rng_state()
    one = P.permuted_indices(9, 5, torch.Generator().manual_seed(3))
    torch.rand(7)
    torch.set_rng_state(state)
    assert torch.equal(P.permuted_indices(9, 5, torch.Generator().manual_seed(3)), one)
    assert not torch.equal(P.permuted_indices(9, 5, torch.Generator().manual_seed(4)), one)
    assert torch.equal(torch.get_rng_state(), state)
    generator = torch.Generator().manual_seed(3)
    P.permuted_indices(9, 5, generator)
    assert not torch.equal(P.permuted_indices(9, 5, generator), one)
    assert P.permuted_indices(0, 3, generator, identity=True).shape == (3, 0)
    assert P.permuted_indices(1, 2, generator, identity=True).tolist() == [[0], [0]]


def test_no_examples_and_no_tokens():
    for n, tokens in ((0, 3), (2, 0)):
        given = torch.zeros(n, tokens), torch.zeros(n, tokens, dtype=torch.bool), torch.zeros(n, tokens, 2)
        for function in (P.permutation_extremes, P.permutation_moments):
            assert all(x.shape == (n, 2) and x.isnan().all() for x in function(*given))
        assert P.permutation_certificate(*given, torch.zeros(n, 2)).tolist() == [False] * n
        assert P.permutable(*given[:2])[1] == ["no content token"] * n


def test_bad_input_is_named():
    attention, allowed, z, b = problems(n=4)
    with pytest.raises(InputError, match=r"`margins` over the tokens of `allowed` \(4, 7\), but got \(4, 6, 3\)"):
        P.permutation_extremes(attention, allowed, z[:, 1:])
    with pytest.raises(InputError, match=r"`margins` of shape \(B, T\), but got \(4,\); or \(B, T, C\)"):
        P.permutation_moments(attention, allowed, b[:, 0])
    for function in (P.permutation_extremes, P.permutation_moments):
        with pytest.raises(InputError, match=r"`attention` of shape \(B, T\), but got \(4, 1, 7\)"):
            function(attention[:, None], allowed, z)
        with pytest.raises(InputError, match=r"`allowed` of type torch.bool, but got torch.float64"):
            function(attention, allowed.double(), z)
    with pytest.raises(InputError, match=r"`attention` of shape \(B, T\), but got \(4, 1, 7\)"):
        P.permutable(attention[:, None], allowed)
    with pytest.raises(InputError, match=r"`attention` over the tokens of `allowed` \(4, 6\), but got \(4, 7\)"):
        P.permutable(attention, allowed[:, 1:])
    with pytest.raises(InputError, match=r"`allowed` of shape \(4, 7\) beside"):
        P.permutation_certificate(attention, allowed[:, 1:], z, b)
    for n, k in ((-1, 3), (3, 0)):
        with pytest.raises(InputError, match=f"`n` of at least 0 and `k` of at least 1, but got {n} and {k}"):
            P.permuted_indices(n, k, torch.Generator())
    with pytest.raises(InputError, match="a generator for each of 2 slots, but got 1"):
        P.joint_permutations([3, 4], 5, [torch.Generator()])
