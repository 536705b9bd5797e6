"""The certified core in the test flips: sizes, the items that are stored, and rankings whose top it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.flip_case import FlipCase
from attn_faithful.evaluators.flips import FlipSettings, run
from attn_faithful.experiments.label_views import ask_labels
from tests.evaluators.blocks import keeping, random_block, values
from tests.reference import certified_core as slow

LENGTHS = (6, 1, 0, 8, 2, 7, 7, 5)


def readout(block, row):
    """Attention, token logits and bias of one text's items, as plain lists; what others keep is in the bias.

    The logits of an item are those at all the weight that the items hold, of which the attention is a share.
    """
    items = block.items[row, 0]
    attention, affine = block.encoded.attention[row, 0], block.encoded.affine
    weight = attention[items].sum()
    rest = torch.where(items, 0.0, attention)
    bias = affine.bias[row] + rest @ affine.token_logits[row]
    shares = attention[items] / weight
    return shares.tolist(), (affine.token_logits[row, items] * weight).tolist(), bias.tolist()


def stored(found, column):
    """example -> what the variants hold of its core."""
    table = found.variants
    columns = (table["example"], table["variant"], table[column])
    return {example: entry for example, variant, entry in zip(*columns, strict=True) if variant == "certified_core"}


def with_source(block, seed=0):
    generator = torch.Generator().manual_seed(seed)
    importance = torch.rand(block.items[:, 0].shape, generator=generator, dtype=torch.float64)
    return replace(block, sources={"saliency": importance})


def blocks(classes, kept):
    """Several blocks, whose special token keeps a share of the weight where there is one."""
    for seed in range(6):
        block = random_block(LENGTHS, classes, seed)
        yield block if kept is None else keeping(block, [kept] * len(LENGTHS))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kept", [None, 0.4])
def test_sizes_and_cores_equal_loops_over_all_subsets(classes, kept):
    for block in blocks(classes, kept):
        found = run(block, FlipSettings(rankings=["attention"], random=0))
        sizes, reasons = values(found, "core_size", "certified_core")
        lower, _ = values(found, "core_size_lower", "certified_core")
        shares, _ = values(found, "core_share", "certified_core")
        cores = stored(found, "core")
        for row, n in enumerate(LENGTHS):
            example = block.example[row]
            if n == 0:
                assert math.isnan(sizes[example])
                assert reasons[example] == "no content token"
                assert example not in cores
                continue
            attention, z, b = readout(block, row)
            smallest = len(slow.smallest_cores(attention, z, b)[0])
            assert lower[example] <= smallest <= sizes[example] == len(cores[example])
            assert classes > 2 or lower[example] == sizes[example]
            assert shares[example] == pytest.approx(sizes[example] / n)
            margins = slow.margins_by_class(attention, z, b)
            assert slow.least_lead(attention, margins, cores[example]) >= -1e-12


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kept", [None, 0.4])
def test_the_tops_of_rankings_are_judged_by_the_definition(classes, kept):
    settings = FlipSettings(rankings=["attention", "saliency"], single=[], random=3)
    tops, proofs = [], 0
    for block in map(with_source, blocks(classes, kept)):
        case = FlipCase.of(block, "renormalize")
        orders = {name: [case.order(name)] for name in settings.rankings}
        orders["random_ranking"] = [case.random_order(draw) for draw in range(3)]
        found = run(block, settings)
        sizes, _ = values(found, "core_size", "certified_core")
        for row, example in enumerate(block.example):
            attention, z, b = readout(block, row)
            for name, of_name in orders.items():
                is_top, why = values(found, "core_is_top", name)
                if not sizes[example] > 0:
                    proofs += 1
                    assert math.isnan(is_top[example])
                    assert why[example] == ("attention-proof" if attention else "no content token")
                    continue
                margins = slow.margins_by_class(attention, z, b)
                firsts = [order[row, : int(sizes[example])].tolist() for order in of_name]
                judged = [slow.stands(attention, margins, first) for first in firsts]
                assert is_top[example] == pytest.approx(np.mean(judged))
                tops.append(is_top[example])
    assert proofs > 18
    assert {0, 1} < set(tops)  # and shares of draws


def test_stored_cores_say_whether_they_are_smallest():
    block = random_block((9,) * 60, 4, 1)
    found = run(block, FlipSettings(rankings=["attention"], random=0))
    sizes, lower = (values(found, name, "certified_core")[0] for name in ("core_size", "core_size_lower"))
    table = found.variants
    columns = (table["example"], table["variant"], table["exact"])
    exact = {
        example: is_exact for example, variant, is_exact in zip(*columns, strict=True) if variant != "smallest_set"
    }
    assert {example: sizes[example] == lower[example] for example in sizes} == exact
    assert set(exact.values()) == {True, False}


def test_labels_are_asked_one_by_one():
    lengths = (4, 1, 0, 5, 3)
    block = random_block(lengths, classes=3, seed=3, multi_label=True)
    settings, names = FlipSettings(rankings=["attention"], random=0), ("one", "two", "three")
    table = ask_labels(EVALUATORS["flips"], block, settings, names, [{} for _ in names]).scores
    compared = set()
    for row in range(len(table["value"])):
        if table["metric"][row] != "core_size":
            continue
        text, label = block.example.index(table["example"][row]), names.index(table["label"][row])
        if not lengths[text]:
            assert table["reason"][row] == "no content token"
            continue
        attention, z, b = readout(block, text)
        own = [[0.0, each[label]] for each in z], [0.0, b[label]]
        assert table["value"][row] == len(slow.smallest_cores(attention, *own)[0])
        compared.add(table["value"][row])
    assert len(compared) > 1
    together = run(block, settings)
    assert not {metric for metric in together.scores["metric"] if metric.startswith("core")}


def test_other_readouts_have_no_core():
    found = run(random_block((4, 3), 2, affine=False), FlipSettings(rankings=["attention"], random=0))
    assert not {metric for metric in found.scores["metric"] if metric.startswith("core")}
    assert "certified_core" not in found.variants["variant"]


def test_the_core_is_no_ranking():
    with pytest.raises(InputError, match="certified_core"):
        FlipSettings(rankings=["attention", "certified_core"])
