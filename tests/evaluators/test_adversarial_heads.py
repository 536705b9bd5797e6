"""What no attention of a head changes and what some does: exact where affine, and true of the model where searched."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from attn_faithful.evaluators.adversarial import AdversarialSettings
from attn_faithful.evaluators.adversarial_heads import add_heads
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.movable_attention import movable_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.tail_certificates import Effort
from attn_faithful.models.stock.model import StockModel
from tests.evaluators.blocks import keeping, random_block, values
from tests.evaluators.test_adversarial import variants
from tests.models.stock_families import build, texts
from tests.models.test_stock_tail import last_layer, stock

NAMES = ("head_certified", "head_flipped", "head_open", "joint_flip", "certified_radius", "attack_radius")


def by_slot(rows: ScoreRows, metric: str) -> dict[str, list[float]]:
    """example -> the value of each slot, or of all together."""
    found: dict[str, list[float]] = {}
    columns = (rows.scores[name] for name in ("example", "slot", "metric", "value"))
    for example, slot, name, value in zip(*columns, strict=True):
        if name == metric:
            of_example = found.setdefault(example, [])
            assert slot == len(of_example)
            of_example.append(value)
    return found


def means(rows: ScoreRows) -> dict[str, dict[str, float]]:
    """metric -> example -> the mean over its slots that are defined, as tables show it."""
    found: dict[str, dict[str, float]] = {}
    for name in NAMES:
        of_metric = found.setdefault(name, {})
        for example, slots in by_slot(rows, name).items():
            defined = [value for value in slots if not math.isnan(value)]
            of_metric[example] = sum(defined) / len(defined)
    return found


def answers(block: Block, effort: Effort | None = None) -> dict[str, dict[str, float]]:
    rows = ScoreRows()
    add_heads(rows, block, movable_of(block), effort or Effort())
    return means(rows)


def through_the_tail(block: Block) -> Block:
    """The same read-out, of which is not said that it is affine."""
    affine = block.encoded.affine
    return replace(block, encoded=replace(block.encoded, affine=None, tail=affine.tail))


def radius_by_bisection(block: Block, row: int) -> float:
    """The smallest rho at which a mixture with one item flips, by halving; 1 where none does."""
    items = block.items[row, 0]
    own = block.encoded.attention[row, 0]
    mass = own[items].sum()
    decision = int(block.encoded.logits[row].argmax())

    def flips(rho: float) -> bool:
        for item in items.nonzero()[:, 0].tolist():
            other = torch.where(items, 0.0, own)
            other[item] += mass
            mixed = (1 - rho) * own + rho * other
            asked = mixed.expand(len(block), 1, 1, -1)
            if int(block.encoded.decode(asked)[row, 0].argmax()) != decision:
                return True
        return False

    if not flips(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if flips(middle) else (middle, high)
    return high


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kept", [False, True])
def test_affine_answers_are_exact(classes, kept):
    block = random_block((6, 9, 4, 1, 3, 5), classes=classes, seed=4)
    if kept:
        block = keeping(block, [0.2, 0.5, 0.1, 0.3, 0.0, 0.6])
    found = answers(block)
    proofs = set()
    for row, example in enumerate(block.example):
        radius = radius_by_bisection(block, row)
        proof = float(radius == 1.0)
        proofs.add(proof)
        assert found["head_certified"][example] == proof
        assert found["head_flipped"][example] == found["joint_flip"][example] == 1 - proof
        assert found["head_open"][example] == 0
        assert found["certified_radius"][example] == found["attack_radius"][example]
        assert found["attack_radius"][example] == pytest.approx(radius, abs=1e-9)
    assert proofs == {0.0, 1.0}


@pytest.mark.parametrize("classes", [2, 3])
def test_proofs_and_attacks_through_the_tail_are_the_exact_answers(classes):
    block = random_block((6, 9, 4, 1, 3, 5), classes=classes, seed=4)
    exact, searched = answers(block), answers(through_the_tail(block), Effort(halvings=12))
    for example in block.example:
        for name in ("head_certified", "head_flipped", "head_open", "joint_flip"):
            assert searched[name][example] == exact[name][example], name
        assert searched["attack_radius"][example] == pytest.approx(exact["attack_radius"][example], abs=1e-6)
        assert searched["certified_radius"][example] <= exact["certified_radius"][example] + 1e-12
        assert searched["certified_radius"][example] == pytest.approx(exact["certified_radius"][example], abs=1e-3)


# transformers models


def block_of(family: str, place: int = -2) -> Block:
    """Three texts at the last layer, or at another site."""
    model = stock(family)
    batch = texts((9, 6, 4))
    with torch.no_grad():
        encoded = last_layer(model, batch) if place == -2 else model.encode(batch, model.sites[place])
    return Block(["a", "b", "c"], ["a", "b", "c"], 0, "layer", encoded)


def decisions(block: Block, row: int, attention: torch.Tensor) -> torch.Tensor:
    """What the model itself decides (K,) of a text under attention (K, S, T)."""
    asked = block.encoded.attention[:, None].repeat(1, len(attention), 1, 1)
    asked[row] = attention.to(asked.dtype)
    with torch.no_grad():
        return block.encoded.decode(asked)[row].argmax(-1)


def anything(block: Block, row: int, slots: list[int], rho: float, count: int = 400) -> torch.Tensor:
    """Attention (K, S, T) in which the items of these slots share in any way; mixtures of a radius with the own one."""
    generator = torch.Generator().manual_seed(row)
    items = block.items[row]
    own = block.encoded.attention[row].double()
    raw = torch.rand(count, *own.shape, generator=generator, dtype=torch.float64).log().abs() ** 6 * items
    vertices = torch.eye(own.shape[1], dtype=torch.float64)[:, None] * items
    raw = torch.cat([raw, vertices[vertices.flatten(1).any(1)]])
    shares = raw / raw.sum(-1, keepdim=True).clamp(min=1e-300)
    mass = (own * items).sum(-1, keepdim=True)
    other = torch.where(items, shares * mass, own)
    other = (1 - rho) * own + rho * other
    chosen = torch.zeros(len(own), 1, dtype=torch.bool)
    chosen[slots] = True
    return torch.where(chosen, other, own)


@pytest.mark.parametrize("family", ["BERT", "DistilBERT", "GPT-2", "Llama"])
def test_what_is_said_of_a_transformer_is_true_of_it(family):
    block = block_of(family)
    rows = ScoreRows()
    add_heads(rows, block, None, Effort())
    found = means(rows)
    certified = by_slot(rows, "head_certified")
    slots = block.encoded.attention.shape[1]
    for row, example in enumerate(block.example):
        own = int(block.encoded.logits[row].argmax())
        assert found["certified_radius"][example] <= found["attack_radius"][example]
        for slot, proved in enumerate(certified[example]):
            if proved:
                assert (decisions(block, row, anything(block, row, [slot], 1.0)) == own).all()
        every = list(range(slots))
        radius = found["certified_radius"][example]
        assert (decisions(block, row, anything(block, row, every, radius)) == own).all()
        shares = sum(found[name][example] for name in ("head_certified", "head_flipped", "head_open"))
        assert shares == pytest.approx(1)
    changed = {row["example"]: row for row in variants(rows, "joint-flip")}
    assert set(changed) == {example for example in block.example if found["joint_flip"][example] == 1}
    for example, row in changed.items():
        place = block.example.index(example)
        assert int(torch.tensor(row["probabilities"]).argmax()) != int(block.encoded.logits[place].argmax())
    assert any(found["head_certified"].values())


def flipped_block() -> Block:
    """Texts of a BERT of large weights, of whose heads some flip the decision alone."""
    model = StockModel(build("bert", initializer_range=0.6).double())
    with torch.no_grad():
        encoded = last_layer(model, texts((9, 6, 4)))
    return Block(["a", "b", "c"], ["a", "b", "c"], 0, "layer", encoded)


def test_the_first_head_that_flips_is_kept_with_the_attention_of_all():
    block = flipped_block()
    rows = ScoreRows()
    add_heads(rows, block, None, Effort())
    flipped = by_slot(rows, "head_flipped")
    changed = {row["example"]: row for row in variants(rows, "head-flip")}
    assert set(changed) == {example for example, slots in flipped.items() if any(slots)}
    assert changed
    assert {row["slot"] for row in changed.values()} != {0}
    for example, row in changed.items():
        place = block.example.index(example)
        assert row["slot"] == flipped[example].index(1)
        items = block.items[place]
        own = block.encoded.attention[place].double()
        attention = own.clone()
        attention[items] = torch.tensor(row["attention"], dtype=torch.float64)
        differs = (attention - own).abs().amax(-1) > 1e-9
        assert differs.nonzero()[:, 0].tolist() == [row["slot"]]
        assert attention.sum(-1) == pytest.approx(own.sum(-1))
        own_decision = int(block.encoded.logits[place].argmax())
        assert int(decisions(block, place, attention[None])[0]) != own_decision
        assert int(torch.tensor(row["probabilities"]).argmax()) != own_decision


def test_a_head_without_an_item_is_undefined_and_in_no_share():
    block = block_of("BERT")
    allowed = block.encoded.allowed.clone()
    allowed[1, 2] = False
    emptied = replace(block, encoded=replace(block.encoded, allowed=allowed))
    rows = ScoreRows()
    add_heads(rows, emptied, None, Effort())
    for name in ("head_certified", "head_flipped", "head_open"):
        slots = by_slot(rows, name)
        assert [place for place, value in enumerate(slots["b"]) if math.isnan(value)] == [2]
        assert not any(map(math.isnan, slots["a"] + slots["c"]))
    assert values(rows, "joint_flip")[1]["b"] is None
    assert sum(means(rows)[name]["b"] for name in NAMES[:3]) == pytest.approx(1)


def test_a_text_has_the_same_answers_alone():
    block = block_of("BERT")
    together = answers(block)
    with torch.no_grad():
        encoded = last_layer(stock("BERT"), {name: value[1:2] for name, value in texts((9, 6, 4)).items()})
    alone = answers(Block(["b"], ["b"], 0, "layer", encoded))
    for name in NAMES:
        assert alone[name]["b"] == pytest.approx(together[name]["b"], abs=1e-6), name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bart", "BartForSequenceClassification, an encoder with a decoder"),
        ("t5", "T5ForSequenceClassification, an encoder with a decoder"),
    ],
)
def test_a_model_that_is_not_understood_is_named(name, why):
    model = StockModel(build(name).double())
    with torch.no_grad():
        encoded = last_layer(model, texts((9, 6, 4)))
    rows = ScoreRows()
    add_heads(rows, Block(["a", "b", "c"], ["a", "b", "c"], 0, "layer", encoded), None, Effort())
    _, reasons = values(rows, "head_certified")
    assert set(reasons.values()) == {f"not known what follows the attention: {why}"}


def test_a_function_that_is_not_understood_is_named():
    bert = build("distilbert").double()
    bert.pre_classifier = nn.Sequential(bert.pre_classifier, nn.Softmax(-1))
    with torch.no_grad():
        encoded = last_layer(StockModel(bert), texts((9, 6, 4)))
    rows = ScoreRows()
    add_heads(rows, Block(["a", "b", "c"], ["a", "b", "c"], 0, "layer", encoded), None, Effort())
    _, reasons = values(rows, "certified_radius")
    named = "DistilBertForSequenceClassification, the function softmax"
    assert set(reasons.values()) == {f"not known what follows the attention: {named}"}


def test_proofs_can_be_left_out():
    """Attacks are those that run beside proofs; what would be proved is open."""
    block = block_of("BERT")
    with_proofs, without = ScoreRows(), ScoreRows()
    add_heads(with_proofs, block, None, Effort())
    add_heads(without, block, None, AdversarialSettings(bins=()).effort)
    for name in ("head_certified", "certified_radius"):
        found, reasons = values(without, name)
        assert all(math.isnan(value) for value in found.values())
        assert set(reasons.values()) == {"proofs were left out"}
    for name in ("joint_flip", "attack_radius"):
        assert values(without, name)[0] == values(with_proofs, name)[0]
    flipped = by_slot(with_proofs, "head_flipped")
    assert by_slot(without, "head_flipped") == flipped
    assert any(1 in slots for slots in by_slot(with_proofs, "head_certified").values())
    for example, slots in by_slot(without, "head_open").items():
        assert slots == [1 - share for share in flipped[example]]


def test_a_control_is_not_searched_and_several_labels_are_not_one_decision():
    block = through_the_tail(random_block((4, 5), seed=1))
    cases = [
        (replace(block, attention="uniform"), "not searched under a control"),
        (replace(block, encoded=replace(block.encoded, multi_label=True)), "labels are independent"),
    ]
    for case, reason in cases:
        rows = ScoreRows()
        add_heads(rows, case, None, Effort())
        assert set(values(rows, "head_open")[1].values()) == {reason}
