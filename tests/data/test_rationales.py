"""Human rationales: one 0 or 1 a white-space word, whatever the data set calls them, and their way to tokens."""

from __future__ import annotations

import doctest

import datasets
import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data import rationales
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.rationales import changed_words
from attn_faithful.data.rows import Rows
from attn_faithful.data.tokenizer import train_tokenizer
from tests.data.loading import load
from tests.data.test_sources import folder

MASKED = [{"id": f"t{i}", "text": f"it is\n w{i} .", "label": "yn"[i % 2], "mask": [0, i % 2, 1, 0]} for i in range(20)]
SENTIMENT = {"text": "bad film , good end", "token_sentiment": [1, 2, 2, 3, 4]}
BABI = {"passage": "Mary left . \nJohn ran .\n\nBoth slept", "question": "Who ?", "answer": "John"}


def test_examples_in_docstrings():
    assert doctest.testmod(rationales).failed == 0


def evaluated(rows, rationale, **settings):
    """All rows as they were, as the test split."""
    return load("data", rows=rows, purpose="evaluate", rationale=rationale, **settings)


def marks(rows, rationale, **settings):
    return evaluated(rows, rationale, **settings).splits["test"]["rationale"][:]


# --- a list column


def test_a_list_column_as_it_is():
    data = evaluated(MASKED, "mask")
    assert data.splits["test"]["rationale"][:] == [row["mask"] for row in MASKED]
    assert data.splits["test"].features["rationale"].feature.dtype == "int8"
    assert "rationale" not in evaluated(MASKED, None).splits["test"].column_names


def test_booleans_whole_floats_and_rows_that_say_nothing():
    rows = [{"text": "a b", "mask": [True, False]}, {"text": "a  b", "mask": None}, {"text": "", "mask": []}]
    data = evaluated(rows, "mask")
    assert data.splits["test"]["rationale"][:] == [[1, 0], [0, 0], []]
    assert data.notes[-1] == "test: 2 of 3 texts have no word in the rationale 'mask'."
    assert marks([{"text": "a b", "mask": [0.0, 1.0]}], "mask") == [[0, 1]]
    assert marks([{"text": "", "mask": []}], "mask") == [[]]


