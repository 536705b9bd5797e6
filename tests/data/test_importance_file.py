"""Importance from a file: both forms, ids and tokens that do not fit, and what the file lacks."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data.importance_file import read_importance

EXAMPLES = ["a", "b", "c"]
TOKENS = [["good", "film"], ["bad"], []]


def parquet(folder, **columns):
    path = folder / "scores.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_one_row_an_example_in_any_order(tmp_path):
    path = parquet(tmp_path, example=["c", "b", "a"], scores=[[], [3.0], [1.0, -2.0]])
    assert read_importance(path, EXAMPLES, TOKENS) == ([[1.0, -2.0], [3.0], []], 0)


def test_one_row_a_token(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("example,token,score\na,1,-2\na,0,1\nb,0,3\n")
    given, missing = read_importance(path, EXAMPLES, TOKENS)
    assert given == [[1.0, -2.0], [3.0], []]
    assert missing == 1  # c has no token that could be listed


def test_what_the_file_lacks_is_nan_and_counted(tmp_path):
    path = parquet(tmp_path, example=["b"], scores=[[3.0]])
    given, missing = read_importance(path, EXAMPLES, TOKENS)
    assert [math.isnan(v) for v in given[0]] == [True, True]
    assert (given[1], missing) == ([3.0], 2)
    tidy = tmp_path / "tidy.csv"
    tidy.write_text("example,token,score\na,1,5\n")
    given, _ = read_importance(tidy, EXAMPLES, TOKENS)
    assert math.isnan(given[0][0])
    assert given[0][1] == 5


def test_the_tokens_are_compared(tmp_path):
    right = parquet(tmp_path, example=["a"], scores=[[1.0, 2.0]], tokens=[["good", "film"]])
    assert read_importance(right, EXAMPLES, TOKENS)[0][0] == [1.0, 2.0]
    wrong = parquet(tmp_path, example=["a"], scores=[[1.0, 2.0]], tokens=[["good", "movie"]])
    with pytest.raises(InputError, match=r"Token 1 of the example 'a' is 'movie' .* and 'film' in the data set"):
        read_importance(wrong, EXAMPLES, TOKENS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"example": "a", "scores": [1.0]}], "equal lengths in example 'a', but `tokens of the data set` has 2"),
        ([{"example": "z", "scores": [1.0]}], "the example 'z', which the data set lacks"),
        ([{"example": "b", "scores": [1.0]}] * 2, "the example 'b' twice"),
        ([{"scores": [1.0]}], "a column 'example'"),
        ([{"example": "b", "weight": [1.0]}], "one column of scores"),
        ([{"example": "b", "score": 1.0}], "a column 'token'"),
        ([{"example": "b", "token": 1, "score": 1.0}], "a place from 0 to 0 in the example 'b'"),
        ([{"example": "b", "token": 0, "score": 1.0}] * 2, "token 0 of the example 'b' twice"),
    ],
)
def test_errors_name_what_is_wrong(tmp_path, rows, message):
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(InputError, match=message):
        read_importance(path, EXAMPLES, TOKENS)


def test_a_column_by_name(tmp_path):
    path = parquet(tmp_path, example=["b"], shap=[[1.0]], score=[[2.0]])
    assert read_importance(path, ["b"], [["bad"]], "shap")[0] == [[1.0]]
    with pytest.raises(InputError, match="Did you mean 'shap'"):
        read_importance(path, ["b"], [["bad"]], "shp")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"scores\.parquet"):
        read_importance(tmp_path / "scores.parquet", EXAMPLES, TOKENS)
