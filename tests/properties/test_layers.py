"""What reaches a token through layers of any attention, and which heads stand for which."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.functional import flow, head_matching, rollout
from tests.properties import made
from tests.properties.made import checked, same
from tests.reference import head_matching as slow_heads
from tests.reference import rollout as slow


@st.composite
def stacks(draw, longest=6):
    """Layers (B, L, T, T) of distributions or rows of zeros, and a start (B, T)."""
    b, depth, t = draw(st.integers(1, 2)), draw(st.integers(0, 3)), draw(st.integers(1, longest))
    kind = draw(st.sampled_from(("smooth", "sparse", "one-hot", "equal", "ties")))
    generator = np.random.default_rng(draw(made.seeds()))
    rows = [made.weights(generator, t, kind) * (generator.random() < 0.9) for _ in range(b * depth * t)]
    layers = torch.from_numpy(np.array(rows).reshape(b, depth, t, t))
    start = torch.from_numpy(np.stack([made.weights(generator, t, draw(st.sampled_from(("one-hot", "equal"))))] * b))
    return layers, start, generator


@given(stacks())
@checked()
def test_rollout_and_flow(drawn):
    """Rollout keeps the mass; a flow is no more than what starts; both go along with the order of tokens."""
    layers, start, generator = drawn
    t = layers.shape[-1]
    order = torch.from_numpy(generator.permutation(t))
    moved = layers[:, :, order][..., order], start[:, order]
    found = rollout.rollout(layers, start)
    sinks = torch.from_numpy(generator.random((len(layers), t)) < 0.7)
    most = flow.attention_flow(layers, start, sinks)
    assert same(found.sum(-1), start.sum(-1))
    assert (found >= 0).all()
    assert same(rollout.rollout(*moved), found[:, order])
    assert torch.equal(most.isnan(), ~sinks)
    assert (most[sinks] <= 1 + 1e-9).all()
    assert (most[sinks] >= -1e-9).all()
    assert same(flow.attention_flow(*moved, sinks[:, order]), most[:, order], 1e-8)
    gradient = torch.from_numpy(generator.standard_normal((len(layers), layers.shape[1], 2, t, t)))
    heads = torch.stack([layers, layers.flip(-1)], 2)
    relevant = rollout.relevance(rollout.positive_part(heads, gradient), start)
    for i in range(len(layers)):
        assert same(found[i], start[i].numpy() @ slow.rollout(layers[i].numpy()))
        assert same(relevant[i], start[i].numpy() @ slow.relevance(heads[i].numpy(), gradient[i].numpy()))
        for token in sinks[i].nonzero()[:, 0].tolist()[:2]:
            assert same(most[i, token], slow.flow(layers[i].numpy(), start[i].numpy(), token), 1e-7)
    if layers.shape[1] == 0:
        assert same(found, start)


@st.composite
def heads(draw):
    b, h, q, t = (draw(st.integers(1, k)) for k in (3, 4, 3, 5))
    generator = np.random.default_rng(draw(made.seeds()))
    kind = draw(st.sampled_from(("smooth", "sparse", "one-hot", "ties")))
    both = []
    for _ in range(2):
        rows = [made.weights(generator, t, kind) * (generator.random() < 0.9) for _ in range(b * h * q)]
        both.append(torch.from_numpy(np.array(rows).reshape(b, h, q, t)))
    return *both, torch.from_numpy(generator.random((b, q)) < 0.8), generator


@given(heads())
@checked(2)
def test_matching(drawn):
    """Distances, the best assignment over all, and that renaming the heads finds them again."""
    twin, base, rows, generator = drawn
    b, h, _, t = twin.shape
    apart = head_matching.head_distances(twin, base, rows)
    expected = slow_heads.distances(twin.tolist(), base.tolist(), rows.tolist())
    assert same(apart, expected, 1e-9)
    found = head_matching.match_heads(apart)
    _, least, costs = slow_heads.best_assignment(apart.tolist())
    assert abs(sum(costs[i][j] for i, j in enumerate(found.tolist())) - least) < 1e-9
    matched = head_matching.matched_distances(apart, found)
    assert same(matched, [slow_heads.matched(e, found.tolist()) for e in apart.tolist()], 1e-9)
    assert same(head_matching.matched_jsd(twin, base, rows, found), matched, 1e-9)
    assert ((matched >= 0) & (matched <= math.log(2) + 1e-12))[~matched.isnan()].all()
    names = torch.from_numpy(generator.permutation(h))
    renamed = head_matching.head_distances(base[:, names], base, rows)
    again = head_matching.matched_distances(renamed, head_matching.match_heads(renamed))
    assert same(again[~again.isnan()], torch.zeros(int((~again.isnan()).sum())), 1e-9)
    content = torch.from_numpy(generator.random((b, t)) < 0.7)
    kept = head_matching.content_attention(twin, content)
    assert same(kept[0, 0, 0], slow_heads.content_attention(twin[0, 0, 0].tolist(), content[0].tolist()))
