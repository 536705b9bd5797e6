"""Whatever comes in: a result, NaN with a reason, or an InputError; never another exception."""

import contextlib
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful._checks import InputError
from attn_faithful.functional import (
    adversary,
    adversary_classes,
    concentration,
    divergences,
    flip_distance,
    flip_set,
    flow,
    head_matching,
    permutations,
    plausibility,
    projections,
    rankings,
    rollout,
    top_k,
)
from attn_faithful.functional import attention_removal as erasure
from attn_faithful.functional import erasure as sufficiency
from tests.properties.made import EXTREMES, checked

SIZES = st.integers(0, 5)
NUMBERS = st.sampled_from((*EXTREMES, 0.5, 0.25, 2.0, -3.0))


@st.composite
def tensors(draw, *shape, numbers=NUMBERS):
    """A tensor of any numbers, of this shape most of the time."""
    shape = list(shape)
    if draw(st.integers(0, 9)) == 0:
        shape = draw(st.lists(st.integers(0, 3), max_size=4))
    size = math.prod(shape)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    palette = draw(st.lists(numbers, min_size=1, max_size=4))
    flat = generator.choice(np.array(palette), size)
    return torch.from_numpy(flat.reshape(shape)).to(draw(st.sampled_from((torch.float32, torch.float64))))


@st.composite
def bools(draw, *shape):
    if draw(st.integers(0, 19)) == 0:
        return draw(tensors(*shape))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return torch.from_numpy(generator.random(shape) < draw(st.sampled_from((0.0, 0.5, 1.0))))


@st.composite
def distributions(draw, *shape):
    """Mostly real distributions, so that more is reached than the check of them."""
    if draw(st.integers(0, 2)) == 0:
        return draw(tensors(*shape))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = generator.random(shape) * (generator.random(shape) < draw(st.sampled_from((0.4, 1.0)))) + 1e-300
    return torch.from_numpy(raw / raw.sum(-1, keepdims=True)) if raw.size else torch.from_numpy(raw)


