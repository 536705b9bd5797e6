"""Summaries of cells: what is written is read again, and files hang on the content alone."""

import math

import numpy as np
from evidence.cells import CellSummary, Number, read_cells, write_cell
from evidence.collect import f1_interval

from attn_faithful.training.metrics import classification_metrics


def cell(**changes):
    usual = {
        "paper": "p",
        "axes": {"data": "SST", "encoder": "lstm", "projection": "sparsegen -1"},
        "seed": 2,
        "label_names": ["a", "b"],
        "data": {"vocabulary": 7, "test": {"n": 3}},
        "settings": {"train": {"epochs": 8}},
        "minutes": 1.23456789,
        "versions": {"torch": "2"},
        "machine": {"threads": 1},
        "numbers": [
            Number("base_f1", value=0.5, low=0.25, high=0.75, n=3),
            Number("tau", "attention~gradient", "b", "pool", 1 / 3, 0.1, 0.4, 2, 1, {"n<2": 1}),
            Number("tau", "uniform~gradient", n_undefined=3, reasons={"constant": 3}),
            Number("attefa", "attefa 10", value=0.1, low=0.0, high=0.2, n=3),
            Number("attefa", "attefa 50", value=0.2, low=0.1, high=0.3, n=3),
            Number("attefa", "kl-0.5 50", value=0.9, low=0.1, high=0.3, n=3),
        ],
    }
    return CellSummary(**{**usual, **changes})


def test_what_is_written_is_read_again(tmp_path):
    path = write_cell(cell(), tmp_path)
    assert path.relative_to(tmp_path).as_posix() == "p/sst-lstm-sparsegen--1-2.json"
    (again,) = read_cells(tmp_path)
    assert again.axes == cell().axes
    assert again.minutes == 1.23457
    (tau,) = again.find("tau", "attention~gradient", "b")
    assert (tau.value, tau.site, tau.n_undefined, tau.reasons) == (0.333333, "pool", 1, {"n<2": 1})
    (undefined,) = again.find("tau", "uniform~gradient")
    assert math.isnan(undefined.value)
    assert undefined.n_undefined == 3
    text = path.read_text(encoding="utf-8")
    assert write_cell(again, tmp_path).read_text(encoding="utf-8") == text


def test_twins_of_one_kind_are_found_by_seed():
    assert [number.value for number in cell().of_twins("attefa", "attefa")] == [0.1, 0.2]
    assert [number.value for number in cell().of_twins("attefa", "kl-0.5")] == [0.9]


def test_the_interval_of_f1_is_that_of_resampled_f1():
    generator = np.random.default_rng(1)
    labels = generator.random(150) < 0.4
    predicted = np.where(generator.random(150) < 0.8, labels, ~labels)
    low, high = f1_interval(predicted, labels)
    values = []
    for _ in range(1000):
        drawn = generator.integers(0, 150, 150)
        probabilities = np.stack([1.0 - predicted[drawn], 1.0 * predicted[drawn]], axis=1)
        values.append(classification_metrics(probabilities, labels[drawn].astype(int), False)["f1"])
    assert np.allclose([low, high], np.quantile(values, [0.025, 0.975]), atol=0.02)  # two bootstraps of 1,000
