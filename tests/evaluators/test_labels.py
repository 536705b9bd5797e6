"""Multi-label models, asked label by label: every number about a decision against loops over one label's logit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful.evaluators import adversarial, erasure, flips, permutation
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.label_views import ask_labels
from attn_faithful.models.label_view import Remembered, label_view
from tests.evaluators.blocks import random_block
from tests.reference import flip_distance as nearest
from tests.reference import labels as slow

NAMES = ("one", "two", "three")
LENGTHS = (4, 1, 0, 5, 3)


@pytest.fixture(scope="module")
def block():
    return random_block(LENGTHS, classes=3, seed=3, multi_label=True)


def texts(block):
    """Attention, token logits (T, C) and bias (C,) of each text, and its place."""
    affine = block.encoded.affine
    for row, n in enumerate(LENGTHS):
        attention = block.encoded.attention[row, 0, :n].tolist()
        yield row, attention, affine.token_logits[row, :n].tolist(), affine.bias[row].tolist()


def asked(block, test, settings, sources=None):
    return ask_labels(EVALUATORS[test], block, settings, NAMES, sources or [{} for _ in NAMES])


def column(found, metric, source="attention"):
    """(example, label) -> value."""
    table = found.scores
    return {
        (table["example"][i], table["label"][i]): table["value"][i]
        for i in range(len(table["value"]))
        if table["metric"][i] == metric and table["source"][i] == source
    }


def same(value, expected):
    assert math.isnan(value) if expected is None else value == pytest.approx(expected, abs=1e-9)


def test_flips_of_each_label_equal_loops(block):
    settings = flips.FlipSettings(rankings=["attention"], random=0)
    found = asked(block, "flips", settings)
    sizes, smallest = column(found, "flip_size"), column(found, "flip_size", "smallest_set")
    assert len(sizes) == len(LENGTHS) * len(NAMES)
    flipped = 0
    for row, attention, token_logits, bias in texts(block):
        order = sorted(range(len(attention)), key=lambda t: -attention[t])
        for c, name in enumerate(NAMES):
            own = [z[c] for z in token_logits], bias[c]
            alone = len(attention) < 2
            same(sizes[f"e{row}", name], None if alone else slow.first_flip(order, attention, *own))
            same(smallest[f"e{row}", name], None if alone else slow.smallest_set(attention, *own))
            flipped += not math.isnan(sizes[f"e{row}", name])
    assert flipped > 3


def test_the_nearest_attention_that_flips_a_label_equals_a_solver(block):
    found = asked(block, "adversarial", adversarial.AdversarialSettings(search=adversarial.SearchSettings(steps=2)))
    distance, proof = column(found, "flip_distance"), column(found, "attention_proof")
    known = 0
    for row, attention, token_logits, bias in texts(block):
        for c, name in enumerate(NAMES):
            if not attention:
                assert math.isnan(distance[f"e{row}", name])
                continue
            own = [[0.0, z[c]] for z in token_logits], [0.0, bias[c]]
            expected = nearest.flip_distance(attention, *own)[0]
            same(distance[f"e{row}", name], None if math.isinf(expected) else expected)
            assert proof[f"e{row}", name] == float(math.isinf(expected))
            known += not math.isinf(expected)
    assert known > 3
    whole = column(found, "adversarial_attention")
    assert set(whole) == {(f"e{row}", None) for row in range(len(LENGTHS))}  # all labels together, as the paper has it


def test_permutations_of_each_label_equal_loops(block):
    found = asked(block, "permutation", permutation.PermutationSettings(permutations=20))
    largest, certified = column(found, "permutation_largest"), column(found, "permutation_certified")
    assert {label for _, label in column(found, "attention_permutation")} == {None}
    assert {label for _, label in column(found, "permutation_flips")} == set(NAMES)
    for row, attention, token_logits, bias in texts(block):
        for c, name in enumerate(NAMES):
            if len(attention) < 2:
                assert math.isnan(largest[f"e{row}", name])
                continue
            change, never = slow.over_permutations(attention, [z[c] for z in token_logits], bias[c])
            same(largest[f"e{row}", name], change)
            assert certified[f"e{row}", name] == float(never)


def test_erasure_of_each_label_equals_loops(block):
    affine, n = block.encoded.affine, max(LENGTHS) + 1

    def without(keep):  # another text, whose items weigh the same
        shares = keep.double() * block.encoded.content[:, None]
        shares = shares / shares.sum(-1, keepdim=True).clamp(min=1)
        return shares @ affine.token_logits + affine.bias[:, None]

    importance = torch.rand(3, len(LENGTHS), n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sources = [{"saliency": own} for own in importance]
    settings = erasure.ErasureSettings(rankings=["attention", "saliency"])
    found = asked(replace(block, without=without), "erasure", settings, sources)
    for source in settings.rankings:
        values = column(found, "comprehensiveness", source)
        for row, attention, token_logits, bias in texts(block):
            for c, name in enumerate(NAMES):
                if not attention:
                    assert math.isnan(values[f"e{row}", name])
                    continue

                def run(kept, z=token_logits, b=bias, c=c):
                    return slow.logit([1.0] * len(z), kept, [own[c] for own in z], b[c])

                ranked = attention if source == "attention" else importance[c, row].tolist()
                yes = bool(block.encoded.logits[row, c] > 0)
                expected = slow.comprehensiveness(run, len(attention), ranked, settings.shares, yes)
                same(values[f"e{row}", name], expected)


def test_a_label_of_zero_is_a_no():
    block = random_block((3,), classes=2, multi_label=True)
    encoded = replace(block.encoded, logits=torch.tensor([[0.0, 1.0]]))
    assert [int(label_view(encoded, c).logits.argmax()) for c in (0, 1)] == [0, 1]
    assert not label_view(encoded, 1).multi_label
    yes = 1 / (1 + math.exp(-1))
    assert label_view(encoded, 1).probabilities.tolist() == [[pytest.approx(1 - yes), pytest.approx(yes)]]


def test_labels_share_what_the_model_was_asked():
    calls = []

    def decode(attention):
        calls.append(attention.shape)
        return attention[:, :, 0].sum(-1, keepdim=True).expand(-1, -1, 2)

    held = Remembered(decode)
    attention = torch.rand(1, 2, 1, 3)
    first = held(attention)
    assert torch.equal(held(attention.clone()), first)
    assert len(calls) == 1
    held(attention * 2)
    held(attention.clone().requires_grad_()).sum().backward()
    assert len(calls) == 3
    np.testing.assert_array_equal(calls[0], calls[2])
