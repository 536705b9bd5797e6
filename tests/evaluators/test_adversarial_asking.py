"""What attacks that ask the model find where no tail is known, against every vertex, and what is said of proofs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from attn_faithful.evaluators import adversarial_asking
from attn_faithful.evaluators.adversarial_asking import attacked
from attn_faithful.evaluators.adversarial_heads import add_heads
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.tail_certificates import Effort
from attn_faithful.models.label_view import label_view
from attn_faithful.models.stock.model import StockModel
from tests.evaluators.blocks import random_block, values
from tests.evaluators.test_adversarial import variants
from tests.evaluators.test_adversarial_heads import NAMES, by_slot, decisions, through_the_tail
from tests.models.stock_families import build, texts
from tests.models.test_stock_tail import in_words
from tests.reference import vertices

IDS = ["a", "b", "c"]
# family, whose rows the slots are, layers, site
SITES = [
    ("bert", "auto", None, "layer.0"),
    ("bert", "auto", [0, 2], "joint"),
    ("bert", "mean", None, "layer.1"),
    ("bert", "mean", None, "layer.2"),
    ("gpt2", "auto", None, "layer.0"),
    ("bart", "auto", None, "layer.5"),
    ("t5", "auto", None, "layer.2"),
]


@cache
def stock(family: str) -> StockModel:
    return StockModel(build(family).double())


def block_of(
    family="bert", queries="auto", layers=None, site="layer.0", heads=(0, 2), batch=None, **of_encoded
) -> Block:
    """Three short texts at a site, of which some heads are slots."""
    model = stock(family).choosing(queries=queries, heads=heads, layers=layers)
    with torch.no_grad():
        encoded = model.encode(texts((7, 6, 4)) if batch is None else batch, site)
    return Block(IDS, IDS, 0, site, replace(encoded, **of_encoded))


def found_in(block: Block) -> ScoreRows:
    rows = ScoreRows()
    add_heads(rows, block, None, Effort())
    return rows


def reference_of(block: Block, row: int):
    """The model's logits (N, C) as a function of numpy attention (N, S, T), and what the reference reads beside it."""
    own = block.encoded.attention.double()

    def logits_of(attention):
        asked = own[:, None].repeat(1, len(attention), 1, 1)
        asked[row] = torch.from_numpy(attention)
        with torch.no_grad():
            return block.encoded.decode(asked.to(block.encoded.attention))[row].double().numpy()

    decision = int(logits_of(own[row : row + 1].numpy()).argmax())
    return logits_of, own[row].numpy(), block.items[row].numpy(), decision


@pytest.mark.parametrize(("family", "queries", "layers", "site"), SITES)
def test_heads_that_flip_alone_are_those_of_which_some_vertex_does(family, queries, layers, site):
    block = block_of(family, queries, layers, site)
    flipped = by_slot(found_in(block), "head_flipped")
    for row, example in enumerate(IDS):
        single = vertices.single_leads(*reference_of(block, row))  # every item is asked of so few
        assert flipped[example] == (single < 0).tolist()


def test_all_heads_together_flip_most_texts_that_some_vertex_flips():
    missed, flips, singles = 0, [], set()
    for site in SITES:
        block = block_of(*site)
        rows = found_in(block)
        joint, radius = values(rows, "joint_flip")[0], values(rows, "attack_radius")[0]
        singles |= {value for slots in by_slot(rows, "head_flipped").values() for value in slots}
        for row, example in enumerate(IDS):
            some = bool((vertices.joint_leads(*reference_of(block, row)) < 0).any())
            missed += some and not joint[example]
            flips.append(some)
            assert radius[example] == 1 or joint[example] == 1
    assert 6 < sum(flips) < len(flips)
    assert missed <= 1  # a short search: it may miss some
    assert singles == {0.0, 1.0}


