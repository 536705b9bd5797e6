"""The permutation test against the original's numbers and loops, and attention that no permutation can change."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful.evaluators import permutation
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.evaluators.permutation import PermutationSettings, run
from attn_faithful.functional.divergences import multilabel_tvd, tvd
from attn_faithful.functional.permutations import joint_permutations, permuted_indices
from attn_faithful.models.protocol import Affine, probabilities
from tests.evaluators.blocks import random_block, values
from tests.evaluators.test_adversarial_search import fixtures, original
from tests.models.test_fixtures import EDGES, FORWARD


@fixtures
@pytest.mark.parametrize("name", [*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
def test_the_median_of_the_original(name, monkeypatch):
    """Given its permutations; theirs is over one output, and so is ours for two classes (|dp| is TVD)."""
    arrays, block = original(name)
    index, items = torch.from_numpy(arrays["perm_index"]).transpose(0, 1), block.items[:, 0]
    rows = iter(range(len(block)))

    def given(counts, k, generators, identity):
        assert identity
        places = items[row := next(rows)].nonzero()[:, 0]
        assert counts == ([len(places)] if len(places) > 1 else [])
        return [index[row][:, places] - places[0]] if counts else []

    monkeypatch.setattr(permutation, "joint_permutations", given)
    found, reasons = values(run(block, PermutationSettings(identity=True)), "attention_permutation")
    compared = 0
    for row, expected in enumerate(arrays["perm_median"]):
        if reasons[str(row)] is None:
            assert found[str(row)] == pytest.approx(float(expected), abs=1e-5)
            compared += 1
        else:
            assert reasons[str(row)] in ("n<2", "no content token", "constant attention")
            assert np.isnan(expected) or expected < 1e-5  # theirs calls "nothing can move" a change of 0
    assert compared or name == "_edge_flat"


@pytest.mark.parametrize(("classes", "multi_label"), [(2, False), (4, False), (3, True)])
@pytest.mark.parametrize("identity", [False, True])
def test_values_equal_loops(classes, multi_label, identity):
    """Of short texts over all permutations, of long ones over 31 draws; with the identity over 31 draws of each."""
    lengths = (5, 8, 2, 3, 4)
    block = random_block(lengths, classes=classes, multi_label=multi_label)
    found = run(block, PermutationSettings(permutations=31, identity=identity))
    medians, _ = values(found, "attention_permutation")
    flips, _ = values(found, "permutation_flips")
    before = probabilities(block.encoded.logits, multi_label)
    distance = multilabel_tvd if multi_label else tvd
    for row, n in enumerate(lengths):
        if n <= 5 and not identity:
            dealt = [torch.tensor(order) for order in itertools.permutations(range(n))][1:]
        else:
            dealt = permuted_indices(n, 31, block.generator(row, "permutation"), identity)
            assert len(dealt) == 31
        changes, changed = [], 0
        for order in dealt:
            weights = torch.zeros_like(block.encoded.attention[row, 0])
            weights[:n] = block.encoded.attention[row, 0, :n][order]
            every = block.encoded.attention[:, None].clone()
            every[row, 0, 0] = weights
            logits = block.encoded.decode(every)[row, 0]
            changes.append(float(distance(probabilities(logits, multi_label), before[row])))
            decided = logits > 0 if multi_label else logits.argmax()
            was = block.encoded.logits[row] > 0 if multi_label else block.encoded.logits[row].argmax()
            changed += not torch.equal(decided, was)
        assert medians[f"e{row}"] == pytest.approx(np.median(changes), abs=1e-10)
        assert flips[f"e{row}"] == pytest.approx(changed / len(dealt))
        stored = found.variants["changes"][found.variants["example"].index(f"e{row}")]
        assert stored == pytest.approx(changes, abs=1e-10)


def two_tokens(weights, margins):
    """A text of these weights, whose tokens alone would say these margins."""
    block = random_block((len(weights),), attention=[list(weights)])
    logits = torch.zeros(1, len(weights) + 1, 2, dtype=torch.float64)
    logits[0, : len(margins), 1] = torch.tensor(margins, dtype=torch.float64)

    def decode(given):
        return given[:, :, 0] @ logits

    own = decode(block.encoded.attention[:, None])[:, 0]
    affine = Affine(logits, torch.zeros(1, 2, dtype=torch.float64))
    return replace(block, encoded=replace(block.encoded, logits=own, decode=decode, affine=affine))


def test_short_texts_have_one_answer_for_every_seed():
    """Weights .7 and .3, margins 1 and -1: sigmoid(.4) becomes sigmoid(-.4), a change of .197."""
    two, three = two_tokens((0.7, 0.3), (1.0, -1.0)), two_tokens((0.6, 0.3, 0.1), (1.0, -1.0, 0.5))
    for block, expected, count in ((two, 0.19737532, 1), (three, None, 5)):
        found = [run(replace(block, seed=seed), PermutationSettings()) for seed in range(8)]
        assert all(one.scores == found[0].scores for one in found)
        assert len(found[0].variants["changes"][0]) == count
        value = values(found[0], "attention_permutation")[0]["e0"]
        assert expected is None or value == pytest.approx(expected, abs=1e-8)
    drawn = {
        values(run(replace(two, seed=seed), PermutationSettings(5, identity=True)), "attention_permutation")[0]["e0"]
        for seed in range(8)
    }
    assert len(drawn) > 1  # what the authors' code gives


def test_equal_weights_are_places_of_their_own():
    """Weights .5, .25 and .25: of five permutations the one that exchanges the equal weights changes nothing."""
    block = two_tokens((0.5, 0.25, 0.25), (1.0, -1.0, 0.5))
    changes = run(block, PermutationSettings()).variants["changes"][0]
    assert len(changes) == 5
    assert min(round(change, 12) for change in changes) == 0
    assert sum(change < 1e-12 for change in changes) == 1


def test_content_alone_is_counted():
    """Five content tokens between two special ones are enumerated, six are drawn."""
    for n, expected in ((5, 119), (6, 40)):
        block = random_block((n + 2,), seed=5)
        content = block.encoded.content.clone()
        content[0, [0, n + 1]] = False
        masked = replace(block, encoded=replace(block.encoded, content=content))
        found = run(masked, PermutationSettings(permutations=40))
        assert len(found.variants["changes"][0]) == expected


def test_several_slots_are_dealt_together():
    """Two slots of two and three items have 2! 3! - 1 permutations, whatever the seed."""
    block = random_block((3,), seed=6)
    allowed = torch.tensor([[[True, True, False, False], [True, True, True, False]]])
    generator = torch.Generator().manual_seed(2)
    attention = torch.rand(1, 2, 4, generator=generator, dtype=torch.float64) * allowed
    attention = attention / attention.sum(-1, keepdim=True)
    token_logits = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64)

    def decode(given):
        return torch.einsum("bkst,stc->bkc", given, token_logits)

    encoded = replace(
        block.encoded,
        attention=attention,
        allowed=allowed,
        decode=decode,
        affine=None,
        logits=decode(attention[:, None])[:, 0],
    )
    before = encoded.logits.softmax(-1)[0]
    expected = []
    for one, other in itertools.product(itertools.permutations(range(2)), itertools.permutations(range(3))):
        dealt = attention.clone()
        dealt[0, 0, :2], dealt[0, 1, :3] = attention[0, 0, list(one)], attention[0, 1, list(other)]
        expected.append(float(tvd(decode(dealt[:, None])[0, 0].softmax(-1), before)))
    for seed in (0, 1):
        found = run(replace(block, seed=seed, encoded=encoded), PermutationSettings())
        assert found.variants["changes"][0] == pytest.approx(expected[1:], abs=1e-12)


def test_exact_answers_equal_full_enumeration():
    block = random_block((4, 6, 3, 5, 2, 6), seed=3)
    found = run(block, PermutationSettings(permutations=50))
    largest, _ = values(found, "permutation_largest")
    certified, _ = values(found, "permutation_certified")
    sampled, _ = values(found, "attention_permutation")
    seen = set()
    for row, n in enumerate((4, 6, 3, 5, 2, 6)):
        weights, logits = block.encoded.attention[row, 0, :n], block.encoded.logits[row]
        changes, kept = [], True
        for order in itertools.permutations(range(n)):
            every = block.encoded.attention[:, None].clone()
            every[row, 0, 0, :n] = weights[list(order)]
            after = block.encoded.decode(every)[row, 0]
            changes.append(float(tvd(after.softmax(-1), logits.softmax(-1))))
            kept &= int(after.argmax()) == int(logits.argmax())
        assert largest[f"e{row}"] == pytest.approx(max(changes), abs=1e-10)
        assert certified[f"e{row}"] == kept
        assert sampled[f"e{row}"] <= largest[f"e{row}"] + 1e-12
        seen.add(kept)
    assert seen == {True, False}


def test_attention_that_no_permutation_changes_says_nothing():
    """C01 and the issue's uniform attention: NaN with a reason, never a change of 0."""
    block = random_block((5, 1, 0, 3), attention=[[0.2] * 5])
    found = run(block, PermutationSettings(permutations=5))
    for metric in ("attention_permutation", "permutation_flips", "permutation_largest", "permutation_certified"):
        numbers, reasons = values(found, metric)
        assert [math.isnan(numbers[f"e{i}"]) for i in range(4)] == [True, True, True, False]
        assert [reasons[f"e{i}"] for i in range(4)] == ["constant attention", "n<2", "no content token", None]
    largest, _ = values(found, "largest_attention")
    assert largest["e0"] == pytest.approx(0.2)
    assert largest["e1"] == pytest.approx(1.0)
    assert math.isnan(largest["e2"])
    uniform, _ = values(run(controlled(random_block(), "uniform"), PermutationSettings()), "attention_permutation")
    assert all(math.isnan(value) for value in uniform.values())