def test_rows_stay_aligned_when_others_go(tmp_path):
    """Each text tells its own number, and its mask follows from it."""
    rows = [
        {"text": f"w {i}", "label": "abc"[i % 3] if i % 7 else None, "mask": [i // 2 % 2, i % 2]} for i in range(60)
    ]
    whole = folder(tmp_path / "d", train=rows)
    data = load(whole, rationale="mask", drop=["c"], drop_none=True, limit=8, seed=3)
    seen = [row for rows in data.splits.values() for row in rows]
    assert len(seen) > 10
    for row in seen:
        own, number = row["rationale"], int(row["text"].split()[1])
        assert own == [number // 2 % 2, number % 2]
        assert number % 3 < 2
        assert number % 7


def test_a_split_that_says_nothing_has_none(tmp_path):
    plain = [{"text": row["text"], "label": row["label"]} for row in MASKED]
    data = load(folder(tmp_path / "d", train=plain, test=MASKED), rationale="mask")
    assert {split: "rationale" in rows.column_names for split, rows in data.splits.items()} == {
        "train": False,
        "validation": False,
        "test": True,
    }
    assert "train: nothing says what the rationale 'mask' is." in data.notes


def test_the_fingerprint_sees_it():
    other = [{**MASKED[0], "mask": [1, 1, 1, 1]}, *MASKED[1:]]
    prints = [evaluated(rows, name).fingerprint for rows in (MASKED, other) for name in ("mask", None)]
    assert len(set(prints)) == 3
    assert prints[1] == prints[3]


# --- worked out


def test_lines_that_prove_the_answer():
    rows = [{**BABI, "supporting": lines} for lines in ([1], [3, 0], [2], [], None)]
    data = evaluated(rows, "supporting")
    assert data.splits["test"]["rationale"][:] == [
        [0, 0, 0, 1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 0, 1, 1],
        [0] * 8,
        [0] * 8,
        [0] * 8,
    ]
    assert data.splits["test"]["text"][0] == BABI["passage"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("positive", [0, 0, 0, 1, 1]),
        ("Very Negative", [1, 0, 0, 0, 0]),
        ("neutral", [1, 0, 0, 1, 1]),
        (-1, [1, 0, 0, 1, 1]),
    ],
)
def test_words_on_the_side_of_the_label(label, expected):
    assert marks([{**SENTIMENT, "label": label}], "token_sentiment") == [expected]


def test_the_side_of_a_label_by_index_and_by_another_name():
    rows = [{**SENTIMENT, "label": 1}]
    names = ["negative", "positive"]
    assert marks(rows, "token_sentiment", label_names=names) == [[0, 0, 0, 1, 1]]
    assert marks(rows, "token_sentiment", label_map={"1": "positive"}) == [[0, 0, 0, 1, 1]]
    assert marks(rows, "token_sentiment") == [[1, 0, 0, 1, 1]]  # a class "1" has no side
    several = [{**SENTIMENT, "label": ["positive", "negative"]}]
    assert marks(several, "token_sentiment", multi_label=True) == [[1, 0, 0, 1, 1]]


def test_words_that_the_other_text_of_a_pair_lacks():
    texts = {
        (1, False): "a good film .",
        (2, True): "it is bad",
        (1, True): "a truly bad film .",
        (2, False): "it is",
        (3, False): "alone",
        (None, True): "alone",
    }
    rows = [
        {"text": text, "label": "np"[i % 2], "pair_id": pair, "is_revised": revised}
        for i, ((pair, revised), text) in enumerate(texts.items())
    ]
    expected = [[0, 1, 0, 0], [0, 0, 1], [0, 1, 1, 0, 0], [0, 0], [0], [0]]
    data = evaluated(rows, "pairs")
    assert data.splits["test"]["rationale"][:] == expected
    assert data.notes[-1] == "test: 3 of 6 texts have no word in the rationale 'pairs'."
    # the other text of a pair counts also where its label is left out
    assert marks(rows, "pairs", keep=["n"]) == [expected[i] for i in (0, 2, 4)]


def test_what_remains_of_a_pair_is_the_same_on_both_sides():
    generator = np.random.default_rng(0)
    for _ in range(20):
        first, second = (generator.choice(list("abcd"), generator.integers(0, 300)).tolist() for _ in range(2))
        left, right = changed_words(first, second)
        kept = [[w for w, m in zip(t, own, strict=True) if not m] for t, own in ((first, left), (second, right))]
        assert kept[0] == kept[1]
        assert changed_words(first, first) == ([0] * len(first), [0] * len(first))


# --- errors


@pytest.mark.parametrize(
    ("change", "rationale", "message"),
    [
        ({}, "maks", "Did you mean 'mask'"),
        ({}, "nothing", "columns: id, text, label, mask.* Known: mask, pairs, supporting, token_sentiment"),
        ({}, "pairs", "the columns pair_id and is_revised for the rationale 'pairs'"),
        ({}, "text", "Unknown rationale of 'data'"),
        ({"mask": [0, 1]}, "mask", "in example 't0', but `words of the text` has 4, `mask` has 2"),
        ({"mask": [0, 1, 2, 0]}, "mask", "0 to 1 for each word in column 'mask', but the example 't0' has 2"),
        ({"mask": [0, 1, None, 0]}, "mask", "the example 't0' has None"),
        ({"token_sentiment": [0, 1]}, "token_sentiment", "example 't0'.*`token_sentiment` has 2"),
        ({"token_sentiment": [5, 1, 1, 1]}, "token_sentiment", "0 to 4 .* 't0' has 5"),
        ({"token_sentiment": 3}, "token_sentiment", "Expected lists in column 'token_sentiment'"),
        ({"supporting": [2]}, "supporting", "lines from 0 to 1 .* 't0' has 2"),
        ({"supporting": [-1]}, "supporting", "'t0' has -1"),
        ({"pair_id": 1, "is_revised": 3}, "pairs", "true or false in column 'is_revised', but row 0 has 3"),
    ],
)
def test_errors_say_what_was_expected_and_where(change, rationale, message):
    with pytest.raises(InputError, match=message):
        evaluated([{**MASKED[0], **change}], rationale)


def test_three_texts_in_a_pair():
    rows = [{"text": f"t {i}", "pair_id": 7, "is_revised": i > 0} for i in range(3)]
    with pytest.raises(InputError, match="pair 7 has two revised ones, rows 1 and 2"):
        evaluated(rows, "pairs")


# --- to tokens


def test_every_token_has_the_value_of_its_word():
    rows = [{"text": "It isn't\ngood , 1,000 times!", "mask": [0, 1, 0, 0, 1, 0]}, {"text": "", "mask": []}]
    data = evaluated(rows, "mask").splits["test"]
    tokenizer = train_tokenizer(data["text"])
    encoded = encode_texts(tokenizer, data, max_length=7)
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"][0]) == ["it", "is", "n't", "good", ",", "qqq", "times"]
    assert encoded["rationale"][:] == [[0, 1, 1, 0, 0, 1, 0], []]


@pytest.mark.parametrize(
    ("source", "rationale"),
    [
        ("movies_rationales", "rationale_mask"),
        ("babi_qa1", "supporting"),
        ("sst2", "token_sentiment"),
        ("cad_imdb", "pairs"),
    ],
)
def test_real_data_keep_their_rationale(shared, source, rationale):
    data = load(str(shared / "data" / source), rationale=rationale, limit=40)
    tokenizer = train_tokenizer(data.splits["train"]["text"], pre_tokenizer=data.pre_tokenizer)
    for split, own in data.splits.items():
        rows = Rows.of(encode_texts(tokenizer, own))
        assert "rationale" in rows.column_names, split
        assert [len(values) for values in rows["rationale"]] == [len(ids) for ids in rows["input_ids"]]
        words = np.concatenate([np.asarray(values) for values in own["rationale"]])
        assert 0.05 < words.mean() < 0.4
        # tokens of marked words: words with punctuation have several
        assert np.concatenate(rows["rationale"]).mean() == pytest.approx(words.mean(), abs=0.03)


def test_a_rationale_that_fits_no_tokens_is_not_dropped_in_silence():
    data = datasets.Dataset.from_dict({"text": ["a b", "c d e"], "rationale": [[0, 1], [1, 0]]})
    with pytest.raises(InputError, match="rationale marks of row 1"):
        encode_texts(train_tokenizer(data["text"]), data)
