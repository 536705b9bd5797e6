"""Masked texts are run as texts of their own, each once, and a mask takes nothing but the word."""

import pytest
import torch

from attn_faithful.experiments import masks as module
from attn_faithful.experiments.masks import ItemMasks
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from tests.models.examples import SMALL, small_batch, small_model
from tests.models.stock_families import VOCABULARY, wrapped

MASK = 19
LENGTHS = (7, 3, 1, 2)


def drawn(shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5


def one_by_one(model, batch, keep, members, mask):
    """Logits of every masked text, each run alone as a text that is written with masks."""
    logits = []
    for row in range(len(keep)):
        for kept in keep[row]:
            text = {name: values[row : row + 1].clone() for name, values in batch.items()}
            for t in range(text["input_ids"].shape[1]):
                item = t if members is None else int(members[row, t])
                if item >= 0 and not kept[item]:
                    text["input_ids"][0, t] = mask
            logits.append(model.logits_of(text).double())
    return torch.cat(logits).view(*keep.shape[:2], -1)


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "cnn", "transformer"])
@torch.no_grad()
def test_own_models(encoder):
    model, batch = small_model(encoder=encoder), small_batch(LENGTHS)
    keep = drawn((4, 6, 7)) | ~batch["attention_mask"].bool()[:, None]
    found = ItemMasks(model, batch, None, MASK)(keep)
    torch.testing.assert_close(found, one_by_one(model, batch, keep, None, MASK), atol=1e-5, rtol=0)
    deleted = model.without(batch, keep)
    assert not torch.allclose(found, deleted.double(), atol=1e-3)  # a mask is content, and is read


@torch.no_grad()
def test_words_of_several_tokens_and_special_tokens():
    model = wrapped("bert")
    batch = {"input_ids": torch.tensor([[0, 9, 8, 8, 2], [0, 7, 5, 2, 1]]), "attention_mask": torch.ones(2, 5).long()}
    batch["attention_mask"][1, 4] = 0
    members = torch.tensor([[-1, 0, 0, 1, -1], [-1, 0, 1, -1, -1]])
    keep = torch.tensor([[[True, False], [False, True]], [[False, False], [True, True]]])
    masks = ItemMasks(model, batch, members, VOCABULARY - 1)
    expected = one_by_one(model, batch, keep, members, VOCABULARY - 1)
    torch.testing.assert_close(masks(keep), expected, atol=1e-5, rtol=0)
    assert not torch.allclose(expected[0, 0], expected[0, 1], atol=1e-4)


@torch.no_grad()
def test_sentences():
    torch.manual_seed(0)
    model = HANClassifier(HANConfig(**{**SMALL, "encoder": "lstm"})).eval()
    batch = small_batch((6, 4))
    batch["sentence_ids"] = torch.tensor([[0, 0, 0, 1, 2, 2], [0, 1, 1, 1, 0, 0]])
    members = torch.where(batch["attention_mask"].bool(), batch["sentence_ids"], -1)
    keep = torch.tensor([[[True, False, True], [False, False, True]], [[True, False, True], [False, True, True]]])
    found = ItemMasks(model, batch, members, MASK)(keep)
    torch.testing.assert_close(found, one_by_one(model, batch, keep, members, MASK), atol=1e-5, rtol=0)


@torch.no_grad()
def test_equal_masked_texts_are_run_once(monkeypatch):
    model = small_model(encoder="lstm")
    batch = {"input_ids": torch.tensor([[5, 6, 7], [5, 8, 7], [7, 6, 5]]), "attention_mask": torch.ones(3, 3).long()}
    rows = []
    own = type(model).logits_of

    def counted(self, masked, texts=None):
        if texts is not None:  # the loop names none
            rows.append(len(texts))
        return own(self, masked, texts)

    monkeypatch.setattr(module, "id_parts", lambda model, rows, tokens: list(torch.arange(rows).split(2)))
    monkeypatch.setattr(type(model), "logits_of", counted)
    keep = torch.tensor([[True, False, True], [True, True, True], [True, False, True]]).expand(3, 3, 3)
    masks = ItemMasks(model, batch, None, MASK)
    found = masks(keep)
    assert sum(rows) == 5  # of the first two texts what is masked is one text
    assert max(rows) == 2
    assert torch.equal(found[0, 0], found[1, 2])
    torch.testing.assert_close(found, one_by_one(model, batch, keep, None, MASK), atol=1e-5, rtol=0)
    again = masks(keep.flip(1))
    assert torch.equal(again, found.flip(1))
    assert sum(rows) == 5


@torch.no_grad()
def test_a_bag_of_tokens_has_no_order():
    model = small_model(encoder="mlp")
    batch = {"input_ids": torch.tensor([[5, 5, 7]]), "attention_mask": torch.ones(1, 3).long()}
    found = ItemMasks(model, batch, None, MASK)(~torch.eye(3, dtype=torch.bool)[None])
    assert torch.equal(found[0, 0], found[0, 1])


def test_what_cannot_be_masked():
    ids = {"input_ids": torch.zeros(1, 2, dtype=torch.long)}
    assert ItemMasks.possible(ids, {"mask": 4})
    assert not ItemMasks.possible(ids, {"mask": None})
    assert not ItemMasks.possible({"inputs_embeds": torch.zeros(1, 2, 3)}, {"mask": 4})
