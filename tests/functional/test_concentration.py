"""Concentration against scipy and loops, and the values of case C10."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from attn_faithful._checks import InputError
from attn_faithful.functional.concentration import distribution, entropy, gini, normalized_entropy, support_size

EXACT = 1e-10


def row(values):
    scores = torch.tensor([values], dtype=torch.float64)
    return scores, torch.ones_like(scores, dtype=torch.bool)


@pytest.mark.parametrize(
    ("values", "nats", "share"),
    [
        ([1, 0], 0.0, 0.0),
        ([0.7, 0.2, 0.1], 0.801819, 0.729847),
        ([0.25] * 4, 1.386294, 1.0),
        ([0.5, -0.5, 0], 0.693147, 0.630930),
    ],
)
def test_c10(values, nats, share):
    shares, reasons = distribution(*row(values))
    assert reasons == [None]
    assert float(entropy(shares)) == pytest.approx(nats, abs=1e-6)
    assert math.copysign(1, float(entropy(shares))) == 1  # never -0
    assert float(normalized_entropy(shares, row(values)[1])[0]) == pytest.approx(share, abs=1e-6)


def test_c10_undefined():
    shares, reasons = distribution(*row([0.0, 0.0, 0.0]))
    assert reasons == ["no mass"]
    assert bool(shares.isnan().all())
    assert math.isnan(float(entropy(shares)))
    assert math.isnan(float(support_size(shares)))
    assert math.isnan(float(gini(shares, torch.ones(1, 3, dtype=torch.bool))))
    assert distribution(*row([math.nan, 1.0]))[1] == ["nan in scores"]
    assert distribution(torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool))[1] == ["no content token"]
    value, reasons = normalized_entropy(torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert math.isnan(float(value))
    assert reasons == ["n<2"]


def test_against_scipy_and_loops_whatever_the_padding():
    generator = np.random.default_rng(0)
    lengths = [2, 9, 5, 30]
    scores = torch.full((4, 33), math.nan, dtype=torch.float64)
    allowed = torch.zeros(4, 33, dtype=torch.bool)
    for i, n in enumerate(lengths):
        scores[i, i : i + n] = torch.from_numpy(generator.standard_normal(n))
        allowed[i, i : i + n] = True
    shares, reasons = distribution(scores, allowed)
    assert reasons == [None] * 4
    normal, _ = normalized_entropy(shares, allowed)
    for i, n in enumerate(lengths):
        p = shares[i, allowed[i]].numpy()
        assert p.sum() == pytest.approx(1, abs=EXACT)
        assert float(entropy(shares)[i]) == pytest.approx(stats.entropy(p), abs=EXACT)
        assert float(normal[i]) == pytest.approx(stats.entropy(p) / math.log(n), abs=EXACT)
        differences = np.abs(p[:, None] - p)  # (n, n)
        expected_gini = differences.sum() / (2 * n)
        assert float(gini(shares, allowed)[i]) == pytest.approx(expected_gini, abs=EXACT)
        assert float(support_size(shares)[i]) == n


def test_range():
    uniform, one = row([0.2] * 5), row([0, 0, 1.0, 0, 0])
    assert float(gini(*uniform)) == pytest.approx(0, abs=EXACT)
    assert float(gini(*one)) == pytest.approx(0.8)
    assert float(support_size(one[0])) == 1
    assert float(entropy(one[0])) == 0


def test_bad_input():
    with pytest.raises(InputError, match="bool `allowed`"):
        distribution(torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(InputError, match="same shape"):
        distribution(torch.ones(1, 2), torch.ones(1, 3, dtype=torch.bool))


def test_entropy_is_over_what_is_allowed():
    """Outside stands whatever it may, as in rows that are padded; within, NaN makes the row undefined."""
    allowed = torch.tensor([[True, True, False], [True, True, False]])
    shares = torch.tensor([[0.5, 0.5, math.nan], [math.nan, 1.0, 0.0]])
    assert normalized_entropy(shares[:1], allowed[:1])[0].tolist() == [1.0]
    assert normalized_entropy(shares[1:], allowed[1:])[0].isnan().all()
    value, reasons = normalized_entropy(torch.full((1, 3), math.nan), torch.zeros(1, 3, dtype=torch.bool))
    assert value.isnan().all()
    assert reasons == ["no content token"]
