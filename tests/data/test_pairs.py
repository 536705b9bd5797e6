"""Pairs of texts: which columns they are, labels of answers, candidates, encoding and batches of both texts."""

import doctest
import json

import datasets
import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.data import columns
from attn_faithful.data.collate import MODEL_COLUMNS, Collator
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.rows import Rows
from attn_faithful.data.tokenizer import train_tokenizer
from tests.data.loading import load
from tests.data.test_sources import folder, write_jsonl


def pairs(n=20, text="premise", query="hypothesis", **more):
    return [{text: f"a {i}", query: f"b {i}", "label": "yn"[i % 2], **more} for i in range(n)]


def evaluated(tmp_path, rows, **settings):
    """All rows as they were, as the test split."""
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    return load(path, purpose="evaluate", **settings).splits["test"]


CLOZE = [
    {"passage": "@e1 saw @e2 .", "question": "who saw ?", "answer": "@e1", "candidates": ["@e1", "@e2"]},
    {"passage": "@e2 saw @e3 .", "question": "who saw ?", "answer": "@e2", "candidates": ["@e3", "@e2", "@e2"]},
    {"passage": "@e3 saw @e4 .", "question": "saw whom ?", "answer": "@e3", "candidates": ["@e4", "@e3"]},
]


def cloze(tmp_path, *rows, **settings):
    """Train is CLOZE, the rows are the test split."""
    return load(folder(tmp_path / "c", train=CLOZE, validation=CLOZE, test=list(rows)), **settings)


def test_examples_in_docstrings():
    assert doctest.testmod(columns).failed == 0


# --- columns


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("premise", "hypothesis"),
        ("passage", "question"),
        ("Context", "Question"),
        ("story", "question"),
        ("sentence1", "sentence2"),
    ],
)
def test_pairs_are_found_by_name(tmp_path, text, query):
    rows = evaluated(tmp_path, pairs(text=text, query=query, idx=1, source="x"))
    assert rows["text"][:3] == ["a 0", "a 1", "a 2"]
    assert rows["query"][:3] == ["b 0", "b 1", "b 2"]
    assert rows["label"][:3] == [1, 0, 1]
    assert "candidates" not in rows.column_names
    data = load(str(tmp_path / "a.jsonl"))
    assert f"Pairs: attention goes over {text!r}, asked by {query!r}." in data.notes
    for split in data.splits.values():
        assert [t.replace("a", "b") for t in split["text"]] == split["query"][:]
        assert split.features["query"].dtype == "large_string"


def test_pairs_by_given_columns(tmp_path):
    rows = [{"claim": "a", "evidence": "b", "why": "c", "label": i % 2} for i in range(20)]
    found = evaluated(tmp_path, rows, text_column="evidence", query_column="claim")
    assert (found["text"][0], found["query"][0]) == ("b", "a")
    turned = evaluated(tmp_path, pairs(), text_column="hypothesis", query_column="premise")
    assert (turned["text"][0], turned["query"][0]) == ("b 0", "a 0")
    one = evaluated(tmp_path, pairs(), query_column="hypothesis")
    assert (one["text"][0], one["query"][0]) == ("a 0", "b 0")
    usual = [{"review": "a", "doubt": "b", "other": "c", "label": 1}]
    assert evaluated(tmp_path, usual, query_column="doubt")["text"][:] == ["a"]


