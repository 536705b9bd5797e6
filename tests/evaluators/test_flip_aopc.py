"""AOPC of rankings by removal between its limits: against all subsets, and when nothing can be said."""

import math
from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.flip_case import FlipCase
from attn_faithful.evaluators.flip_metrics import REMOVAL_AOPC
from attn_faithful.evaluators.flips import FlipSettings, run
from attn_faithful.functional.projections import sparsemax
from tests.evaluators.blocks import keeping, random_block, values
from tests.reference import aopc_limits as reference

LENGTHS = (6, 1, 0, 9, 2)
SETTINGS = FlipSettings(rankings=["attention", "first"], random=3)
NAMES = [metric.name for metric in REMOVAL_AOPC.all]


def sourced(block, seed=0):
    """The block with a source of importance."""
    generator = torch.Generator().manual_seed(seed)
    return replace(block, sources={"first": torch.randn(block.items[:, 0].shape, generator=generator).double()})


def slow_sets(block, row):
    """p of the decision for every set of a text's items."""
    held = block.items[row, 0]
    affine = block.encoded.affine
    readout = affine.token_logits[row, held].numpy(), affine.bias[row].numpy()
    weights = block.encoded.attention[row, 0, held].numpy()
    every = reference.kept_probabilities(weights, *readout, 0)
    decision = int(block.encoded.logits[row].argmax())
    return every if decision == 0 else reference.kept_probabilities(weights, *readout, decision)


def check_scores(block, found, source, draws=3):
    """AOPC and NAOPC of all rankings are those of the definition, between the limits that the rows tell."""
    case = FlipCase.of(block, "renormalize")
    (best, _), (worst, _) = (values(found, name, source) for name in ("aopc_removal_best", "aopc_removal_worst"))
    orders = {name: [case.order(name)] for name in SETTINGS.rankings}
    orders["random_ranking"] = [case.random_order(draw) for draw in range(draws)]
    for name, drawn in orders.items():
        (normalized, reasons), (aopc, _) = (values(found, metric, name) for metric in ("naopc_removal", "aopc_removal"))
        for row, n in enumerate(LENGTHS):
            example = block.example[row]
            if n < 2:
                assert math.isnan(normalized[example])
                assert reasons[example] == ("no content token" if n == 0 else "one item")
                continue
            p = slow_sets(block, row)
            slow = [reference.aopc(p, order[row, :n].tolist()) for order in drawn]
            assert aopc[example] == pytest.approx(sum(slow) / len(slow), abs=1e-10)
            high, low = best[example], worst[example]
            shares = [(one - low) / (high - low) for one in slow]
            assert normalized[example] == pytest.approx(sum(shares) / len(shares), abs=1e-9)
            assert 0 <= normalized[example] <= 1


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_are_exact(seed):
    block = sourced(random_block(LENGTHS, 2, seed))
    found = run(block, SETTINGS)
    check_scores(block, found, "exact_orders")
    (best, _), (worst, _) = (
        values(found, name, "exact_orders") for name in ("aopc_removal_best", "aopc_removal_worst")
    )
    widths, _ = values(found, "naopc_removal_width", "attention")
    for row, n in enumerate(LENGTHS):
        if n < 2:
            continue
        example = block.example[row]
        high, low = reference.limits(slow_sets(block, row))
        assert high - 1e-10 <= best[example] <= high + 1e-3
        assert low - 1e-3 <= worst[example] <= low + 1e-10
        assert 0 <= widths[example] < 2e-3
    assert "naopc_removal_tried" not in found.scores["metric"]
    assert "beam_orders" not in found.scores["source"]


@pytest.mark.parametrize(("classes", "affine"), [(2, False), (4, True)])
def test_others_are_searched(classes, affine):
    block = sourced(random_block(LENGTHS, classes, 1))
    asked_block = replace(block, encoded=replace(block.encoded, affine=block.encoded.affine if affine else None))
    found = run(asked_block, replace(SETTINGS, beam=2))
    check_scores(block, found, "beam_orders")
    (best, _), (worst, _) = (values(found, name, "beam_orders") for name in ("aopc_removal_best", "aopc_removal_worst"))
    tried, _ = values(found, "naopc_removal_tried", "beam_orders")
    for row, n in enumerate(LENGTHS):
        if n < 2:
            continue
        high, low = reference.limits(slow_sets(block, row))
        assert low - 1e-10 <= worst[block.example[row]] <= best[block.example[row]] <= high + 1e-10
        assert 0 < tried[block.example[row]] <= min(2**n, 1000)
    assert "naopc_removal_width" not in found.scores["metric"]
    assert "exact_orders" not in found.scores["source"]
    without = run(asked_block, replace(SETTINGS, beam=0))
    assert not set(NAMES) & set(without.scores["metric"])


def test_a_beam_that_does_not_fit():
    block = sourced(random_block(LENGTHS, 2, 1, affine=False))
    found = run(block, replace(SETTINGS, beam_budget=100))
    for metric, source in (("naopc_removal", "first"), ("aopc_removal", "first"), ("aopc_removal_best", "beam_orders")):
        value, reasons = values(found, metric, source)
        assert [reasons[name] for name in block.example] == [
            None,
            "one item",
            "no content token",
            "too long for the beam's budget",
            None,
        ]
        assert math.isnan(value["e3"])
    # the text is judged by all else
    assert values(found, "decision_flip", "attention")[1]["e3"] in (None, "never flips")


def test_recompute_and_special_tokens_are_searched_on_what_is_left():
    block = sourced(random_block((5, 6), 2, 2))
    scores = torch.randn(block.encoded.attention.shape, generator=torch.Generator().manual_seed(0)).double()
    attention = sparsemax(scores, block.encoded.allowed)
    logits = block.encoded.decode(attention[:, None])[:, 0]
    encoded = replace(block.encoded, scores=scores, project=sparsemax, attention=attention, logits=logits)
    sparse = replace(block, encoded=encoded)
    found = run(sparse, replace(SETTINGS, operator="recompute"))
    assert "beam_orders" in found.scores["source"]
    assert "exact_orders" in run(sparse, SETTINGS).scores["source"]
    kept = keeping(sourced(random_block((5, 6), 2, 2)), (0.2, 0.7))
    wider = torch.nn.functional.pad(kept.sources["first"], (0, 1), value=math.nan)
    searched = run(replace(kept, sources={"first": wider}), SETTINGS)
    assert "beam_orders" in searched.scores["source"]  # a special token keeps its weight
    removal = Removal(kept, "renormalize")
    assert not removal.exact


def test_reasons():
    labels = sourced(random_block(LENGTHS, 2, 0, multi_label=True))
    found = run(labels, SETTINGS)
    _, reasons = values(found, "naopc_removal", "first")
    assert set(reasons.values()) == {"labels are independent"}
    block = sourced(random_block((3, 4), 2, 0))
    same = replace(block.encoded.affine, token_logits=torch.ones_like(block.encoded.affine.token_logits))
    alike = run(replace(block, encoded=replace(block.encoded, affine=same)), SETTINGS)
    _, reasons = values(alike, "naopc_removal", "attention")
    assert set(reasons.values()) == {"all orders alike"}
    aopc, reasons = values(alike, "aopc_removal", "attention")
    assert set(reasons.values()) == {None}
    assert list(aopc.values()) == pytest.approx([0, 0], abs=1e-12)
    for setting, match in ((("beam", -1), "beam must be"), (("beam_budget", 0), "beam_budget must be")):
        with pytest.raises(InputError, match=match):
            FlipSettings(**dict([setting]))