@pytest.mark.parametrize(("family", "queries", "layers", "site"), SITES[1:5])
def test_the_attention_that_is_kept_changes_the_models_decision_and_so_does_the_radius(family, queries, layers, site):
    block = block_of(family, queries, layers, site, heads=None)
    rows = found_in(block)
    joint, radius = values(rows, "joint_flip")[0], values(rows, "attack_radius")[0]
    kept = {row["example"]: row for row in variants(rows, "joint-flip")}
    assert set(kept) == {example for example in IDS if joint[example] == 1}
    assert kept
    for example, row in kept.items():
        place = IDS.index(example)
        items, own = block.items[place], block.encoded.attention[place].double()
        attention = own.clone()
        attention[items] = torch.tensor(row["attention"], dtype=torch.float64)
        torch.testing.assert_close(attention.sum(-1), own.sum(-1))
        decision = int(block.encoded.logits[place].argmax())
        assert int(decisions(block, place, attention[None])[0]) != decision
        assert int(torch.tensor(row["probabilities"]).argmax()) != decision
        assert 0 < radius[example] <= 1
    of_one = {row["example"]: row for row in variants(rows, "head-flip")}
    flipped = by_slot(rows, "head_flipped")
    assert set(of_one) == {example for example in IDS if any(flipped[example])}
    for example, row in of_one.items():
        assert row["slot"] == flipped[example].index(1)
        assert int(torch.tensor(row["probabilities"]).argmax()) != int(
            block.encoded.logits[IDS.index(example)].argmax()
        )


def test_one_head_is_changed_and_no_other():
    block = block_of("gpt2", heads=None)
    found = attacked(block)
    own = block.encoded.attention
    assert bool(found.flipped.any())
    for row in found.flipped.any(1).nonzero()[:, 0].tolist():
        first = int(found.flipped[row].int().argmax())
        differs = (found.one_changed[row] - own[row]).abs().amax(-1) > 1e-9
        assert differs.nonzero()[:, 0].tolist() == [first]
    nothing = ~found.joint
    torch.testing.assert_close(found.all_changed[nothing], own[nothing], rtol=0, atol=0)


@pytest.mark.parametrize(("site", "queries"), [("layer.0", "auto"), ("joint", "auto"), ("layer.2", "all")])
def test_nothing_is_proved_and_it_is_said_why(site, queries):
    rows = found_in(block_of(site=site, queries=queries))
    why = "not one row alone" if queries == "all" else "not the last layer alone"
    for name in NAMES:
        found, reasons = values(rows, name)
        if name in ("head_certified", "certified_radius"):
            assert all(math.isnan(value) for value in found.values())
            named = f"not known what follows the attention: BertForSequenceClassification, {why}"
            assert set(reasons.values()) - {"no content token"} == {named}  # rows of padding
        else:
            assert not any(value == 1 and reasons[example] for example, value in found.items())
            assert reasons["a"] is None
    is_open, flipped = by_slot(rows, "head_open"), by_slot(rows, "head_flipped")
    for example in IDS:
        np.testing.assert_array_equal(1 - np.array(flipped[example]), is_open[example])
    assert any(is_open["a"])


def test_the_last_layer_through_the_model_is_that_through_its_tail():
    model = StockModel(build("bert").double())
    with torch.no_grad():
        encoded = model.encode(texts((9, 6, 4)), "layer.2")
    through_tail = found_in(Block(IDS, IDS, 0, "layer.2", encoded))
    asked = found_in(Block(IDS, IDS, 0, "layer.2", replace(encoded, tail=None)))
    for name in ("head_flipped", "joint_flip"):
        assert by_slot(asked, name) == by_slot(through_tail, name), name
    one, other = values(asked, "attack_radius")[0], values(through_tail, "attack_radius")[0]
    assert len(set(one.values())) > 1
    for example in IDS:
        assert other[example] - 1e-9 <= one[example] <= 1.25 * other[example]  # another search, and to 1/256


