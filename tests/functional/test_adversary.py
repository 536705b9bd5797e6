"""The exact adversary of two classes: every vertex by loops, a grid, random feasible points, and the fixtures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import adversary_vertices
from attn_faithful.functional.adversary import decision_keeping_adversary, exact_adversary
from attn_faithful.functional.divergences import LN2, jsd
from tests.reference import adversary as slow

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
EXACT = 1e-10


def problem(n, seed, sparse=False, scale=2.0):
    generator = np.random.default_rng(seed)
    attention = generator.dirichlet(np.ones(n))
    if sparse:
        attention[generator.permutation(n)[: n // 2]] = 0
        attention /= attention.sum()
    return attention, scale * generator.standard_normal(n)


def solve(attention, margins, eps=0.05, k=1, solver=exact_adversary, **more):
    """One example, as tensors of one row."""
    weights, values = torch.tensor(np.array(attention))[None], torch.tensor(np.array(margins))[None]
    given = () if solver is decision_keeping_adversary else (eps,)
    return solver(weights, torch.ones_like(weights, dtype=torch.bool), values, *given, k=k, **more)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("eps", [0.0, 0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 15])
def test_the_best_vertex_by_loops(n, eps, sparse):
    for seed in range(8):
        attention, margins = problem(n, seed, sparse)
        if attention.sum() == 0:
            continue
        found = solve(attention, margins, eps)
        low, high = slow.limits(attention, margins, eps)
        if eps == 0:
            low = high = float(attention @ margins)
        assert float(found.jsd) == pytest.approx(slow.best_vertex(attention, margins, low, high), abs=EXACT)
        other = found.attention[0, 0].numpy()
        assert other.sum() == pytest.approx(1, abs=1e-12)
        assert (other >= 0).all()
        assert slow.change(attention, other, margins) <= eps + 1e-9
        assert float(jsd(found.attention[0, 0], torch.tensor(attention))) == pytest.approx(float(found.jsd), abs=EXACT)
        assert float(found.margin) == pytest.approx(float(other @ margins), abs=EXACT)


@pytest.mark.parametrize(("n", "steps"), [(2, 400), (3, 80), (4, 30)])
def test_no_point_of_a_grid_is_farther(n, steps):
    for seed in range(4):
        attention, margins = problem(n, seed)
        for eps in (0.05, 0.3):
            best = slow.best_on_grid(attention, lambda o: slow.change(attention, o, margins) <= eps, steps)  # noqa: B023
            found = float(solve(attention, margins, eps).jsd)
            assert best <= found + EXACT
            if eps == 0.3:
                assert best > found - 0.1  # the grid comes near, so the bound above is not idle


def test_no_random_feasible_point_is_farther():
    generator = np.random.default_rng(0)
    for seed in range(10):
        attention, margins = problem(8, seed)
        found = float(solve(attention, margins, 0.2).jsd)
        points = generator.dirichlet(np.full(8, 0.3), size=5000)
        p = 1 / (1 + np.exp(-points @ margins))
        kept = points[np.abs(p - 1 / (1 + np.exp(-attention @ margins))) <= 0.2]
        assert len(kept) > 100
        assert float(jsd(torch.tensor(kept), torch.tensor(attention)).max()) <= found + EXACT


def test_known_bounds():  # C08
    flat = solve([0.6, 0.3, 0.1], [1.0, 1.0, 1.0], 0.0)
    assert float(flat.jsd) == pytest.approx(0.525597, abs=1e-6)
    assert flat.attention[0, 0].tolist() == [0, 0, 1]
    uniform = solve([1 / 3] * 3, [5.0, 5.0, 5.0])
    assert float(uniform.jsd) == pytest.approx(0.318257, abs=1e-6)
    assert uniform.attention[0, 0].tolist() == [1, 0, 0]  # the lowest of equal places
    one = solve([1.0], [0.7])
    assert (float(one.jsd), float(one.reachable), one.attention.tolist()) == (0.0, 0.0, [[[1.0]]])


def test_saturated_predictions_bind_nothing():
    attention, margins = [0.7, 0.2, 0.1], [40.0, 30.0, 35.0]
    found = solve(attention, margins, 0.01)
    assert float(found.jsd) == pytest.approx(float(found.reachable), abs=EXACT)
    assert found.attention[0, 0].tolist() == [0, 0, 1]


def test_further_alternatives_share_no_token():
    attention, margins = problem(12, 3)
    found = solve(attention, margins, 0.1, k=4)
    supports = [set(np.flatnonzero(weights)) for weights in found.attention[0].numpy() if not np.isnan(weights).any()]
    assert len(supports) == int(found.found) >= 2
    for i, own in enumerate(supports):
        assert not any(own & other for other in supports[:i])
    values = found.jsd[0, : len(supports)].tolist()
    assert values == sorted(values, reverse=True)
    for weights in found.attention[0, : len(supports)].numpy():
        assert slow.change(attention, weights, margins) <= 0.1 + 1e-9


@pytest.mark.parametrize("eps", [0.02, 0.1, 0.5])
def test_each_further_alternative_is_the_best_on_the_tokens_that_are_left(eps):
    """By loops over what no earlier one holds, however little an earlier one holds of a token."""
    small = 0
    for seed in range(6):
        attention, margins = problem(9, seed)
        found = solve(attention, margins, eps, k=6)
        low, high = slow.limits(attention, margins, eps)
        left = set(range(9))
        for rank in range(6):
            best = slow.best_vertex(attention, margins, low, high, left)
            if math.isinf(best):
                assert bool(found.jsd[0, rank:].isnan().all())
                break
            weights = found.attention[0, rank].numpy()
            held = set(np.flatnonzero(weights).tolist())
            small += int(weights[list(held)].min() < 0.2)
            assert float(found.jsd[0, rank]) == pytest.approx(best, abs=EXACT)
            assert held <= left
            left -= held
    assert small or eps == 0.5


def test_where_there_are_no_more_the_rest_is_nan():
    found = solve([0.5, 0.5], [2.0, -2.0], 0.01, k=3)
    assert int(found.found) == 1
    assert found.jsd[0].isnan().tolist() == [False, True, True]
    assert bool(found.attention[0, 1:].isnan().all())


def test_keeping_the_decision():
    for seed in range(20):
        attention, margins = problem(6, seed)
        now = float(attention @ margins)
        low, high = (0.0, math.inf) if now > 0 else (-math.inf, 0.0)
        found = solve(attention, margins, solver=decision_keeping_adversary)
        assert float(found.jsd) == pytest.approx(slow.best_vertex(attention, margins, low, high), abs=EXACT)
        assert float(found.margin) * (1 if now > 0 else -1) >= -1e-9
        assert float(found.jsd) >= float(solve(attention, margins, 0.0).jsd) - EXACT


def test_padding_batch_mates_and_chunks_change_nothing(monkeypatch):
    problems = [problem(n, n) for n in (3, 9, 1, 6)]
    weights, values = torch.zeros(4, 14, dtype=torch.float64), torch.full((4, 14), 7.0, dtype=torch.float64)
    allowed = torch.zeros(4, 14, dtype=torch.bool)
    for row, (attention, margins) in enumerate(problems):
        places = torch.arange(len(attention)) + row  # padding on both sides
        weights[row, places], values[row, places] = torch.tensor(attention), torch.tensor(margins)
        allowed[row, places] = True
    all_gather = exact_adversary(weights, allowed, values, 0.05, k=2)
    monkeypatch.setattr(adversary_vertices, "_CELLS", 7)
    chunked = exact_adversary(weights, allowed, values, 0.05, k=2)
    for row, (attention, margins) in enumerate(problems):
        alone = solve(attention, margins, 0.05, k=2)
        for found in (all_gather, chunked):
            torch.testing.assert_close(found.jsd[row], alone.jsd[0], rtol=0, atol=1e-14, equal_nan=True)
            held = found.attention[row][:, allowed[row]]
            torch.testing.assert_close(held, alone.attention[0], rtol=0, atol=1e-14, equal_nan=True)


def test_undefined_examples_have_reasons():
    weights = torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.5, math.nan]], dtype=torch.float64)
    allowed = torch.tensor([[True, True], [False, False], [True, True]])
    found = exact_adversary(weights, allowed, torch.ones_like(weights), 0.01)
    assert found.reason == [None, "no content token", "nan in scores"]
    assert found.jsd[:, 0].isnan().tolist() == [False, True, True]
    assert found.reachable.isnan().tolist() == [False, True, True]
    assert found.found.tolist() == [1, 0, 0]


def test_long_texts():
    attention, margins = problem(700, 0)
    found = solve(attention, margins, 0.01)
    assert slow.change(attention, found.attention[0, 0].numpy(), margins) <= 0.01 + 1e-9
    assert 0.5 < float(found.jsd) <= LN2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eps": -0.1}, "`eps`"),
        ({"eps": 1.0}, "`eps`"),
        ({"k": 0}, "`k`"),
        ({"margins": torch.ones(1, 3)}, "`margins` of shape"),
        ({"allowed": torch.ones(1, 2)}, "to be bool"),
        ({"attention": torch.tensor([[0.5, 0.2]])}, "row 0 sums to 0.7"),
        ({"attention": torch.tensor([0.5, 0.5])}, "shape"),
    ],
)
def test_bad_input(given, message):
    usual = {
        "attention": torch.tensor([[0.5, 0.5]]),
        "allowed": torch.ones(1, 2, dtype=torch.bool),
        "margins": torch.ones(1, 2),
        "eps": 0.01,
    }
    with pytest.raises(InputError, match=message):
        exact_adversary(**{**usual, **given})


TWO_CLASSES = (
    "",
    "_lstm_dot",
    "_average_tanh",
    "_average_dot",
    "_cnn_tanh",
    "_edge_flat",
    "_edge_saturated",
    "_edge_eps",
)


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
@pytest.mark.parametrize("name", TWO_CLASSES, ids=lambda name: name or "_lstm_tanh")
def test_never_below_the_search_of_the_original(name):
    arrays = np.load(FIXTURES / f"jw_fixture{name}.npz")
    weight, bias = arrays["w.dec.linear_1.weight"][0], arrays["w.dec.linear_1.bias"][0]
    margins = torch.from_numpy(arrays["hidden"].astype(np.float64) @ weight + bias)
    attention, allowed = torch.from_numpy(arrays["attn"]).double(), torch.from_numpy(arrays["mask"]) == 0
    found = exact_adversary(attention, allowed, margins, eps=0.05)
    best = torch.from_numpy(arrays["adv_max_jsd"]).double()
    assert bool((found.jsd[:, 0] >= best - 1e-6).all())
    assert bool((found.jsd[:, 0] <= found.reachable + EXACT).all())
