"""Known faults of published code: planted cases whose effect is known, slow references, and the file and its table."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from evidence.published_faults import identity_permutation, rank_as_position, swapped_files, tolerance
from evidence.published_faults.__main__ import main
from evidence.published_faults.comparing import compared, compared_means
from evidence.published_faults.effects import Comparison, Effect, Estimate, read_effects, write_effects
from evidence.published_faults.every import FAULTS
from evidence.published_faults.rank_as_position import BOTH, MATTERS_MORE, PRINTED, PUBLISHED, RANDOM_ONLY, SAME_ITEM
from evidence.published_faults.table import faults_table
from evidence.published_faults.trained import Trained

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.functional.adversary import exact_adversary
from tests.evaluators.blocks import random_block

# --- rank used as a position


def affine_block(attention, margins, bias=0.0):
    """One text with these weights and margins of its items."""
    block = random_block((len(attention),), attention=[attention])
    affine = block.encoded.affine
    affine.token_logits[0, : len(margins), 1] = torch.tensor(margins, dtype=torch.float64)
    affine.bias[:] = torch.tensor([0.0, bias])
    logits = block.encoded.decode(block.encoded.attention[:, None])[:, 0]
    block.encoded.logits.copy_(logits)
    return block


def chance(block, outcome, way, ranking="attention"):
    return float(rank_as_position.shares(block)[f"{ranking} {outcome} {way}"][0])


def test_a_top_item_that_alone_flips_meets_itself():
    """The second item is the top one and holds the decision: as published it is drawn one time in n - 1."""
    block = affine_block([0.1, 0.6, 0.2, 0.1], [-1.0, 1.0, -1.0, -1.0])
    assert chance(block, BOTH, PRINTED) == 0
    assert chance(block, BOTH, PUBLISHED) == pytest.approx(1 / 3)
    assert chance(block, SAME_ITEM, PUBLISHED) == pytest.approx(1 / 3)
    assert chance(block, SAME_ITEM, PRINTED) == 0


def test_a_top_item_at_the_front_is_never_drawn_by_either():
    block = affine_block([0.6, 0.1, 0.2, 0.1], [1.0, -1.0, -1.0, -1.0])
    for outcome in (BOTH, RANDOM_ONLY, SAME_ITEM, MATTERS_MORE):
        assert chance(block, outcome, PUBLISHED) == chance(block, outcome, PRINTED) == 0


def test_the_first_item_is_never_drawn_as_published():
    """The first item holds the decision, and the top one does not."""
    block = affine_block([0.3, 0.4, 0.2, 0.1], [4.0, 0.0, -2.0, -2.0])
    assert chance(block, RANDOM_ONLY, PRINTED) == pytest.approx(1 / 3)
    assert chance(block, MATTERS_MORE, PRINTED) > 0
    assert chance(block, RANDOM_ONLY, PUBLISHED) == 0


@pytest.mark.parametrize("classes", [2, 4])
def test_the_chances_are_those_of_a_loop_over_the_draws(classes):
    lengths = (6, 1, 0, 9, 2, 5, 7, 3)
    block = random_block(lengths, classes, seed=classes)
    found = rank_as_position.shares(block)
    weights, affine = block.encoded.attention[:, 0], block.encoded.affine
    some = 0.0
    for row, n in enumerate(lengths):
        if n < 2:
            assert math.isnan(found[f"attention {BOTH} {PUBLISHED}"][row])
            continue
        decided = [
            _decision_without(weights[row, :n], affine.token_logits[row], affine.bias[row], item) for item in range(n)
        ]
        own = int(block.encoded.logits[row].argmax())
        top = int(weights[row, :n].argmax())
        draws = {PUBLISHED: range(1, n), PRINTED: [item for item in range(n) if item != top]}
        for way, drawn in draws.items():
            flips = [decided[item] != own for item in drawn]
            both = (decided[top] != own) * np.mean(flips)
            random_only = (decided[top] == own) * np.mean(flips)
            assert found[f"attention {BOTH} {way}"][row] == pytest.approx(both)
            assert found[f"attention {RANDOM_ONLY} {way}"][row] == pytest.approx(random_only)
            some += both + random_only
    assert some > 0


def _decision_without(weights, token_logits, bias, item):
    kept = weights.clone()
    kept[item] = 0
    kept = kept / kept.sum()
    return int((kept @ token_logits[: len(weights)] + bias).argmax())


# --- comparisons


def test_the_difference_is_paired_and_texts_without_a_value_are_left_out_of_both():
    generator = np.random.default_rng(0)
    printed = 10 * generator.normal(size=400)
    published = printed + 0.5
    published[:7] = np.nan
    found = compared_means([published], [printed])
    assert found.difference.value == pytest.approx(0.5)
    assert found.difference.low == pytest.approx(0.5)
    assert found.difference.high == pytest.approx(0.5)
    assert found.as_printed.value == pytest.approx(printed[7:].mean())
    assert found.as_printed.n == found.difference.n == 393
    assert found.as_printed.high - found.as_printed.low > 1


def test_seeds_are_averaged_and_statistics_are_of_means():
    one, other = np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[4.0, 6.0], [5.0, 5.0]])
    found = compared([one, other], lambda means: means[0] / means[1], lambda means: means[1])
    assert found.as_published.value == pytest.approx((2 / 2 + 5 / 5) / 2)
    assert found.as_printed.value == pytest.approx((2 + 5) / 2)


def test_one_text_has_no_interval_and_none_has_no_value():
    one, none = np.array([np.nan, 2.0]), np.full(2, np.nan)
    found = compared_means([one, none, one], [one - 1, none, one - 3]).difference
    assert (found.value, found.n) == (2, 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    nothing = compared_means([none], [none]).difference
    assert math.isnan(nothing.value)
    assert nothing.n == 0


# --- trained models

WORDS = ("good", "bad", "film", "a", "not", "plot", "dull", "fine")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two tiny models of two seeds, and the folder of their data."""
    folder = tmp_path_factory.mktemp("runs")
    data = folder / "data" / "films"
    data.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for split, n in {"train": 40, "validation": 12, "test": 30}.items():
        texts = []
        for place in range(n):
            words = generator.choice(WORDS, size=2 + place % 7, replace=False)
            texts.append(" ".join(words))
        labels = [int("good" in text.split()) for text in texts]
        pd.DataFrame({"text": texts, "label": labels}).to_csv(data / f"{split}.csv", index=False)
    recipe = {
        "name": "tiny",
        "data": {"source": str(data)},
        "model": {"encoder": "mlp", "hidden_size": 8, "embedding_size": 8},
        "train": {"epochs": 8, "learning_rate": 0.05},
        "twin": None,
        "seeds": [2, 3],
    }
    af.run_recipe(recipe, folder / "out", progress=False)
    return [Trained(path, data.parent) for path in sorted((folder / "out").rglob("model"))]


