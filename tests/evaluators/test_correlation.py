"""The correlation test against the functional layer, and the cases of undefined examples (C01 to C07, C26)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.correlation import METRICS, CorrelationSettings, run
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.functional.rankings import kendall_tau_b
from tests.evaluators.blocks import random_block, values

GRADIENT, REMOVAL = "input_x_gradient", "leave_one_out"
SETTINGS = CorrelationSettings()


def block_with(attention, gradient, removal=None):
    """A block whose examples have this attention and importance, padded with NaN."""
    block = random_block([len(row) for row in attention], attention=attention)
    return replace(block, sources={GRADIENT: padded(gradient, block), REMOVAL: padded(removal or gradient, block)})


def padded(rows, block):
    laid = torch.full(block.items[:, 0].shape, math.nan, dtype=torch.float64)
    for row, numbers in enumerate(rows):
        laid[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
    return laid


def one(attention, gradient, metric="attention_correlation"):
    found, reasons = values(run(block_with([attention], [gradient]), SETTINGS), metric, f"attention~{GRADIENT}")
    return found["e0"], reasons["e0"]


@pytest.mark.parametrize(
    ("attention", "gradient", "tau"),
    [
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], -1 / 3),  # C04
        ([0.6, 0.4, 0, 0, 0, 0], [5, 6, 1, 2, 3, 4], 0.602464),  # C06
        ([0.1, 0.2, 0.7], [1.0, 2.0, 3.0], 1.0),  # C26: three entries, whatever the words
        ([0.1, 0.9], [1.0, 2.0], 1.0),  # C01: two tokens
    ],
)
def test_known_values_alone_and_padded(attention, gradient, tau):
    assert one(attention, gradient)[0] == pytest.approx(tau, abs=1e-6)
    longer = [0.1] * 10
    found, _ = values(
        run(block_with([attention, longer], [gradient, longer]), SETTINGS),
        "attention_correlation",
        f"attention~{GRADIENT}",
    )
    assert found["e0"] == pytest.approx(tau, abs=1e-6)


@pytest.mark.parametrize(
    ("attention", "gradient", "reason"),
    [
        ([1.0], [0.3], "n<2"),  # C01
        ([], [], "no content token"),
        ([0.25] * 4, [1.0, 2.0, 3.0, 4.0], "constant attention"),  # C02
        ([1 / 3, 1 / 3 + 5e-17, 1 / 3 + 1.2e-16], [1.0, 2.0, 3.0], "constant attention"),  # C02: one ulp is no order
        ([0.1, 0.9], [0.0, 0.0], f"constant {GRADIENT}"),
        ([0.1, 0.2, math.nan, 0.4], [1.0, 2.0, 3.0, 4.0], "nan in scores"),  # C03
    ],
)
def test_undefined_is_nan_with_its_reason(attention, gradient, reason):
    value, why = one(attention, gradient)
    assert math.isnan(value)
    assert why == reason
    assert one(attention, gradient, "significant")[0] == 0  # over all texts, as the paper counts
    assert math.isnan(one(attention, gradient, "significant_n5")[0])


def test_short_texts_cannot_be_significant():  # C07
    for n in (2, 3, 4):
        ranking = list(range(1, n + 1))
        attention = [rank / sum(ranking) for rank in ranking]
        assert one(attention, ranking)[0] == 1
        assert one(attention, ranking, "significant")[0] == 0
        assert one(attention, ranking, "significant_n5")[1] == "n<5"
    attention = [rank / 15 for rank in range(1, 6)]
    assert one(attention, [1, 2, 3, 4, 5], "significant_n5")[0] == 1
    assert one(attention, [1, 2, 3, 4, 5], "correlation_p")[0] == pytest.approx(0.016667, abs=1e-6)


def test_special_tokens_are_left_out():  # C05
    attention, gradient = [0.40, 0.20, 0.10, 0.05, 0.25], [0.9, 0.1, 0.2, 0.3, 0.8]
    assert one(attention, gradient)[0] == pytest.approx(0.4)
    block = block_with([attention], [gradient])
    content = block.encoded.content.clone()
    content[0, [0, 4]] = False
    found, _ = values(
        run(replace(block, encoded=replace(block.encoded, content=content)), SETTINGS),
        "attention_correlation",
        f"attention~{GRADIENT}",
    )
    assert found["e0"] == pytest.approx(-1.0)


def test_pairs_and_differences():
    generator = np.random.default_rng(0)
    attention, gradient, removal = (generator.dirichlet(np.ones(8)) for _ in range(3))
    found = run(block_with([attention.tolist()], [gradient.tolist()], [removal.tolist()]), SETTINGS)

    def tau(a, b):
        return kendall_tau_b(a, b).value

    def value(metric, source):
        return values(found, metric, source)[0]["e0"]

    assert value("attention_correlation", f"attention~{REMOVAL}") == tau(attention, removal)
    assert value("attention_correlation", f"{GRADIENT}~{REMOVAL}") == tau(gradient, removal)
    figure_3 = value("tau_difference", f"{GRADIENT}-attention~{REMOVAL}")
    assert figure_3 == pytest.approx(tau(gradient, removal) - tau(attention, removal))
    figure_4 = value("tau_difference", f"{REMOVAL}-attention~{GRADIENT}")
    assert figure_4 == pytest.approx(tau(removal, gradient) - tau(attention, gradient))


def test_a_control_is_compared_with_the_sources_and_the_sources_not_again():
    block = block_with([[0.1, 0.2, 0.3, 0.4]], [[1, 2, 3, 4]])
    sources = set(run(controlled(block, "random"), SETTINGS).scores["source"])
    assert sources == {f"random~{GRADIENT}", f"random~{REMOVAL}"}
    _, reasons = values(run(controlled(block, "uniform"), SETTINGS), "attention_correlation", f"uniform~{GRADIENT}")
    assert reasons["e0"] == "constant uniform"


def test_every_slot_has_its_own_scores():
    block = block_with([[0.1, 0.2, 0.3, 0.4]], [[1, 2, 3, 4]])
    encoded = block.encoded
    two = replace(
        encoded,
        attention=torch.cat([encoded.attention, encoded.attention.flip(-1).roll(-1, -1)], 1),
        allowed=encoded.allowed.expand(-1, 2, -1),
    )
    found = run(replace(block, encoded=two), SETTINGS).scores
    slots = [
        (found["slot"][i], found["value"][i])
        for i, metric in enumerate(found["metric"])
        if metric == "attention_correlation" and found["source"][i] == f"attention~{GRADIENT}"
    ]
    assert slots == [(0, pytest.approx(1.0)), (1, pytest.approx(-1.0))]


def test_scores_lie_in_the_ranges_of_the_metric_table():
    lengths = [0, 1, 2, 3, 9, 14]
    generator = np.random.default_rng(1)
    rows = [generator.dirichlet(np.ones(n)).tolist() if n else [] for n in lengths]
    scores = [generator.random(n).round(1).tolist() for n in lengths]
    found = run(block_with(rows, scores), SETTINGS).scores
    specs = {spec.name: spec for spec in METRICS}
    assert set(found["metric"]) == set(specs)
    for metric, value, reason in zip(found["metric"], found["value"], found["reason"], strict=True):
        assert math.isnan(value) == (reason is not None)
        assert math.isnan(value) or specs[metric].low - 1e-12 <= value <= specs[metric].high + 1e-12


def test_settings_are_checked():
    with pytest.raises(InputError, match="different sources"):
        CorrelationSettings(against=["saliency", "saliency"])
    with pytest.raises(InputError, match="k must be at least 2"):
        CorrelationSettings(k=1)
