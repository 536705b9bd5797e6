"""What a model was trained on, and how unusual erased texts are to it: against loops, whatever the order and batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attn_faithful.data.rows import Rows
from attn_faithful.experiments import reference_texts as module
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.item_p_values import ItemPValues
from attn_faithful.experiments.masks import ItemMasks
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.reference_texts import fit_reference
from attn_faithful.functional import masf as of_masf
from attn_faithful.models import blocks
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.training.masking import Masking
from tests.models.examples import SMALL, small_batch, small_model
from tests.models.stock_families import VOCABULARY, wrapped
from tests.reference import masf as slow

MASK = 19
LEAST = 5


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    monkeypatch.setattr(of_masf, "LEAST", LEAST)
    monkeypatch.setattr(module, "LEAST", LEAST)


def ids_of(n, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(2, MASK, size=generator.integers(1, 8)).tolist() for _ in range(n)]


def rows_of(ids):
    return Rows({"input_ids": ids, "example": [str(place) for place in range(len(ids))]})


def evaluated(ids, masking=None, model=None):
    model = model or small_model(encoder="lstm")
    model.config.masking = masking
    collate = collator(rows_of(ids), (), model.pad_token_id)
    return EvaluatedModel(model, collate, ["no", "yes"], {"mask": MASK})


def fitted(ids, masking=None, processes=SINGLE_PROCESS):
    return fit_reference(evaluated(ids, masking), rows_of(ids), 0, processes)


@torch.no_grad()
def layers_of(model, ids):
    """The largest activations of one text that is run alone."""
    states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return [states[0].amax(0).tolist()]


# --- activations


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "transformer"])
def test_activations_of_own_models_are_those_of_each_text_alone(encoder):
    model = small_model(encoder=encoder)
    batch = small_batch((7, 3, 1, 0))
    (found,) = model.largest_activations(batch)
    for row, length in enumerate((7, 3, 1)):
        (expected,) = layers_of(model, batch["input_ids"][row, :length].tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=1e-5)  # batched otherwise
    assert bool(found[3].isneginf().all())


@pytest.mark.parametrize("family", ["bert", "roberta"])
@torch.no_grad()
def test_activations_of_stock_models_are_those_of_each_layer(family):
    model = wrapped(family)
    ids = torch.tensor([[0, 9, 8, 2, 1], [0, 7, 5, 8, 2]])
    batch = {"input_ids": ids, "attention_mask": (ids != 1).long()}
    found = model.largest_activations(batch)
    for row, length in enumerate((4, 5)):
        states = model.model(ids[row : row + 1, :length], output_hidden_states=True).hidden_states[1:]
        assert len(states) == len(found)
        for layer, expected in zip(found, states, strict=True):
            torch.testing.assert_close(layer[row], expected[0].amax(0), atol=1e-5, rtol=0)


# --- the reference


def test_every_second_text_is_in_the_first_half_and_p_values_are_the_loops():
    ids = ids_of(30)
    found = fitted(ids)
    of_model = evaluated(ids)
    drawn = [list(text) for text in module._drawn(of_model, rows_of(ids), 0)["input_ids"]]
    assert sorted(drawn) == sorted(list(text) for text in {tuple(text) for text in ids})
    texts = [layers_of(of_model.model, text) for text in drawn]
    for asked in ids_of(4, seed=9):
        layers = [torch.tensor(layer)[None] for layer in layers_of(of_model.model, asked)]
        expected = slow.p_value(layers_of(of_model.model, asked), texts[::2], texts[1::2])
        assert found.masf.p_values(layers).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("masking", [None, "half"])
def test_neither_order_nor_copies_nor_blocks_change_it(masking, monkeypatch):
    ids = ids_of(30)
    expected = fitted(ids, masking).masf
    other = fitted([*ids[::-1], *ids[:7]], masking).masf
    assert torch.equal(expected.simes, other.simes)
    assert all(map(torch.equal, expected.units, other.units))
    monkeypatch.setattr(blocks, "ROWS", 3)
    torch.testing.assert_close(fitted(ids, masking).masf.units, expected.units, atol=1e-5, rtol=0)


def test_processes_share_the_texts(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", 4)
    ids = ids_of(30)
    shares = []

    def of_second(values):
        shares.append(values)
        return [values]

    def of_first(values):
        assert values
        return [values, *shares]

    fitted(ids, processes=ProcessGroup(1, 2, gather=of_second))
    together = fitted(ids, processes=ProcessGroup(0, 2, gather=of_first))
    assert torch.equal(together.masf.simes, fitted(ids).masf.simes)


def test_at_most_so_many_texts_are_taken(monkeypatch):
    monkeypatch.setattr(module, "TEXTS", 12)
    reference = fitted(ids_of(40)).masf
    assert reference.units[0].shape[1] == reference.simes.shape[1] == 6


def test_half_of_the_texts_of_a_model_trained_with_masks_are_masked():
    ids = ids_of(30)
    rows = rows_of(ids)
    masked = module._half_masked(rows, Masking(MASK, 0))["input_ids"]
    all_masked = Masking(MASK, 0).of_rows(rows)["input_ids"]
    for place, (text, expected) in enumerate(zip(masked, all_masked, strict=True)):
        assert text.tolist() == (ids[place] if place % 4 < 2 else expected.tolist())
    assert any(MASK in text for text in masked[::2])
    assert any(MASK in text for text in masked[1::2])
    assert not torch.equal(fitted(ids).masf.simes, fitted(ids, "half").masf.simes)


def test_why_there_is_none(monkeypatch):
    few = fitted(ids_of(9))
    assert (few.masf, few.reason) == (None, "too few texts to compare with")
    ids = ids_of(30)
    lacks_mask = evaluated(ids, "half")
    lacks_mask = EvaluatedModel(lacks_mask.model, lacks_mask.collate, lacks_mask.label_names, {"mask": None})
    reference = fit_reference(lacks_mask, rows_of(ids), 0, SINGLE_PROCESS)
    assert (reference.masf, reference.reason) == (None, "tokenizer has no mask token")
    monkeypatch.setattr(type(small_model()), "largest_activations", lambda self, batch: [])
    reference = fitted(ids)
    assert (reference.masf, reference.reason) == (None, "no states known")


def test_texts_that_raise_are_left_out(monkeypatch):
    ids = ids_of(30)
    own = type(small_model()).largest_activations

    def raising(self, batch):
        if bool((batch["input_ids"] == ids[0][0]).any()):
            raise ValueError("a word that it cannot read")
        return own(self, batch)

    left = len({tuple(text) for text in ids if ids[0][0] not in text})
    monkeypatch.setattr(type(small_model()), "largest_activations", raising)
    reference = fitted(ids).masf
    assert reference.units[0].shape[1] + reference.simes.shape[1] == left


# --- erased texts


def check_texts(erasures, model, keep):
    """The inputs of erased texts are those that the erased texts' logits come from."""
    text = torch.arange(len(keep)).repeat_interleave(keep.shape[1])
    again = model.logits_of(erasures.texts(text, keep.flatten(0, 1)))
    torch.testing.assert_close(again.view(*keep.shape[:2], -1).double(), erasures(keep), atol=1e-5, rtol=0)


