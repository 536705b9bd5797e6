"""The adversarial test: what each method gives, that alternatives do what their row says, and undefined examples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.adversarial import METRICS, AdversarialSettings, run
from attn_faithful.evaluators.adversarial_search import SearchSettings
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.experiments.strict_settings import build
from attn_faithful.functional.divergences import jsd, kl, tvd
from attn_faithful.functional.flip_distance import flip_distance
from tests.evaluators.blocks import random_block, values

QUICK = SearchSettings(steps=60)
LENGTHS = (5, 1, 0, 7, 2)


def variants(found, name):
    """Rows of the alternatives whose name begins so."""
    table = found.variants
    rows = [i for i, variant in enumerate(table["variant"]) if variant.startswith(name)]
    return [{column: held[i] for column, held in table.items()} for i in rows]


@pytest.mark.parametrize("bins", [[], [1, 4, 16]])
def test_bins_are_a_list_in_yaml(bins):
    assert build(AdversarialSettings, {"bins": bins}, "settings").effort.bins == tuple(bins)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["auto", "adam"])
def test_every_alternative_does_what_its_row_says(classes, method):
    block = random_block(LENGTHS, classes=classes)
    found = run(block, AdversarialSettings(method=method, eps=0.05, k=2, search=QUICK))
    for row in found.variants["example"], found.variants["attention"]:
        assert row
    for i, example in enumerate(found.variants["example"]):
        entry = {name: held[i] for name, held in found.variants.items()}
        place = block.example.index(example)
        weights = torch.zeros_like(block.encoded.attention[place, 0])
        weights[: LENGTHS[place]] = torch.tensor(entry["attention"], dtype=torch.float64)
        assert float(weights.sum()) == pytest.approx(1, abs=1e-9)
        every = block.encoded.attention[:, None].clone()
        every[place, 0, 0] = weights
        after = block.encoded.decode(every)[place, 0].softmax(-1)
        before = block.encoded.probabilities[place]
        assert entry["probabilities"] == pytest.approx(after.tolist(), abs=1e-9)
        assert entry["output_tvd"] == pytest.approx(float(tvd(after, before)), abs=1e-9)
        assert entry["attention_jsd"] == pytest.approx(float(jsd(weights, block.encoded.attention[place, 0])), abs=1e-9)
        if "flip" in entry["variant"]:
            top = after.topk(2).values
            assert float(top[0] - top[1]) == pytest.approx(0, abs=1e-6)  # the end point is a tie
        else:
            assert entry["output_tvd"] <= 0.05 + 1e-6


def test_exact_beats_the_search_and_says_so():
    block = random_block((8, 6, 9), seed=2)
    exact = run(block, AdversarialSettings(eps=0.05))
    searched = run(block, AdversarialSettings(method="adam", eps=0.05, search=SearchSettings(steps=300)))
    best, _ = values(exact, "adversarial_attention")
    near, _ = values(searched, "adversarial_attention")
    assert all(near[e] <= best[e] + 1e-9 for e in best)
    assert any(near[e] > 0 for e in best)
    assert [row["exact"] for row in variants(exact, "exact-1")] == [True] * 3
    assert [row["exact"] for row in variants(searched, "adam-1")] == [False] * 3
    upper, _ = values(exact, "adversarial_upper")
    assert upper == best
    _, reasons = values(searched, "adversarial_upper")
    assert set(reasons.values()) == {"no bound for the gradient search"}


def test_likelihood_is_the_divergence_from_the_models_attention():
    block = random_block((6, 4), seed=1)
    found = run(block, AdversarialSettings(eps=0.05))
    unlikely, _ = values(found, "adversarial_kl")
    for place, row in enumerate(variants(found, "exact-1")):
        own = block.encoded.attention[place, 0, : len(row["attention"])]
        other = torch.tensor(row["attention"], dtype=torch.float64)
        assert unlikely[row["example"]] == pytest.approx(float(kl(other, own)), abs=1e-9)


def test_mass_where_sparse_attention_has_none():
    found = run(random_block((3,), attention=[[0.6, 0.4, 0.0]], seed=3), AdversarialSettings(eps=0.4))
    value, reason = (part["e0"] for part in values(found, "adversarial_kl"))
    row = variants(found, "exact-1")[0]
    assert row["attention"][2] > 0
    assert math.isnan(value)
    assert reason == "mass where the model has none"


def test_one_token_no_token():  # C01
    found = run(random_block((1, 0)), AdversarialSettings())
    best, reasons = values(found, "adversarial_attention")
    assert (best["e0"], reasons["e1"]) == (0.0, "no content token")
    assert math.isnan(best["e1"])
    reach, _ = values(found, "jsd_reachable")
    assert reach["e0"] == 0
    _, reasons = values(found, "adversarial_ratio")
    assert reasons == {"e0": "n<2", "e1": "no content token"}
    _, reasons = values(found, "flip_distance")
    assert reasons == {"e0": "attention-proof", "e1": "no content token"}
    proof, _ = values(found, "attention_proof")
    assert proof["e0"] == 1
    assert math.isnan(proof["e1"])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_decision(classes):
    block = random_block((6, 9, 4), classes=classes, seed=4)
    found = run(block, AdversarialSettings())
    nearest = flip_distance(
        block.encoded.attention[:, 0], block.items[:, 0], block.encoded.affine.token_logits, block.encoded.affine.bias
    )
    distance, reasons = values(found, "flip_distance")
    keeping, _ = values(found, "decision_jsd")
    upper, _ = values(found, "decision_upper")
    proof, _ = values(found, "attention_proof")
    for place, example in enumerate(block.example):
        assert reasons[example] == nearest.reason[place]
        assert proof[example] == float(nearest.attention_proof[place])
        if reasons[example] is None:
            assert distance[example] == pytest.approx(float(nearest.jsd[place]), abs=1e-12)
        assert keeping[example] <= upper[example] + 1e-9
    assert any(reason is None for reason in reasons.values())


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (random_block((4, 5), affine=False), "read-out is not affine"),
        (random_block((4, 5), classes=3, multi_label=True), "labels are independent"),
    ],
)
def test_without_an_affine_readout_the_search_alone(block, reason):
    found = run(block, AdversarialSettings(eps=0.1, search=QUICK))
    best, _ = values(found, "adversarial_attention")
    assert all(value >= 0 for value in best.values())
    _, reasons = values(found, "flip_distance")
    assert set(reasons.values()) == {reason}
    searched = {name for name in found.variants["variant"] if not name.endswith("-flip")}
    assert searched == {"adam-1"}
    with pytest.raises(InputError, match="needs a read-out that is affine"):
        run(block, AdversarialSettings(method="exact"))


def test_what_is_fast_finds_as_much_as_the_papers_search():
    block = random_block((8, 6, 9, 4), seed=2, affine=False)
    fast, paper = (
        values(run(block, AdversarialSettings(method=method, eps=0.05)), "adversarial_attention")[0]
        for method in ("auto", "adam")
    )
    assert sum(fast.values()) > sum(paper.values())


def test_no_search_under_a_control_unless_it_is_asked_for():
    block = controlled(random_block((5, 6, 0), affine=False), "uniform")
    found, reasons = values(run(block, AdversarialSettings()), "adversarial_attention")
    assert all(math.isnan(value) for value in found.values())
    assert list(reasons.values()) == ["not searched under a control"] * 2 + ["no content token"]
    asked, _ = values(run(block, AdversarialSettings(method="adam", search=QUICK)), "adversarial_attention")
    assert asked["e0"] >= 0


def test_controls_have_names_of_their_own_and_no_bounds_of_less_effort():
    block = random_block((5, 6), classes=3)
    found = run(controlled(block, "random"), AdversarialSettings(eps=0.05))
    assert set(found.scores["source"]) == {"random"}
    _, reasons = values(found, "adversarial_attention")
    assert set(reasons.values()) == {"not searched under a control"}
    for bound in ("adversarial_upper", "decision_jsd", "decision_upper"):
        assert set(values(found, bound)[1].values()) == {"not searched under a control"}
    two = run(controlled(random_block((5, 6)), "uniform"), AdversarialSettings())
    assert {name.split()[0] for name in two.variants["variant"]} == {"uniform"}


def test_scores_lie_in_the_ranges_of_the_metric_table():
    specs = {spec.name: spec for spec in METRICS}
    for classes in (2, 3):
        found = run(random_block((3, 8, 1, 0), classes=classes, seed=6), AdversarialSettings(eps=0.05)).scores
        assert set(found["metric"]) == set(specs)
        for metric, value, reason in zip(found["metric"], found["value"], found["reason"], strict=True):
            assert math.isnan(value) == (reason is not None)
            assert math.isnan(value) or specs[metric].low <= value <= specs[metric].high + 1e-9


def test_settings_are_checked():
    of_proofs = ({"bins": (0,)}, {"halvings": -1}, {"boxes": -1}, {"bins": (), "boxes": 8})
    for wrong in ({"method": "exct"}, {"eps": 1.0}, {"k": 0}, *of_proofs):
        with pytest.raises(InputError):
            AdversarialSettings(**wrong)


def test_accuracy_under_the_alternative_is_that_of_its_prediction():
    block = replace(random_block((6, 5, 0), 2, 1), labels=[1, -1, 0])
    found = run(block, AdversarialSettings(eps=0.2))
    right, reasons = values(found, "adversarial_accuracy")
    listed = found.variants
    best = next(i for i, name in enumerate(listed["variant"]) if name == "exact-1" and listed["example"][i] == "e0")
    chances = listed["probabilities"][best]
    assert right["e0"] == float(chances[1] > chances[0])
    assert (reasons["e1"], reasons["e2"]) == ("no known label", "no content token")
    assert set(values(run(random_block((3,)), AdversarialSettings()), "adversarial_accuracy")[1].values()) == {
        "no known label"
    }


@pytest.mark.parametrize("classes", [2, 3])
def test_accuracy_is_that_under_the_alternative_and_not_under_the_models_own(classes):
    """Texts whose decision the alternative changes: right under the one, wrong under the other."""
    block = random_block((6, 5, 7, 8, 6), classes=classes, seed=1)
    own = block.encoded.logits.argmax(-1).tolist()
    found = run(replace(block, labels=own), AdversarialSettings(eps=0.9))
    right, _ = values(found, "adversarial_accuracy")
    after = {row["example"]: row["probabilities"] for row in variants(found, "exact-1" if classes == 2 else "interval")}
    changed = [e for e, label in zip(block.example, own, strict=True) if after[e].index(max(after[e])) != label]
    assert len(changed) > 0
    assert {e for e, value in right.items() if value == 0} == set(changed)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["auto", "adam"])
def test_the_change_is_that_of_the_farthest_alternative(classes, method):
    """Of several alternatives the first is the farthest, and the numbers of a text are its."""
    block = random_block((6, 4, 9), classes, 2)
    found = run(block, AdversarialSettings(method=method, k=3, search=SearchSettings(steps=150)))
    changes, _ = values(found, "adversarial_tvd")
    moves, _ = values(found, "adversarial_attention")
    variants = found.variants
    compared = 0
    for place, example in enumerate(variants["example"]):
        if variants["variant"][place].endswith("-1"):
            assert changes[example] == pytest.approx(variants["output_tvd"][place], abs=1e-12)
            assert moves[example] == pytest.approx(variants["attention_jsd"][place], abs=1e-12)
            compared += 1
        elif not variants["variant"][place].startswith("flip"):
            assert variants["attention_jsd"][place] <= moves[example] + 1e-12
    assert compared == 3
    assert len(set(changes.values())) > 1
