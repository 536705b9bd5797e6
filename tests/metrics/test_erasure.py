"""The module erasure and its list form: numbers and refusals; metrics/test_modules.py has what all share."""

import copy
import math

import numpy as np
import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError
from attn_faithful.metrics.erasure import erasure_of_lists
from tests.reference import eraser as reference

NAME = "erasure"
FOLDER = hub._MODULES / NAME
nan = math.nan


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(cache), keep_in_memory=True)


def random_lists(seed, n=20, bins=5):
    generator = np.random.default_rng(seed)
    return generator.random((n, bins)).tolist(), generator.random(n).tolist(), generator.random((n, bins)).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_numbers_equal_the_reference(seed):
    predictions, references, sufficient = random_lists(seed)
    each = erasure_of_lists(predictions, references, sufficient, reduction="none")
    whole = erasure_of_lists(predictions, references, sufficient)
    for name, rows, key in (("comprehensiveness", predictions, "std"), ("sufficiency", sufficient, "sufficiency_std")):
        lost = [[p - other for other in row] for p, row in zip(references, rows, strict=True)]
        values = [reference.mean(row) for row in lost]
        assert each[name] == pytest.approx(values, abs=1e-10)
        assert whole[name] == pytest.approx(np.mean(values), abs=1e-10)
        assert whole[key] == pytest.approx(np.std(values), abs=1e-10)
        assert whole[f"{name}_by_share"] == pytest.approx(
            [reference.mean(column) for column in zip(*lost, strict=True)]
        )
        assert np.mean(whole[f"{name}_by_share"]) == pytest.approx(whole[name], abs=1e-10)
    assert whole["low"] < whole["comprehensiveness"] < whole["high"]
    assert whole["sufficiency_low"] < whole["sufficiency"] < whole["sufficiency_high"]
    assert (whole["n"], whole["n_undefined"], whole["reasons"], whole["reason"]) == (20, 0, {}, None)


def test_undefined_examples_have_a_reason_and_stay_out_of_the_means():
    predictions = [[], [0.5, 0.25], [0.5, nan], [0.5, 0.5], [0.5, 0.5]]
    sufficient = [[], [1.0, 0.5], [0.5, 0.5], [nan, 0.5], [0.5, 0.5]]
    columns = predictions, [0.5, 1.0, 0.5, 0.5, nan], sufficient
    given = copy.deepcopy(columns)
    each = erasure_of_lists(*columns, reduction="none")
    assert repr(columns) == repr(given)
    assert each["reason"] == ["no content token", None, *["nan in probabilities"] * 3]
    assert each["comprehensiveness"] == pytest.approx([nan, 0.625, nan, nan, nan], nan_ok=True)
    assert each["sufficiency"] == pytest.approx([nan, 0.25, nan, nan, nan], nan_ok=True)
    whole = erasure_of_lists(*columns)
    assert (whole["comprehensiveness"], whole["sufficiency"], whole["n"]) == (0.625, 0.25, 1)
    assert whole["reasons"] == {"nan in probabilities": 3, "no content token": 1}
    assert whole["comprehensiveness_by_share"] == [0.5, 0.75]
    assert math.isnan(whole["low"])


@pytest.mark.parametrize("n", [0, 2])
def test_no_defined_example(n):
    whole = erasure_of_lists([[]] * n, [0.5] * n, [[]] * n)
    assert math.isnan(whole["comprehensiveness"])
    assert math.isnan(whole["sufficiency"])
    assert (whole["n"], whole["n_undefined"], whole["reason"]) == (0, n, "no defined example")
    assert whole["comprehensiveness_by_share"] == whole["sufficiency_by_share"] == []


def test_metric_by_path(metric):
    assert metric.name == NAME
    predictions, references, sufficient = random_lists(5)
    predictions[3] = sufficient[3] = []
    columns = {"predictions": predictions, "references": references, "sufficient": sufficient}
    assert metric.compute(**columns) == erasure_of_lists(**columns)
    for row in zip(*columns.values(), strict=True):
        metric.add(prediction=row[0], reference=row[1], sufficient=row[2])
    assert repr(metric.compute(reduction="none")) == repr(erasure_of_lists(**columns, reduction="none"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"references": [0.5]}, "`predictions` has 2, `references` has 1"),
        ({"sufficient": [[0.5, 0.5], [0.5]]}, "in example 1, but `predictions` has 2, `sufficient` has 1"),
        ({"predictions": [[0.5] * 2, []]}, "in example 1, but `predictions` has 0, `sufficient` has 2"),
        ({"predictions": [[0.5] * 2, [0.5]], "sufficient": [[0.5] * 2, [0.5]]}, "rows of 2 shares.*row 1.*has 1"),
        ({"predictions": [[0.5] * 2, [0.5, 1.5]]}, r"`predictions` of probabilities.*row 1 holds 1\.5; .*target class"),
        ({"references": [0.5, -0.2]}, r"`references` of probabilities.*row 1 holds -0\.2"),
        ({"sufficient": [[7.0, 0.5], [0.5] * 2]}, "`sufficient` of probabilities.*row 0 holds 7"),
        ({"reduction": "means"}, r"Unknown reduction 'means'\. Did you mean 'mean'"),
    ],
)
def test_errors_are_clear(metric, change, message):
    given = {"predictions": [[0.5] * 2] * 2, "references": [0.5] * 2, "sufficient": [[0.5] * 2] * 2, **change}
    with pytest.raises(InputError, match=message):
        erasure_of_lists(**given)
    if len(given["references"]) == 2:  # evaluate refuses columns of other lengths itself
        with pytest.raises(InputError, match=message):
            metric.compute(**given)


def test_naopc_of_lists_is_the_definition():
    generator = np.random.default_rng(0)
    full, along, best, worst = [], [], [], []
    for n in (4, 2, 6, 1, 3, 0):
        p = np.sort(generator.random((3, max(0, n - 1))), axis=0)
        full.append(float(generator.random()))
        for rows, row in zip((best, along, worst), p, strict=True):
            rows.append(row.tolist())
    shares = [[0.5], [0.5], [0.5], [0.5], [0.5], []]
    columns = (shares, full, shares)
    each = erasure_of_lists(*columns, reduction="none", removals=(along, best, worst))
    for i, n in enumerate((4, 2, 6, 1, 3, 0)):
        if n < 2:
            assert math.isnan(each["naopc"][i])
            assert each["naopc_reason"][i] == ("one item" if n else "no content token")
            continue
        aopc, high, low = (np.mean(full[i] - np.array(rows[i])) for rows in (along, best, worst))
        assert each["naopc"][i] == pytest.approx((aopc - low) / (high - low), abs=1e-10)
    whole = erasure_of_lists(*columns, removals=(along, best, worst))
    assert whole["naopc"] == pytest.approx(np.nanmean(each["naopc"]), abs=1e-12)
    assert (whole["naopc_n"], whole["naopc_reasons"]) == (4, {"one item": 1, "no content token": 1})
    assert whole["naopc_low"] <= whole["naopc"] <= whole["naopc_high"]
    assert "naopc" not in erasure_of_lists(*columns)
    alike = erasure_of_lists(*columns, reduction="none", removals=(along, along, along))
    assert alike["naopc_reason"][0] == "all orders alike"
    with pytest.raises(InputError, match="between its limits"):
        erasure_of_lists(*columns, removals=(best, along, worst))
    with pytest.raises(InputError, match="removals"):
        erasure_of_lists(*columns, removals=(along[:2], best, worst))
