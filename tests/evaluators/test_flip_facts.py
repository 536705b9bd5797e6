"""Rankings in pairs: which needs fewer items, and tests of several pairs that are corrected for each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attn_faithful.evaluators.flip_facts import flip_facts
from attn_faithful.evaluators.flips import FlipSettings, run
from tests.evaluators.blocks import random_block, values
from tests.evaluators.test_flips import with_sources
from tests.reference.paired import biserial_by_pairs, holm_by_definition, p_by_signs

LENGTHS = (6, 1, 0, 9, 2, 7, 8, 5, 9, 4)


def test_sooner_is_fewer_items_and_later_is_more():
    block = with_sources(random_block(LENGTHS, 2, 1))
    found = run(block, FlipSettings(rankings=["attention", "attention_gradient", "attention_x_gradient"], random=3))
    seen = {"sooner": 0, "later": 0}
    attention, _ = values(found, "flip_size", "attention")
    for name in ("attention_gradient", "attention_x_gradient", "random_ranking"):
        sizes, _ = values(found, "flip_size", name)
        for metric, fewer, more in (("sooner", sizes, attention), ("later", attention, sizes)):
            column, reasons = values(found, f"flips_{metric}", f"{name}~attention")
            for example, value in column.items():
                if math.isnan(sizes[example]) or math.isnan(attention[example]):
                    assert math.isnan(value)
                    assert reasons[example] in ("never flips", "one item", "no content token")
                else:
                    assert value == (fewer[example] < more[example])
                    seen[metric] += value
        difference, _ = values(found, "flip_difference", f"{name}~attention")
        for example, n in zip(block.example, LENGTHS, strict=True):
            assert difference[example] == pytest.approx((sizes[example] - attention[example]) / max(n, 1), nan_ok=True)
    assert min(seen.values()) >= 3


def test_pairs_are_corrected_for_each_other():
    """Five pairs, one of which never differs and one of which has no text: Holm counts the other three."""
    rng = np.random.default_rng(0)
    tenths = rng.integers(-3, 4, size=(14, 3)) / 10 + np.array([0.25, 0.0, -0.2])
    tenths = np.round(tenths * 20) / 20
    tenths[3, 0] = tenths[5, 2] = math.nan
    differences = {
        "a": tenths[:, 0],
        "b": tenths[:, 1],
        "c": tenths[:, 2],
        "same": np.zeros(14),
        "none": np.full(14, math.nan),
    }
    columns = {}
    for name, difference in differences.items():
        undefined = np.isnan(difference)
        reasons = ["never flips" if u else None for u in undefined]
        sooner = np.where(undefined, math.nan, difference < 0)
        later = np.where(undefined, math.nan, difference > 0)
        for metric, column in (("flip_difference", difference), ("flips_sooner", sooner), ("flips_later", later)):
            columns["pool", f"{name}~attention", metric] = (column, reasons)
    facts = {fact.source.split("~")[0]: fact for fact in flip_facts(columns)}
    assert {fact.KIND for fact in facts.values()} == {"paired_rankings"}
    tested = ["a", "b", "c"]
    kept = {name: differences[name][~np.isnan(differences[name])] for name in tested}
    p = [p_by_signs(kept[name]) for name in tested]
    assert min(p) < 0.05 < sorted(p)[2]
    for name, single, corrected in zip(tested, p, holm_by_definition(p), strict=True):
        fact = facts[name]
        assert fact.p == pytest.approx(single, abs=1e-12)
        assert fact.p_holm == pytest.approx(corrected, abs=1e-12)
        assert fact.mean == pytest.approx(kept[name].mean())
        assert (fact.n, fact.n_undefined) == (len(kept[name]), 14 - len(kept[name]))
        # most of the ranks lie where the mean does: fewer items needed, more often sooner
        assert (fact.sooner > fact.later) == (biserial_by_pairs(kept[name]) < 0)
        assert fact.sooner == pytest.approx(np.mean(kept[name] < 0))
        assert fact.low <= fact.mean <= fact.high
    assert any(facts[name].p_holm > facts[name].p for name in tested)
    for name in ("same", "none"):
        assert math.isnan(facts[name].p)
        assert math.isnan(facts[name].p_holm)
    assert (facts["none"].n, facts["none"].n_undefined) == (0, 14)


def test_equal_differences_of_fractions_are_equal_numbers():
    """3/10 - 2/10 and 2/10 - 1/10: a rank each, of two different ones, where both are one item of ten."""
    block = with_sources(random_block((10,) * 60, 2, 4))
    found = run(block, FlipSettings(rankings=["attention", "attention_gradient", "attention_x_gradient"], random=0))
    difference, _ = values(found, "flip_difference", "attention_gradient~attention")
    sizes, own = (values(found, "flip_size", name)[0] for name in ("attention_gradient", "attention"))
    items = {e: sizes[e] - own[e] for e in sizes if not math.isnan(difference[e])}
    assert len({difference[e] for e in items}) == len(set(items.values())) > 4
