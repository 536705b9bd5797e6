"""Result files: read as they were written; no result file, NaN where a number must be, another set: named, refused."""

import json
import math

import pytest

from attn_faithful._checks import InputError
from attn_faithful.bench_results import read_result, read_results, result_files
from attn_faithful.records.bench import BenchLine, BenchResult, BenchScore
from attn_faithful.store import strict

ONE, OTHER = "1" * 64, "2" * 64  # digests of two sets


def score(kind="all", auc=0.8, low=0.7, high=0.9, **changes):
    facts = {"metric": "entropy", "source": "attention", "level": "model", "length": "all", "n_explains": 6}
    return BenchScore(**{**facts, "kind": kind, "auc": auc, "low": low, "high": high, "n_other": 4, **changes})


def result(**changes):
    line = BenchLine("entropy", "attention", 0.4, "below", 0.8, 0.7, 0.9, 0.1, {"free": 0.2}, 6, 4)
    facts = {"name": "ours", "entry": "test", "origin": "attn_faithful", "set_sha256": ONE, "lines": [line]}
    scores = [score(), score("free"), score("leaky", math.nan, math.nan, math.nan, n_other=0)]
    versions = {"attn_faithful": "0.1.0"}
    return BenchResult(**{**facts, "scores": scores, "versions": versions, "date": "2026-01-31", **changes})


def write_result(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(strict(result(**changes).as_json())), encoding="utf-8")
    return path


def test_a_result_is_read_as_it_was_written(tmp_path):
    found = read_result(write_result(tmp_path / "a.json"))
    assert strict(found.as_json()) == strict(result().as_json())
    assert math.isnan(found.scores[2].auc)


def test_folders_and_files_in_order_each_once(tmp_path):
    for name in ("b", "a"):
        write_result(tmp_path / "results" / f"{name}.json", name=name)
    write_result(tmp_path / "other.json", name="other")
    (tmp_path / "results" / ".hidden.json").write_text("{")
    (tmp_path / "results" / "notes.txt").write_text("no json")
    given = [tmp_path / "other.json", tmp_path / "results", tmp_path / "results" / ".." / "results" / "b.json"]
    assert [path.name for path in result_files(given)] == ["other.json", "a.json", "b.json"]
    assert [found.name for found in read_results(given)] == ["other", "a", "b"]


def test_nothing_to_read(tmp_path):
    with pytest.raises(InputError, match=r"holds no result file"):
        read_results([tmp_path])
    with pytest.raises(InputError, match=r"There is no result file .*a\.json"):
        read_results([tmp_path / "a.json"])
    with pytest.raises(InputError, match="but got none"):
        read_results([])


def test_results_of_two_sets_are_refused(tmp_path):
    one = write_result(tmp_path / "one.json")
    other = write_result(tmp_path / "other.json", set_sha256=OTHER)
    with pytest.raises(InputError, match=r"other\.json was measured on the set 222222222222, but .*one\.json.*page of"):
        read_results([one, other])


@pytest.mark.parametrize("content", ["{", "[]", "{}", "null", '"a"', '{"scores": [1]}', b"\xff\xfe", "[" * 100_000])
def test_what_is_no_result_file(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"a\.json is no result file"):
        read_results([path])


FAULTS = [
    ({"name": " "}, "name is empty"),
    ({"name": 3}, "name is no text"),
    ({"entry": "model"}, "entry is 'model', not 'test' or 'explanation'"),
    ({"set_sha256": "abc"}, "set_sha256 is no sha256"),
    ({"file_sha256": 7}, "file_sha256 is no sha256"),
    ({"versions": []}, "versions is no mapping"),
    ({"scores": []}, "scores is empty"),
    (
        {"scores": [score(auc=math.nan)]},
        r"against all, .*auc is NaN where a number must be, with numbers .* \(6, 4\)",
    ),
    ({"scores": [score(auc=1.2)]}, "auc is 1.2, outside 0 to 1"),
    ({"scores": [score(auc="0.8")]}, "auc is no number"),
    ({"scores": [score(auc=True)]}, "auc is no number"),
    ({"scores": [score(low=0.9, high=0.7)]}, "the interval 0.9 to 0.7 ends before it begins"),
    ({"scores": [score(n_other=-1)]}, "n_other is no count"),
    ({"scores": [score(n_other=1.5)]}, "n_other is no count"),
    ({"scores": [score(kind=None)]}, "kind is no text"),
    ({"scores": [score(level="token")]}, "level is 'token', not 'model' or 'text'"),
    ({"scores": [score(), score()]}, "stands there twice"),
    ({"scores": [score(auc=math.nan, low=math.nan, high=math.nan, n_other=0)]}, "no AUC over all kinds"),
    ({"scores": [score("free")]}, "no AUC over all kinds and lengths is defined"),
    ({"scores": [score("free", 2), score("leaky", 3)]}, "auc is 2, outside 0 to 1, and 1 more such"),
    ({"lines": [BenchLine("entropy", "attention", math.nan, "below", 0.8)]}, "line is NaN where a number must be"),
    ({"lines": [BenchLine("entropy", "attention", 0.4, "left", 0.8)]}, "faithful is 'left'"),
    ({"lines": [BenchLine("entropy", "attention", 0.4, "below", 8)]}, "balanced_accuracy is 8, outside 0 to 1"),
]


@pytest.mark.parametrize(("changes", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_fault_is_named_with_its_file(tmp_path, changes, said):
    path = write_result(tmp_path / "a.json", **changes)
    with pytest.raises(InputError, match=rf"a\.json: .*{said}"):
        read_results([path])


@pytest.mark.parametrize("literal", ["NaN", "Infinity"])
def test_python_s_own_literals_of_json(tmp_path, literal):
    path = write_result(tmp_path / "a.json")
    path.write_text(path.read_text().replace('"auc": 0.8', f'"auc": {literal}'), encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.json: .*auc is (NaN where|inf, outside)"):
        read_results([path])


def test_rounding_is_no_fault(tmp_path):
    path = write_result(tmp_path / "a.json", scores=[score(auc=1 + 2**-52, high=1 + 2**-52)])
    assert read_result(path).scores[0].auc > 1


def test_an_explanation_is_of_tokens(tmp_path):
    path = write_result(tmp_path / "a.json", entry="explanation", scores=[score(level="token")], lines=[])
    assert read_results([path])[0].entry == "explanation"
    write_result(path, entry="explanation", lines=[])
    with pytest.raises(InputError, match="level is 'model', not 'token'"):
        read_results([path])