def test_tolerance_is_the_exact_maximum_at_both(runs):
    by_group = tolerance.by_method(runs, tolerance.EXACT)
    found = by_group[tolerance.EXACT, "nats", "all"]
    for estimate, eps in ((found.as_published, 0.05), (found.as_printed, 0.01)):
        largest = [run.by_text(lambda block, eps=eps: {"jsd": _exact(block, eps)})["jsd"] for run in runs]
        assert estimate.value == pytest.approx(np.mean(largest), abs=1e-6)
    assert found.difference.value > 0
    of_one = tolerance.by_method(runs[:1], tolerance.EXACT)
    classes = [of_class for (_, _, texts), of_class in of_one.items() if texts.startswith("predicted")]
    assert sum(of_class.as_printed.n for of_class in classes) == 30
    total = sum(of_class.as_printed.n * of_class.as_printed.value for of_class in classes if of_class.as_printed.n)
    assert total / 30 == pytest.approx(of_one[tolerance.EXACT, "nats", "all"].as_printed.value)


def _exact(block, eps):
    attention, items, affine = block.encoded.attention[:, 0].double(), block.items[:, 0], block.encoded.affine
    logits = affine.token_logits.double() + affine.bias.double()[:, None]
    return exact_adversary(attention, items, logits[..., 1] - logits[..., 0], eps).jsd[:, 0]


def test_a_smaller_tolerance_accepts_no_more_of_the_published_search(runs):
    found = tolerance.measure([replace(runs[0], limit=8)])
    searched, exact = (found[metric, "nats", "all"] for metric in (tolerance.SEARCHED, tolerance.EXACT))
    assert 0 <= searched.as_printed.value <= searched.as_published.value <= exact.as_published.value + 1e-6
    assert searched.difference.low >= 0


def test_without_the_identity_two_words_are_exchanged(runs):
    found = identity_permutation.measure(runs[:1])
    two = found["median TVD", "probability", "2 words"]
    exchanged = runs[0].by_text(_exchanged)["tvd"]
    assert two.as_printed.n == np.isfinite(exchanged).sum() > 1
    assert two.as_printed.value == pytest.approx(np.nanmean(exchanged), abs=1e-6)
    assert two.difference.value < 0  # a median of draws of which half change nothing is at most that
    long = found["median TVD", "probability", "6 words or more"]
    assert abs(long.difference.value) < 0.2 * abs(two.difference.value)


def _exchanged(block):
    attention = block.encoded.attention
    is_two = block.items[:, 0].sum(1) == 2
    swapped = attention.clone()
    swapped[..., :2] = attention[..., [1, 0]]
    with torch.no_grad():
        after = block.encoded.decode(swapped[:, None])[:, 0].double().softmax(-1)
    change = (after - block.encoded.probabilities.double()).abs().sum(1) / 2
    return {"tvd": torch.where(is_two, change, math.nan)}


