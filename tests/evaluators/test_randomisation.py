"""The test `randomisation`: an importance against itself once weights are drawn anew, and what is left of the model."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.randomisation import RandomisationSettings, run
from attn_faithful.models.model_parts import parts_from_top
from attn_faithful.models.randomised import drawn_weights
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.wrapped import OwnModel
from tests.evaluators.blocks import random_block
from tests.evaluators.rereadable import rereadable, some
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import build, texts
from tests.models.test_han import documents, small_han
from tests.models.test_stock_untouched import check_untouched, state
from tests.reference.randomisation import tau_with_itself

NAMES = ["attention", "attention_x_gradient", "random"]
SETTINGS = RandomisationSettings(rankings=NAMES, draws=2, tie_tolerance=0.0)


def columns(rows):
    """(metric, source) -> values in the order of the examples, and reasons."""
    found = {}
    for metric, source, value, reason in zip(
        *(rows.scores[name] for name in ("metric", "source", "value", "reason")), strict=True
    ):
        values, reasons = found.setdefault((metric, source), ([], []))
        values.append(value)
        reasons.append(reason)
    return found


def altered_copy(model, parts, numbers, seed):
    """A deep copy of one of our models with the weights of some parts drawn anew."""
    other = copy.deepcopy(model)
    names = {weight: name for name, weight in model.named_parameters()}
    drawn = drawn_weights(model, seed)
    with torch.no_grad():
        for number in numbers:
            for weight in parts[number].weights:
                other.get_parameter(names[weight]).copy_(drawn[weight])
    return other


def importances(model, batch, target, random):
    """The sources of `NAMES` from the definitions: (B, T) each."""
    encoded = model.encode(batch, "pool")
    weights = encoded.attention.detach()[:, None].clone().requires_grad_()  # (B, 1, 1, T)
    logits = encoded.decode(weights)[:, 0].double()
    chosen = logits.softmax(-1).gather(1, target[:, None]).sum()
    (gradient,) = torch.autograd.grad(chosen, weights)
    attention = encoded.attention[:, 0]
    return {
        "attention": attention.double(),
        "attention_x_gradient": (attention * gradient[:, 0, 0]).double(),
        "random": random,
    }


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "transformer"])
def test_equals_a_loop_over_deep_copies(encoder):
    """Each change by hand on a copy of the model, each text by scipy."""
    model = small_model(encoder=encoder, num_labels=3).double()
    batch = small_batch((7, 3, 2, 6))
    block = rereadable(model, batch, NAMES)
    found = columns(run(block, SETTINGS))
    parts = parts_from_top(model, batch)
    target = block.encoded.logits.argmax(-1)
    before = importances(model, batch, target, block.sources["random"])
    changes = {}
    for number, part in enumerate(parts):
        changes["randomisation_cascading", f"@{part.name}"] = range(number + 1)
        changes["randomisation_single", f"@{part.name}"] = range(number, number + 1)
    changes["randomisation_tau", ""] = range(len(parts))
    for (metric, step), numbers in changes.items():
        after = []
        for draw in range(SETTINGS.draws):
            other = altered_copy(model, parts, numbers, seed_for(block.seed, "weights", draw))
            after.append(importances(other, batch, target, block.sources["random"]))
        for name in NAMES:
            values, _ = found[metric, f"{name}{step}"]
            for row, content in enumerate(block.encoded.content):
                draws = [each[name][row, content].tolist() for each in after]
                expected = tau_with_itself(before[name][row, content].tolist(), draws)
                assert values[row] == pytest.approx(expected, abs=1e-10, nan_ok=True), (metric, name, step, row)
    assert len(found) == len(NAMES) * (2 * len(parts) + 1 + SETTINGS.draws)


def test_the_mean_is_that_of_the_draws():
    model = small_model(encoder="lstm")
    found = columns(run(rereadable(model, small_batch((7, 6, 5)), NAMES), SETTINGS))
    for name in NAMES:
        draws = [found["randomisation_draw", f"{name}@{draw}"][0] for draw in range(2)]
        np.testing.assert_allclose(np.mean(draws, 0), found["randomisation_tau", name][0], atol=1e-12)
    one, other = (found["randomisation_draw", f"attention@{draw}"][0] for draw in range(2))
    assert one != other


def test_sources_that_ignore_the_model_stay_at_1_and_attention_above_what_changes():
    model = small_model(encoder="lstm")
    batch = small_batch((7, 6, 5))
    given = torch.arange(7.0).expand(3, -1).contiguous()
    names = [*NAMES, "given"]
    found = columns(run(rereadable(model, batch, names, given=given), replace(SETTINGS, rankings=names)))
    for (_, source), (values, _) in found.items():
        if source.startswith(("random", "given")) or source == "attention@readout":
            assert values == [1.0, 1.0, 1.0], source
    for source in ("attention", "attention_x_gradient"):
        assert max(found["randomisation_tau", source][0]) < 1
    assert max(found["randomisation_cascading", "attention@encoder"][0]) < 1


@pytest.mark.parametrize(("name", "site", "last"), [("bert", "layer.0", "encoder.layer.1"), ("gpt2", "layer.1", "h.2")])
def test_attention_of_a_lower_layer_stays_until_its_layer_is_reached(name, site, last):
    """Nothing above feeds it: tau is 1 to the last bit down to the layer above."""
    model = StockModel(build(name))
    block = rereadable(model, texts((9, 6)), ["attention"], site)
    found = columns(run(block, replace(SETTINGS, rankings=["attention"])))
    steps = [part.name for part in parts_from_top(model, {})]
    untouched = steps[: steps.index(last) + 1]
    for mode in ("cascading", "single"):
        for step in steps:
            values, _ = found[f"randomisation_{mode}", f"attention@{step}"]
            if step in untouched:
                assert values == [1.0, 1.0], step
            else:
                assert min(values) < 1, (mode, step)


def test_the_same_text_has_the_same_numbers_in_any_block():
    model = small_model(encoder="lstm").double()
    batch = small_batch((7, 3, 6, 5))
    names = [*NAMES, "input_x_gradient"]
    settings = replace(SETTINGS, rankings=names)
    together = columns(run(rereadable(model, batch, names), settings))
    for rows, size in (([2], None), ([2, 1], 12)):
        alone = columns(run(rereadable(model, some(batch, rows, size), names), settings))
        for key, (values, _) in alone.items():
            assert values[0] == together[key][0][2], key


def test_what_is_undefined_has_its_reason():
    model = small_model(encoder="lstm")
    found = columns(run(rereadable(model, small_batch((7, 1, 0)), NAMES), SETTINGS))
    for key, (values, reasons) in found.items():
        assert math.isfinite(values[0]), key
        assert math.isnan(values[1])
        assert math.isnan(values[2])
        assert reasons == [None, "n<2", "no content token"]
    uniform = small_model(encoder="lstm", attention="uniform")
    block = rereadable(uniform, small_batch((7, 6)), ["attention"])
    values, reasons = columns(run(block, replace(SETTINGS, rankings=["attention"])))["randomisation_tau", "attention"]
    assert np.isnan(values).all()
    assert set(reasons) == {"constant attention"}


def test_of_a_model_without_known_weights_all_is_undefined():
    block = random_block()
    without = columns(run(block, SETTINGS))
    network = small_model(encoder="mlp")
    model = OwnModel(lambda batch: dict(batch), labels=["a", "b"])
    assert model.module is None
    read = rereadable(network, small_batch((7, 6)), NAMES)
    unknown = columns(run(replace(read, rereading=replace(read.rereading, model=model)), SETTINGS))
    for found in (without, unknown):
        assert set(found) == {("randomisation_tau", name) for name in NAMES}
        for values, reasons in found.values():
            assert np.isnan(values).all()
            assert set(reasons) == {"no weights known"}


def test_of_sentences_and_of_several_labels():
    names = ["attention", "random"]
    settings = RandomisationSettings(rankings=names, draws=1)
    found = columns(run(rereadable(small_han(encoder="gru"), documents(), names, "sentence"), settings))
    values, reasons = found["randomisation_tau", "attention"]
    assert math.isfinite(values[0])
    assert reasons[1] == "n<2"
    model = small_model(encoder="lstm", output="multi_label", num_labels=3)
    names = ["attention", "input_x_gradient"]
    found = columns(run(rereadable(model, small_batch((7, 6)), names), replace(settings, rankings=names)))
    assert np.isfinite(found["randomisation_tau", "input_x_gradient"][0]).all()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["own", "stock"])
def test_a_model_is_as_it_was_whatever_happens(kind, error):
    network = small_model(encoder="lstm") if kind == "own" else build("bert")
    network.train()
    model = network if kind == "own" else StockModel(network)
    block = rereadable(model, small_batch((7, 6)) if kind == "own" else texts((9, 6)), NAMES)
    before = state(network)
    objects = [(weight, weight.data_ptr()) for weight in network.parameters()]
    readings = []

    def read(*arguments):
        if len(readings) == 3:
            raise error
        readings.append(block.rereading.read(*arguments))
        return readings[-1]

    stopped = replace(block, rereading=replace(block.rereading, read=read))
    with pytest.raises(error):
        run(stopped, SETTINGS)
    assert not torch.equal(readings[0].encoded.logits, block.encoded.logits)
    assert objects == [(weight, weight.data_ptr()) for weight in network.parameters()]
    check_untouched(network, before)
    before = state(network)
    run(block, SETTINGS)
    check_untouched(network, before)


def test_steps_and_modes_that_are_chosen():
    block = rereadable(small_model(encoder="lstm"), small_batch((7, 6)), NAMES)
    chosen = RandomisationSettings(rankings=["attention"], draws=1, modes=["cascading"], steps=["attention"])
    every = replace(chosen, steps=[], modes=["cascading", "single"])
    found, all_of_them = columns(run(block, chosen)), columns(run(block, every))
    steps = {("randomisation_cascading", "attention@attention"), ("randomisation_tau", "attention")}
    assert set(found) == {*steps, ("randomisation_draw", "attention@0")}
    assert all(all_of_them[key] == value for key, value in found.items())
    with pytest.raises(InputError, match="step"):
        run(block, replace(chosen, steps=["encodr"]))


@pytest.mark.parametrize(
    "wrong", [{"rankings": []}, {"rankings": ["random", "random"]}, {"draws": 0}, {"modes": ["cascade"]}]
)
def test_wrong_settings(wrong):
    with pytest.raises(InputError):
        RandomisationSettings(**wrong)


def test_it_is_asked_for_by_name():
    assert [test for test in EVALUATORS if not EVALUATORS[test].by_default] == ["randomisation"]