def settled(call, *arguments, **keywords):
    """What a call gives, or None where it refuses its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(InputError):
            return call(*arguments, **keywords)
    return None


READOUTS = {
    "exact_adversary": lambda a, m, z, b, x: adversary.exact_adversary(a, m, z[..., 0], x, 2),
    "decision_keeping_adversary": lambda a, m, z, b, x: adversary.decision_keeping_adversary(a, m, z[..., 0], 2),
    "adversary_interval": lambda a, m, z, b, x: adversary_classes.adversary_interval(a, m, z, b, x, nodes=1),
    "decision_keeping_interval": lambda a, m, z, b, x: adversary_classes.decision_keeping_interval(a, m, z, b, 1),
    "flip_distance": lambda a, m, z, b, x: flip_distance.flip_distance(a, m, z, b),
    "attention_proof": lambda a, m, z, b, x: flip_distance.attention_proof(z, b, m, torch.zeros(len(a)).long()),
    "smallest_flip_set": lambda a, m, z, b, x: flip_set.smallest_flip_set(a, m, z, b),
    "permutation_certificate": lambda a, m, z, b, x: permutations.permutation_certificate(a, m, z, b),
    "permutation_extremes": lambda a, m, z, b, x: permutations.permutation_extremes(a, m, z),
    "permutation_moments": lambda a, m, z, b, x: permutations.permutation_moments(a, m, z),
    "prefix_logits": lambda a, m, z, b, x: erasure.prefix_logits(a, erasure.removal_order(a, m), m, z, b),
    "single_removals": lambda a, m, z, b, x: erasure.single_removals(a, m, z, b),
    "recompute": lambda a, m, z, b, x: erasure.recompute_prefix_logits(
        a, projections.sparsemax, erasure.removal_order(a, m), m, z, b, 2
    ),
}


def reasoned(found):
    """Where a row has no reason, its first value is a number; where it has one, NaN."""
    first = next(v for v in vars(found).values() if isinstance(v, torch.Tensor))
    value = getattr(found, "jsd", getattr(found, "size", getattr(found, "upper", first)))
    value = value[:, 0] if value.dim() == 2 else value
    for number, reason in zip(value.tolist(), found.reason, strict=True):
        assert math.isnan(number) == (reason is not None), (number, reason)


@pytest.mark.parametrize("name", READOUTS)
@given(st.data())
@checked(0.6)
def test_readouts(name, data):
    b, t, c = data.draw(SIZES), data.draw(SIZES), data.draw(st.integers(0, 4))
    drawn = (data.draw(distributions(b, t)), data.draw(bools(b, t)), data.draw(tensors(b, t, c)))
    drawn += (data.draw(tensors(b, c)), data.draw(st.sampled_from((0.0, 0.01, 0.5, 1e-17, 0.999, math.nan, 1.0))))
    if name in ("exact_adversary", "decision_keeping_adversary", "attention_proof") and (
        drawn[2].dim() != 3 or not drawn[2].shape[2] or drawn[0].dim() != 2
    ):
        return
    found = settled(READOUTS[name], *drawn)
    if hasattr(found, "reason"):
        reasoned(found)


PARAMETERS = {
    "softmax": ("temperature", (1.0, 1e-300, 5e-324, 1e300, 0.0, math.nan, math.inf)),
    "sparsemax": (None, ()),
    "sparsegen": ("lam", (0.0, -1.0, -1e300, 0.999999999, 1.0, math.nan, -math.inf)),
    "entmax15": (None, ()),
    "entmax": ("alpha", (1.0, 1.00005, 1.001, 1.5, 2.0, 7.0, 1e6, 1e300, 0.5, math.nan, math.inf)),
}


@pytest.mark.parametrize("name", projections.PROJECTIONS)
@given(st.data())
@checked()
def test_projections(name, data):
    """Finite scores of any size give a distribution; -inf forbids; NaN and +inf make the row NaN."""
    t = data.draw(SIZES)
    z, allowed = data.draw(tensors(data.draw(SIZES), t)), data.draw(bools(data.draw(SIZES), t))
    if data.draw(st.booleans()):
        allowed = torch.ones(z.shape, dtype=torch.bool)
    parameter, values = PARAMETERS[name]
    given_ = {} if parameter is None else {parameter: data.draw(st.sampled_from(values))}
    a = settled(projections.project, name, z, allowed, **given_)
    if a is None:
        return
    allowed = allowed.expand(z.shape) & (z != -math.inf)
    bad = ((z.isnan() | (z == math.inf)) & allowed).any(-1) if z.dim() and z.shape[-1] else None
    total = torch.where(allowed, a, 0.0).sum(-1)
    assert not (a * ~allowed).nan_to_num().any()
    if bad is not None:
        assert (a[~bad] >= 0).all(), a
        wanted = allowed.any(-1).to(a.dtype)[~bad]
        assert torch.allclose(total[~bad], wanted, atol=1e-5), (z, a)
        assert torch.where(allowed, a, math.nan)[bad].isnan().all()


@given(st.data())
@checked()
def test_divergences(data):
    b, t = data.draw(SIZES), data.draw(SIZES)
    p, q = data.draw(distributions(b, t)), data.draw(distributions(b, t))
    eps = data.draw(st.sampled_from((0.0, 1e-10, -1.0, math.nan, math.inf)))
    settled(divergences.tvd, p, q)
    settled(divergences.multilabel_tvd, p, q)
    settled(divergences.scaled_jsd, p, q, eps)
    settled(divergences.kl, p, q, eps)
    settled(divergences.largest_jsd, p, data.draw(bools(b, t)))


@given(st.data())
@checked()
def test_rankings(data):
    n = data.draw(SIZES)
    lists = st.lists(NUMBERS, min_size=n, max_size=n if data.draw(st.integers(0, 5)) else None)
    x, y = data.draw(lists), data.draw(lists)
    tolerance = data.draw(st.sampled_from((0.0, 1e-6, 0.5, 1.0, -1.0, math.nan)))
    k = data.draw(st.sampled_from((0, 1, 2, 3, 10**9, 2.0, 1.5, math.nan, math.inf, -1)))
    p = data.draw(st.sampled_from((0.0, 0.5, 1.0, math.nan, 2.0)))
    found = [settled(measure, x, y, tolerance) for measure in (rankings.kendall_tau_b, rankings.spearman)]
    found.append(settled(top_k.overlap, x, y, k, tolerance))
    found += [settled(measure, x, y, k, p, tolerance) for measure in (top_k.top_k_kendall, top_k.top_k_tau)]
    for one in found:
        assert one is None or math.isnan(one.value) == (one.reason is not None)


@given(st.data())
@checked()
def test_concentration_and_plausibility(data):
    b, t = data.draw(SIZES), data.draw(SIZES)
    values, content, marks = data.draw(tensors(b, t)), data.draw(bools(b, t)), data.draw(bools(b, t))
    found = settled(concentration.distribution, values, content)
    if found is not None:
        shares, reasons = found
        for measure in (concentration.normalized_entropy, concentration.gini):
            measure(shares, content)
        defined = torch.tensor([reason is None for reason in reasons], dtype=torch.bool)
        assert (shares.isnan().all(-1) == ~defined)[shares.shape[-1] > 0 and slice(None)].all()
        assert same_sum(shares[defined])
    for measure in (plausibility.auprc,):
        found = settled(measure, values, marks, content)
        if found is not None:
            for number, reason in zip(found[0].tolist(), found[1], strict=True):
                assert math.isnan(number) == (reason is not None)
    settled(plausibility.random_auprc, marks, content)
    settled(plausibility.rationale_share, marks, content)
    settled(plausibility.token_f1, marks, content)
    settled(plausibility.iou_f1, marks, content, data.draw(st.sampled_from((0.5, 1.0, 0.4, math.nan))))
    counts = torch.tensor(data.draw(st.lists(st.integers(-1, 9), min_size=b, max_size=b)), dtype=torch.long)
    settled(plausibility.select_top, values, content, counts)
    settled(sufficiency.top_masks, values, content, counts[:, None])
    settled(permutations.permutable, values, content)
    settled(erasure.removal_order, values, content)


def same_sum(shares):
    return torch.allclose(shares.sum(-1), torch.ones(len(shares), dtype=shares.dtype), atol=1e-9)


@given(st.data())
@checked()
def test_erasure_curves(data):
    b, k, c = data.draw(SIZES), data.draw(SIZES), data.draw(st.integers(0, 3))
    p, rest = data.draw(tensors(b)), data.draw(tensors(b, k))
    for measure in (sufficiency.comprehensiveness, sufficiency.sufficiency):
        found = settled(measure, p, rest)
        if found is not None:
            settled(sufficiency.aopc, found, data.draw(st.sampled_from((None, p))))
    settled(sufficiency.erasure_counts, p, data.draw(st.lists(NUMBERS, max_size=3)))
    settled(erasure.first_flip, data.draw(tensors(b, k, c)), torch.zeros(b, dtype=torch.long))
    weights, items = data.draw(tensors(b, k)), data.draw(bools(b, k))
    order = settled(erasure.removal_order, weights, items)
    if order is not None:
        settled(erasure.removed_mass, weights, order, items, data.draw(tensors(b)))


@given(st.data())
@checked()
def test_layers(data):
    b, depth, h, t = (data.draw(st.integers(0, 3)) for _ in range(4))
    layers, start = data.draw(distributions(b, depth, t, t)), data.draw(distributions(b, t))
    settled(rollout.rollout, layers, start)
    settled(rollout.relevance, layers, start)
    settled(rollout.positive_part, layers, data.draw(tensors(b, depth, t, t)))
    flows = settled(flow.attention_flow, layers, start, data.draw(bools(b, t)))
    if flows is not None:
        assert flows.isnan().logical_or((flows >= 0) & (flows <= 1 + 1e-9)).all()
    twin, base = data.draw(distributions(b, h, t, t)), data.draw(distributions(b, h, t, t))
    rows, content = data.draw(bools(b, t)), data.draw(bools(b, t))
    settled(head_matching.content_attention, twin, content)
    apart = settled(head_matching.head_distances, twin, base, rows)
    if apart is not None:
        match = head_matching.match_heads(apart)
        settled(head_matching.matched_distances, apart, match)
        settled(head_matching.matched_jsd, twin, base, rows, match, data.draw(st.sampled_from((0.0, 1e-10))))
    settled(head_matching.match_heads, data.draw(tensors(b, h, h)))
    settled(head_matching.matched_distances, data.draw(tensors(b, h, h)), data.draw(st.lists(st.integers(-1, 3))))
