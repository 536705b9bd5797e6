"""What an affine read-out tells exactly: adversaries, flip distances, flip sets and permutations of any attention."""

import itertools
import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.functional import (
    adversary,
    adversary_classes,
    certified_core,
    flip_distance,
    flip_set,
    permutations,
    readout,
)
from attn_faithful.functional import attention_removal as erasure
from attn_faithful.functional.divergences import jsd, tvd
from attn_faithful.functional.projections import softmax
from tests.properties import made
from tests.properties.made import batches, checked, same
from tests.reference import adversary as slow_adversary
from tests.reference import certified_core as slow_core
from tests.reference import erasure as slow_erasure
from tests.reference import flip_distance as slow_flip
from tests.reference import permutations as slow_permutations

LN2 = math.log(2)


def anywhere(generator, allowed, attention, n=200):
    """Random attention (n, T) on a row's tokens: anywhere, sparse, and near its own."""
    found = torch.zeros(n, len(allowed), dtype=torch.float64)
    size = int(allowed.sum())
    rows = generator.dirichlet(np.full(size, 0.3), n)
    rows[1::3] = np.eye(size)[generator.integers(size, size=len(rows[1::3]))]
    share = generator.random(len(rows[2::3]))[:, None] ** 3
    rows[2::3] = (1 - share) * attention[allowed].numpy() + share * rows[2::3]
    found[:, allowed] = torch.from_numpy(rows)
    return found


def moderate(drawn):
    """Margins that leave digits for what is checked."""
    attention, allowed, logits, bias = drawn
    return attention, allowed, logits.clamp(-50, 50), bias


@given(batches(longest=12, classes=(2, 2)), st.sampled_from((0.0, 1e-3, 0.01, 0.05, 0.3)), made.seeds())
@checked()
def test_the_exact_adversary(drawn, eps, seed):
    """It keeps the prediction, no random attention that keeps it is farther, and few tokens equal the loop."""
    attention, allowed, logits, bias = moderate(drawn)
    margins = torch.where(allowed, logits[..., 1] - logits[..., 0] + (bias[:, 1] - bias[:, 0])[:, None], 0.0)
    generator = np.random.default_rng(seed)
    found = adversary.exact_adversary(attention, allowed, margins, eps, k=2)
    for i, why in enumerate(found.reason):
        if why is not None:
            assert not allowed[i].any()
            assert found.jsd[i].isnan().all()
            continue
        a, best = attention[i], found.attention[i, 0]
        assert same(best.sum(), 1.0)
        assert (best >= 0).all()
        assert not (best * ~allowed[i]).any()
        probability = (a @ margins[i]).sigmoid()
        assert abs((best @ margins[i]).sigmoid() - probability) <= eps + 1e-9
        assert same(found.jsd[i, 0], jsd(best, a), 1e-9)
        assert 0 <= found.jsd[i, 0] <= found.reachable[i] + 1e-9 <= LN2 + 2e-9
        others = anywhere(generator, allowed[i], a)
        kept = ((others @ margins[i]).sigmoid() - probability).abs() <= eps - 1e-9
        assert (jsd(others[kept], a) <= found.jsd[i, 0] + 1e-9).all()
        if not found.attention[i, 1].isnan().any():
            assert not ((best > 0) & (found.attention[i, 1] > 0)).any()
            assert found.jsd[i, 1] <= found.jsd[i, 0] + 1e-12
        own, said = a[allowed[i]].tolist(), margins[i][allowed[i]].tolist()
        if len(own) <= 6 and eps > 0:
            limits = slow_adversary.limits(own, said, eps)
            assert same(found.jsd[i, 0], max(slow_adversary.best_vertex(own, said, *limits), 0.0), 1e-7)
    wide = adversary.exact_adversary(*(made.padded(x, 2, 1) for x in (attention, allowed, margins)), eps)
    assert same(wide.jsd[:, 0], found.jsd[:, 0], 1e-9)
    alone = adversary.exact_adversary(attention[-1:], allowed[-1:], margins[-1:], eps)
    assert same(alone.jsd[:, 0], found.jsd[-1:, 0], 1e-12)


