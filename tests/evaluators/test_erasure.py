"""Comprehensiveness and sufficiency by deletion against a loop over sets of items, and when nothing can be said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import RANKED, sources_of
from attn_faithful.evaluators.erasure import ErasureSettings, run
from attn_faithful.evaluators.in_distribution import InDistribution
from tests.evaluators.blocks import random_block, values
from tests.models.examples import SMALL
from tests.reference import eraser as slow

LENGTHS = (6, 1, 0, 30, 2)
RANKINGS = ("attention", "first", "random")
SETTINGS = ErasureSettings(rankings=list(RANKINGS))


class Deleting:
    """A model of the tokens that are left, in which the order of what is left counts too."""

    def __init__(self, block, seed):
        generator = torch.Generator().manual_seed(seed)
        self.shape = block.encoded.content.shape
        classes = block.encoded.logits.shape[1]
        self.said = torch.randn(*self.shape, classes, generator=generator, dtype=torch.float64)
        self.outside = ~block.encoded.content
        self.calls = []

    def logits(self, row, kept):
        """Of one text with the tokens of a set."""
        total = torch.zeros(self.said.shape[-1], dtype=torch.float64)
        for place, t in enumerate(sorted(kept)):
            total += self.said[row, t] / (1 + 0.1 * place)
        return total.tanh() * 2

    def __call__(self, keep):
        assert keep.dtype == torch.bool
        assert bool((keep | ~self.outside[:, None]).all())  # what is no content stays
        self.calls.append(keep)
        content = ~self.outside
        return torch.stack(
            [
                torch.stack([self.logits(row, (mask & content[row]).nonzero()[:, 0].tolist()) for mask in masks])
                for row, masks in enumerate(keep)
            ]
        )


def deleted_block(seed=0, classes=3, lengths=LENGTHS):
    """A block that can be run again, with a first position that is no content, and two sources."""
    block = random_block(lengths, classes, seed)
    content = block.encoded.content.clone()
    content[0, 0] = False
    block = replace(block, encoded=replace(block.encoded, content=content))
    model = Deleting(block, seed)
    whole = model(torch.ones_like(content)[:, None])[:, 0]
    model.calls.clear()
    generator = torch.Generator().manual_seed(seed + 1)
    shape = content.shape
    first = torch.randint(-2, 3, shape, generator=generator)  # with ties
    named = {"first": first, "random": torch.rand(shape, generator=generator, dtype=torch.float64)}
    named = {name: given.double().masked_fill(~content, math.nan) for name, given in named.items()}
    return replace(block, encoded=replace(block.encoded, logits=whole), sources=named, without=model)


def importance(block, name):
    return block.encoded.over_items if name == "attention" else block.sources[name]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shares", [None, [0.3, 1.0]])
def test_curves_equal_a_loop_over_sets(seed, shares):
    block = deleted_block(seed)
    settings = SETTINGS if shares is None else replace(SETTINGS, shares=shares)
    found = run(block, settings)
    changes = {
        (e, v): c for e, v, c in zip(*(found.variants[n] for n in ("example", "variant", "changes")), strict=True)
    }
    assert set(found.variants["test"]) == {"erasure"}
    for name in RANKINGS:
        (lost, reasons), (kept, _) = (values(found, m, name) for m in ("comprehensiveness", "sufficiency"))
        for row, example in enumerate(block.example):
            content = block.encoded.content[row].tolist()
            if not any(content):
                assert math.isnan(lost[example])
                assert math.isnan(kept[example])
                assert reasons[example] == "no content token"
                assert (example, name) not in changes
                continue
            decided = int(block.encoded.logits[row].argmax())

            def p(left, row=row, decided=decided):
                return float(block.without.logits(row, left).softmax(-1)[decided])

            expected = slow.curve(p, importance(block, name)[row].tolist(), content, settings.shares)
            assert changes[example, name] == pytest.approx(expected[0], abs=1e-10)
            assert lost[example] == pytest.approx(slow.mean(expected[0]), abs=1e-10)
            assert kept[example] == pytest.approx(slow.mean(expected[1]), abs=1e-10)


def test_all_items_are_exactly_the_whole_text():
    block = deleted_block()
    found = run(block, replace(SETTINGS, shares=[1.0]))
    for name in RANKINGS:
        kept, _ = values(found, "sufficiency", name)
        assert all(v == 0 for e, v in kept.items() if e != "e2")
    lost = [values(found, "comprehensiveness", name)[0] for name in RANKINGS]
    assert repr(lost[0]) == repr(lost[1]) == repr(lost[2])  # without any item all rankings are one
    assert any(v != 0 for v in lost[0].values())


def test_the_ranking_by_what_items_add_beats_its_reverse():
    block = random_block((12,) * 8, 2)
    added = torch.rand(block.encoded.content.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    added = added * block.encoded.content

    def without(keep):
        z = (keep * added[:, None]).sum(-1)
        return torch.stack([torch.zeros_like(z), z], dim=-1)

    whole = without(torch.ones_like(block.encoded.content)[:, None])[:, 0]
    block = replace(
        block, encoded=replace(block.encoded, logits=whole), sources={"good": added, "bad": -added}, without=without
    )
    found = run(block, ErasureSettings(rankings=["good", "bad"]))
    (lost_good, _), (lost_bad, _), (kept_good, _), (kept_bad, _) = (
        values(found, m, n) for m in ("comprehensiveness", "sufficiency") for n in ("good", "bad")
    )
    assert all(lost_good[e] > lost_bad[e] and kept_good[e] < kept_bad[e] for e in block.example)


def test_several_slots_are_one_set_of_items():
    block = deleted_block()
    encoded = block.encoded
    pooled = torch.rand(encoded.content.shape, generator=torch.Generator().manual_seed(9))  # as no slot ranks them
    slots = replace(
        encoded, attention=encoded.attention.repeat(1, 2, 1), allowed=encoded.allowed.repeat(1, 2, 1), pooled=pooled
    )
    as_source = replace(block, sources={**block.sources, "pooled": pooled.double()})
    mine = values(run(replace(block, encoded=slots), ErasureSettings(rankings=["attention"])), "comprehensiveness")
    theirs = values(run(as_source, ErasureSettings(rankings=["pooled"])), "comprehensiveness")
    assert repr(mine) == repr(theirs)


def test_a_model_s_own_deletion():
    from attn_faithful.models.configuration import AttentionClassifierConfig
    from attn_faithful.models.pooled import AttentionClassifier

    torch.manual_seed(0)
    model = AttentionClassifier(AttentionClassifierConfig(**{**SMALL, "encoder": "lstm", "num_labels": 2})).eval()
    with torch.no_grad():  # a model that has decided something
        model.readout.weight.mul_(20)
    ids = torch.tensor([[2, 3, 4, 5, 3], [5, 2, 2, 0, 0]])
    mask = torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": mask}
    with torch.no_grad():
        encoded = model.encode(batch)
    block = replace(
        random_block((4, 2)),
        encoded=encoded,
        without=lambda keep: model.without(batch, keep),
        sources={"first": torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)},
    )
    found = run(block, ErasureSettings(rankings=["attention", "first"], shares=[0.2, 0.5]))
    for name in ("attention", "first"):
        (lost, _), (kept, _) = (values(found, m, name) for m in ("comprehensiveness", "sufficiency"))
        for row, example in enumerate(block.example):
            decided = int(encoded.logits[row].argmax())

            @torch.no_grad()
            def p(left, row=row, decided=decided):
                shorter = ids[row][sorted(left)][None]
                logits = model(input_ids=shorter).logits
                return float(logits.double().softmax(-1)[0, decided])

            expected = slow.curve(p, importance(block, name)[row].tolist(), mask[row].bool().tolist(), [0.2, 0.5])
            # float32 models, batched otherwise
            assert lost[example] == pytest.approx(slow.mean(expected[0]), abs=1e-5)
            assert kept[example] == pytest.approx(slow.mean(expected[1]), abs=1e-5)
            assert abs(lost[example]) > 1e-4


def test_reasons():
    block = deleted_block()

    def every_reason(changed):
        found = run(changed, SETTINGS)
        assert not found.variants["example"]
        assert all(math.isnan(value) for value in found.scores["value"])
        named = [found.scores["source"].count(name) for name in RANKINGS]
        assert named == [4 * len(block)] * len(RANKINGS)  # of these AOPC and NAOPC
        return set(found.scores["reason"])

    assert every_reason(replace(block, without=None)) == {"model cannot delete tokens"}
    labels = replace(block, encoded=replace(block.encoded, multi_label=True))
    assert every_reason(labels) == {"labels are independent"}
    broken = replace(block, without=lambda keep: torch.full((*keep.shape[:2], 3), math.nan))
    assert {"no content token", "one item", "nan in probabilities"} >= every_reason(broken)

    holes = block.sources["first"].clone()
    holes[3, 2] = math.nan
    found = run(replace(block, sources={**block.sources, "first": holes}), SETTINGS)
    assert values(found, "sufficiency", "first")[1]["e3"] == "nan in scores"
    assert values(found, "sufficiency", "random")[1]["e3"] is None


def test_no_text_has_content():
    block = deleted_block(lengths=(1, 0))  # the only token of the first is no content
    assert set(run(block, SETTINGS).scores["reason"]) == {"no content token"}


def test_settings():
    assert sources_of(ErasureSettings()) == [*RANKED[1:], "random"]
    for wrong in ([], ["attention", "attention"]):
        with pytest.raises(InputError, match="rankings must name different sources"):
            ErasureSettings(rankings=wrong)
    for shares in ([], [0.0], [20]):
        with pytest.raises(InputError, match="Expected `shares`"):
            ErasureSettings(shares=shares)


def test_masks_are_judged_as_deletion_is():
    """The same numbers under other names, where masking does what deletion does."""
    block = deleted_block()
    of_deletion = run(block, SETTINGS)
    asked = run(replace(block, without=None, masked=block.without), replace(SETTINGS, operators=["mask"]))
    names = dict(zip(["comprehensiveness", "sufficiency"], ["mask_comprehensiveness", "mask_sufficiency"], strict=True))
    for kind in ("naopc", "aopc"):
        names |= {kind: f"{kind}_mask"}
    for deleted, masked in names.items():
        for name in RANKINGS:
            assert repr(values(of_deletion, deleted, name)) == repr(values(asked, masked, name))
    assert asked.variants["variant"] == [f"{name}, mask" for name in of_deletion.variants["variant"]]
    assert repr(asked.variants["changes"]) == repr(of_deletion.variants["changes"])


def test_which_operators_are_used():
    block = replace(deleted_block(), masked=lambda keep: torch.zeros(*keep.shape[:2], 3))

    def metrics(changed, **settings):
        return set(run(changed, replace(SETTINGS, **settings)).scores["metric"])

    plain = metrics(block)
    assert "mask_sufficiency" not in plain
    trained = metrics(replace(block, masking="half"))
    assert plain < trained
    assert {"mask_comprehensiveness", "naopc_mask", "aopc_mask"} <= trained
    assert metrics(block, operators=["mask"]) == trained - plain
    found = run(replace(block, masked=None), replace(SETTINGS, operators=["mask"]))
    assert set(found.scores["reason"]) == {"tokenizer has no mask token"}
    for wrong, match in ((["zero"], "Unknown operator 'zero'"), (["mask", "mask"], "name each once")):
        with pytest.raises(InputError, match=match):
            ErasureSettings(operators=wrong)


def p_values_of(keep):
    """A p-value for every set of items, NaN for the one without any."""
    count = keep.sum(-1)
    odd = (keep * torch.arange(1, keep.shape[-1] + 1)).sum(-1) % 3 == 0
    p = torch.where(odd, 0.01, 0.5).double()
    return p.masked_fill(count == keep.shape[-1] - 1, math.nan)


def test_how_many_erased_texts_are_outside_is_told_beside():
    block = deleted_block()
    content = block.encoded.content
    given = InDistribution({"delete": p_values_of})
    found = run(replace(block, in_distribution=given), SETTINGS)
    variants = found.variants
    p_values = dict(zip(zip(variants["example"], variants["variant"], strict=True), variants["p_values"], strict=True))
    for name in RANKINGS:
        outside, reasons = values(found, "deleted_outside", name)
        for row, example in enumerate(block.example):
            if not bool(content[row].any()):
                assert reasons[example] == "no content token"
                continue
            sets = []
            order = importance(block, name)[row].double().masked_fill(~content[row], -math.inf)
            order = order.argsort(descending=True, stable=True)
            for alone in (False, True):
                for share in SETTINGS.shares:
                    top = torch.zeros(len(content[row]), dtype=torch.bool)
                    top[order[: math.ceil(share * int(content[row].sum()) - 1e-9)]] = True
                    sets.append(top | ~content[row] if alone else ~top)
            expected = p_values_of(torch.stack(sets))
            assert p_values[example, name] == pytest.approx(expected.tolist(), nan_ok=True)
            known = expected[~expected.isnan()]
            assert outside[example] == pytest.approx(float((known < 0.05).double().mean()), abs=1e-10, nan_ok=True)
    assert "masked_outside" not in found.scores["metric"]
    # what nobody asks, or nobody knows
    assert "deleted_outside" not in run(block, SETTINGS).scores["metric"]
    unknown = run(replace(block, in_distribution=InDistribution({}, "few texts")), SETTINGS)
    assert set(values(unknown, "deleted_outside", "first")[1].values()) == {"few texts", "no content token"}
    without = replace(block, without=None, in_distribution=given)
    assert set(values(run(without, SETTINGS), "deleted_outside", "first")[1].values()) == {"model cannot delete tokens"}
    nothing = InDistribution({"delete": lambda keep: torch.full(keep.shape[:2], math.nan)})
    reasons = values(run(replace(block, in_distribution=nothing), SETTINGS), "deleted_outside", "first")[1]
    assert set(reasons.values()) == {"no content token"}
