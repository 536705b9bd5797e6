"""The controls of Wiegreffe and Pinter (2019): uniform and imposed attention."""

from dataclasses import replace

import numpy as np
import pytest

from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.training import wiegreffe_pinter as controls
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.wiegreffe_pinter import imposed_control, uniform_control, with_imposed_attention
from tests.training.planted import COLLATE, classifier, random_outputs, texts

ROWS = {"train": texts(48), "validation": texts(24, seed=1), "test": texts(24, seed=2)}
SETTINGS = TrainSettings(epochs=10, batch_size=16, learning_rate=5e-2)


def outputs(attend):
    """A base whose attention on a text is ``attend(ids)``."""
    return {
        split: Outputs(random_outputs(rows).probabilities, [attend(ids) for ids in rows["input_ids"]])
        for split, rows in ROWS.items()
    }


def on_planted(ids):
    return (ids < 14).astype(float)


def on_filler(ids):
    return (ids >= 14) / (ids >= 14).sum()


def run(control, base, folder, seed=0, settings=SETTINGS, **config):
    config = classifier(encoder="lstm", **config).config
    rows = {split: with_imposed_attention(ROWS[split], base[split]) for split in ROWS}
    task = TrainingTask(rows["train"], rows["validation"], COLLATE, settings, seed, folder)
    return control(config, None, task, rows["test"])


@pytest.mark.parametrize("control", [uniform_control, imposed_control])
def test_probabilities(tmp_path, control):
    base = outputs(on_planted)
    chances = run(control, base, tmp_path / "a")
    assert chances.shape == (24, 2)
    assert chances.sum(1) == pytest.approx(np.ones(24), abs=1e-6)
    assert classification_metrics(chances, ROWS["test"]["labels"])["f1"] > 0.7
    assert np.array_equal(chances, run(control, base, tmp_path / "b"))
    assert not np.array_equal(chances, run(control, base, tmp_path / "c", seed=1))


def test_uniform_weighs_every_token_the_same_whatever_the_base_does(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(controls, "run_over", lambda *args: seen.append(run_over(*args)) or seen[-1])
    one = run(uniform_control, outputs(on_planted), tmp_path / "a")
    assert all(
        weights == pytest.approx(np.full(len(weights), 1 / len(weights)), abs=1e-6) for weights in seen[0].attention
    )
    assert np.array_equal(one, run(uniform_control, outputs(on_filler), tmp_path / "b"))


def test_imposed_reads_only_where_the_base_looked(tmp_path):
    seen = classification_metrics(run(imposed_control, outputs(on_planted), tmp_path / "a"), ROWS["test"]["labels"])
    blind = classification_metrics(run(imposed_control, outputs(on_filler), tmp_path / "b"), ROWS["test"]["labels"])
    assert seen["accuracy"] > 0.95
    assert blind["accuracy"] < 0.7


def test_regularizers_of_the_base_are_those_of_uniform_alone(tmp_path):
    base, tied = outputs(on_planted), replace(SETTINGS, regularizers={"tying": 1.0})

    def same_with_and_without(control):
        sizes = {"embedding_size": 16}  # as wide as the base's states, which those of imposed's MLP are not
        plain = run(control, base, tmp_path / "plain", **sizes)
        return np.array_equal(plain, run(control, base, tmp_path / "tied", settings=tied, **sizes))

    assert same_with_and_without(imposed_control)
    assert not same_with_and_without(uniform_control)
