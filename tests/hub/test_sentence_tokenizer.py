"""The tokenizer that hierarchical models are saved with: the sentences that training saw, in every way of asking."""

import datasets
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.sentence_tokenizer import SentenceTokenizer, with_sentences
from attn_faithful.data.tokenizer import train_tokenizer

TEXTS = ["A good film. Not bad!", "bad", "", "Dr. Who paid 3.50. why?\nno idea"]


@pytest.fixture(scope="module")
def plain():
    return train_tokenizer(TEXTS)


@pytest.fixture(scope="module")
def tokenizer(plain):
    return with_sentences(plain)


def test_sentences_are_those_of_encoding(plain, tokenizer):
    expected = encode_texts(plain, datasets.Dataset.from_dict({"text": TEXTS}), sentences=True)
    found = tokenizer(TEXTS)
    assert found["input_ids"] == expected["input_ids"][:]
    assert found["sentence_ids"] == expected["sentence_ids"][:]
    assert [tokenizer(text)["sentence_ids"] for text in TEXTS] == found["sentence_ids"]
    again = encode_texts(tokenizer, datasets.Dataset.from_dict({"text": TEXTS}), sentences=True)
    assert again.to_list() == expected.to_list()


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding(tokenizer, side):
    """What stands at the padding counts for nothing."""
    at_once = tokenizer(TEXTS, padding=True, padding_side=side, return_tensors="pt")
    later = tokenizer.pad([tokenizer(text) for text in TEXTS], padding_side=side, return_tensors="pt")
    for found in (at_once, later):
        assert found["sentence_ids"].shape == found["input_ids"].shape
        read = found["attention_mask"].bool()
        rows = [ids[mask].tolist() for ids, mask in zip(found["sentence_ids"], read, strict=True)]
        assert rows == tokenizer(TEXTS)["sentence_ids"]
    assert torch.equal(at_once["attention_mask"], later["attention_mask"])


def test_truncation_and_offsets(tokenizer):
    found = tokenizer(TEXTS[0], truncation=True, max_length=5, return_offsets_mapping=True)
    assert found["sentence_ids"] == [0, 0, 0, 0, 1]
    assert len(found["offset_mapping"]) == 5
    assert "offset_mapping" not in tokenizer(TEXTS[0])


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = SentenceTokenizer.from_pretrained(tmp_path)
    assert loaded(TEXTS).data == tokenizer(TEXTS).data
    assert loaded("a [PAD]")["input_ids"] == tokenizer("a [PAD]")["input_ids"]


def test_what_has_no_sentences(tokenizer):
    with pytest.raises(InputError, match="without pairs"):
        tokenizer("a film", "good?")
    with pytest.raises(InputError, match="is_split_into_words"):
        tokenizer(["a", "film"], is_split_into_words=True)
