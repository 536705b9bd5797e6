"""The controls of Wiegreffe and Pinter (2019): MLPs, uniform and imposed attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.training import wiegreffe_pinter as controls
from attn_faithful.training.base import train_base
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.wiegreffe_pinter import (
    imposed_control,
    imposed_uniform_control,
    mlp_control,
    uniform_control,
    with_imposed_attention,
)
from tests.reference import imposed as slow
from tests.training.planted import COLLATE, batch_of, classifier, random_outputs, texts

ROWS = {"train": texts(48), "validation": texts(24, seed=1), "test": texts(24, seed=2)}
CONTROLS = [uniform_control, mlp_control, imposed_uniform_control, imposed_control]
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


@pytest.fixture
def trained(monkeypatch):
    """The model of each control that a test trains, and the task."""
    found = []

    def train(model, task):
        found.append((model, task))
        return train_base(model, task)

    monkeypatch.setattr(controls, "train_base", train)
    return found


@pytest.mark.parametrize("control", CONTROLS)
def test_probabilities(tmp_path, control):
    base = outputs(on_planted)
    chances = run(control, base, tmp_path / "a")
    assert chances.shape == (24, 2)
    assert chances.sum(1) == pytest.approx(np.ones(24), abs=1e-6)
    assert classification_metrics(chances, ROWS["test"]["labels"])["f1"] > 0.7
    assert np.array_equal(chances, run(control, base, tmp_path / "b"))
    assert not np.array_equal(chances, run(control, base, tmp_path / "c", seed=1))


def test_imposed_equals_loops(tmp_path, trained):
    """The predictions are those of the MLP under the guide's attention to the test texts."""
    base = {split: random_outputs(rows, seed=7) for split, rows in ROWS.items()}
    chances = run(imposed_control, base, tmp_path)
    ((model, _),) = trained
    parts = (model.encoder.projection, model.readout)
    weights = [values.tolist() for part in parts for values in (part.weight, part.bias)]
    for i, ids in enumerate(ROWS["test"]["input_ids"]):
        embedded = model.embedding.weight[ids].tolist()
        expected = slow.probabilities(embedded, base["test"].attention[i].tolist(), weights)
        assert chances[i] == pytest.approx(expected, abs=1e-6)


def test_mlps_are_of_one_beginning_and_differ_in_their_attention(tmp_path, trained):
    for control in (mlp_control, imposed_control):
        run(control, outputs(on_filler), tmp_path / control.__name__, settings=replace(SETTINGS, learning_rate=1e-12))
    (own, _), (imposed, _) = trained
    assert type(own.encoder).__name__ == type(imposed.encoder).__name__ == "MLPEncoder"
    for name, value in own.state_dict().items():
        assert torch.allclose(value, imposed.state_dict()[name], atol=1e-6), name


def test_an_mlp_of_its_own_attention_finds_what_uniform_attention_cannot_weigh(tmp_path, trained):
    run(mlp_control, outputs(on_filler), tmp_path / "own")
    run(imposed_uniform_control, outputs(on_filler), tmp_path / "uniform")
    masses = []
    for model, _ in trained:
        read = run_over(model, ROWS["test"], COLLATE)
        planted = map(np.dot, map(on_planted, ROWS["test"]["input_ids"]), read.attention)
        masses.append(np.mean(list(planted)))
    own, uniform = masses
    assert uniform == pytest.approx(np.mean([1 / len(ids) for ids in ROWS["test"]["input_ids"]]), abs=1e-6)
    assert own > 2 * uniform


@pytest.mark.parametrize("control", CONTROLS)
def test_everything_that_is_trained_has_a_gradient(tmp_path, trained, control):
    """Processes that train together wait for that of every parameter."""
    run(control, outputs(on_planted), tmp_path, settings=replace(SETTINGS, epochs=1))
    ((model, task),) = trained
    model.zero_grad()
    model.train()(**batch_of(task.train, task.collate)).loss.backward()
    assert not [name for name, value in model.named_parameters() if value.requires_grad and value.grad is None]


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


def test_regularizers_and_masks_of_the_base_are_those_of_uniform_alone(tmp_path, trained):
    base, tied = outputs(on_planted), replace(SETTINGS, regularizers={"tying": 1.0})

    def same_with_and_without(control):
        sizes = {"embedding_size": 16}  # as wide as the base's states, which those of imposed's MLP are not
        plain = run(control, base, tmp_path / "plain", **sizes)
        return np.array_equal(plain, run(control, base, tmp_path / "tied", settings=tied, **sizes))

    for control in (mlp_control, imposed_uniform_control, imposed_control):
        assert same_with_and_without(control)
    assert not same_with_and_without(uniform_control)
    for control in CONTROLS[1:]:
        run(control, base, tmp_path / "masked", settings=replace(SETTINGS, epochs=1, masking="half"))
        assert trained[-1][1].settings.masking is None
