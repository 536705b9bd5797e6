"""Weights of heads against stacked least squares, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.learned_heads import FOLDS, STRENGTHS, fit_heads
from tests.reference import learned_heads as slow


def problem(seed: int, texts: int = 13, heads: int = 6, noise: float = 0.3):
    """Texts of 2 to 9 items, the attention of each head and importance that follows some of them."""
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=heads)
    found = []
    for _ in range(texts):
        items = int(generator.integers(2, 10))
        x = generator.dirichlet(np.ones(items), size=heads).T  # (T, F)
        level, spread = generator.normal(scale=5), generator.normal(size=items)
        found.append((x, x @ truth + level + noise * spread))
    return found


def fitted(texts):
    return fit_heads([torch.tensor(x) for x, _ in texts], [torch.tensor(y) for _, y in texts])


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(20))
def test_weights_equal_stacked_least_squares(seed, noise):
    texts = problem(seed, noise=noise)
    fit = fitted(texts)
    weights, strength, r_squared, tau = slow.fit(texts, STRENGTHS, FOLDS)
    assert fit.strength == strength
    np.testing.assert_allclose(fit.weights.numpy(), weights, rtol=1e-10, atol=1e-10)
    assert fit.r_squared == pytest.approx(r_squared, abs=1e-10)
    assert fit.tau == pytest.approx(tau, abs=1e-10)
    assert fit.texts == len(texts)


def test_noise_makes_the_ridge_stronger():
    assert fitted(problem(0, noise=0.0)).strength < fitted(problem(0, noise=3.0)).strength


def test_more_heads_than_items_have_weights():
    texts = problem(1, texts=5, heads=60)
    fit = fitted(texts)
    np.testing.assert_allclose(fit.weights.numpy(), slow.fit(texts, STRENGTHS, FOLDS)[0], rtol=1e-10, atol=1e-10)


def test_levels_and_sizes_of_importance_do_not_count():
    texts = problem(2)
    moved = [(x + 3 * i, 10.0 ** (i % 4) * y - 7 * i) for i, (x, y) in enumerate(texts)]
    np.testing.assert_allclose(fitted(moved).weights.numpy(), fitted(texts).weights.numpy(), atol=1e-9)


def test_texts_that_say_nothing_are_left_out():
    texts = problem(3)
    broken = (texts[0][0], np.full(len(texts[0][1]), np.nan))
    single = (texts[0][0][:1], texts[0][1][:1])
    empty = (texts[0][0][:0], texts[0][1][:0])
    fit, expected = fitted([broken, *texts, single, empty]), fitted(texts)
    assert fit.texts == len(texts)
    np.testing.assert_array_equal(fit.weights.numpy(), expected.weights.numpy())


def test_importance_without_order_has_no_tau():
    """What differs from item to item in one text alone cannot be foretold in the others."""
    texts = [(x, np.zeros(len(y))) for x, y in problem(4)]
    texts[0] = (texts[0][0], np.arange(len(texts[0][1]), dtype=float))
    fit = fitted(texts)
    weights = slow.ridge([text for i, text in enumerate(texts) if i % FOLDS], fit.strength)
    assert np.abs(weights).max() == 0  # those of the other parts: the mix is constant
    assert np.isnan(fit.tau)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (problem(5)[:4], "at least 5 texts of two items or more.* got 4"),
        ([(x, np.full(len(y), 0.1) + 1e-17) for x, y in problem(5)], "whose importance differs"),
        ([(x, 0.1 + 1e-12 * np.arange(len(y))) for x, y in problem(5)], "whose importance differs"),
        ([(np.ones_like(x), y) for x, y in problem(5)], "whose attention differs"),
    ],
)
def test_what_cannot_be_fitted_is_refused(texts, message):
    with pytest.raises(InputError, match=message):
        fitted(texts)
