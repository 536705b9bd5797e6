"""AOPC of rankings by deletion between its limits: against all shortened texts, and when nothing can be said."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.erasure import ErasureSettings, run
from attn_faithful.functional.attention_removal import removal_order
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from tests.evaluators.blocks import random_block, values
from tests.evaluators.test_erasure import deleted_block, importance
from tests.models.examples import SMALL
from tests.reference import aopc_limits as reference

LENGTHS = (6, 1, 0, 8, 2)
SETTINGS = ErasureSettings(rankings=["attention", "first"], shares=[0.5], beam=2)


def sets_of(without, content, row, decision):
    """p of the decision for every set of a text's items that are left."""
    places = content[row].nonzero()[:, 0]
    kept = torch.from_numpy(reference.bits(np.arange(1 << len(places)), len(places)))
    keep = torch.ones(len(content), len(kept), content.shape[1], dtype=torch.bool)
    keep[row, :, places] = kept
    return without(keep)[row].double().softmax(-1)[:, decision].detach().numpy()


def check_scores(block, found, source, tolerance):
    """AOPC and NAOPC are those of the definition, the limits those of all orders or, searched, within."""
    content = block.encoded.content
    (best, _), (worst, _) = (values(found, name, source) for name in ("aopc_best", "aopc_worst"))
    checked = 0
    for row, example in enumerate(block.example):
        places = content[row].nonzero()[:, 0].tolist()
        if len(places) < 2:
            assert math.isnan(best[example])
            continue
        decision = int(block.encoded.logits[row].argmax())
        p = sets_of(block.without, content, row, decision)
        high, low = reference.limits(p)
        assert low - 1e-3 <= worst[example] <= best[example] <= high + 1e-3
        if source == "beam_orders":
            assert low - tolerance <= worst[example]
            assert best[example] <= high + tolerance
        else:
            assert best[example] >= high - tolerance
            assert worst[example] <= low + tolerance
        for name in SETTINGS.rankings:
            order = removal_order(importance(block, name).double(), content)[row, : len(places)].tolist()
            expected = reference.aopc(p, [places.index(place) for place in order])
            assert values(found, "aopc", name)[0][example] == pytest.approx(expected, abs=tolerance)
            share = (expected - worst[example]) / (best[example] - worst[example])
            own = values(found, "naopc", name)[0][example]
            assert own == pytest.approx(share, abs=tolerance / (best[example] - worst[example]))
            checked += 0 < own < 1
    assert checked


@pytest.mark.parametrize("seed", range(3))
def test_models_are_asked(seed):
    block = deleted_block(seed, lengths=LENGTHS)
    found = run(block, SETTINGS)
    check_scores(block, found, "beam_orders", 1e-10)
    assert "naopc_width" not in found.scores["metric"]
    tried, _ = values(found, "naopc_tried", "beam_orders")
    assert all(0 < tried[name] <= 2**8 for name in ("e0", "e3", "e4"))


def own_model(encoder, projection="softmax", labels=2):
    """A block of a model of this package with random weights, three texts."""
    torch.manual_seed(0)
    config = {**SMALL, "encoder": encoder, "num_labels": labels, "projection": projection}
    model = AttentionClassifier(AttentionClassifierConfig(**config)).eval()
    with torch.no_grad():  # a model that has decided something, and attends here and there
        model.readout.weight.mul_(20)
        for parameter in model.attention.parameters():
            parameter.mul_(4)
    ids = torch.tensor([[2, 3, 4, 5, 3, 2], [5, 2, 4, 3, 0, 0], [4, 5, 3, 0, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    with torch.no_grad():
        encoded = model.encode(batch)
    generator = torch.Generator().manual_seed(1)
    return replace(
        random_block((6, 4, 3)),
        encoded=encoded,
        without=lambda keep: model.without(batch, keep),
        reads_alone=model.reads_alone,
        sources={"first": torch.randn(ids.shape, generator=generator).double()},
    )


@pytest.mark.parametrize("encoder", ["mlp", "average", "none"])
@torch.no_grad()
def test_limits_of_models_that_read_each_token_alone_are_those_of_deletion(encoder):
    """They come from the read-out; the texts are shortened and run again only here."""
    block = own_model(encoder)
    assert block.reads_alone
    asked = []

    def without(keep):
        asked.append(keep)
        return block.without(keep)

    found = run(replace(block, without=without), SETTINGS)
    assert len(asked) == 1  # by what needs shortened texts
    check_scores(block, found, "exact_orders", 1e-5)  # float32 models, batched otherwise
    widths, _ = values(found, "naopc_width", "first")
    assert all(0 <= width < 1e-3 for width in widths.values())


@torch.no_grad()
def test_others_are_not_taken_for_such():
    for encoder, projection, labels in (("lstm", "softmax", 2), ("mlp", "sparsemax", 2), ("mlp", "softmax", 3)):
        block = own_model(encoder, projection, labels)
        found = run(block, SETTINGS)
        assert "exact_orders" not in found.scores["source"]
        check_scores(block, found, "beam_orders", 1e-5)


def test_long_texts_are_not_asked():
    """Of 400 words only what the shares need is run."""
    lengths = (400, 3)
    block = random_block(lengths)
    rows = []

    def without(keep):
        rows.append((~keep.all(-1)).sum(1))
        return torch.randn(*keep.shape[:2], 2, generator=torch.Generator().manual_seed(0)).double()

    found = run(replace(block, without=without), ErasureSettings(rankings=["attention"]))
    _, reasons = values(found, "naopc", "attention")
    assert reasons == {"e0": "too long for the beam's budget", "e1": None}
    assert values(found, "aopc", "attention")[1]["e0"] == "too long for the beam's budget"
    assert values(found, "comprehensiveness", "attention")[1]["e0"] is None
    assert sum(int(row[0]) for row in rows[1:]) == 0  # the first call is of the shares
    assert (
        "naopc"
        not in run(replace(block, without=without), replace(SETTINGS, rankings=["attention"], beam=0)).scores["metric"]
    )


def test_reasons():
    block = deleted_block(0, lengths=LENGTHS)
    holes = block.sources["first"].clone()
    holes[3, 2] = math.nan
    found = run(replace(block, sources={**block.sources, "first": holes}), SETTINGS)
    assert values(found, "naopc", "first")[1]["e3"] == "nan in scores"
    assert values(found, "naopc", "attention")[1]["e3"] is None
    same = replace(block, without=lambda keep: torch.tensor([0.0, 1.0, 0.5]).expand(*keep.shape[:2], 3))
    _, reasons = values(run(same, SETTINGS), "naopc", "first")
    assert reasons["e3"] == "all orders alike"
    broken = replace(block, without=lambda keep: torch.full((*keep.shape[:2], 3), math.nan))
    assert values(run(broken, SETTINGS), "naopc", "attention")[1]["e3"] == "nan in probabilities"
    for setting, match in (({"beam": -1}, "beam must be"), ({"beam_budget": 0}, "beam_budget must be")):
        with pytest.raises(InputError, match=match):
            ErasureSettings(**setting)