def test_special_tokens_keep_their_weight():
    block = random_block((6,), seed=5)
    content = block.encoded.content.clone()
    content[0, 0] = False
    masked = replace(block, encoded=replace(block.encoded, content=content))
    seen = []
    decode = block.encoded.decode
    watched = replace(masked.encoded, decode=lambda given: seen.append(given) or decode(given))
    found = run(replace(masked, encoded=watched), PermutationSettings(permutations=40, identity=True))
    assert bool((seen[0][0, :, 0, 0] == block.encoded.attention[0, 0, 0]).all())
    torch.testing.assert_close(seen[0][0, :, 0].sum(-1), torch.ones(40, dtype=torch.float64))
    largest, _ = values(found, "permutation_largest")
    sampled = found.variants["changes"][0]
    assert max(sampled) <= largest["e0"] + 1e-12


def test_more_than_two_classes_and_other_readouts_have_no_exact_extreme():
    _, reasons = values(run(random_block((4,), classes=3), PermutationSettings()), "permutation_largest")
    assert reasons["e0"] == "more than two classes"
    _, reasons = values(run(random_block((4,), affine=False), PermutationSettings()), "permutation_certified")
    assert reasons["e0"] == "read-out is not affine"


def test_numbers_depend_on_seed_and_text_alone():
    whole = run(random_block((5, 4, 7)), PermutationSettings(permutations=9)).variants["changes"]
    again = run(random_block((5, 4, 7)), PermutationSettings(permutations=9)).variants["changes"]
    assert whole == again
    other = run(replace(random_block((5, 4, 7)), seed=1), PermutationSettings(permutations=9)).variants["changes"]
    assert other[:2] == whole[:2]
    assert other[2] != whole[2]