@given(batches(longest=10, rows=2), st.sampled_from((0.0, 0.01, 0.1)), made.seeds())
@checked(0.2)
def test_intervals_of_many_classes(drawn, eps, seed):
    """Lower is at most upper and reached by an attention that keeps; nothing that keeps is beyond the upper one."""
    attention, allowed, logits, bias = moderate(drawn)
    generator = np.random.default_rng(seed)
    near = adversary_classes.adversary_interval(attention, allowed, logits, bias, eps, nodes=2)
    same_side = adversary_classes.decision_keeping_interval(attention, allowed, logits, bias, nodes=2)
    for found, by_eps in ((near, True), (same_side, False)):
        for i, why in enumerate(found.reason):
            if why is not None:
                assert found.upper[i].isnan()
                continue
            assert found.lower[i] <= found.upper[i] <= LN2 + 1e-12
            before = attention[i] @ logits[i] + bias[i]
            reached = found.attention[i] @ logits[i] + bias[i]
            others = anywhere(generator, allowed[i], attention[i])
            after = others @ logits[i] + bias[i]
            if by_eps:
                assert tvd(reached.softmax(-1), before.softmax(-1)) <= eps + 1e-5
                kept = tvd(after.softmax(-1), before.softmax(-1)) <= eps - 1e-9
            else:
                y = int(before.argmax())
                assert reached[y] >= reached.max() - 1e-5
                kept = after[:, y] >= after.amax(-1)
            assert (jsd(others[kept], attention[i]) <= found.upper[i] + 1e-8).all()
    if logits.shape[-1] == 2:
        margins = torch.where(allowed, logits[..., 1] - logits[..., 0] + (bias[:, 1] - bias[:, 0])[:, None], 0.0)
        exact = adversary.exact_adversary(attention, allowed, margins, eps)
        assert same(near.upper, exact.jsd[:, 0], 1e-6)


@given(batches(longest=16), made.seeds())
@checked()
def test_flip_distances(drawn, seed):
    """The end point is a tie of the two classes, and no random attention with another decision is nearer."""
    attention, allowed, logits, bias = moderate(drawn)
    generator = np.random.default_rng(seed)
    found = flip_distance.flip_distance(attention, allowed, logits, bias)
    wide = flip_distance.flip_distance(*(made.padded(x, 1, 2) for x in (attention, allowed, logits)), bias)
    assert same(wide.jsd, found.jsd, 1e-9)
    assert wide.reason == found.reason
    alone = flip_distance.flip_distance(attention[-1:], allowed[-1:], logits[-1:], bias[-1:])
    assert same(alone.jsd, found.jsd[-1:], 1e-12)
    y = readout.decided(attention, logits, bias)
    proof = flip_distance.attention_proof(logits, bias, allowed, y)
    assert torch.equal(proof, found.attention_proof)
    for i, why in enumerate(found.reason):
        if why == "no content token":
            continue
        others = anywhere(generator, allowed[i], attention[i])
        after = others @ logits[i] + bias[i]
        moved = after.amax(-1) > after[:, y[i]] + 1e-9
        if why is not None:
            assert why == "attention-proof"
            assert found.jsd[i].isnan()
            assert not moved.any()
            continue
        end = found.attention[i]
        said = end @ logits[i] + bias[i]
        assert same(end.sum(), 1.0, 1e-9)
        assert (end >= 0).all()
        assert abs(said[y[i]] - said[found.flips_to[i]]) <= 1e-6
        assert same(found.jsd[i], jsd(end, attention[i]), 1e-9)
        assert (jsd(others[moved], attention[i]) >= found.jsd[i] - 1e-8).all()


