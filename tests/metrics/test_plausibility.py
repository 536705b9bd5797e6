"""The module plausibility and its list form: numbers and refusals; metrics/test_modules.py has what all share."""

import math

import numpy as np
import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError
from attn_faithful.metrics.plausibility import COLUMNS, plausibility_of_lists
from tests.reference import eraser
from tests.reference import plausibility as reference

NAME = "plausibility"
FOLDER = hub._MODULES / NAME
nan = math.nan


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(cache), keep_in_memory=True)


def random_lists(seed, n=40):
    generator = np.random.default_rng(seed)
    importance, rationale = [], []
    for size in generator.integers(1, 20, n):
        importance.append((generator.integers(0, 9, size) / 8).tolist())
        rationale.append((generator.random(size) < generator.choice([0.2, 0.7])).astype(int).tolist())
    return importance, rationale


def expected(importance, rationale, share, threshold):
    """The eight numbers of one text."""
    n, m = len(importance), sum(rationale)
    content = [True] * n
    count = m if share is None else eraser.count(n, share)
    chosen = eraser.top(importance, content, count)
    selected = [t in chosen for t in range(n)]
    agreement = []
    for precision, recall, f1 in (
        reference.tokens(selected, rationale),
        reference.spans(selected, rationale, threshold),
    ):
        agreement += [f1, precision, recall]
    harmonic = sum(1 / k for k in range(1, n + 1))
    chance = 1.0 if n == 1 else ((m - 1) + (n - m) * harmonic / n) / (n - 1)
    value = reference.average_precision(importance, rationale, content)
    return [value, chance, *agreement]


@pytest.mark.parametrize(("share", "threshold"), [(None, 0.5), (0.2, 0.5), (0.5, 0.8), (1.0, 1.0)])
def test_numbers_equal_the_reference(share, threshold):
    importance, rationale = random_lists(0)
    each = plausibility_of_lists(importance, rationale, share, threshold, reduction="none")
    whole = plausibility_of_lists(importance, rationale, share, threshold)
    defined = [i for i, row in enumerate(rationale) if any(row)]
    rows = np.array([expected(importance[i], rationale[i], share, threshold) for i in defined])
    assert 20 < len(defined) < 40
    for name, column in zip(COLUMNS, rows.T, strict=True):
        assert [each[name][i] for i in defined] == pytest.approx(column.tolist(), abs=1e-10)
        assert whole[name] == pytest.approx(column.mean(), abs=1e-10)
        assert [i for i, value in enumerate(each[name]) if not math.isnan(value)] == defined
    assert [i for i, reason in enumerate(each["reason"]) if reason is None] == defined
    assert whole["std"] == pytest.approx(rows[:, 0].std(), abs=1e-10)
    assert whole["low"] < whole["auprc"] < whole["high"]
    assert (whole["n"], whole["reasons"]) == (len(defined), {"no rationale token": 40 - len(defined)})


def test_more_texts_than_one_block():
    importance, rationale = random_lists(1, n=600)
    each = plausibility_of_lists(importance, rationale, reduction="none")
    for start in range(0, 600, 150):
        part = slice(start, start + 150)
        found = plausibility_of_lists(importance[part], rationale[part], reduction="none")
        for name, values in found.items():
            assert values == (each[name][part] if name == "reason" else pytest.approx(each[name][part], nan_ok=True))


def test_undefined_examples_have_a_reason_and_stay_out_of_the_means():
    importance = [[0.3, 0.1], [], [nan, 0.2], [0.5, 0.1], [nan, nan]]
    rationale = [[1, 0], [], [1, 0], [0, 0], [0, 0]]
    each = plausibility_of_lists(importance, rationale, reduction="none")
    assert each["reason"] == [None, "no content token", "nan in scores", "no rationale token", "nan in scores"]
    for name in COLUMNS:
        assert np.isnan(each[name]).tolist() == [False, True, True, True, True]
    whole = plausibility_of_lists(importance, rationale)
    assert whole["auprc"] == whole["token_f1"] == whole["iou_f1"] == 1
    assert (whole["n"], whole["n_undefined"]) == (1, 4)
    assert whole["random_auprc"] == pytest.approx(0.75)
    assert whole["reasons"] == {"nan in scores": 2, "no content token": 1, "no rationale token": 1}
    nothing = plausibility_of_lists([], [])
    assert math.isnan(nothing["auprc"])
    assert (nothing["n"], nothing["reason"]) == (0, "no defined example")


def test_metric_by_path(metric):
    assert metric.name == NAME
    importance, rationale = random_lists(2)
    columns = {"predictions": importance, "references": rationale}
    for options in ({}, {"share": 0.5, "threshold": 1.0}):
        assert metric.compute(**columns, **options) == plausibility_of_lists(**columns, **options)
    assert metric.compute(**columns)["token_f1"] != metric.compute(**columns, share=0.5)["token_f1"]
    for x, y in zip(importance, rationale, strict=True):
        metric.add(prediction=x, reference=y)
    assert repr(metric.compute(reduction="none")) == repr(plausibility_of_lists(**columns, reduction="none"))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[0, 1], [1]], {}, "in example 1, but `predictions` has 2, `references` has 1"),
        ([[0, 1], [1, 2]], {}, "`references` of 0 and 1, but row 1 holds 2; importance goes into `predictions`"),
        ([[0, 1], [1, 0]], {"share": 1.5}, r"`shares` above 0 and at most 1, but got \(1\.5,\)"),
        ([[0, 1], [1, 0]], {"threshold": 0.2}, r"`threshold` of 0\.5 to 1, but got 0\.2"),
        ([[0, 1], [1, 0]], {"reduction": "means"}, r"Unknown reduction 'means'\. Did you mean 'mean'"),
    ],
)
def test_errors_are_clear(metric, rows, options, message):
    with pytest.raises(InputError, match=message):
        metric.compute(predictions=[[0.5, 0.5]] * 2, references=rows, **options)
