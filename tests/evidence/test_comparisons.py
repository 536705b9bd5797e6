"""Rankings compared on the same texts."""

from types import SimpleNamespace

import numpy as np
import pytest
from evidence.comparisons import comparisons, removed

FRACTIONS = {"attention": [0.5, 0.25, np.nan, np.nan], "attention_x_gradient": [0.25, 0.25, 0.5, np.nan]}
NEVER = {"attention": [0, 0, 1, np.nan], "attention_x_gradient": [0, 0, 0, np.nan]}


def run():
    scores = {"decision_flip": FRACTIONS, "flip_never": NEVER}
    return SimpleNamespace(
        sources=lambda metric: list(scores[metric]), scores=lambda metric, source: scores[metric][source]
    )


def test_a_ranking_that_never_flips_removes_everything():
    assert removed(run(), "attention").tolist() == [0.5, 0.25, 1.0, pytest.approx(np.nan, nan_ok=True)]


def test_pairs_are_of_the_same_texts():
    found = {number.metric: number for number in comparisons(run())}
    assert {number.source for number in found.values()} == {"attention_x_gradient~attention"}
    assert found["flip_fraction_difference"].value == pytest.approx((-0.25 + 0 - 0.5) / 3)
    assert found["flips_sooner"].value == pytest.approx(2 / 3)
    assert found["flips_later"].value == 0
    assert (found["flips_later"].n, found["flips_later"].n_undefined) == (3, 1)
