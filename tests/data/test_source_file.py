"""A file whose tokens have places: joined by ids or texts, laid on our words, and what does not fit."""

import json
import math
from dataclasses import replace

import pytest

from attn_faithful._checks import InputError
from attn_faithful.data.source_file import SourceItems, read_source_file

ITEMS = SourceItems(
    examples=["a", "b", "c"],
    texts=["good film", "bad", "good film\n "],
    tokens=[["good", "film"], ["bad"], ["good", "film"]],
    spans=[[(0, 4), (5, 9)], [(0, 3)], [(0, 4), (5, 9)]],
)
ROW = {"text": "good film", "tokens": ["go", "od", "film"], "starts": [0, 2, 5], "ends": [2, 4, 9], "scores": [1, 2, 4]}


def write(folder, *rows):
    path = folder / "shap.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_by_text_every_example_with_that_text_has_the_scores(tmp_path):
    found = read_source_file(write(tmp_path, {**ROW, "text": "good film \n"}), ITEMS)
    assert (found.values[0], found.values[2], found.n_missing) == ([3.0, 4.0], [3.0, 4.0], 1)
    assert math.isnan(found.values[1][0])
    assert found.notes == [f"1 examples are not in {tmp_path / 'shap.jsonl'}."]


def test_copies_of_a_text_have_its_rows_in_order(tmp_path):
    other = {**ROW, "scores": [0, 0, 8]}
    for rows in ([ROW, other], [ROW, other, {**ROW, "scores": [9, 9, 9]}]):
        found = read_source_file(write(tmp_path, *rows), ITEMS)
        assert (found.values[0], found.values[2]) == ([3.0, 4.0], [0.0, 8.0])


def test_by_id_only_that_one_has_them(tmp_path):
    found = read_source_file(write(tmp_path, {**ROW, "example": "c"}), ITEMS)
    assert (found.values[2], found.n_missing) == ([3.0, 4.0], 2)
    without_text = {name: values for name, values in ROW.items() if name != "text"}
    assert read_source_file(write(tmp_path, {**without_text, "example": "c"}), ITEMS).values[2] == [3.0, 4.0]


def test_what_has_no_score_or_no_word_is_told(tmp_path):
    row = {"text": "good film", "tokens": ["<s>", "go", "?"], "starts": [0, 0, 4], "ends": [0, 2, 4]}
    found = read_source_file(write(tmp_path, {**row, "scores": [0.5, 1.0, None]}), ITEMS)
    assert found.values[0][0] == 1.0
    assert math.isnan(found.values[0][1])
    path = tmp_path / "shap.jsonl"
    assert f"2 words of 2 texts without a score in {path}: no token of the explanation" in found.notes[1]
    assert f"4 scores of 2 texts in {path} of no word that the model reads" in found.notes[2]


def test_a_file_of_our_own_tokens_is_read_as_before(tmp_path):
    path = write(tmp_path, {"example": "a", "tokens": ["good", "film"], "scores": [1.0, 2.0]})
    found = read_source_file(path, ITEMS)
    assert (found.values[0], found.n_missing) == ([1.0, 2.0], 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "good movie"}, "holds the text 'good movie', which the data set lacks"),
        ({"example": "z"}, "holds the example 'z', which the data set lacks"),
        ({"example": "b"}, "The text of the example 'b' in .* is not the data set's: 'bad'"),
        ({"ends": [2, 4, 10]}, r"places from 0 to 9 in the text 'good film' of .*, but got \(5, 10\)"),
        ({"starts": [0, 2.5, 5]}, "starts and ends count characters"),
        ({"starts": [3, 2, 5]}, r"got \(3, 2\)"),
        ({"ends": [2, 4]}, "equal lengths in example 'a', but `starts` has 3, `ends` has 2"),
        ({"scores": ["1", "2", "3"]}, "Expected numbers as scores, but the text 'good film'"),
        ({"scores": None}, "Expected `scores` in example 'a' to be a list"),
    ],
)
def test_errors_name_the_text_and_what_is_wrong(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_source_file(write(tmp_path, {**ROW, **changes}), ITEMS)


@pytest.mark.parametrize(
    ("key", "places"), [("text", True), ("example", True), ("example", False)], ids=["text", "id", "id, our tokens"]
)
def test_rows_of_texts_that_were_left_out_are_left_out(tmp_path, key, places):
    """Of a limit, or of texts that the model was trained on: the data set has fewer texts than the file."""
    names = {"text": ("good film", "never seen "), "example": ("a", "z")}
    row = {"tokens": ["good", "film"], "scores": [1.0, 2.0]}
    if places:
        row |= {"starts": [0, 5], "ends": [4, 9]}
    file = write(tmp_path, *({**row, key: name} for name in names[key]))
    found = read_source_file(file, replace(ITEMS, shortened=True))
    assert found.values[0] == [1.0, 2.0]
    assert found.notes[0] == f"1 rows of {file} are of texts that are not tested here."
    with pytest.raises(InputError, match="which the data set lacks"):
        read_source_file(file, ITEMS)


def test_a_file_of_other_texts_alone_is_refused_all_the_same(tmp_path):
    file = write(tmp_path, {**ROW, "text": "never seen"})
    with pytest.raises(InputError, match="which the data set lacks"):
        read_source_file(file, replace(ITEMS, shortened=True))


def test_errors_of_the_whole_file(tmp_path):
    row = {**ROW, "example": "a"}
    with pytest.raises(InputError, match="holds the example 'a' twice"):
        read_source_file(write(tmp_path, row, row), ITEMS)
    nameless = {name: values for name, values in ROW.items() if name != "text"}
    with pytest.raises(InputError, match="a column 'example' or 'text'"):
        read_source_file(write(tmp_path, nameless), ITEMS)
    slow = SourceItems(ITEMS.examples, ITEMS.texts, ITEMS.tokens, [None, None, None])
    with pytest.raises(InputError, match="where those of the model stand is not known"):
        read_source_file(write(tmp_path, ROW), slow)
