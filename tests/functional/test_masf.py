"""MaSF against loops; its p-values are uniform on texts like the reference ones, and small elsewhere."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import masf as module
from attn_faithful.functional.masf import Masf
from tests.reference import masf as slow


def texts(n, seed, shift=0.0, widths=(3, 5)):
    """Activations of layers whose units depend on each other, with ties and a unit that never moves."""
    generator = np.random.default_rng(seed)
    common = generator.normal(size=(n, 1))
    layers = []
    for width in widths:
        values = np.round(common + generator.normal(size=(n, width)) + shift, 1)
        values[:, 0] = 1.0
        layers.append(torch.from_numpy(values))
    return layers


def of_text(layers, row):
    return [layer[row].tolist() for layer in layers]


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_p_values_equal_loops(monkeypatch, shift):
    monkeypatch.setattr(module, "LEAST", 9)
    first, second, asked = texts(11, 0), texts(9, 1), texts(6, 2, shift)
    found = Masf.of(first, second).p_values(asked)
    rows = [[of_text(half, row) for row in range(len(half[0]))] for half in (first, second)]
    for row, p in enumerate(found.tolist()):
        assert p == pytest.approx(slow.p_value(of_text(asked, row), *rows), abs=1e-10)
    assert len(set(found.tolist())) > 1


def test_p_values_are_valid():
    """At most a share x of texts like the reference ones has p <= x, over references, which are samples too."""
    at = (0.05, 0.2, 0.5, 0.8)
    shares = []
    for seed in range(0, 400, 10):
        masf = Masf.of(texts(100, seed), texts(100, seed + 1))
        same = masf.p_values(texts(200, seed + 2))
        shares.append([float((same <= x).double().mean()) for x in at])
    # a standard error of .008
    assert np.mean(shares, axis=0) == pytest.approx(at, abs=0.03)
    assert float((masf.p_values(texts(200, 3, shift=6.0)) < 0.05).double().mean()) > 0.9


def test_order_and_neighbours_change_nothing():
    first, second, asked = texts(60, 0), texts(70, 1), texts(30, 2)
    masf = Masf.of(first, second)
    found = masf.p_values(asked)
    turned = Masf.of([layer.flip(0) for layer in first], [layer.flip(0) for layer in second])
    assert torch.equal(found, turned.p_values(asked))
    alone = [masf.p_values([layer[row : row + 1] for layer in asked]) for row in range(30)]
    assert torch.equal(found, torch.cat(alone))


def test_what_is_not_finite():
    masf = Masf.of(texts(60, 0), texts(60, 1))
    asked = texts(3, 2)
    asked[1][0, 2] = -math.inf
    asked[0][2, 1] = math.nan
    found = masf.p_values(asked)
    assert found.isnan().tolist() == [True, False, True]
    with pytest.raises(InputError, match="Expected finite activations"):
        Masf.of(texts(60, 0), [torch.full_like(layer, math.nan) for layer in texts(60, 1)])


@pytest.mark.parametrize(("first", "second"), [(49, 60), (60, 49)])
def test_few_texts_are_refused(first, second):
    with pytest.raises(InputError, match=r"at least 50 texts in each half, but got 49"):
        Masf.of(texts(first, 0), texts(second, 1))


def test_other_layers_are_refused():
    for second in (texts(60, 1, widths=(3,)), []):
        with pytest.raises(InputError, match="Expected the same layers"):
            Masf.of(texts(60, 0), second)