def test_special_tokens_keep_their_weight_in_the_exact_answers():
    """Items are the content; what stands outside it adds to the logits under every permutation."""
    block = random_block((5, 5, 5), seed=3)
    content = block.encoded.content.clone()
    content[:, [0, 4]] = False
    block = replace(block, encoded=replace(block.encoded, content=content))
    found = run(block, PermutationSettings())
    (largest, _), (certified, _) = values(found, "permutation_largest"), values(found, "permutation_certified")
    for row, example in enumerate(block.example):
        before = probabilities(block.encoded.logits[row], False)
        changes, kept = [], True
        for order in itertools.permutations(range(1, 4)):
            every = block.encoded.attention[:, None].clone()
            every[row, 0, 0, 1:4] = block.encoded.attention[row, 0, list(order)]
            logits = block.encoded.decode(every)[row, 0]
            changes.append(float(tvd(probabilities(logits, False), before)))
            kept = kept and int(logits.argmax()) == int(before.argmax())
        assert largest[example] == pytest.approx(max(changes), abs=1e-10)
        assert certified[example] == float(kept)


def test_permutations_are_drawn_once_for_the_attention_and_its_controls(monkeypatch):
    block = random_block((7, 9))
    drawn = []

    def counted(*arguments):
        drawn.append(arguments)
        return joint_permutations(*arguments)

    monkeypatch.setattr(permutation, "joint_permutations", counted)
    alone = run(controlled(random_block((7, 9)), "random"), PermutationSettings())
    drawn.clear()
    run(block, PermutationSettings())
    after_attention = run(controlled(block, "random"), PermutationSettings())
    assert len(drawn) == len(block)
    assert after_attention.scores == alone.scores
    run(block, PermutationSettings(permutations=5))
    assert len(drawn) == 2 * len(block)