def test_a_single_text_of_a_pair(tmp_path):
    data = evaluated(tmp_path, pairs(candidates=["y", "n"]), text_column="hypothesis")
    assert data.column_names == ["example", "text", "label"]
    assert data["text"][0] == "b 0"
    assert evaluated(tmp_path, [{"story": "s", "question": "q", "answer": "x"}], text_column="story")["label"][:] == [0]
    named_text = [{"text": "t", "premise": "a", "hypothesis": "b", "label": 1}]
    assert evaluated(tmp_path, named_text).column_names == ["example", "text", "label"]


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (
            {"passage": "a", "context": "b", "question": "c", "label": 1},
            {},
            "passage with question or context with question could be it; name them with text_column and query_column",
        ),
        ({"premise": "a", "hypothesis": "b", "answer": 1, "score": 1}, {}, "score, answer could be it"),
        (
            {"premise": "a", "hypothesis": "b"},
            {"query_column": "hypothesys"},
            "query column.*Did you mean 'hypothesis'",
        ),
        ({"premise": "a", "hypothesis": 3}, {}, "texts in column 'hypothesis'.*holds int64.*with query_column"),
        ({"premise": ["a"], "hypothesis": "b"}, {}, "texts in column 'premise'.*with text_column"),
        ({"premise": "a", "hypothesis": "b"}, {"text_column": "premise", "query_column": "premise"}, "'premise' twice"),
        ({"left": "a", "right": "b", "middle": "c"}, {"query_column": "right"}, "Expected a text column"),
    ],
)
def test_ambiguous_or_wrong_columns(tmp_path, row, settings, message):
    with pytest.raises(InputError, match=message):
        evaluated(tmp_path, [row] * 4, **settings)


def test_every_split_has_both_columns(tmp_path):
    path = folder(tmp_path / "d", train=pairs(), test=[{"premise": "a", "label": "y"}])
    with pytest.raises(InputError, match="column 'hypothesis' in every split, but split 'test' has premise, label"):
        load(path)


def test_a_missing_query_c23(tmp_path):
    rows = [
        *pairs(),
        {"premise": "a", "hypothesis": None, "label": "y"},
        {"premise": "a", "hypothesis": "", "label": "y"},
    ]
    with pytest.raises(InputError, match="a value in column 'hypothesis', but row 20 of split 'test' has none"):
        evaluated(tmp_path, rows)
    kept = evaluated(tmp_path, rows, drop_none=True)
    assert kept["query"][-1] == ""
    assert len(kept) == 21


# --- labels (C28)


def test_labels_of_pairs(tmp_path):
    rows = [{"premise": "a", "hypothesis": "b", "label": i % 4 - 1} for i in range(40)]
    path = folder(tmp_path / "d", train=rows, validation=rows, test=rows)
    (tmp_path / "d" / "meta.json").write_text(json.dumps({"label_names": ["yes", "maybe", "no"]}))
    with pytest.raises(InputError, match=r"example 'train-0' of .* has -1"):
        load(path)
    data = load(path, drop=["-1"])
    assert data.label_names == ["yes", "maybe", "no"]
    assert data.class_counts("train") == {"yes": 10, "maybe": 10, "no": 10}


@pytest.mark.parametrize("name", ["answer", "gold_label", "labels"])
def test_answers_are_labels(tmp_path, name):
    rows = [{"story": "s", "question": "q", name: answer} for answer in ("attic", "cellar", "attic")]
    assert evaluated(tmp_path, rows)["label"][:] == [0, 1, 0]


def test_an_answer_beside_a_label(tmp_path):
    rows = pairs(answer="x", supporting=[0])
    data = load(write_jsonl(tmp_path / "a.jsonl", rows))
    assert data.label_names == ["n", "y"]
    assert data.splits["train"]["supporting"][0] == [0]
    rows = encode_texts(train_tokenizer(["a"]), data.splits["train"])
    assert "supporting" not in rows.column_names


def test_answers_mean_nothing_beside_a_single_text(tmp_path):
    rows = [{"text": "a", "answer": "x", "stars": i % 2} for i in range(20)]
    assert load(write_jsonl(tmp_path / "a.jsonl", rows)).label_names == ["0", "1"]


# --- candidates


def test_candidates_are_classes(tmp_path):
    strange = {"passage": "p", "question": "q", "answer": "@e4", "candidates": ["@e4", "@e9", "@e1"]}
    data = cloze(tmp_path, strange)
    assert data.label_names == ["@e1", "@e2", "@e3", "@e4"]  # nobody's answer in train, but a candidate
    assert data.splits["train"]["label"][:] == [0, 1, 2]
    assert data.splits["train"]["candidates"][:] == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert data.splits["test"]["candidates"][:] == [[1, 0, 0, 1]]
    assert data.splits["test"]["label"][:] == [3]
    assert "test: 1 candidates left out that are no class." in data.notes
    assert data.class_counts("train")["@e4"] == 0