@given(batches(longest=8, rows=3))
@checked()
def test_the_smallest_flip_set(drawn):
    """It changes the decision, and no smaller subset does; sums that are a tie but for rounding may go either way."""
    attention, allowed, logits, bias = moderate(drawn)
    found = flip_set.smallest_flip_set(attention.log(), allowed, logits, bias)
    wide = [made.padded(x, 2, 1) for x in (attention, allowed, logits)]
    assert same(flip_set.smallest_flip_set(wide[0].log(), *wide[1:], bias).size, found.size)
    decision = readout.decided(attention, logits, bias).tolist()
    for i, inside in enumerate(allowed):
        n, y = int(inside.sum()), decision[i]
        if not n:
            assert found.reason[i] == "no content token"
            continue
        held, said = attention[i][inside].tolist(), logits[i][inside].tolist()

        def lead(removed, row=i, n=n, y=y, held=held, said=said):
            kept = [t for t in range(n) if t not in removed]
            after = slow_erasure.kept_logits(held, kept, said, bias[row].tolist())
            return after[y] - max(v for c, v in enumerate(after) if c != y)

        size = n + 1 if found.reason[i] is not None else int(found.size[i])
        removed = found.removed[i][inside].nonzero()[:, 0].tolist()
        assert found.reason[i] in (None, "never flips")
        assert len(removed) == (0 if size > n else size)
        assert size > n or lead(removed) <= 1e-9
        for smaller in range(1, size):
            assert min(map(lead, itertools.combinations(range(n), smaller))) >= -1e-9


@given(batches(longest=9, rows=3), made.seeds())
@checked()
def test_the_certified_core(drawn, seed):
    """No attention that equals the model's on it changes the decision, and against one class no smaller set does it."""
    attention, allowed, logits, bias = moderate(drawn)
    found = certified_core.certified_core(attention, allowed, logits, bias)
    wide = [made.padded(x, 2, 1) for x in (attention, allowed, logits)]
    assert same(certified_core.certified_core(*wide, bias).size, found.size)
    assert torch.equal(
        certified_core.is_core(attention, allowed, logits, bias, found.core),
        torch.tensor([not r for r in found.reason]),
    )
    decision = readout.decided(attention, logits, bias)
    generator = np.random.default_rng(seed)
    for i, inside in enumerate(allowed):
        n = int(inside.sum())
        if not n:
            assert found.reason[i] == "no content token"
            continue
        assert 0 <= found.lower[i] <= found.size[i] == found.core[i].sum() <= n - 1
        assert not (found.core[i] & ~inside).any()
        held = torch.where(found.core[i], attention[i], 0.0)
        outside = inside & ~found.core[i]
        dealt = anywhere(generator, outside, attention[i])
        dealt = dealt / dealt.sum(1, keepdim=True)
        others = held + (attention[i].sum() - held.sum()).clamp(min=0) * dealt.nan_to_num()
        after = others @ logits[i] + bias[i]
        assert (after.amax(1) <= after[:, decision[i]] + 1e-9).all()
        if logits.shape[-1] == 2:
            own, said = attention[i][inside].tolist(), logits[i][inside].tolist()
            margins = slow_core.margins_by_class(own, said, bias[i].tolist())
            for smaller in itertools.combinations(range(n), max(0, int(found.size[i]) - 1)):
                assert found.size[i] == 0 or slow_core.least_lead(own, margins, smaller) <= 1e-9


