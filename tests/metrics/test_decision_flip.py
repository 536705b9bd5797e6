"""The module decision_flip: its numbers and what it refuses; metrics/test_modules.py has what all share."""

import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError
from attn_faithful.metrics import decision_flip as flip_lists

NAME = "decision_flip"
FOLDER = hub._MODULES / NAME
COLUMNS = {
    "predictions": [[3.0, 2.0, 1.0], [1.0, 2.0], [1.0], []],
    "references": [[0.5, 0.3, 0.2], [0.7, 0.3], [1.0], []],
    "token_logits": [[[0.0, 1.0], [0.0, 4.0], [3.0, 0.0]], [[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0]], []],
    "biases": [[0.0, 0.0], [0.0, 0.0, 0.1], [0.0, 0.0], [0.0, 0.0]],
}


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(cache))


def test_metric_by_path(metric):
    assert metric.name == NAME
    result = metric.compute(**COLUMNS)
    assert list(result) == list(flip_lists.decision_flip_of_lists(*COLUMNS.values()))
    assert result["decision_flip"] == pytest.approx((2 / 3 + 1) / 2)
    assert result["smallest"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (result["mass"], result["ratio"], result["optimal"]) == pytest.approx((0.9, 2, 0))
    assert (result["core_size"], result["core_share"], result["core_is_top"]) == pytest.approx((1, 5 / 12, 0.5))
    assert (result["n"], result["n_undefined"]) == (2, 2)
    assert result["reasons"] == {"no content token": 1, "one item": 1}


def test_errors_are_clear(cache):
    import evaluate

    metric = evaluate.load(str(FOLDER), cache_dir=str(cache), keep_in_memory=True)
    with pytest.raises(InputError, match=r"`token_logits\[0\]\[0\]` has 2, `biases\[0\]` has 3"):
        metric.compute(**{**COLUMNS, "biases": [[0.0, 0.0, 0.0]] * 4})