def drawn_masks(batch, k=5):
    shape = (*batch["input_ids"].shape, k)
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0)).transpose(1, 2) < 0.5
    drawn[:, :, 0] = True  # no text is empty
    return drawn


@pytest.mark.parametrize("encoder", ["lstm", "mlp"])
@torch.no_grad()
def test_inputs_of_erased_texts(encoder):
    model, batch = small_model(encoder=encoder), small_batch((7, 3, 1))
    check_texts(ItemDeletions(model, batch, None), model, drawn_masks(batch))
    check_texts(ItemMasks(model, batch, None, MASK), model, drawn_masks(batch))


@torch.no_grad()
def test_inputs_of_erased_documents():
    torch.manual_seed(0)
    model = HANClassifier(HANConfig(**{**SMALL, "encoder": "lstm"})).eval()
    batch = small_batch((6, 4))
    batch["sentence_ids"] = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 0]])
    keep = drawn_masks(batch)
    keep[0, 0, 2:4] = False  # a sentence is gone
    check_texts(ItemDeletions(model, batch, None), model, keep)
    assert [layer.shape[0] for layer in model.largest_activations(batch)] == [2]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@torch.no_grad()
def test_inputs_of_erased_texts_of_stock_models(family):
    model = wrapped(family)
    batch = {"input_ids": torch.tensor([[0, 9, 8, 8, 2], [0, 7, 5, 2, 1]])}
    batch["attention_mask"] = (batch["input_ids"] != 1).long()
    check_texts(ItemDeletions(model, batch, None), model, drawn_masks(batch))
    check_texts(ItemMasks(model, batch, None, VOCABULARY - 1), model, drawn_masks(batch))


@torch.no_grad()
def test_p_values_of_erased_texts_are_those_of_the_texts_alone(monkeypatch):
    ids = ids_of(30)
    masf = fitted(ids).masf
    model = small_model(encoder="lstm")
    batch = {"input_ids": torch.tensor([[5, 6, 5, 7], [8, 9, 0, 0]]), "attention_mask": torch.ones(2, 4).long()}
    batch["attention_mask"][1, 2:] = 0
    keep = torch.tensor([[True, True, False, True], [False, True, True, True], [True, True, True, True]]).repeat(
        2, 1, 1
    )
    keep[1, 2, :2] = False
    rows = []
    own = type(model).largest_activations
    monkeypatch.setattr(
        type(model), "largest_activations", lambda self, b: (rows.append(len(b["input_ids"])), own(self, b))[1]
    )
    p_values = ItemPValues(ItemDeletions(model, batch, None), model, masf)
    found = p_values(keep)
    alone = [[[5, 6, 7], [6, 5, 7], [5, 6, 5, 7]], [[8, 9], [9], []]]
    for row, texts in enumerate(alone):
        for k, text in enumerate(texts):
            if not text:
                assert math.isnan(found[row, k])
                continue
            expected = masf.p_values([torch.tensor(layer)[None] for layer in layers_of(model, text)]).item()
            assert found[row, k].item() == pytest.approx(expected, abs=0.07)  # a step; batched otherwise
    asked = sum(rows)
    assert torch.equal(p_values(keep.flip(1)).nan_to_num(), found.flip(1).nan_to_num())
    assert sum(rows) == asked  # each once
