"""Hierarchical attention networks: every encoder passes the checks of an attention model, at words and at sentences."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.hierarchy import split_sentences
from tests.checks import BATCHED, EXACT, check_attention_model
from tests.models.examples import SMALL, small_batch


def small_han(seed: int = 0, **settings) -> HANClassifier:
    torch.manual_seed(seed)
    return HANClassifier(HANConfig(**{**SMALL, "hidden_size": 4, "num_labels": 3, **settings})).eval()


def documents(special: tuple[tuple[int, int], ...] = ()) -> dict[str, Tensor]:
    """Documents of three sentences, of one, of single words, and of nothing; the third skips a sentence."""
    batch = small_batch((7, 3, 3, 0), special)
    ids = torch.tensor([[0, 0, 0, 1, 2, 2, 2], [0] * 7, [0, 1, 3, 0, 0, 0, 0], [0] * 7])
    return {**batch, "sentence_ids": ids}


COMBINATIONS = [*itertools.product(ENCODERS, ("softmax", "sparsemax")), *(("gru", name) for name in PROJECTIONS)]


@pytest.mark.parametrize(("encoder", "projection"), sorted(set(COMBINATIONS)))
def test_every_combination_passes_the_checks(encoder, projection):
    check_attention_model(small_han(encoder=encoder, projection=projection), documents())


VARIANTS = {
    "two classes": {"num_labels": 2},
    "several labels": {"output": "multi_label"},
    "dot": {"attention": "dot"},
    "frozen": {"freeze_embeddings": True},
    "dropout": {"sentence_dropout": 0.5, "classifier_dropout": 0.5},
    "attention_size": {"attention_size": 3},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_setting_passes_the_checks(name):
    check_attention_model(small_han(**VARIANTS[name]), documents())


def test_special_tokens_are_read_but_not_attended():
    # a sentence of a special token alone has no content and is as if it were not there
    check_attention_model(small_han(), documents(special=((0, 0), (0, 3), (2, 0))))


def test_attention_to_a_word_is_its_sentence_s_times_its_own():  # case C11
    model = small_han()
    ids, sentences = torch.tensor([[2, 3, 4, 5, 6]]), torch.tensor([[0, 0, 1, 1, 1]])
    words, weights = torch.tensor([[0.7, 0.3, 0.5, 0.3, 0.2]]), torch.tensor([[0.6, 0.4]])
    output = model(ids, sentence_ids=sentences, attention_weights=words, sentence_weights=weights)
    torch.testing.assert_close(output.attentions, torch.tensor([[0.42, 0.18, 0.20, 0.12, 0.08]]), **EXACT)


def test_an_empty_sentence_contributes_nothing():  # case C11: two sentences beside one
    model = small_han()
    batch = {
        "input_ids": torch.tensor([[2, 3, 4, 5], [6, 7, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
        "sentence_ids": torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]),
    }
    encoded = model.encode(batch, "sentence")
    assert encoded.attention.tolist()[1] == [[1.0, 0.0]]
    output = model.train()(**batch)
    output.logits[1].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    gaps = {**batch, "sentence_ids": batch["sentence_ids"] * 3}  # two sentences without a token between them
    model.eval()
    torch.testing.assert_close(model(**gaps).logits, model(**batch).logits, **BATCHED)
    assert model(**gaps).sentence_attentions.shape == (2, 4)


@pytest.mark.parametrize("sentences", [1, 500])
def test_documents_of_one_and_of_500_sentences(sentences):
    model = small_han()
    ids = torch.randint(2, 20, (1, 2 * sentences), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "sentence_ids": torch.arange(2 * sentences)[None] // 2}
    encoded = model.encode(batch, "sentence")
    assert encoded.attention.shape == (1, 1, sentences)
    torch.testing.assert_close(encoded.attention.sum(), torch.tensor(1.0), **EXACT)
    torch.testing.assert_close(model.encode(batch, "word").logits, encoded.logits, **BATCHED)


def test_fixed_attention_gives_the_same_logits():
    model, batch = small_han(), documents()
    torch.testing.assert_close(model(**batch, **model.fixed_attention(batch)).logits, model(**batch).logits, **EXACT)


def test_sentences_come_back_as_they_went():
    batch = documents()
    read = batch["attention_mask"].bool()
    content = read.clone()
    content[0, 3] = False  # the second sentence has no content
    sentences = split_sentences(batch["sentence_ids"], read, content)
    assert sentences.present.tolist() == [
        [True, False, True, False],
        [True, False, False, False],
        [True, True, False, True],
        [False] * 4,
    ]
    values = torch.randn(4, 7, 2, generator=torch.Generator().manual_seed(0))
    there = read & ~torch.tensor([[0, 0, 0, 1, 0, 0, 0], [0] * 7, [0] * 7, [0] * 7]).bool()
    torch.testing.assert_close(sentences.unpack(sentences.pack(values)), values * there[:, :, None], rtol=0, atol=0)


def test_errors_say_what_is_missing():
    model, batch = small_han(), documents()
    with pytest.raises(InputError, match="sentences=True"):
        model(batch["input_ids"])
    with pytest.raises(InputError, match=r"shape \(4, 7\)"):
        model(**{**batch, "sentence_ids": batch["sentence_ids"][:, :2]})
    with pytest.raises(InputError, match="at least 0"):
        model(**{**batch, "sentence_ids": batch["sentence_ids"] - 1})
    with pytest.raises(InputError, match="no query"):
        HANConfig(query=True)
    with pytest.raises(InputError, match="sentence_dropout"):
        HANConfig(sentence_dropout=1.0)
    with pytest.raises(InputError, match="site"):
        model.encode(batch, "pool")
