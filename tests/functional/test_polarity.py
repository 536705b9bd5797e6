"""Polarity against probabilities, where these tell anything, and where they do not."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.polarity import first_support, log_odds, polarity_violation
from tests.reference import polarity as slow


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_as_probabilities_have_it(classes):
    generator = torch.Generator().manual_seed(classes)
    before = torch.randn(200, classes, generator=generator, dtype=torch.float64)
    after = torch.randn(200, 4, classes, generator=generator, dtype=torch.float64)
    decision = before.argmax(1)
    found = polarity_violation(before, after, decision)
    for row in range(200):
        for k in range(4):
            expected = slow.violated(before[row].numpy(), after[row, k].numpy(), int(decision[row]))
            assert found[row, k] == expected


def test_a_sure_model_has_a_polarity_too():
    # both probabilities are 1 in float64
    before = torch.tensor([[0.0, 60.0]])
    after = torch.tensor([[[0.0, 50.0], [0.0, 70.0]]])
    assert polarity_violation(before, after, torch.tensor([1])).tolist() == [[0.0, 1.0]]


def test_rounding_is_no_support():
    before = torch.tensor([[0.0, 8.0]], dtype=torch.float64)
    after = torch.tensor([[[0.0, 8.0 - 1e-9], [0.0, 8.0 - 1e-3]]], dtype=torch.float64)
    assert polarity_violation(before, after, torch.tensor([1])).tolist() == [[1.0, 0.0]]


def test_a_class_that_never_counts_changes_nothing():
    before, after = torch.tensor([[0.3, 1.0]]), torch.tensor([[[0.3, 0.5]]])
    never = torch.full((1, 1), -math.inf)
    with_never = polarity_violation(
        torch.cat([before, never], 1), torch.cat([after, never[:, None]], 2), torch.tensor([1])
    )
    assert torch.equal(with_never, polarity_violation(before, after, torch.tensor([1])))


def test_undefined():
    before = torch.tensor([[0.0, 1.0], [math.nan, 1.0], [-math.inf, 1.0]])
    after = torch.tensor([[[0.0, math.nan]], [[0.0, 1.0]], [[-math.inf, 1.0]]])
    assert polarity_violation(before, after, torch.tensor([1, 1, 1])).isnan().all()


def test_log_odds_are_those_of_the_probability():
    logits = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = logits.softmax(-1)[:, :, 2]
    torch.testing.assert_close(log_odds(logits, torch.tensor([2, 2, 2])), (p / (1 - p)).log(), atol=1e-10, rtol=0)


def test_first_support():
    rng = np.random.default_rng(0)
    importance = rng.integers(-2, 3, size=(50, 6)).astype(float)
    importance[rng.random(importance.shape) < 0.2] = np.nan
    place, is_support = first_support(torch.from_numpy(importance), torch.ones(50, 6, dtype=torch.bool))
    for row in range(50):
        expected, positive = slow.first(importance[row])
        assert bool(is_support[row]) == positive
        if positive:
            assert int(place[row]) == expected


def test_no_position_at_all():
    place, is_support = first_support(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool))
    assert place.tolist() == [0, 0]
    assert not is_support.any()


def test_shapes_are_told():
    with pytest.raises(InputError, match=r"after\[:, None\]"):
        polarity_violation(torch.zeros(2, 3), torch.zeros(2, 3), torch.tensor([0, 0]))
