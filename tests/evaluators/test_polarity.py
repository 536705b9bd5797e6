"""Whether the first item of a ranking speaks for the decision, against a loop over the definition."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.polarity import PolaritySettings, run
from tests.evaluators.blocks import random_block, values
from tests.reference import polarity as slow

LENGTHS = (5, 1, 0, 7, 2, 30, 3)
SETTINGS = PolaritySettings(rankings=["attention", "other", "negative"])


def deleting(block):
    """Deletion from a text of tokens that are read alone: the weights that are left, renormalized."""

    def without(keep):
        weights = block.encoded.attention[:, :1] * keep  # (B, K, T)
        mass = weights.sum(-1, keepdim=True)
        return block.encoded.decode((weights / mass.clamp(min=1e-300))[:, :, None])

    return without


def ranked(block, seed=0):
    """The block with two sources beside attention, the second of which names no support."""
    other = torch.randn(block.encoded.content.shape, generator=torch.Generator().manual_seed(seed)).double()
    other[:, 0] = other[:, 0].abs() + 0.1
    return replace(block, sources={"other": other, "negative": -other.abs()}, without=deleting(block))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("affine", [True, False])
def test_against_a_loop(classes, affine):
    block = ranked(random_block(LENGTHS, classes, seed=classes, affine=affine))
    found = run(block, SETTINGS)
    readout = random_block(LENGTHS, classes, seed=classes).encoded.affine
    for name in ("attention", "other"):
        importance = block.importance(name).numpy()
        for metric in ("polarity_violation", "polarity_violation_removal"):
            value, reason = values(found, metric, name)
            for row, n in enumerate(LENGTHS):
                example = f"e{row}"
                if n < 2:
                    assert math.isnan(value[example])
                    assert reason[example] == ("no content token" if n == 0 else "one item")
                    continue
                place, _ = slow.first(importance[row, :n])
                attention = block.encoded.attention[row, 0, :n].numpy()
                token_logits, bias = readout.token_logits[row, :n].numpy(), readout.bias[row].numpy()
                before = attention @ token_logits + bias
                after = slow.without(attention, token_logits, bias, place)
                assert value[example] == slow.violated(before, after, int(np.argmax(before))), (name, metric, n)


def test_a_ranking_without_support_is_counted():
    found = run(ranked(random_block(LENGTHS)), SETTINGS)
    value, reason = values(found, "polarity_violation", "negative")
    assert math.isnan(value["e0"])
    assert reason["e0"] == "no item is ranked as support"


def test_a_model_that_cannot_delete_is_judged_by_removal():
    block = replace(ranked(random_block(LENGTHS)), without=None)
    found = run(block, SETTINGS)
    value, reason = values(found, "polarity_violation", "attention")
    assert reason["e0"] == "model cannot delete tokens"
    assert math.isnan(value["e0"])
    assert not math.isnan(values(found, "polarity_violation_removal", "attention")[0]["e0"])


def test_all_weight_on_one_item_that_decides():
    block = random_block((3,), attention=[[0.0, 1.0, 0.0]], seed=3)
    block.encoded.affine.bias.zero_()
    block.encoded.affine.token_logits[0, 1, 1] = 2.0
    encoded = replace(block.encoded, logits=block.encoded.decode(block.encoded.attention[:, None])[:, 0])
    block = replace(ranked(replace(block, encoded=encoded)), without=None)
    value, _ = values(run(block, SETTINGS), "polarity_violation_removal", "attention")
    assert value["e0"] == 0.0  # without it nothing is left but the bias of two equal classes


def test_several_labels_at_once_are_not_one_decision():
    found = run(ranked(random_block(LENGTHS, multi_label=True)), SETTINGS)
    assert values(found, "polarity_violation", "attention")[1]["e0"] == "labels are independent"


def test_padding_and_company_change_nothing():
    block = ranked(random_block(LENGTHS))
    whole = run(block, SETTINGS)
    alone = ranked(random_block(LENGTHS[:1]))
    row = replace(
        alone,
        encoded=replace(
            alone.encoded,
            attention=block.encoded.attention[:1, :, :6],
            affine=replace(
                block.encoded.affine,
                token_logits=block.encoded.affine.token_logits[:1, :6],
                bias=block.encoded.affine.bias[:1],
            ),
            logits=block.encoded.logits[:1],
        ),
        sources={name: value[:1, :6] for name, value in block.sources.items()},
        without=None,
    )
    for name in SETTINGS.rankings:
        metric = "polarity_violation_removal"
        in_company = values(whole, metric, name)[0]["e0"]
        assert repr(values(run(row, SETTINGS), metric, name)[0]["e0"]) == repr(in_company)


@pytest.mark.parametrize("rankings", [[], ["attention", "attention"]])
def test_bad_rankings_are_told(rankings):
    with pytest.raises(InputError, match="different sources"):
        PolaritySettings(rankings=rankings)
