"""What others enter: files and functions, good ones and faulty ones."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from attn_faithful._checks import InputError
from attn_faithful._seeds import generator_for
from attn_faithful.bench.entries import explained_by_file, function_of, measured_by_function, task_id, tasks
from attn_faithful.bench.explained import scores_of_explanations
from attn_faithful.bench.measuring import scores_of_tests
from attn_faithful.bench.submitting import Bench
from attn_faithful.bench_results import read_results
from attn_faithful.cli import main
from attn_faithful.records.bench import EVERY, MODEL, TEXT


def rows_of(frozen, scores_of):
    """A row a text: ``scores_of(model, text)`` gives its scores."""
    rows = []
    for model in frozen.manifest.models:
        for text in frozen.texts[model.data]:
            scores = scores_of(model, text)
            rows.append({"example": task_id(model, text.example), "scores": scores})
    return rows


def written(rows, path):
    pd.DataFrame(rows).to_json(path, orient="records", lines=True)
    return path


def over_all(scores):
    return next(score for score in scores if score.kind == EVERY and score.length == EVERY)


def random_scores(model, text):
    return generator_for("test", model.name, text.example).random(text.length).tolist()


def test_the_planted_truth_is_found_and_random_importance_is_not(small_set, tmp_path):
    truth = written(rows_of(small_set, lambda model, text: list(text.decisive)), tmp_path / "truth.jsonl")
    for score in scores_of_explanations(explained_by_file(small_set, truth), "truth"):
        assert score.auc == 1
        assert score.n_undefined == 0
    chance = written(rows_of(small_set, random_scores), tmp_path / "random.jsonl")
    score = over_all(scores_of_explanations(explained_by_file(small_set, chance), "random"))
    assert score.low < 0.5 < score.high
    assert score.high - score.low < 0.3


def test_missing_texts_and_nan_are_counted(small_set, tmp_path):
    rows = rows_of(small_set, random_scores)
    n = len(rows)
    rows[3]["scores"] = [math.nan, *rows[3]["scores"][1:]]
    path = written(rows[1:], tmp_path / "some.jsonl")
    unproven = sum(len(model.unproven) for model in small_set.manifest.models)
    score = over_all(scores_of_explanations(explained_by_file(small_set, path), "some"))
    assert score.reasons == {"nan in scores": 1, "no importance given": 1}
    assert score.n_explains == n - unproven - 2  # one decisive word a text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0]["scores"].pop(), "faithful-none-single-0/single-8-0"),
        (lambda rows: rows.append(rows[0]), "twice"),
        (lambda rows: rows.append({"example": "nobody/single-8-0", "scores": [1.0]}), "nobody/single-8-0"),
    ],
)
def test_faulty_files_are_refused_by_the_text(small_set, tmp_path, change, message):
    rows = rows_of(small_set, random_scores)
    change(rows)
    with pytest.raises(InputError, match=message):
        explained_by_file(small_set, written(rows, tmp_path / "faulty.jsonl"))


# tests as functions


def by_name(small_set, text_values):
    """A test that knows the kind of each model: it is called with the models in their order."""
    models = iter(small_set.manifest.models)

    def test(model, tokenizer, texts):
        return text_values(next(models), texts)

    return test


def test_a_test_that_knows_the_truth_has_auc_one_and_a_random_one_half(small_set, tmp_path):
    knows = by_name(small_set, lambda model, texts: [float(model.explains)] * len(texts))
    scores = scores_of_tests(measured_by_function(small_set, knows, "knows", tmp_path / "knows"))
    assert {score.auc for score in scores} == {1.0}
    guesses = by_name(small_set, lambda model, texts: generator_for("test", model.name).random(len(texts)).tolist())
    scores = scores_of_tests(measured_by_function(small_set, guesses, "guesses", tmp_path / "guesses"))
    of_texts = next(score for score in scores if (score.kind, score.level, score.length) == (EVERY, TEXT, EVERY))
    assert of_texts.low < 0.5 < of_texts.high


def test_nan_of_a_test_is_counted(small_set, tmp_path):
    test = by_name(small_set, lambda model, texts: [math.nan, *np.linspace(0, 1, len(texts) - 1)])
    scores = scores_of_tests(measured_by_function(small_set, test, "mine", tmp_path))
    of_texts = next(score for score in scores if (score.kind, score.level, score.length) == (EVERY, TEXT, EVERY))
    first = {model.name for model in small_set.manifest.models if "single-8-0" not in model.unproven}
    assert of_texts.n_undefined == len(first)
    of_models = next(score for score in scores if (score.kind, score.level) == (EVERY, MODEL))
    assert of_models.n_undefined == 0


def test_numbers_are_kept_until_the_code_changes(small_set, tmp_path, monkeypatch):
    module = tmp_path / "kept_test.py"
    module.write_text("calls = []\ndef mine(m, t, texts):\n    calls.append(1)\n    return [1.0] * len(texts)\n")
    monkeypatch.chdir(tmp_path)
    test = function_of("kept_test:mine")
    calls = test.__globals__["calls"]
    for _ in range(2):
        measured_by_function(small_set, test, "mine", tmp_path / "kept")
        assert len(calls) == len(small_set.manifest.models)
    module.write_text(module.read_text() + "\n# changed\n")
    measured_by_function(small_set, test, "mine", tmp_path / "kept")
    assert len(calls) == 2 * len(small_set.manifest.models)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('no')", r"failed on the model faithful-none-single-0 \(KeyError: 'no'\)"),
        ("return [1.0]", "a number for each of the 18 texts of faithful-none-single-0, but the test gave 1"),
        ("return ['a'] * len(texts)", "failed on the model faithful-none-single-0"),
    ],
)
def test_faulty_tests_are_named_with_the_model(small_set, tmp_path, body, message):
    scope = {}
    exec(f"def mine(m, t, texts):\n    {body}", scope)
    with pytest.raises(InputError, match=message):
        measured_by_function(small_set, scope["mine"], "mine", tmp_path)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("json", "module:function"),
        ("no_such_module:f", "cannot be imported"),
        ("json:no_such", "has no function 'no_such'"),
        ("json:__name__", "has no function"),
    ],
)
def test_addresses_of_tests_that_are_none(address, message):
    with pytest.raises(InputError, match=message):
        function_of(address)


# the command


def run(capsys, *flags):
    status = main(["bench", *map(str, flags)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_stranger_enters_a_file_and_a_function(small_set, tmp_path, capsys, monkeypatch):
    path = tmp_path / "mine.jsonl"
    rows = [{"example": task.example, "scores": [float(len(word)) for word in task.words]} for task in tasks(small_set)]
    written(rows, path)
    status, out, err = run(capsys, small_set.folder, "--source-file", path, "--output", tmp_path)
    assert (status, err) == (0, "")
    assert "Explanations by kind of model" in out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strangers.py").write_text(
        "from attn_faithful.bench.entries import attention_of\n\n"
        "def sure(model, tokenizer, texts):\n"
        "    return [weights.max() for weights in attention_of(model, tokenizer, texts)]\n"
    )
    status, out, err = run(capsys, small_set.folder, "--metric", "strangers:sure", "--output", tmp_path)
    assert status == 0, err
    assert "sure" in out
    place = tmp_path / "bench" / small_set.sha256[:8]
    results = read_results([place / "results"])
    assert [(result.name, result.entry, result.origin) for result in results] == [
        ("mine", "explanation", "mine.jsonl"),
        ("sure", "test", "strangers:sure"),
    ]
    page = (place / "leaderboard.html").read_text(encoding="utf-8")
    assert "strangers:sure" in page
    assert "takes a path around the attention" in page


def test_a_name_that_is_taken_is_refused_and_nothing_written(small_set, tmp_path):
    path = written(rows_of(small_set, random_scores), tmp_path / "mine.jsonl")
    bench = Bench(small_set, tmp_path / "bench")
    bench.write([bench.of_file(path, "mine")])
    other = written(rows_of(small_set, random_scores), tmp_path / "other.jsonl")
    before = json.loads((bench.results / "mine.json").read_text())
    with pytest.raises(InputError, match="choose another --name"):
        bench.write([bench.of_file(other, "mine")])
    assert json.loads((bench.results / "mine.json").read_text()) == before


def test_a_submission_in_which_nothing_is_defined_is_refused_and_nothing_written(small_set, tmp_path):
    nothing = written(rows_of(small_set, lambda model, text: [math.nan] * text.length), tmp_path / "nothing.jsonl")
    bench = Bench(small_set, tmp_path / "bench")
    with pytest.raises(InputError, match=r"nothing has no number that is defined \(no importance given\)"):
        bench.write([bench.of_file(nothing, "nothing")])
    assert not bench.results.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--source-file", "a.csv", "--metric", "m:f"], "one at a time"),
        (["--source-file", "no.csv"], "there is no file no.csv"),
        (["--metric", "m:f", "--no-twins"], "--no-twins is of the package's own tests"),
        (["--metric", "m:f", "--make-only"], "--make-only is of the package's own tests"),
        (["no/such/set"], "no folder"),
        (["--name", "../x"], "name"),
        (["--device", "gpu"], "gpu"),
    ],
)
def test_faulty_flags_are_one_sentence(capsys, flags, message, tmp_path):
    status, _, err = run(capsys, *flags, "--output", tmp_path)
    assert status == 2
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_a_result_that_is_undefined_on_a_set_is_left_out_and_named(small_set, tmp_path, capsys, monkeypatch):
    """No verdict on 18 texts; the tests themselves are left out here."""
    monkeypatch.setattr(Bench, "run_tests", lambda *args: [])
    of_tests = Bench(small_set, tmp_path).of_function("tests.bench.test_entries:length", "length")
    undefined = replace(of_tests, name="verdict", scores=[replace(score, auc=math.nan) for score in of_tests.scores])
    monkeypatch.setattr(Bench, "ours", lambda *args: [of_tests, undefined])
    status, out, err = run(capsys, small_set.folder, "--output", tmp_path, "--no-twins")
    assert status == 0
    assert "left out, since nothing of it is defined on this set: verdict." in err
    assert "Leaderboard: " in out


def length(model, tokenizer, texts):
    return [len(text.split()) for text in texts]
