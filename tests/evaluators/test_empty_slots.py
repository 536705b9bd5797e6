"""Slots that hold nothing are as if they were not there: empty sentences of a document, and those of longer ones."""

from __future__ import annotations

import math

import pytest
import torch

from attn_faithful.evaluators import adversarial, permutation
from attn_faithful.evaluators.adversarial_search import SearchSettings
from attn_faithful.evaluators.base import Block
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from tests.evaluators.blocks import values
from tests.reference import divergences as slow

METRICS = ("adversarial_attention", "jsd_reachable", "adversarial_ratio", "adversarial_kl")


def han():
    torch.manual_seed(0)
    settings = {"vocab_size": 20, "embedding_size": 6, "hidden_size": 5, "num_labels": 2, "encoder": "mlp"}
    model = HANClassifier(HANConfig(**settings)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def block_of(documents):
    """Documents as lists of sentences of (word, whether it is content), at the site of the words."""
    width = max(sum(map(len, document)) for document in documents)
    ids, content, sentence = (torch.zeros(len(documents), width, dtype=torch.long) for _ in range(3))
    mask = torch.zeros(len(documents), width, dtype=torch.long)
    for row, document in enumerate(documents):
        place = 0
        for number, words in enumerate(document):
            for word, counts in words:
                ids[row, place], content[row, place], sentence[row, place], mask[row, place] = word, counts, number, 1
                place += 1
    batch = {"input_ids": ids, "attention_mask": mask, "special_tokens_mask": 1 - content, "sentence_ids": sentence}
    names = [f"e{i}" for i in range(len(documents))]
    return Block(names, names, 0, "word", han().encode(batch, "word"))


FULL = [[(4, 1), (5, 1), (6, 1)], [(7, 1), (8, 1)]]
EMPTY = [(2, 0)]
LONG = [[(9, 1), (10, 1)]] * 5


def test_the_mean_over_slots_leaves_empty_ones_out():
    block = block_of([[*FULL, EMPTY], LONG])
    slots = block.items.shape[1]
    assert slots == 5
    values_by_slot = torch.arange(1.0, 2 * slots + 1).view(2, slots)
    assert block.over_slots(values_by_slot).tolist() == [1.5, 8.0]
    assert block.over_slots(values_by_slot[:, None]).tolist() == [[1.5], [8.0]]


@pytest.mark.parametrize("documents", [[[*FULL, EMPTY]], [FULL, LONG], [[*FULL, EMPTY, EMPTY], LONG]])
def test_an_empty_sentence_is_in_no_divergence(documents):
    """The same document with and without empty sentences, and beside one of more sentences."""
    settings = adversarial.AdversarialSettings(method="adam", search=SearchSettings(steps=15), k=2)
    alone, beside = (adversarial.run(block_of(given), settings) for given in ([FULL], documents))
    for metric in METRICS:
        expected, found = (values(one, metric)[0]["e0"] for one in (alone, beside))
        assert not math.isnan(expected)
        assert found == pytest.approx(expected, abs=1e-9), metric


def test_the_divergence_is_the_mean_over_sentences_with_words():
    block = block_of([[*FULL, EMPTY], LONG])
    encoded = block.encoded
    reach = values(
        adversarial.run(block, adversarial.AdversarialSettings(method="adam", search=SearchSettings(steps=2), k=1)),
        "jsd_reachable",
    )[0]
    for row, name in enumerate(block.example):
        each = [
            slow.largest_jsd(encoded.attention[row, slot, held].tolist())
            for slot, held in enumerate(block.items[row])
            if bool(held.any())
        ]
        assert reach[name] == pytest.approx(sum(each) / len(each), abs=1e-9)


def test_permutations_do_not_see_empty_sentences():
    alone = permutation.run(block_of([FULL]), permutation.PermutationSettings())
    beside = permutation.run(block_of([[*FULL, EMPTY], LONG]), permutation.PermutationSettings())
    assert len(alone.variants["changes"][0]) == 2 * 6 - 1
    assert beside.variants["changes"][0] == pytest.approx(alone.variants["changes"][0], abs=1e-9)


def test_a_document_without_a_word_is_undefined_and_never_0():
    block = block_of([[EMPTY], FULL])
    found = adversarial.run(block, adversarial.AdversarialSettings(method="adam", search=SearchSettings(steps=2), k=1))
    for metric in (*METRICS, "adversarial_tvd"):
        numbers, reasons = values(found, metric)
        assert math.isnan(numbers["e0"])
        assert reasons["e0"] == "no content token"
        assert not math.isnan(numbers["e1"])