def test_each_swapped_file_holds_what_the_other_is_named_after(runs):
    found = swapped_files.measure(runs)
    ag, al = (found[f"mean difference of tau in the file CorrGL-{name}", "tau", "all"] for name in ("AG", "AL"))
    assert ag.as_published == al.as_printed
    assert ag.as_printed == al.as_published
    assert ag.difference.value == pytest.approx(-al.difference.value)
    frame = runs[0].scores({"correlation": {"against": ["input_x_gradient", "leave_one_out"]}})
    held = frame["attention_correlation input_x_gradient~leave_one_out"]
    by_loo = held - frame["attention_correlation attention~leave_one_out"]
    alone = swapped_files.measure(runs[:1])["mean difference of tau in the file CorrGL-AG", "tau", "all"]
    by_gradient = held - frame["attention_correlation attention~input_x_gradient"]
    known = by_loo.notna() & by_gradient.notna()
    assert alone.as_published.value == pytest.approx(by_loo[known].mean())
    assert alone.as_printed.value == pytest.approx(by_gradient[known].mean())


# --- the file, the command, the table


def effect(metric="both flip", value=0.25, fault="rank_as_position", **changes):
    found = Comparison(
        Estimate(value + 0.1, 0.1, 0.5, 9), Estimate(0.1, 0.05, 0.2, 9), Estimate(value, value - 0.1, value + 0.1, 9)
    )
    entries = {
        "unit": "percent",
        "texts": "all",
        "data": "Yelp",
        "model": "flat rnn",
        "seeds": [2],
        "command": "python",
        "versions": {"torch": "2"},
        **changes,
    }
    return Effect(fault, metric, comparison=found, **entries)


def test_effects_are_read_as_written_and_take_the_place_of_earlier_ones(tmp_path):
    path = tmp_path / "file.json"
    later = effect(fault="tolerance", unit="nats", value=math.nan)
    write_effects([later, effect(value=0.5)], FAULTS, path)
    write_effects([effect(value=0.25), effect("other")], FAULTS, path)
    first, other, last = read_effects(path)
    assert first == effect(value=0.25)
    assert other == effect("other")
    assert math.isnan(last.comparison.difference.value)
    assert "NaN" not in path.read_text()
    before = path.read_bytes()
    write_effects([effect(value=0.25)], FAULTS, path)
    assert path.read_bytes() == before
    record = json.loads(before)[0]
    assert record["paper"] == "serrano_smith_2019"
    assert record["where"] == FAULTS["rank_as_position"].where
    assert set(record) >= {
        "as_published",
        "as_printed",
        "difference",
        "unit",
        "metric",
        "data",
        "model",
        "seeds",
        "command",
    }


def test_the_table_shows_every_number_and_says_which_differ(tmp_path):
    path = tmp_path / "file.json"
    alone = Comparison(*[Estimate(0.5, math.nan, math.nan, 1)] * 3)
    numbers = [effect(value=0.25), effect("random only", value=0.05), effect("neither", value=-0.001)]
    numbers.append(replace(effect("one"), comparison=alone, unit=""))
    write_effects(numbers, FAULTS, path)
    text = faults_table("serrano_smith_2019", path)
    assert "| both flip, percent | all | Yelp flat rnn, seeds 2 | 9 | 0.35 (0.10 to 0.50) |" in text
    assert "| 0.25 (0.15 to 0.35) |" in text
    assert "| 0.05 (-0.05 to 0.15) |" in text
    assert "1 of 4 numbers differ" in text
    assert "| 0.00 (-0.10 to 0.10) |" in text
    assert "| one | all | Yelp flat rnn, seeds 2 | 1 | 0.5000 (no interval) |" in text
    nothing = faults_table("jain_wallace_2019", path)
    assert nothing.count("was not measured") == 3
    assert faults_table("meister_2021", path) == ""


def test_the_command_writes_what_it_measures(runs, tmp_path, capsys):
    path = tmp_path / "file.json"
    models = [str(run.path) for run in runs]
    options = ["--data-dir", str(runs[0].data_dir), "--output", str(path), "--limit", "10"]
    assert main(["--fault", "rank_as_position", *options, "--model", *models]) == 0
    effects = read_effects(path)
    assert len(effects) == len(rank_as_position.RANKINGS) * len(rank_as_position.OUTCOMES)
    assert effects[0].seeds == [2, 3]
    assert effects[0].comparison.difference.n <= 10
    assert str(runs[0].path.parents[1]) not in path.read_text()
    capsys.readouterr()
    assert main(["--fault", "tolerance", *options, "--model", str(tmp_path)]) == 2
    assert "meta.json" in capsys.readouterr().err
    assert read_effects(path) == effects
    with pytest.raises(InputError, match="no such folder"):
        _ = Trained(runs[0].path, tmp_path).data_settings