def test_a_model_of_which_only_decode_is_known():
    block = random_block((6, 9, 4, 1, 0, 5), seed=4)
    exact = attacked(replace(block, encoded=replace(block.encoded, affine=None)))
    through_tail = found_in(through_the_tail(block))
    flips = values(through_tail, "joint_flip")[0]
    radius = values(through_tail, "attack_radius")[0]
    for row, example in enumerate(block.example):
        if math.isnan(flips[example]):
            continue
        assert float(exact.joint[row]) == float(exact.flipped[row, 0]) == flips[example]
        assert exact.radius[row].item() == pytest.approx(radius[example], abs=1 / 256 + 1e-9)
    rows = found_in(replace(block, encoded=replace(block.encoded, affine=None)))
    assert set(values(rows, "joint_flip")[1].values()) == {None, "no content token"}
    why = "not known what follows the attention: the model has decode alone"
    assert set(values(rows, "certified_radius")[1].values()) == {why, "no content token"}


def test_parts_of_a_block_and_a_text_alone_have_the_same_answers(monkeypatch):
    block = block_of(site="joint", layers=[0, 2])
    whole = attacked(block)
    monkeypatch.setattr(adversarial_asking, "_CELLS", 1)
    in_parts = attacked(block)
    for name in ("flipped", "joint", "radius"):
        assert torch.equal(getattr(in_parts, name), getattr(whole, name)), name
    torch.testing.assert_close(in_parts.all_changed, whole.all_changed)
    batch = {name: value[1:2] for name, value in texts((7, 6, 4)).items()}
    alone = attacked(replace(block_of(site="joint", layers=[0, 2], batch=batch), example=["b"], keys=["b"]))
    assert torch.equal(alone.radius, whole.radius[1:2])
    assert torch.equal(alone.flipped, whole.flipped[1:2])


def test_words_share_what_their_tokens_have():
    block = block_of(site="layer.0", batch=in_words(texts((9, 8, 6))))
    assert block.encoded.items == "word"
    rows = found_in(block)
    flipped = by_slot(rows, "head_flipped")
    for row, example in enumerate(IDS):
        assert flipped[example] == (vertices.single_leads(*reference_of(block, row)) < 0).tolist()
    assert set(values(rows, "joint_flip")[0].values()) <= {0.0, 1.0}


def test_each_label_of_a_multi_label_model_is_asked():
    model = StockModel(build("bert", problem_type="multi_label_classification").double())
    with torch.no_grad():
        encoded = model.encode(texts((7, 6, 4)), "layer.0")
    for label in range(2):
        block = Block(IDS, IDS, 0, "layer.0", label_view(encoded, label))
        rows = found_in(block)
        flipped = by_slot(rows, "head_flipped")
        for row, example in enumerate(IDS):
            assert flipped[example] == (vertices.single_leads(*reference_of(block, row)) < 0).tolist()


def test_logits_that_are_nan_are_no_answer():
    block = block_of()
    logits = block.encoded.logits.clone()
    logits[1] = math.nan

    def decode(attention):
        found = block.encoded.decode(attention)
        return torch.where(torch.tensor([False, True, False])[:, None, None], math.nan, found)

    broken = replace(block, encoded=replace(block.encoded, logits=logits, decode=decode))
    rows, whole = found_in(broken), found_in(block)
    for name in NAMES:
        found, reasons = values(rows, name)
        assert math.isnan(found["b"])
        assert reasons["b"] == "nan in scores"
        for example in ("a", "c"):
            assert np.isclose(found[example], values(whole, name)[0][example], equal_nan=True)


def test_a_backbone_in_half_precision_is_asked():
    model = StockModel(build("bert"), dtype="bfloat16")
    for site in ("layer.0", "layer.2", "joint"):
        with torch.no_grad():
            encoded = model.encode(texts((7, 6, 4)), site)
        rows = found_in(Block(IDS, IDS, 0, site, encoded))
        assert set(values(rows, "joint_flip")[0].values()) <= {0.0, 1.0}
        kept = {row["example"] for row in variants(rows, "joint-flip")}
        assert kept == {example for example, value in values(rows, "joint_flip")[0].items() if value}