def test_candidates_follow_label_map_and_a_models_names(tmp_path):
    data = cloze(tmp_path, CLOZE[0], label_map={"@e4": "@e1"})
    assert data.label_names == ["@e1", "@e2", "@e3"]
    assert data.splits["train"]["candidates"][2] == [1, 0, 1]
    path = write_jsonl(tmp_path / "a.jsonl", CLOZE)
    names = ["@e3", "@e2", "@e1", "@e0"]
    held = load(path, purpose="evaluate", label_names=names).splits["test"]
    assert held["candidates"][:] == [[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]


def test_candidates_as_indices(tmp_path):
    rows = [{**CLOZE[0], "label": i % 2, "candidates": [0, 1, 2][: 2 + i % 2]} for i in range(20)]
    path = folder(tmp_path / "d", train=rows, validation=rows, test=rows)
    (tmp_path / "d" / "meta.json").write_text(json.dumps({"label_names": ["x", "y", "z"]}))
    assert load(path).splits["test"]["candidates"][:2] == [[1, 1, 0], [1, 1, 1]]


def test_an_answer_outside_its_candidates(tmp_path):
    wrong = {**CLOZE[0], "answer": "@e3"}
    with pytest.raises(
        InputError, match=r"row 1 of split 'test' has the answer '@e3' and the candidates @e1, @e2; add"
    ):
        cloze(tmp_path, CLOZE[0], wrong)
    with pytest.raises(InputError, match="candidates that are classes, but row 0 of split 'test' has none"):
        cloze(tmp_path, {**CLOZE[0], "candidates": ["@e9"]})
    with pytest.raises(InputError, match="a value in column 'candidates', but row 1 of split 'test' has none"):
        cloze(tmp_path, CLOZE[0], {**CLOZE[0], "candidates": None})
    with pytest.raises(InputError, match=r"one answer a text .* leave multi_label out"):
        cloze(tmp_path, CLOZE[0], multi_label=True)


def test_unknown_answers_keep_their_candidates(tmp_path):
    data = cloze(tmp_path, {**CLOZE[0], "answer": "-1"})
    assert data.splits["test"]["label"][:] == [-1]
    assert data.splits["test"]["candidates"][:] == [[1, 1, 0, 0]]


# --- doubles, splits, fingerprint


def test_a_double_is_a_pair_that_stands_twice(tmp_path):
    other = {**CLOZE[0], "question": "another ?"}
    assert any("1 of 2 test texts stand in train too" in note for note in cloze(tmp_path, CLOZE[0], other).notes)


def test_splits_and_limits_keep_pairs_together(tmp_path):
    data = load(write_jsonl(tmp_path / "a.jsonl", pairs(60)), limit=20)
    for split in data.splits.values():
        for example, text, query in zip(split["example"], split["text"], split["query"], strict=True):
            assert text == f"a {example.split('-')[1]}"
            assert query == f"b {example.split('-')[1]}"


def test_the_fingerprint_sees_queries_and_candidates(tmp_path):
    first = cloze(tmp_path, CLOZE[0])
    assert cloze(tmp_path, {**CLOZE[0], "question": "x"}).fingerprint != first.fingerprint
    assert cloze(tmp_path, {**CLOZE[0], "candidates": ["@e1"]}).fingerprint != first.fingerprint
    assert cloze(tmp_path, CLOZE[0]).fingerprint == first.fingerprint


# --- encoding


def encoded(tmp_path, **settings):
    data = cloze(tmp_path, CLOZE[0])
    tokenizer = train_tokenizer([*data.splits["train"]["text"], *data.splits["train"]["query"]], digits=None)
    return tokenizer, encode_texts(tokenizer, data.splits["train"], **settings)


def test_both_texts_are_encoded(tmp_path):
    tokenizer, rows = encoded(tmp_path)
    assert tokenizer.convert_ids_to_tokens(rows["query_input_ids"][2]) == ["saw", "whom", "?"]
    assert rows["query_input_ids"][:] == [tokenizer(row["question"])["input_ids"] for row in CLOZE]
    assert rows["n_query_tokens"][:] == [3, 3, 3]
    assert rows["query_truncated"][:] == [False] * 3
    assert rows["candidates"][:] == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert "special_tokens_mask" not in rows.column_names


def test_the_limit_holds_for_queries_too(tmp_path):
    _, rows = encoded(tmp_path, max_length=2)
    assert [len(ids) for ids in rows["query_input_ids"]] == [2, 2, 2]
    assert rows["n_query_tokens"][:] == [3, 3, 3]
    assert rows["query_truncated"][:] == [True] * 3


def test_candidates_are_never_taken_for_values_of_words():
    table = {"text": ["a b", "c d"], "query": ["q", ""], "candidates": [[1, 0], [1, 1]], "weight": [[1, 2], [3, 4]]}
    rows = encode_texts(train_tokenizer(["a b c d q"]), datasets.Dataset.from_dict(table), max_length=1)
    assert rows["candidates"][:] == [[1, 0], [1, 1]]
    assert rows["weight"][:] == [[1], [3]]
    assert rows["query_input_ids"][1] == []


def test_a_query_that_is_no_text_is_named():
    table = datasets.Dataset.from_dict({"text": ["a", "b"], "query": ["a", None]})
    with pytest.raises(InputError, match="row 1 is None"):
        encode_texts(train_tokenizer(["a"]), table)


# --- batches


def test_a_batch_of_pairs(tmp_path):
    rows = [
        {"input_ids": [5], "query_input_ids": [6, 7, 8], "candidates": [1, 0, 1], "example": "a", "labels": 0},
        {"input_ids": [5, 6], "query_input_ids": [], "candidates": [0, 1, 1], "example": "b", "labels": 1},
    ]
    for form in (rows, [Rows({name: [row[name] for row in rows] for name in rows[0]})[i] for i in range(2)]):
        batch = Collator(9, ("query_input_ids", "candidates", "example"))(form)
        assert batch["input_ids"].tolist() == [[5, 9], [5, 6]]
        assert batch["query_input_ids"].tolist() == [[6, 7, 8], [9, 9, 9]]
        assert batch["query_attention_mask"].tolist() == [[1, 1, 1], [0, 0, 0]]
        assert batch["candidates"].tolist() == [[True, False, True], [False, True, True]]
        assert batch["query_input_ids"].dtype == batch["query_attention_mask"].dtype == torch.int64
        assert batch["candidates"].dtype == torch.bool
        assert batch["example"] == ["a", "b"]
    alone = Collator(columns=("query_input_ids",))(rows[1:])
    assert alone["query_input_ids"].shape == (1, 1)  # one position at least
    assert set(Collator()(rows)) == {"input_ids", "attention_mask", "labels"}
    with pytest.raises(InputError, match="column 'query_input_ids' in every row, but example 'b' has none"):
        Collator(columns=("query_input_ids",))([rows[0], {"input_ids": [1], "example": "b"}])


def test_what_a_model_reads_beside_the_text():
    single = {"special_tokens_mask", "sentence_ids", "word_ids"}
    assert set(MODEL_COLUMNS) == single | {"query_input_ids", "candidates", "token_type_ids"}


# --- real data


@pytest.mark.parametrize("name", ["babi_qa1", "babi_qa2", "babi_qa3"])
def test_babi(shared, name):
    data = load(shared / "data" / name)
    assert data.label_names == ["bathroom", "bedroom", "garden", "hallway", "kitchen", "office"]
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 900, "validation": 100, "test": 1000}
    first = data.splits["test"][0]
    assert "\n" in first["text"]
    assert first["query"].startswith("Where")
    tokenizer = train_tokenizer([*data.splits["train"]["text"], *data.splits["train"]["query"]])
    rows = encode_texts(tokenizer, data.splits["test"])
    assert tokenizer.unk_token_id not in np.concatenate([*rows["input_ids"], *rows["query_input_ids"]])


def test_snli_attends_the_premise(shared):
    data = load(shared / "data" / "esnli", drop=["-1"])
    assert data.label_names == ["entailment", "neutral", "contradiction"]
    first = data.splits["train"][0]
    assert first["text"] == "Two women are embracing while holding to go packages ."
    assert first["query"].startswith("The sisters are hugging")
    assert data.pre_tokenizer == "whitespace"
    assert len(data.splits["test"]) == 8014
