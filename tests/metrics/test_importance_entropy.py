"""The module importance_entropy and its list form: numbers and refusals; metrics/test_modules.py has what all share."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

import attn_faithful.hub as hub
from attn_faithful._checks import InputError
from attn_faithful.metrics.importance_entropy import importance_entropy_of_lists

NAME = "importance_entropy"
FOLDER = hub._MODULES / NAME
NAMES = ("importance_entropy", "entropy", "support_size", "gini")
nan = math.nan


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(cache), keep_in_memory=True)


def random_lists(seed, n=40):
    generator = np.random.default_rng(seed)
    rows = [generator.standard_normal(size) for size in generator.integers(1, 20, n)]
    return [np.where(np.abs(row) < 0.3, 0, row).tolist() for row in rows]


@pytest.mark.parametrize("seed", range(3))
def test_numbers_equal_loops(seed):
    rows = random_lists(seed)
    each, whole = (importance_entropy_of_lists(rows, reduction) for reduction in ("none", "mean"))
    expected = {name: [] for name in NAMES}
    for row in rows:
        n, mass = len(row), sum(abs(s) for s in row)
        p = [abs(s) / mass for s in row] if mass else [nan] * n
        expected["entropy"].append(stats.entropy(p))
        expected["importance_entropy"].append(stats.entropy(p) / math.log(n) if n > 1 else nan)
        expected["support_size"].append(sum(x > 0 for x in p) if mass else nan)
        differences = [abs(a - b) for a, b in product(p, p)]
        expected["gini"].append(sum(differences) / (2 * n))
    for name in NAMES:
        assert each[name] == pytest.approx(expected[name], abs=1e-10, nan_ok=True)
        assert whole[name] == pytest.approx(np.nanmean(expected[name]), abs=1e-10)
    assert whole["std"] == pytest.approx(np.nanstd(expected["importance_entropy"]), abs=1e-10)
    assert whole["low"] < whole["importance_entropy"] < whole["high"]
    assert whole["n"] + whole["n_undefined"] == 40
    assert whole["n_mass"] == int((~np.isnan(expected["entropy"])).sum()) > whole["n"] > 20


def test_c10_and_what_is_undefined():
    rows = [[1, 0], [0.7, 0.2, 0.1], [0.25] * 4, [0.5, -0.5, 0], [0, 0, 0], [0.3], [], [nan, 1.0], [0.0]]
    each = importance_entropy_of_lists(rows, reduction="none")
    undefined = ["no mass", "n<2", "no content token", "nan in scores", "no mass"]
    assert each["reason"] == [None] * 4 + undefined
    assert each["reason_mass"] == [None] * 4 + [None if reason == "n<2" else reason for reason in undefined]
    found = each["importance_entropy"]
    assert found == pytest.approx([0, 0.729847, 1, 0.630930] + [nan] * 5, abs=1e-6, nan_ok=True)
    assert each["entropy"][5] == each["gini"][5] == 0
    assert each["support_size"][5] == 1
    assert all(math.copysign(1, values[0]) == 1 for values in (found, each["entropy"]))  # never -0
    whole = importance_entropy_of_lists(rows)
    assert (whole["n"], whole["n_undefined"], whole["n_mass"]) == (4, 5, 5)
    assert whole["reasons"] == {"n<2": 1, "nan in scores": 1, "no content token": 1, "no mass": 2}


def test_one_token_has_an_entropy_but_no_share_of_its_largest():
    whole = importance_entropy_of_lists([[2.0]])
    assert math.isnan(whole["importance_entropy"])
    assert (whole["entropy"], whole["support_size"], whole["gini"]) == (0, 1, 0)
    assert (whole["reason"], whole["reason_mass"]) == ("no defined example", None)
    nothing = importance_entropy_of_lists([])
    assert (nothing["reason"], nothing["reason_mass"]) == ("no defined example", "no defined example")


def test_more_texts_than_one_block():
    rows = random_lists(5, n=600)
    each = importance_entropy_of_lists(rows, reduction="none")
    alone = [importance_entropy_of_lists([row], reduction="none") for row in rows]
    for name, values in each.items():
        of_one = [one[name][0] for one in alone]
        assert values == (of_one if "reason" in name else pytest.approx(of_one, abs=1e-12, nan_ok=True))


def test_metric_by_path(metric):
    assert metric.name == NAME
    rows = random_lists(1)
    assert metric.compute(predictions=rows) == importance_entropy_of_lists(rows)
    for row in rows:
        metric.add(prediction=row)
    assert repr(metric.compute(reduction="none")) == repr(importance_entropy_of_lists(rows, reduction="none"))


def test_errors_are_clear(metric):
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        metric.compute(predictions=[[0.5]], reduction="means")
