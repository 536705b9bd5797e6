"""Rollout and relevance against whole matrices multiplied in loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.rollout import HEADS, over_heads, positive_part, relevance, rollout, with_residual
from tests.reference import rollout as slow

EXACT = {"rtol": 0, "atol": 1e-10}


def stack(depth: int, heads: int, size: int, seed: int = 0, sharp: float = 2.0) -> torch.Tensor:
    """Attention (L, H, T, T) in float64."""
    generator = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(depth, heads, size, size, generator=generator, dtype=torch.float64)).softmax(-1)


def one(place: int, size: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor([place]), size).double()


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("depth", "size"), [(1, 4), (3, 5), (6, 1), (2, 9)])
def test_rollout_equals_the_product_of_whole_matrices(depth, size, heads):
    layers = stack(depth, 3, size)
    single = over_heads(layers, heads)
    np.testing.assert_allclose(single.numpy(), [slow.merged(layer, heads) for layer in layers.numpy()], **EXACT)
    whole = slow.rollout(single.numpy())
    for place in range(size):
        found = rollout(single[None], one(place, size))[0]
        np.testing.assert_allclose(found.numpy(), whole[place], **EXACT)
        assert float(found.sum()) == pytest.approx(1, abs=1e-10)
    even = rollout(single[None], torch.full((1, size), 1 / size, dtype=torch.float64))[0]
    np.testing.assert_allclose(even.numpy(), whole.mean(0), **EXACT)


def test_by_hand():
    """From 1: it keeps 3/4 of itself in either layer, and 2 keeps itself: (3/4)^2, and the rest."""
    layer = torch.tensor([[0.5, 0.5], [0.0, 1.0]], dtype=torch.float64)
    found = rollout(torch.stack([layer, layer])[None], one(0, 2))
    torch.testing.assert_close(found, torch.tensor([[9 / 16, 7 / 16]], dtype=torch.float64), **EXACT)


def test_rows_of_nothing_stay_where_they_are():
    mixed = with_residual(torch.tensor([[0.0, 0.0], [0.2, 0.2]]))
    torch.testing.assert_close(mixed[0], torch.tensor([1.0, 0.0], dtype=torch.float64), **EXACT)
    torch.testing.assert_close(
        mixed[1], torch.tensor([1.0, 6.0], dtype=torch.float64) / 7, rtol=0, atol=1e-7
    )  # float32


def test_a_text_is_alone_whatever_its_padding_and_its_mates():
    layers = stack(3, 1, 5)[:, 0]
    wide = torch.zeros(2, 3, 8, 8, dtype=torch.float64)
    wide[0, :, 1:6, 1:6] = layers
    wide[1] = stack(3, 1, 8, seed=1)[:, 0]
    wide[0, :, 6:, 1:6] = 0.2  # rows of padding attend to the text, and nothing attends to them
    start = torch.cat([one(1, 8), one(3, 8)])
    found = rollout(wide, start)
    torch.testing.assert_close(found[0, 1:6], rollout(layers[None], one(0, 5))[0], **EXACT)
    assert bool((found[0, [0, 6, 7]] == 0).all())


@pytest.mark.parametrize(("depth", "size"), [(1, 4), (3, 5), (4, 1)])
def test_relevance_equals_the_whole_matrix(depth, size):
    attention = stack(depth, 3, size)
    gradient = torch.randn(attention.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    whole = slow.relevance(attention.numpy(), gradient.numpy())
    steps = positive_part(attention, gradient)[None]
    for place in range(size):
        found = relevance(steps, one(place, size))[0]
        np.testing.assert_allclose(found.numpy(), whole[place], **EXACT)
        assert float(found[place]) >= 1, "the identity's"
    assert bool((steps >= 0).all())


def test_inputs_stay_and_single_precision_is_summed_in_double():
    layers, start = stack(3, 2, 5).float(), one(0, 5).float()
    before = layers.clone()
    found = rollout(over_heads(layers)[None], start)
    assert found.dtype == torch.float64
    assert torch.equal(layers, before)
    exact = slow.rollout(layers.mean(1).double().numpy())[0]
    np.testing.assert_allclose(found[0].numpy(), exact, rtol=0, atol=1e-10)


def test_bad_input():
    with pytest.raises(InputError, match=r"Unknown heads 'median'\. Did you mean 'mean'"):
        over_heads(torch.zeros(2, 3, 3), "median")
    with pytest.raises(InputError, match=r"`attention` of shape \(\.\.\., T, T\), but got \(2, 3\)"):
        with_residual(torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"`attention` of shape \(B, L, T, T\), but got \(2, 3, 3\)"):
        rollout(torch.zeros(2, 3, 3), torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"`start` \(B, T\), but got \(1, 2, 3, 3\) and \(1, 4\)"):
        relevance(torch.zeros(1, 2, 3, 3), torch.zeros(1, 4))
    with pytest.raises(InputError, match=r"of one shape, but got \(2, 3, 3\) and \(3, 3\)"):
        positive_part(torch.zeros(2, 3, 3), torch.zeros(3, 3))
