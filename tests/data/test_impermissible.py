"""Impermissible words: out of a column or a list of words, laid on the tokens, and what is wrong with them."""

import datasets
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.tokenizer import train_tokenizer
from tests.data.loading import load

ROWS = {
    "text": ["He said: “she left”, hers.", "a good film", "The cat's her-story"],
    "label": ["a", "b", "a"],
    "hide": [[1, 0, 0, 1, 0], [0, 0, 0], None],
}


def read(given, rows=ROWS, **settings):
    return load("mine", rows=datasets.Dataset.from_dict(rows), purpose="evaluate", impermissible=given, **settings)


def marks(data):
    return data.splits["test"]["impermissible"][:]


def test_a_column():
    data = read("hide")
    assert marks(data) == [[1, 0, 0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert "test: 2 of 3 texts have no word that is impermissible." in data.notes


@pytest.mark.parametrize("name", ["token_sentiment", "supporting"])
def test_a_column_by_the_name_of_a_derived_rationale_is_read_as_it_is(name):
    data = read(name, {"text": ["a fine film", "so bad"], "label": ["a", "b"], name: [[0, 1, 0], [1, 0]]})
    assert marks(data) == [[0, 1, 0], [1, 0]]
    with pytest.raises(InputError, match=f"0 to 1 for each word in column {name!r}"):
        read(name, {"text": ["a fine film", "so bad"], "label": ["a", "b"], name: [[2, 4, 2], [2, 0]]})


def test_words_in_any_case_and_without_the_punctuation_around_them():
    assert marks(read(["HE", "she", "her", "cat's"])) == [[1, 0, 1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_they_are_laid_on_the_tokens():
    data = read(["she", "cat's"])
    tokenizer = train_tokenizer(list(data.splits["test"]["text"]))
    encoded = encode_texts(tokenizer, data.splits["test"])
    for ids, own in zip(encoded["input_ids"][:], encoded["impermissible"][:], strict=True):
        tokens = tokenizer.convert_ids_to_tokens(ids)
        for token, mark in zip(tokens, own, strict=True):
            if mark:
                assert token in ("“", "she", "cat", "'s")
    assert sum(map(sum, encoded["impermissible"][:])) == 4


def test_the_fingerprint_knows_them():
    alone = load("mine", rows=datasets.Dataset.from_dict(ROWS), purpose="evaluate")
    found = {alone.fingerprint, read("hide").fingerprint, read(["he"]).fingerprint, read(["she"]).fingerprint}
    assert len(found) == 4
    assert read(["good"], rationale="hide").fingerprint != read(["good"]).fingerprint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hid", r"impermissible of 'mine' \(columns: text, label, hide\) 'hid'.*'hide'"),
        ("text", "impermissible of 'mine'"),
        ([], "Expected words in data.impermissible, but got none"),
        (["he", "an old man"], "Expected single words in data.impermissible, but got 'an old man'"),
        (["he", " "], "Expected single words in data.impermissible, but got ' '"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(InputError, match=message):
        read(given)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 0], "words of the text.*test-0|test-0.*words of the text"),
        ([1, 0, 0, 2, 0], "'hide', but the example 'test-0' has 2"),
    ],
)
def test_wrong_columns(values, message):
    with pytest.raises(InputError, match=message):
        read("hide", {**ROWS, "hide": [values, [0, 0, 0], None]})


def test_splits_without_the_column_say_so():
    splits = datasets.DatasetDict(
        {
            "train": datasets.Dataset.from_dict(ROWS),
            "test": datasets.Dataset.from_dict({name: ROWS[name] for name in ("text", "label")}),
        }
    )
    data = load("mine", rows=splits, impermissible="hide", validation_share=0.4)
    assert "impermissible" in data.splits["train"].column_names
    assert "impermissible" not in data.splits["test"].column_names
    assert any("there is no column 'hide'" in note for note in data.notes)


@pytest.mark.parametrize("source", ["deceptive_pronoun", "deceptive_sst_wiki"])
def test_real_data(shared, source):
    data = load(str(shared / "data" / source), impermissible="impermissible", limit=40)
    tokenizer = train_tokenizer(data.splits["train"]["text"], pre_tokenizer=data.pre_tokenizer)
    for split in data.splits.values():
        encoded = encode_texts(tokenizer, split)
        assert all(any(own) and not all(own) for own in encoded["impermissible"][:])
    if source == "deceptive_pronoun":
        words = ["he", "she", "her", "his", "him", "himself", "herself"]
        again = load(str(shared / "data" / source), impermissible=words, limit=40)
        assert again.splits["train"]["impermissible"][:] == data.splits["train"]["impermissible"][:]
