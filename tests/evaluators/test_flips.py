"""The test of Serrano and Smith against slow references, on read-outs that are affine and on those that are not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.flip_facts import flip_facts
from attn_faithful.evaluators.flips import FlipSettings, run
from attn_faithful.functional.projections import sparsemax
from tests.evaluators.blocks import random_block, values
from tests.reference import divergences as slow_divergences
from tests.reference import erasure as slow

RANKINGS = ("attention", "attention_gradient", "attention_x_gradient")
ATTENTION = FlipSettings(rankings=["attention"], single=["attention"], random=3)
LENGTHS = (6, 1, 0, 9, 2)


def three_rankings(**changes):
    """Settings with the rankings that the blocks of this file have."""
    return FlipSettings(rankings=list(RANKINGS), **changes)


def with_sources(block, **sources):
    """The block with the two sources of gradients, and others."""
    request = Request(model=None, batch={}, encoded=block.encoded, keys=block.keys)
    named = ("attention_gradient", "attention_x_gradient")
    return replace(block, sources={**{name: attribute(name, request).values for name in named}, **sources})


def lists(block, row):
    """log weights, token logits and bias of one text, as plain lists."""
    held = block.items[row, 0]
    weights = block.encoded.attention[row, 0, held]
    affine = block.encoded.affine
    return weights.log().tolist(), affine.token_logits[row, held].tolist(), affine.bias[row].tolist()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_fractions_and_masses_equal_a_loop(classes, seed):
    block = with_sources(random_block(LENGTHS, classes, seed))
    found = run(block, three_rankings(random=0))
    flipped = 0
    for name in ("attention", "attention_gradient", "attention_x_gradient"):
        (fractions, reasons), (masses, _), (sizes, _) = (
            values(found, metric, name) for metric in ("decision_flip", "flip_mass", "flip_size")
        )
        for row, n in enumerate(LENGTHS):
            example = block.example[row]
            if n < 2:
                assert math.isnan(fractions[example])
                assert reasons[example] == ("no content token" if n == 0 else "one item")
                continue
            logs, token_logits, bias = lists(block, row)
            importance = logs if name == "attention" else block.sources[name][row, :n].tolist()
            order = slow.removal_order(importance)
            size = slow.first_flip(slow.prefix_logits(logs, order, token_logits, bias))
            if size is None or math.isnan(size):
                assert reasons[example] == "never flips"
                continue
            flipped += 1
            assert sizes[example] == size
            assert fractions[example] == pytest.approx(size / n, abs=1e-12)
            removed = sum(math.exp(logs[t]) for t in order[: int(size)])
            assert masses[example] == pytest.approx(removed, abs=1e-10)
    assert flipped


@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_set_is_that_of_all_subsets(seed):
    block = with_sources(random_block(LENGTHS, 3, seed))
    found = run(block, three_rankings())
    sizes, reasons = values(found, "flip_size", "smallest_set")
    for row, n in enumerate(LENGTHS):
        if n > 1:
            logs, token_logits, bias = lists(block, row)
            sets = slow.smallest_flip_sets([math.exp(w) for w in logs], token_logits, bias)
            example = block.example[row]
            if sets:
                assert sizes[example] == len(next(iter(sets)))
            else:
                assert reasons[example] == "never flips"
    for name in ("attention", "attention_gradient", "attention_x_gradient"):
        ratios, _ = values(found, "flip_ratio", name)
        assert all(math.isnan(ratio) or ratio >= 1 for ratio in ratios.values())
        optimal, _ = values(found, "flip_optimal", name)
        assert all(math.isnan(ratios[e]) or (ratios[e] == 1) == (optimal[e] == 1) for e in ratios)
    assert set(found.variants["variant"]) <= {"smallest_set", "certified_core"}
    listed = [row for row, variant in enumerate(found.variants["variant"]) if variant == "smallest_set"]
    for row in listed:
        example, removed, exact = (found.variants[name][row] for name in ("example", "removed", "exact"))
        assert exact
        assert math.isnan(sizes[example]) or len(removed) == sizes[example]


@pytest.mark.parametrize("affine", [True, False])
def test_the_mass_of_the_smallest_set_is_what_its_items_hold(affine):
    block = random_block(LENGTHS, 3, 1, affine=affine)
    name = "smallest_set" if affine else "greedy_set"
    found = run(block, ATTENTION)
    masses, _ = values(found, "flip_mass", name)
    columns = (found.variants["example"], found.variants["removed"], found.variants["variant"])
    listed = {example: removed for example, removed, variant in zip(*columns, strict=True) if variant == name}
    compared = 0
    for row, example in enumerate(block.example):
        if math.isnan(masses[example]):
            continue
        held = block.encoded.attention[row, 0, block.items[row, 0]]
        assert masses[example] == pytest.approx(float(held[listed[example]].sum()), abs=1e-12)
        compared += 0 < masses[example] < 1
    assert compared > 1


def test_pairs_of_rankings_say_which_needs_fewer_items():
    block = with_sources(random_block((6, 7, 8) * 12, 3, 2))
    found = run(block, three_rankings())
    sizes = {name: values(found, "flip_size", name)[0] for name in ("attention", "attention_gradient")}
    pair = "attention_gradient~attention"
    columns = {name: values(found, name, pair)[0] for name in ("flips_sooner", "flips_later", "flip_difference")}
    seen = set()
    for row, example in enumerate(block.example):
        first, second = sizes["attention_gradient"][example], sizes["attention"][example]
        if math.isnan(first) or math.isnan(second):
            assert all(math.isnan(column[example]) for column in columns.values())
            continue
        seen.add(np.sign(first - second))
        assert columns["flips_sooner"][example] == float(first < second)
        assert columns["flips_later"][example] == float(first > second)
        gap = (first - second) / int(block.items[row].sum())
        assert columns["flip_difference"][example] == pytest.approx(gap, abs=1e-12)
    assert seen >= {-1, 1}


def test_attention_times_gradient_is_the_best_ranking_for_two_classes():
    # its order is that of a_t m_t, by which the smallest set is built
    block = with_sources(random_block((8,) * 30, 2, 3))
    optimal, _ = values(run(block, three_rankings()), "flip_optimal", "attention_x_gradient")
    assert all(math.isnan(v) or v == 1 for v in optimal.values())
    assert sum(v == 1 for v in optimal.values()) > 10


def test_a_single_removal_equals_a_loop():
    block = random_block((7, 5, 3), 3, 1)
    found = run(block, ATTENTION)
    columns = {
        m: values(found, m, "attention")[0]
        for m in (
            "single_js",
            "js_difference",
            "js_negative",
            "attention_difference",
            "flip_both",
            "flip_top_only",
            "flip_random_only",
            "flip_neither",
        )
    }
    for row, n in enumerate((7, 5, 3)):
        logs, token_logits, bias = lists(block, row)
        order = slow.removal_order(logs)
        other = order[1 + int(torch.randint(n - 1, (), generator=block.generator(row, "other item", "attention")))]
        everything = range(n)
        before = slow.from_logs(logs, everything, token_logits, bias)
        js, flips = [], []
        for gone in (order[0], other):
            after = slow.from_logs(logs, [t for t in everything if t != gone], token_logits, bias)
            js.append(slow_divergences.jsd(softmax(before), softmax(after)))
            flips.append(slow.decision(after) != slow.decision(before))
        example = block.example[row]
        assert columns["single_js"][example] == pytest.approx(js[0], abs=1e-10)
        assert columns["js_difference"][example] == pytest.approx(js[0] - js[1], abs=1e-10)
        assert columns["js_negative"][example] == float(js[0] < js[1])
        gap = math.exp(logs[order[0]]) - math.exp(logs[other])
        assert columns["attention_difference"][example] == pytest.approx(gap, abs=1e-10)
        cells = {(True, True): "flip_both", (True, False): "flip_top_only", (False, True): "flip_random_only"}
        held = cells.get(tuple(flips), "flip_neither")
        assert {m for m in columns if m.startswith("flip_") and columns[m][example] == 1} == {held}


def softmax(logits):
    chances = np.exp(np.asarray(logits) - max(logits))
    return (chances / chances.sum()).tolist()


def test_random_rankings_have_a_mean_and_a_spread():
    block = random_block((8, 8, 8, 8), 4, 2)
    found = run(block, ATTENTION)
    means, _ = values(found, "decision_flip", "random_ranking")
    spreads, _ = values(found, "flip_spread", "random_ranking")
    again, _ = values(run(block, ATTENTION), "decision_flip", "random_ranking")
    assert means == again
    other, _ = values(run(replace(block, seed=1), ATTENTION), "decision_flip", "random_ranking")
    assert means != other
    assert any(v > 0 for v in spreads.values())


def test_the_slow_way_equals_the_affine_one():
    block = with_sources(random_block((*LENGTHS, 40), 3, 5))
    plain = replace(block, encoded=replace(block.encoded, affine=None))
    fast, slow_way = run(block, three_rankings()), run(plain, three_rankings())
    compared = 0
    for metric in ("decision_flip", "flip_mass", "single_js", "js_difference", "flip_top_only", "flips_later"):
        mine, theirs = values(fast, metric), values(slow_way, metric)
        for source in ("attention", "attention_x_gradient", "random_ranking", "attention_gradient~attention"):
            mine, theirs = values(fast, metric, source), values(slow_way, metric, source)
            assert mine[1] == theirs[1]
            for example, value in mine[0].items():
                assert theirs[0][example] == pytest.approx(value, abs=1e-10, nan_ok=True)
                compared += 1
    assert compared > 50
    bound, _ = values(slow_way, "flip_size", "greedy_set")
    exact, _ = values(fast, "flip_size", "smallest_set")
    assert all(math.isnan(bound[e]) or bound[e] >= exact[e] for e in bound)
    assert not any(slow_way.variants["exact"])
    assert "greedy_set" not in run(plain, three_rankings(greedy=False)).scores["source"]


def not_affine(block):
    """The same block, of which nobody knows that its read-out is affine."""
    return replace(block, encoded=replace(block.encoded, affine=None))


def test_rankings_are_asked_together_and_not_past_their_flips():
    block = random_block((40, 40, 3), 2, 1)
    removal = Removal(block, "renormalize")
    orders = [torch.arange(41).expand(3, -1), torch.arange(40, -1, -1).roll(-1).expand(3, -1)]
    decision = removal.decided()
    expected = removal.first_flips(orders, decision)
    slow_way = Removal(not_affine(block), "renormalize")
    found = slow_way.first_flips(orders, decision)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)
    sizes = torch.stack(expected)
    assert bool((sizes < 20).any())
    ends = torch.where(sizes.isnan(), removal.items.sum(1).double(), sizes)
    asked = slow_way.after.count
    assert bool((asked >= ends.amax(0)).all())
    assert bool((asked <= (1.25 * ends + 64 / 6 + 1).sum(0)).all())


class CountingDecode:
    """Runs rows alone, and notes them."""

    def __init__(self, block):
        self.block = block
        self.asked = []

    def rows(self, attention, text):
        logits = []
        for weights, number in zip(attention, text.tolist(), strict=True):
            self.asked.append((number, weights.numpy().tobytes()))
            of_every_text = self.block.encoded.decode(weights.expand(len(self.block), 1, -1, -1))  # (B, 1, C)
            logits.append(of_every_text[number, 0])
        return torch.stack(logits)


def test_a_set_is_asked_once_whoever_needs_it():
    block = with_sources(random_block((7, 5, 9), 3, 5))
    decode = CountingDecode(block)
    counted = replace(block, encoded=replace(block.encoded, affine=None, decode=decode))
    found = run(counted, three_rankings(greedy=False))
    assert len(decode.asked) == len(set(decode.asked)) > 40
    plain = run(not_affine(block), three_rankings(greedy=False))
    assert found.scores["value"] == pytest.approx(plain.scores["value"], abs=1e-10, nan_ok=True)


def test_the_removals_that_were_tried_are_told():
    found = run(not_affine(random_block((30, 1, 40), 2, 1)), ATTENTION)
    tried, reasons = values(found, "flip_tried", "greedy_set")
    assert 5 <= max(tried["e0"], tried["e2"]) <= 300
    assert reasons["e1"] == "one item"
    assert "flip_tried" not in run(random_block((7, 9), 2, 1), ATTENTION).scores["metric"]
    less = run(not_affine(random_block((30, 1, 40), 2, 1)), replace(ATTENTION, budget=2))
    fewer, _ = values(less, "flip_tried", "greedy_set")
    assert max(fewer["e0"], fewer["e2"]) < max(tried["e0"], tried["e2"])


def several_slots(seed=0):
    """A block of two slots over the same tokens, each holding half of them, whose read-out is not affine."""
    block = random_block((6, 4), 3, seed)
    encoded = block.encoded
    parts = torch.zeros(2, 2, encoded.attention.shape[-1], dtype=torch.bool)
    parts[:, 0, :3], parts[:, 1, 3:] = True, True
    allowed = encoded.allowed & parts
    attention = encoded.attention * allowed
    attention = attention / attention.sum(-1, keepdim=True).clamp(min=1e-12)

    def decode(given):
        return (encoded.decode(given[:, :, :1]) + encoded.decode(given[:, :, 1:])).tanh()

    return replace(
        block,
        encoded=replace(
            encoded,
            attention=attention,
            allowed=allowed,
            logits=decode(attention[:, None])[:, 0],
            decode=decode,
            affine=None,
            pooled=attention.sum(1) / 2,
        ),
    )


def test_slots_are_renormalized_one_by_one():
    block = several_slots()
    removal = Removal(block, "renormalize")
    keep = torch.ones_like(removal.items)
    keep[0, 0] = False  # the first token, of the first slot
    attention = block.encoded.attention.clone()
    attention[0, 0, 0] = 0
    attention[0, 0] /= attention[0, 0].sum()
    both = torch.arange(2)
    torch.testing.assert_close(removal.after(keep, both), block.encoded.decode(attention[:, None])[:, 0])
    found = run(block, ATTENTION)
    fractions, reasons = values(found, "decision_flip", "attention")
    for row, n in enumerate((6, 4)):
        order = slow.removal_order(removal.weights[row][removal.items[row]].tolist())
        places = removal.items[row].nonzero()[:, 0]
        decision, expected = int(block.encoded.logits[row].argmax()), None
        for k in range(1, n + 1):
            kept = torch.ones_like(removal.items[:1])
            kept[0, places[order[:k]]] = False
            if int(removal.after(kept, torch.tensor([row]))[0].argmax()) != decision:
                expected = k / n
                break
        example = block.example[row]
        assert fractions[example] == pytest.approx(expected) if expected else reasons[example] == "never flips"


def test_recompute_lets_others_into_a_sparse_support():
    scores = torch.tensor([[2.0, 0.5, 0.0]], dtype=torch.float64)
    block = random_block((3,), 2, 0)
    allowed = torch.ones(1, 1, 3, dtype=torch.bool)
    token_logits = torch.tensor([[[0.0, 4.0], [0.0, -2.0], [0.0, 3.0]]], dtype=torch.float64)
    bias = torch.tensor([[0.0, 0.1]], dtype=torch.float64)
    attention = sparsemax(scores[:, None], allowed)  # [1, 0, 0]
    encoded = replace(
        block.encoded,
        attention=attention,
        allowed=allowed,
        content=allowed[:, 0],
        scores=scores[:, None],
        project=lambda s, a: sparsemax(s, a),
        affine=replace(block.encoded.affine, token_logits=token_logits, bias=bias),
        logits=attention[:, 0] @ token_logits[0] + bias,
        decode=lambda given: given[:, :, 0] @ token_logits + bias[:, None],
    )
    block = replace(block, encoded=encoded)
    left = run(block, replace(ATTENTION, operator="renormalize"))
    again = run(block, replace(ATTENTION, operator="recompute"))
    assert values(left, "decision_flip", "attention")[1]["e0"] == "never flips"  # the zero vector decides as before
    # without the first the second gets .75 and the third .25
    assert values(again, "flip_size", "attention")[0]["e0"] == 1
    assert all(math.isfinite(v) for v in values(again, "single_js", "attention")[0].values())


def test_peaked_attention_and_large_logits_stay_finite():
    scores = torch.tensor([[0.0, -120.0, -121.0]], dtype=torch.float64)
    block = random_block((3,), 2, 0)
    allowed = torch.ones(1, 1, 3, dtype=torch.bool)
    token_logits = torch.tensor([[[0.0, 100.0], [0.0, -100.0], [0.0, 50.0]]], dtype=torch.float64)
    bias = torch.zeros(1, 2, dtype=torch.float64)
    attention = scores.softmax(-1)[:, None].float()
    encoded = replace(
        block.encoded,
        attention=attention,
        allowed=allowed,
        content=allowed[:, 0],
        log_weights=scores[:, None],
        scores=scores[:, None],
        project=lambda s, a: s.masked_fill(~a, -math.inf).softmax(-1).nan_to_num(),
        affine=replace(block.encoded.affine, token_logits=token_logits, bias=bias),
        logits=torch.tensor([[0.0, 100.0]]),
        decode=lambda given: given[:, :, 0].double() @ token_logits,
    )
    block = with_sources(replace(block, encoded=encoded))
    assert all(bool(v.isfinite().all()) for v in block.sources.values())
    assert bool((block.sources["attention_gradient"] != 0).any())  # 1 - p is not 0
    found = run(block, three_rankings())
    # without the first .73 of the rest is the second's: -59.6
    assert values(found, "flip_size", "attention")[0]["e0"] == 1
    assert values(found, "flip_size", "smallest_set")[0]["e0"] == 1


def test_several_labels_are_undefined_with_a_reason():
    found = run(random_block((4, 3), 3, 0, multi_label=True), ATTENTION)
    assert found.scores["value"]
    assert all(math.isnan(v) for v in found.scores["value"])
    assert set(found.scores["reason"]) == {"labels are independent"}


def test_ties_are_broken_alike():
    block = random_block((4,), 2, 0, attention=[[0.25] * 4])
    removal = Removal(block, "renormalize")
    assert removal.items[0].tolist() == [True] * 4 + [False]
    fractions, _ = values(run(block, ATTENTION), "flip_size", "attention")
    logs, token_logits, bias = lists(block, 0)
    expected = slow.first_flip(slow.prefix_logits(logs, [0, 1, 2, 3], token_logits, bias))
    assert fractions["e0"] == pytest.approx(expected, nan_ok=True)


def test_settings_are_checked():
    for wrong, message in (
        ({"operator": "mask"}, "operator"),
        ({"random": -1}, "random"),
        ({"rankings": []}, "rankings"),
        ({"budget": 0}, "budget"),
        ({"rankings": ["attention", "attention"]}, "twice"),
        ({"single": ["saliency"]}, "single"),
        ({"rankings": ["smallest_set"], "single": []}, "smallest_set"),
    ):
        with pytest.raises(InputError, match=message):
            FlipSettings(**wrong)
    with pytest.raises(InputError, match="recompute"):
        run(random_block((3,)), FlipSettings(["attention"], ["attention"], 0, "recompute"))


def test_facts_equal_what_is_counted_by_hand():
    def column(*numbers):
        return np.asarray(numbers, dtype=float), [None if n == n else "never flips" for n in numbers]

    nan = math.nan
    columns = {
        ("pool", "attention", "flip_both"): column(1, 0, 0, nan),
        ("pool", "attention", "flip_top_only"): column(0, 1, 0, nan),
        ("pool", "attention", "flip_random_only"): column(0, 0, 0, nan),
        ("pool", "attention", "flip_neither"): column(0, 0, 1, nan),
        ("pool", "attention", "js_difference"): column(0.1, -0.2, 0.3, nan),
        ("pool", "attention", "attention_difference"): column(0.3, 0.05, 1.0, nan),
        ("pool", "attention", "decision_flip"): column(0.1, 0.2, 0.6, nan),
        ("pool", "attention", "flip_mass"): column(0.5, 0.7, 0.6, nan),
        ("pool", "attention", "flip_optimal"): column(1, 0, 0, nan),
        ("pool", "attention", "flip_never"): column(0, 0, 0, 1),
        ("pool", "a~attention", "flips_sooner"): column(1, 1, 0, nan),
        ("pool", "a~attention", "flips_later"): column(0, 0, 1, nan),
        ("pool", "a~attention", "flip_difference"): column(-0.2, -0.4, 0.1, nan),
    }
    facts = {fact.KIND: fact for fact in flip_facts(columns)}
    assert facts["flip_contingency"].as_json() == {
        "fact": "flip_contingency",
        "site": "pool",
        "source": "attention",
        "flip_both": pytest.approx(1 / 3),
        "flip_top_only": pytest.approx(1 / 3),
        "flip_random_only": 0,
        "flip_neither": pytest.approx(1 / 3),
        "n": 3,
    }
    bins = facts["negative_js"]
    assert list(zip(bins.low, bins.high, bins.negative, bins.of, strict=True)) == [
        (0.0, 0.1, 1, 1),
        (0.3, 0.4, 0, 1),
        (0.9, 1.0, 0, 1),
    ]
    spread = facts["flip_fractions"]
    assert (spread.fraction, spread.mass[1]) == (pytest.approx([0.15, 0.2, 0.4]), pytest.approx(0.6))
    assert (spread.never, spread.n, spread.optimal) == (0.25, 3, pytest.approx(1 / 3))
    assert math.isnan(spread.at_last)  # not said of this ranking
    pair = facts["paired_rankings"]
    assert (pair.sooner, pair.later) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (pair.n, pair.n_undefined) == (3, 1)
    assert pair.mean == pytest.approx(-0.5 / 3)
    from scipy.stats import wilcoxon

    assert pair.p == pytest.approx(wilcoxon([-0.2, -0.4, 0.1]).pvalue)
    assert pair.p_holm == pair.p
