"""Special tokens that keep part of the attention: every number of the adversarial test, against a grid of the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful.evaluators import flips
from attn_faithful.evaluators.adversarial import AdversarialSettings, run
from attn_faithful.evaluators.adversarial_search import SearchSettings
from attn_faithful.functional.divergences import largest_jsd
from tests.evaluators.blocks import keeping, random_block, values
from tests.reference import adversary as slow

KEPT = (0.9, 0.4, 0.0, 0.97)
STEPS = 24  # of the grid: within 0.03 nats of what it stands for
EPS = 0.1


def grid_of(block, row):
    """What can be had on a grid: (JSD, TVD, whether the decision stays) of every attention that keeps the special."""
    own, items = block.encoded.attention[row, 0].numpy(), block.items[row, 0].numpy()
    others, distances = zip(*slow.moved_on_grid(own, items, STEPS), strict=True)
    every = block.encoded.attention[:, None].repeat(1, len(others), 1, 1)
    every[row, :, 0] = torch.from_numpy(np.stack(others))
    after = block.encoded.decode(every)[row].softmax(-1)
    before = block.encoded.probabilities[row]
    change = (after - before).abs().sum(-1) / 2
    return np.array(distances), change.numpy(), (after.argmax(-1) == before.argmax()).numpy()


@pytest.mark.parametrize("classes", [2, 3])
def test_every_number_against_a_grid(classes):
    block = keeping(random_block((3, 3, 3, 3), classes=classes, seed=3), KEPT)
    found = run(block, AdversarialSettings(eps=EPS))
    scores = {name: values(found, name)[0] for name in set(found.scores["metric"])}
    for row, example in enumerate(block.example):
        distances, change, stays = grid_of(block, row)
        assert scores["jsd_reachable"][example] == pytest.approx(distances.max(), abs=1e-9)
        within, keeping_best = distances[change <= EPS].max(), distances[stays].max()
        assert within <= scores["adversarial_attention"][example] + 1e-6
        assert scores["adversarial_attention"][example] <= within + 0.04
        assert scores["adversarial_ratio"][example] == pytest.approx(
            scores["adversarial_attention"][example] / distances.max(), abs=1e-9
        )
        assert keeping_best <= scores["decision_jsd"][example] + 1e-6
        assert scores["decision_jsd"][example] <= keeping_best + 0.04
        assert scores["attention_proof"][example] == float(stays.all())
        if not stays.all():
            assert scores["flip_distance"][example] <= distances[~stays].min() + 1e-9
            assert distances[~stays].min() <= scores["flip_distance"][example] + 0.04
    assert len(set(scores["attention_proof"].values())) == 2  # both kinds of text were there


@pytest.mark.parametrize("classes", [2, 3])
def test_alternatives_keep_what_special_tokens_have(classes):
    block = keeping(random_block((5, 4, 6, 1), classes=classes, seed=5), KEPT)
    table = run(block, AdversarialSettings(eps=EPS)).variants
    held = (block.encoded.attention * block.items).sum((1, 2))
    assert len(table["example"]) >= 4
    for example, attention in zip(table["example"], table["attention"], strict=True):
        assert sum(attention) == pytest.approx(float(held[block.example.index(example)]), abs=1e-9)


def test_a_text_without_special_tokens_is_exact_beside_one_that_has_some():
    block = random_block((5, 4), seed=1)
    mixed = keeping(block, (0.0, 0.5))
    alone, found = run(block, AdversarialSettings()), run(mixed, AdversarialSettings())
    for metric in ("adversarial_attention", "decision_jsd", "flip_distance", "jsd_reachable", "adversarial_ratio"):
        before, after = values(alone, metric), values(found, metric)
        assert before[0]["e0"] == pytest.approx(after[0]["e0"], abs=1e-9, nan_ok=True)
        assert before[1]["e0"] == after[1]["e0"]


def test_the_search_reaches_what_can_be_reached():
    """With every prediction allowed the whole reach is found, so a wrong formula shows in the ratio."""
    block = keeping(random_block((3, 3), seed=2, affine=False), (0.9, 0.4))
    chosen = SearchSettings(k=3, steps=60, learning_rate=0.5, keep="best")
    found = run(block, AdversarialSettings(method="adam", eps=0.999, search=chosen))
    ratio, _ = values(found, "adversarial_ratio")
    assert all(0.99 <= value <= 1 for value in ratio.values())


def test_reach_is_the_mean_over_slots_that_hold_items():
    block = random_block((3, 3), seed=4, affine=False)
    old, decode = block.encoded, block.encoded.decode
    second = torch.tensor([[[0.2, 0.1, 0.1, 0.0]], [[0.0] * 4]], dtype=torch.float64)  # .6 is kept elsewhere
    attention = torch.cat([old.attention, second], 1)
    allowed = torch.cat([old.allowed, second > 0], 1)
    encoded = replace(old, attention=attention, allowed=allowed, decode=lambda given: decode(given[:, :, :1]))
    found = run(replace(block, encoded=encoded), AdversarialSettings(search=SearchSettings(steps=2, k=2)))
    reach, _ = values(found, "jsd_reachable")
    first = largest_jsd(old.attention[:, 0], old.allowed[:, 0])
    m, a = 0.4, 0.1
    other = 0.5 * (m * math.log(2 * m / (m + a)) + a * math.log(2 * a / (m + a)) + (m - a) * math.log(2))
    assert reach["e0"] == pytest.approx((float(first[0]) + other) / 2, abs=1e-9)
    assert reach["e1"] == pytest.approx(float(first[1]), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_items_without_any_weight_cannot_move(classes):
    block = keeping(random_block((3, 4), classes=classes), (1.0, 0.2))
    found = run(block, AdversarialSettings())
    for metric in ("adversarial_attention", "jsd_reachable", "decision_jsd"):
        assert values(found, metric)[0]["e0"] == 0
    assert values(found, "adversarial_ratio")[1] == {"e0": "no mass", "e1": None}
    assert values(found, "attention_proof")[0]["e0"] == 1


def test_the_mass_of_a_flip_is_a_share_of_the_attention_on_items():
    block = keeping(random_block((5, 6, 4, 7), seed=2), (0.3, 0.2, 0.4, 0.1))
    held = block.encoded.attention[:, 0] * block.items[:, 0]
    found = flips.run(block, flips.FlipSettings(rankings=["attention"], random=0))
    size, _ = values(found, "flip_size", "attention")
    mass, reasons = values(found, "flip_mass", "attention")
    flipping = [row for row, example in enumerate(block.example) if reasons[example] is None]
    assert flipping
    for row in flipping:
        example = block.example[row]
        top = held[row].sort(descending=True).values[: int(size[example])]
        assert mass[example] == pytest.approx(float(top.sum() / held[row].sum()), abs=1e-9)
