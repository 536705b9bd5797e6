"""The gradient search for adversarial attention against the original's iterates, and what it must keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_faithful.evaluators.adversarial_search import SearchSettings, search, starting_noise
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.predictions import output_change
from attn_faithful.functional.divergences import jsd
from attn_faithful.models.protocol import probabilities
from tests.evaluators.blocks import random_block
from tests.models.test_fixtures import EDGES, FIXTURES, FORWARD, build, inputs, load, question_batch

ONE_LABEL = 5e-5  # of weights; a JSD sums the errors of several
fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")


def original(name):
    arrays = load(f"jw_fixture{name}")
    with torch.no_grad():
        encoded = build(arrays).encode(inputs(arrays))
    names = [str(i) for i in range(len(arrays["seq"]))]
    return arrays, Block(names, names, 0, "pool", encoded)


@fixtures
@pytest.mark.parametrize("name", [*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
@pytest.mark.parametrize("steps", [1, 10, 100])
def test_iterates_of_the_original(name, steps):
    arrays, block = original(name)
    noise = torch.from_numpy(arrays["adv_noise"])[:, :, None]
    ours = search(block, SearchSettings(preset="code", steps=steps), noise)[:, :, 0].numpy()
    theirs = arrays[f"adv_attn_it{steps}"]
    defined = ~np.isnan(theirs).any((1, 2))
    assert defined.any()
    np.testing.assert_allclose(ours[defined], theirs[defined], rtol=1e-5, atol=1e-5)


@fixtures
@pytest.mark.parametrize("name", [*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
def test_what_the_original_found(name):
    arrays, block = original(name)
    noise = torch.from_numpy(arrays["adv_noise"])[:, :, None]
    ours = search(block, SearchSettings(preset="code"), noise)[:, :, 0]
    theirs = torch.from_numpy(arrays["adv_attn"])
    defined = ~theirs.isnan().any(-1).any(-1)
    # the fixtures' README states 2e-3 for several labels and about 1e-5 for one
    atol = 2e-3 if name == "_multilabel" else ONE_LABEL
    off = (ours - theirs).abs().amax(-1).masked_fill(~defined[:, None], 0.0)  # (B, K)
    wrong = (off > atol).nonzero().tolist()
    # the penalty has a kink, where a last bit grows: one alternative of 60 may meet it, and in which fixtures
    # one does depends on how the processor rounds
    assert len(wrong) <= 1
    assert all(float(off[row, k]) <= 2e-3 for row, k in wrong)
    after = probabilities(block.encoded.decode(ours[:, :, None]), block.encoded.multi_label)
    before = block.encoded.probabilities[:, None]
    change = (after - before).abs() if block.encoded.multi_label else (after - before).abs()[..., 1:]
    change = change.mean(-1)  # theirs is accepted up to 0.05, averaged over outputs
    found = torch.where(change <= 0.05, jsd(ours, block.encoded.attention), 0.0).amax(-1)
    expected = torch.from_numpy(arrays["adv_max_jsd"]).double()
    close = (found - expected).abs() <= 1e-3
    on_the_edge = ((change - 0.05).abs() < 1e-3).any(-1)
    assert bool((close | on_the_edge)[defined].all())


@fixtures
@pytest.mark.parametrize("name", ["_qa_lstm_tanh", "_qa_lstm_dot"])
def test_what_the_original_found_for_questions(name):
    arrays = load(f"jw_fixture{name}")
    with torch.no_grad():
        encoded = build(arrays, query=True).encode(question_batch(arrays))
    names = [str(i) for i in range(len(arrays["P_seq"]))]
    block = Block(names, names, 0, "pool", encoded)
    noise = torch.from_numpy(arrays["adv_noise"])[:, :, None]
    ours = search(block, SearchSettings(preset="code"), noise)
    torch.testing.assert_close(ours[:, :, 0], torch.from_numpy(arrays["adv_attn"]), rtol=0, atol=ONE_LABEL)
    after = probabilities(encoded.decode(ours))
    assert after.argmax(-1).tolist() == arrays["adv_class"].tolist()
    change = output_change(after, encoded.probabilities[:, None], False)  # theirs is halved too
    moved = jsd(ours[:, :, 0], encoded.attention)
    last = torch.zeros(len(names), 1)  # the original attention itself
    expected = torch.from_numpy(arrays["adv_tvd"]), torch.from_numpy(arrays["adv_jsd"])
    torch.testing.assert_close(torch.cat([change, last], 1), expected[0], rtol=0, atol=ONE_LABEL)
    torch.testing.assert_close(torch.cat([moved.float(), last], 1), expected[1], rtol=0, atol=2 * ONE_LABEL)
    best = torch.where(torch.cat([change, last], 1) <= 0.05, torch.cat([moved.float(), last], 1), -1).max(-1)
    assert best.indices.tolist() == arrays["adv_argmax"].tolist()
    torch.testing.assert_close(best.values, torch.from_numpy(arrays["adv_max_jsd"]), rtol=0, atol=2 * ONE_LABEL)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("preset", ["paper", "code"])
def test_iterates_follow_the_stated_loss(preset, k):
    """Adam on the loss of the settings' docstring, written out by loops: each of its parts has its factor."""
    block = random_block((6, 5), classes=3, seed=6)
    settings = SearchSettings(preset=preset, k=k, eps=0.02, steps=40, learning_rate=0.05, weight=3.0)
    noise = starting_noise(block, k)
    found = search(block, settings, noise)
    encoded = block.encoded
    for row, n in enumerate((6, 5)):
        own, scores = encoded.attention[row, 0, :n], (3.0 * noise[row, :, 0, :n]).double().requires_grad_()
        optimizer = torch.optim.Adam([scores], lr=0.05, amsgrad=True)
        logits, bias = encoded.affine.token_logits[row, :n], encoded.affine.bias[row]
        before = (own @ logits + bias).softmax(-1)
        for _ in range(40):
            shares = scores.softmax(-1)
            loss = 0.0
            for i in range(k):
                change = ((shares[i] @ logits + bias).softmax(-1) - before).abs().sum()
                over = torch.relu(change / 2 - 0.02) / k if preset == "paper" else torch.relu(change - 0.01)
                loss = loss - jsd(shares[i], own, eps=1e-10) + 3.0 * over
                for j in range(i + 1, k):
                    factor = 1 / (k * (k - 1)) if preset == "paper" else 2 / k**2
                    loss = loss - factor * jsd(shares[i], shares[j], eps=1e-10)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(found[row, :, 0, :n], scores.detach().softmax(-1), rtol=0, atol=1e-9)


