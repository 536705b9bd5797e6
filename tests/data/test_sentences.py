"""Sentences of documents: nothing lost, tokens in their own sentence, whatever the script and the tokenizer."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data import encoding
from attn_faithful.data.collate import Collator
from attn_faithful.data.encoding import encode_texts, train_tokenizer
from attn_faithful.data.rows import Rows
from attn_faithful.data.sentences import sentence_of, sentence_spans
from attn_faithful.models.blocks import content_keys

SHARED = Path(__file__).parents[3] / "shared"

CASES = {
    "Good film. Bad end.": ["Good film.", "Bad end."],
    "Dr. Smith paid $3.50. He left.": ["Dr. Smith paid $3.50.", "He left."],
    "the food was good . i will be back .": ["the food was good .", "i will be back ."],
    "one\ntwo\n\n  three": ["one", "two", "three"],
    "Great!<br /><br />No.": ["Great!<br /><br />", "No."],
    "<br/>First. Last.": ["<br/>", "First.", "Last."],
    'He said "Why?" She left...': ['He said "Why?"', "She left..."],
    "好。很好！再来": ["好。", "很好！", "再来"],
    "यह अच्छा है। बुरा है।": ["यह अच्छा है।", "बुरा है।"],
    "رائع؟ نعم.": ["رائع؟", "نعم."],
    "wow 😀! yes.": ["wow 😀!", "yes."],
    "no stop at all": ["no stop at all"],
    "": [],
    " \n ": [],
}


@pytest.mark.parametrize("text", CASES)
def test_sentences_of_a_text(text):
    assert [text[start:end] for start, end in sentence_spans(text)] == CASES[text]


def whole(text):
    at = 0
    for start, end in sentence_spans(text):
        assert at <= start < end
        assert not text[at:start].strip()
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize("name", ["yelp5", "imdb", "hotels_zh", "reviews_hi", "reviews_ar", "sst5"])
def test_nothing_is_lost(name):
    file = SHARED / "data" / name / "test.parquet"
    if not file.is_file():
        pytest.skip(f"{file} is missing")
    texts = datasets.Dataset.from_parquet(str(file))["text"][:300]
    for text in texts:
        whole(text)
    assert sum(len(sentence_spans(text)) for text in texts) >= len(texts)


def test_a_text_of_ten_thousand_words_without_a_stop():
    text = "word " * 10_000
    assert sentence_spans(text) == [(0, len(text) - 1)]


def test_tokens_know_their_sentence():
    data = datasets.Dataset.from_dict({"text": ["Good film. Bad end.\nOk", "", "one"]})
    rows = encode_texts(train_tokenizer(data["text"]), data, sentences=True)
    assert rows["sentence_ids"][:] == [[0, 0, 0, 1, 1, 1, 2], [], [0]]
    assert rows["n_sentences"][:] == [3, 0, 1]


@pytest.mark.parametrize(("side", "expected"), [("right", [0, 0, 0, 1]), ("left", [0, 0, 0, 1])])
def test_what_truncation_leaves_is_counted_anew(side, expected):
    data = datasets.Dataset.from_dict({"text": ["Good film. Bad end.\nOk"]})
    tokenizer = train_tokenizer(data["text"])
    tokenizer.truncation_side = side
    rows = encode_texts(tokenizer, data, max_length=4, sentences=True)
    assert rows["sentence_ids"][0] == expected  # "Good film . Bad" and "Bad end . Ok"


def test_special_tokens_take_the_sentence_before_them():
    spans = [(0, 4), (5, 8)]
    found = sentence_of(spans, [(0, 0), (0, 3), (3, 4), (5, 8), (0, 0)], [1, 0, 0, 0, 1])
    assert found.tolist() == [0, 0, 0, 1, 1]
    # a token that begins with the blank before it belongs to what it ends in
    assert sentence_of(spans, [(0, 4), (4, 8)], [0, 0]).tolist() == [0, 1]
    # a sentence without a token is not counted
    assert sentence_of([(0, 2), (3, 4), (5, 8)], [(0, 2), (5, 8)], [0, 0]).tolist() == [0, 1]


def test_a_tokenizer_without_offsets_is_refused(monkeypatch):
    tokenizer = train_tokenizer(["a b c"])
    monkeypatch.setattr(encoding, "span_finder", lambda tokenizer: lambda text: None)  # as of a slow one
    data = datasets.Dataset.from_dict({"text": ["a b. c"]})
    with pytest.raises(InputError, match="fast tokenizer"):
        encode_texts(tokenizer, data, sentences=True)


def test_sentences_are_collated_as_whole_numbers_and_tell_texts_apart():
    ids = [np.array(values, np.int32) for values in ([0, 1, 1], [0])]
    rows = Rows({"input_ids": [[5, 6, 7], [5]], "sentence_ids": ids})
    batch = Collator(columns=("sentence_ids",))([rows[0], rows[1]])
    assert batch["sentence_ids"].tolist() == [[0, 1, 1], [0, 0, 0]]
    assert not batch["sentence_ids"].is_floating_point()
    other = Rows({"input_ids": [[5, 6, 7]], "sentence_ids": [np.array([0, 0, 1], np.int32)]})
    assert content_keys(other)[0] != content_keys(rows)[0]
