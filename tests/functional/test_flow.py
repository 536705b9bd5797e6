"""Maximum flows against Edmonds and Karp's algorithm in plain Python, and what can be said of them by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.flow import attention_flow
from attn_faithful.functional.rollout import with_residual
from tests.functional.test_rollout import one, stack
from tests.reference import rollout as slow

EXACT = 1e-10


def flows(layers: torch.Tensor, start: torch.Tensor) -> list[float]:
    size = layers.shape[-1]
    return attention_flow(layers[None], start, torch.ones(1, size, dtype=torch.bool))[0].tolist()


def networks() -> dict[str, torch.Tensor]:
    causal = stack(4, 1, 7, seed=3, sharp=3.0)[:, 0].tril()
    sparse = stack(3, 1, 6, seed=4, sharp=4.0)[:, 0]
    sparse = torch.where(sparse > 0.1, sparse, 0.0)
    near = stack(4, 1, 8, seed=5)[:, 0].triu(-1).tril(1)
    return {
        "dense": stack(3, 1, 6)[:, 0],
        "sharp": stack(5, 1, 5, seed=2, sharp=12.0)[:, 0],
        "one layer": stack(1, 1, 5)[:, 0],
        "causal": causal / causal.sum(-1, keepdim=True),
        "sparse": sparse,
        "near": near / near.sum(-1, keepdim=True),
        "one token": torch.ones(3, 1, 1, dtype=torch.float64),
    }


@pytest.mark.parametrize("name", networks())
def test_flows_equal_the_slow_ones(name):
    layers = networks()[name]
    size = layers.shape[-1]
    even = torch.full((1, size), 1 / size, dtype=torch.float64)
    for start in (one(0, size), one(size - 1, size), even):
        expected = [slow.flow(layers.numpy(), start[0].numpy(), j) for j in range(size)]
        assert flows(layers, start) == pytest.approx(expected, abs=EXACT)


def test_middle_layers_can_be_the_narrow_place():
    """From 2 straight down; what 1 gets has to turn in the layer between, whose way there is narrow."""
    eye = torch.eye(2, dtype=torch.float64)
    turn = torch.tensor([[1.0, 0.0], [0.1, 0.9]], dtype=torch.float64)
    assert flows(torch.stack([eye, turn, eye]), one(1, 2)) == pytest.approx([0.05, 0.95], abs=EXACT)


def test_of_one_layer_the_flow_is_the_capacity():
    layers = networks()["one layer"]
    assert flows(layers, one(2, 5)) == pytest.approx(with_residual(layers)[0, 2].tolist(), abs=EXACT)


def test_no_flow_is_larger_than_what_leaves_the_source_or_enters_the_token():
    for layers in networks().values():
        size = layers.shape[-1]
        entering = with_residual(layers)[0].sum(0)
        for value, room in zip(flows(layers, one(0, size)), entering.tolist(), strict=True):
            assert 0 <= value <= min(1.0, room) + 1e-12


def test_where_two_cuts_are_alike_the_value_is_that_of_either():
    """All weights alike: the source, the sink and every layer between are cuts of 1, up to the last bit."""
    layers = torch.full((4, 6, 6), 1 / 6, dtype=torch.float64)
    assert flows(layers, one(0, 6)) == pytest.approx([1.0] * 6, abs=EXACT)


def test_padding_mates_and_rows_that_nothing_reaches_change_nothing():
    layers = networks()["dense"]
    wide = torch.zeros(2, 3, 9, 9, dtype=torch.float64)
    wide[0, :, 2:8, 2:8] = layers
    wide[0, :, 8, 2:8] = 1 / 6
    wide[1] = stack(3, 1, 9, seed=9)[:, 0]
    sinks = torch.zeros(2, 9, dtype=torch.bool)
    sinks[0, 3:8], sinks[1, 0] = True, True
    found = attention_flow(wide, torch.cat([one(2, 9), one(0, 9)]), sinks)
    assert found.dtype == torch.float64
    assert torch.equal(found.isnan(), ~sinks)
    assert found[0, 3:8].tolist() == pytest.approx(flows(layers, one(0, 6))[1:], abs=EXACT)
    assert float(found[1, 0]) == pytest.approx(flows(wide[1], one(0, 9))[0], abs=EXACT)


def test_what_cannot_be_reached_gets_nothing():
    causal = networks()["causal"]
    assert flows(causal, one(2, 7))[3:] == [0.0] * 4
    assert math.isfinite(sum(flows(causal, one(2, 7))))


def test_inputs_stay_as_they_are():
    layers, start, sinks = stack(2, 1, 4)[None, :, 0].float(), one(0, 4).float(), torch.ones(1, 4, dtype=torch.bool)
    before = layers.clone()
    found = attention_flow(layers, start, sinks)
    assert torch.equal(layers, before)
    np.testing.assert_allclose(
        found.numpy(), attention_flow(layers.double(), start.double(), sinks), rtol=0, atol=EXACT
    )


def test_bad_input():
    ones = torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match=r"`attention` of shape \(B, L, T, T\), but got \(3, 3\)"):
        attention_flow(torch.zeros(3, 3), torch.zeros(1, 3), ones)
    with pytest.raises(InputError, match=r"`sinks` \(B, T\), but got \(1, 2, 3, 3\), \(1, 4\) and \(1, 3\)"):
        attention_flow(torch.zeros(1, 2, 3, 3), torch.zeros(1, 4), ones)
    with pytest.raises(InputError, match="bool `sinks`"):
        attention_flow(torch.zeros(1, 2, 3, 3), torch.zeros(1, 3), ones.double())