def test_alternatives_are_distributions_on_the_items_and_keep_the_limit():
    block = random_block((6, 1, 0, 9), classes=3, seed=4)
    found = search(block, SearchSettings(k=3, eps=0.05, steps=300))
    items = block.items[:, None]
    assert found.shape == (4, 3, 1, 10)
    assert bool((found >= 0).all())
    assert bool((found.masked_fill(items, 0) == 0).all())
    torch.testing.assert_close(found.sum(-1)[[0, 1, 3]], torch.ones(3, 3, 1, dtype=found.dtype))
    assert bool((found[2] == 0).all())
    after = probabilities(block.encoded.decode(found))
    change = output_change(after, block.encoded.probabilities[:, None], False)
    assert bool((change < 0.06).all())
    moved = jsd(found[:, :, 0], block.encoded.attention)
    assert bool((moved[[0, 3]] > 0.05).all())


def test_noise_and_result_do_not_depend_on_batch_mates():
    block = random_block((4, 9, 3), seed=1)
    alone = random_block((4, 9, 3), seed=1)
    settings = SearchSettings(k=2, steps=20)
    all_gather = search(block, settings)
    torch.testing.assert_close(search(alone, settings), all_gather, rtol=0, atol=0)
    noise = starting_noise(block, 2)
    one = Block(block.example[:1], block.keys[:1], 0, "pool", shortened(block, 5))
    torch.testing.assert_close(starting_noise(one, 2)[..., :4], noise[:1, ..., :4], rtol=0, atol=0)


def shortened(block, size):
    """The first example alone, without most of its padding."""
    whole = block.encoded
    return type(whole)(
        attention=whole.attention[:1, :, :size],
        allowed=whole.allowed[:1, :, :size],
        content=whole.content[:1, :size],
        items="token",
        logits=whole.logits[:1],
        decode=whole.decode,
    )


def test_alternatives_are_pushed_apart():
    block = random_block((8,) * 12, seed=2)
    noise = starting_noise(block, 2)
    pair = search(block, SearchSettings(k=2, eps=1.0, steps=300), noise)
    alone = [search(block, SearchSettings(k=1, eps=1.0, steps=300), noise[:, k : k + 1])[:, 0] for k in range(2)]
    assert float(jsd(pair[:, 0], pair[:, 1]).mean()) > float(jsd(*alone).mean()) + 0.01
