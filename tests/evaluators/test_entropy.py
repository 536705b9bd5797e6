"""How concentrated attention and importance are, against loops, and when nothing can be said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.entropy import EntropySettings, run
from attn_faithful.evaluators.null_controls import CONTROLS, controlled
from tests.evaluators.blocks import random_block, values
from tests.reference import conicity as reference

METRICS = ("importance_entropy", "importance_support", "importance_gini")
SETTINGS = EntropySettings(of=["first"])
nan = math.nan


def loops(scores):
    """Normalized entropy, support and Gini of a list, from their definitions; None where there is no such number."""
    n, total = len(scores), sum(abs(s) for s in scores)
    if not total > 0:
        return None, None, None
    shares = [abs(s) / total for s in scores]
    normal = -sum(p * math.log(p) for p in shares if p > 0) / math.log(n) if n > 1 else None
    return normal, sum(p > 0 for p in shares), sum(abs(p - q) for p in shares for q in shares) / (2 * n)


def with_first(block, seed=0, low=-3):
    """A source of small integers, some of them 0."""
    generator = torch.Generator().manual_seed(seed)
    content = block.encoded.content
    drawn = torch.randint(low, 4, content.shape, generator=generator).double()
    return replace(block, sources={"first": drawn.masked_fill(~content, nan)})


@pytest.mark.parametrize("seed", range(3))
def test_values_equal_loops(seed):
    block = with_first(random_block((6, 1, 0, 9, 2), 3, seed), seed)
    content = block.encoded.content.clone()
    content[0, 0] = False  # a special token that holds mass
    block = replace(block, encoded=replace(block.encoded, content=content))
    found = run(block, SETTINGS)
    compared = 0
    for source, given in (("attention", block.encoded.attention[:, 0]), ("first", block.sources["first"])):
        columns = [values(found, metric, source) for metric in METRICS]
        for row, example in enumerate(block.example):
            for (column, reasons), expected in zip(columns, loops(given[row][content[row]].tolist()), strict=True):
                if expected is None:
                    assert math.isnan(column[example])
                    assert reasons[example] in ("no content token", "n<2", "no mass")
                else:
                    assert column[example] == pytest.approx(expected, abs=1e-10)
                    assert reasons[example] is None
                    compared += 1
    assert compared > 15


def test_c10_zeros_negatives_and_no_mass():
    rows = [[1, 0], [0.7, 0.2, 0.1], [0.25] * 4, [0.5, -0.5, 0], [0, 0, 0], [3], [], [1, nan]]
    block = random_block([len(row) for row in rows])
    given = torch.full(block.encoded.content.shape, nan, dtype=torch.float64)
    for i, row in enumerate(rows):
        given[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
    found = run(replace(block, sources={"first": given}), SETTINGS)
    entropies, why = values(found, "importance_entropy", "first")
    assert list(entropies.values()) == pytest.approx([0, 0.729847, 1, 0.630930] + [nan] * 4, abs=1e-6, nan_ok=True)
    assert math.copysign(1, entropies["e0"]) == 1  # never -0
    assert list(why.values()) == [None] * 4 + ["no mass", "n<2", "no content token", "nan in scores"]
    supports, why = values(found, "importance_support", "first")
    assert list(supports.values()) == pytest.approx([1, 3, 4, 2, nan, 1, nan, nan], nan_ok=True)
    assert list(why.values()) == [None] * 4 + ["no mass", None, "no content token", "nan in scores"]
    ginis, same = values(found, "importance_gini", "first")
    assert list(ginis.values()) == pytest.approx([1 / 2, 0.4, 0, 1 / 3, nan, 0, nan, nan], nan_ok=True)
    assert same == why


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_stands_in_attention_s_place_alone(name):
    assert EVALUATORS["entropy"].under_controls
    block = with_first(random_block((6, 4)))
    found = run(controlled(block, name), SETTINGS)
    assert set(found.scores["source"]) == {name}
    entropies, _ = values(found, "importance_entropy", name)
    own, _ = values(run(block, SETTINGS), "importance_entropy", "attention")
    assert entropies != own
    if name == "uniform":
        assert list(entropies.values()) == pytest.approx([1, 1], abs=1e-12)
        assert list(values(found, "importance_gini", name)[0].values()) == pytest.approx([0, 0], abs=1e-12)
        assert list(values(found, "importance_support", name)[0].values()) == [6, 4]


def test_several_slots_are_weighed_by_their_share_under_a_control_too():
    block = random_block((5,))
    encoded = block.encoded
    allowed = torch.zeros(1, 2, 6, dtype=torch.bool)
    allowed[0, 0, :2], allowed[0, 1, 2:5] = True, True
    attention = torch.tensor([[[0.9, 0.1, 0, 0, 0, 0], [0, 0, 0.5, 0.25, 0.25, 0]]], dtype=torch.float64)
    share = torch.tensor([0.8, 0.8, 0.2, 0.2, 0.2, 0.2], dtype=torch.float64)
    block = replace(
        block,
        encoded=replace(encoded, attention=attention, allowed=allowed, pooled=attention.sum(1) * share, affine=None),
    )
    rows = {"attention": [0.72, 0.08, 0.1, 0.05, 0.05], "uniform": [0.4, 0.4, 0.2 / 3, 0.2 / 3, 0.2 / 3]}
    for name, expected in rows.items():
        found = run(block if name == "attention" else controlled(block, name), EntropySettings(of=[]))
        for metric, value in zip(METRICS, loops(expected), strict=True):
            assert values(found, metric, name)[0]["e0"] == pytest.approx(value, abs=1e-10)


def test_settings():
    assert list(EVALUATORS["entropy"].sources(EntropySettings())) == ["saliency"]
    for wrong in (["saliency", "saliency"], ["attention"]):
        with pytest.raises(InputError, match="of must name different sources"):
            EntropySettings(of=wrong)


def test_zero_attention_is_counted():
    block = random_block((4, 2, 0), 2, 0, attention=[[0.5, 0.0, 0.5, 0.0], [0.3, 0.7]])
    found, reasons = values(run(block, EntropySettings(of=[])), "zero_attention")
    assert (found["e0"], found["e1"]) == (0.5, 0)
    assert reasons["e2"] == "no content token"


def test_conicity_of_the_states():
    block = random_block((6, 1, 0, 3, 4, 2))
    states = torch.randn(6, 7, 5, generator=torch.Generator().manual_seed(1))
    states[3, :3] = 0  # as behind a ReLU
    states[4, 0] = nan
    found = run(replace(block, encoded=replace(block.encoded, states=states)), EntropySettings(of=[]))
    column, reasons = values(found, "conicity")
    for row, example in ((0, "e0"), (5, "e5")):
        kept = states[row][block.encoded.content[row]].double().numpy()
        assert column[example] == pytest.approx(reference.conicity(kept), abs=1e-10)
    assert [math.isnan(value) for value in column.values()] == [False, True, True, True, True, False]
    zero = "states or their mean are 0"
    assert list(reasons.values()) == [None, "n<2", "no content token", zero, "nan in states", None]


def test_conicity_of_several_slots_is_their_mean():
    block = random_block((6, 5))
    states = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(1))
    allowed = torch.zeros(2, 2, 7, dtype=torch.bool)
    allowed[0, 0, :4], allowed[0, 1, 4:6] = True, True
    allowed[1, 1, :5] = True  # the other slot is empty
    content = block.encoded.content.clone()
    content[0, 0] = False  # a special token, whose state does not count
    encoded = replace(block.encoded, states=states, allowed=allowed, content=content, affine=None)
    column, _ = values(run(replace(block, encoded=encoded), EntropySettings(of=[])), "conicity")
    for row, example in enumerate(("e0", "e1")):
        slots = [states[row][kept & content[row]].double().numpy() for kept in allowed[row]]
        assert column[example] == pytest.approx(reference.mean_conicity(slots), abs=1e-10)


@pytest.mark.parametrize("name", CONTROLS)
def test_conicity_is_not_measured_again_under_a_control_nor_without_states(name):
    block = random_block((6, 4))
    assert "conicity" not in run(block, EntropySettings(of=[])).scores["metric"]
    with_states = replace(block, encoded=replace(block.encoded, states=torch.ones(2, 7, 5)))
    assert "conicity" in run(with_states, EntropySettings(of=[])).scores["metric"]
    assert "conicity" not in run(controlled(with_states, name), EntropySettings(of=[])).scores["metric"]