@given(batches(longest=12, rows=3), made.seeds())
@checked()
def test_erasing_along_a_ranking(drawn, seed):
    """Each prefix equals the sum over what is kept; the last leaves the bias; no ranking beats the smallest set."""
    attention, allowed, logits, bias = moderate(drawn)
    generator = np.random.default_rng(seed)
    importance = torch.from_numpy(np.round(generator.standard_normal(attention.shape), 1))
    importance[generator.random(attention.shape) < 0.1] = math.nan
    order = erasure.removal_order(importance, allowed)
    logs = attention.log()
    after = erasure.prefix_logits(logs, order, allowed, logits, bias)
    y = readout.decided(attention, logits, bias)
    size = erasure.first_flip(after, y)
    single = erasure.single_removals(logs, allowed, logits, bias)
    mass = erasure.removed_mass(logs, order, allowed, allowed.sum(-1).double())
    again = erasure.recompute_prefix_logits(
        torch.where(allowed & (attention > 0), logs, -math.inf), softmax, order, allowed, logits, bias, chunk=3
    )
    smallest = flip_set.smallest_flip_set(logs, allowed, logits, bias).size
    for i, inside in enumerate(allowed):
        n = int(inside.sum())
        places = inside.nonzero()[:, 0].tolist()
        row = [float(v) for v in logs[i][inside]]
        said = logits[i][inside].tolist()
        ranked = slow_erasure.removal_order(importance[i][inside].tolist())
        assert order[i, :n].tolist() == [places[t] for t in ranked]
        expected = slow_erasure.prefix_logits(row, ranked, said, bias[i].tolist())
        assert same(after[i, : n + 1], expected, 1e-9)
        assert same(again[i, : n + 1], expected, 1e-8)
        assert same(after[i, n], bias[i], 0)
        assert after[i, n + 1 :].isnan().all()
        for t in range(n):
            kept = [u for u in range(n) if u != t]
            assert same(single[i, places[t]], slow_erasure.from_logs(row, kept, said, bias[i].tolist()), 1e-9)
        if n:
            assert same(mass[i], 1.0, 1e-9)
        if not size[i].isnan() and not smallest[i].isnan():
            assert size[i] >= smallest[i] or same(after[i, int(size[i])].max(), after[i, int(size[i]), y[i]], 1e-9)


@given(batches(longest=6, rows=3), made.seeds())
@checked()
def test_permutations(drawn, seed):
    """Extremes, mean, variance and certificate over all orders; what is sampled lies between."""
    attention, allowed, logits, bias = drawn
    logits, bias = logits.clamp(-9, 9).round(), bias.round()
    weights = torch.where(allowed, (attention * 16).round(), 0.0)  # whole: sums are exact in any order
    low, high = permutations.permutation_extremes(weights, allowed, logits)
    mean, variance = permutations.permutation_moments(weights, allowed, logits)
    certain = permutations.permutation_certificate(weights, allowed, logits, bias)
    can, reasons = permutations.permutable(weights, allowed)
    generator = torch.Generator().manual_seed(seed)
    for i, inside in enumerate(allowed):
        own, said = weights[i][inside], logits[i][inside]
        n = len(own)
        if n == 0:
            assert low[i].isnan().all()
            assert reasons[i] == "no content token"
            assert not certain[i]
            continue
        assert bool(can[i]) == (n > 1 and not slow_permutations.constant(own.tolist()))
        for c in range(logits.shape[-1]):
            margin = said[:, c].tolist()
            assert same([low[i, c], high[i, c]], slow_permutations.extremes(own.tolist(), margin))
            assert same([mean[i, c], variance[i, c]], slow_permutations.moments(own.tolist(), margin), 1e-9)
        assert bool(certain[i]) == slow_permutations.certificate(own.tolist(), said.tolist(), bias[i].tolist())
        places = permutations.permuted_indices(n, 20, generator)
        dealt = own[places]
        k = math.factorial(n) - 1 if n <= 5 else 20
        assert torch.equal(places.sort(1).values, torch.arange(n).expand(k, n))
        assert not (places == torch.arange(n)).all(1).any()
        assert torch.equal(dealt.sort(1).values, own.sort().values.expand(k, n))
        assert (dealt @ said >= low[i] - 1e-9).all()
        assert (dealt @ said <= high[i] + 1e-9).all()


@given(batches(longest=10, rows=2, classes=(3, 3)))
@checked()
def test_flip_distance_is_optimal(drawn):
    """Against the lower bound that convex duality gives."""
    attention, allowed, logits, bias = drawn
    logits = logits.clamp(-5, 5)
    found = flip_distance.flip_distance(attention, allowed, logits, bias)
    y = readout.decided(attention, logits, bias)
    for i, why in enumerate(found.reason):
        if why is None:
            inside = allowed[i]
            c = int(found.flips_to[i])
            m = (logits[i, :, y[i]] - logits[i, :, c] + bias[i, y[i]] - bias[i, c])[inside]
            own = attention[i][inside].tolist()
            assert slow_flip.excess(found.attention[i][inside].tolist(), own, m.tolist()) <= 1e-7
