"""Training with the regularizer leverage: its loss, what it does to a model, and which models it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.flip_distance import attention_proof
from attn_faithful.training.base import train_base
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from tests.reference import leverage as reference
from tests.training.planted import (
    COLLATE,
    WITH_QUERY,
    Stopped,
    batch_of,
    bypass,
    classifier,
    hierarchical,
    same,
    stop_at,
    texts,
    weights,
    with_query,
)

TRAIN, VALIDATION = texts(48), texts(24, seed=1)
SETTINGS = TrainSettings(epochs=6, batch_size=16, learning_rate=1e-2, regularizers={"leverage": 1.0})


def train(model, folder, settings=SETTINGS, on_progress=None, rows=(TRAIN, VALIDATION)):
    return train_base(model, TrainingTask(*rows, COLLATE, settings, 3, folder / "checkpoints", on_progress))


def loss_of(model, batch):
    return REGULARIZERS["leverage"]().loss(batch, model(**batch, output_hidden_states=True), model)


# --- its loss


@pytest.mark.parametrize("settings", [{}, {"num_labels": 3}, {"query": True}, {"scale": "tasc_lin"}])
def test_the_loss_of_a_batch_equals_the_reference(settings):
    """By the model's attention, and by its logits where a single token has all of it."""
    model = classifier(encoder="lstm", hidden_size=4, **settings).double()
    classes = model.config.num_labels
    rows = texts(48, classes=classes, low=1)
    batch = batch_of(with_query(rows), WITH_QUERY) if model.has_query else batch_of(rows)
    special = torch.zeros_like(batch["input_ids"])
    special[:, 0] = 1  # so that texts of one word have no content, and those of two one item
    batch["special_tokens_mask"] = special
    output = model(**batch, output_hidden_states=True)
    kept = batch["attention_mask"].bool() & (special == 0)
    every_token = torch.eye(kept.shape[1]).double().expand(len(kept), -1, -1)[:, :, None]  # (B, T, 1, T)
    with torch.no_grad():
        of_tokens = model.encode(batch).decode(every_token)  # (B, T, C), bias and all
    expected = []
    for row, mask in enumerate(kept):
        attention, logits = output.attentions[row][mask].tolist(), of_tokens[row][mask].tolist()
        expected.append(reference.leverage_loss(attention, logits, [0.0] * classes) or 0.0)
    assert expected.count(0.0) > 5
    found = REGULARIZERS["leverage"]().loss(batch, output, model)
    assert float(found.detach()) == pytest.approx(np.mean(expected), abs=1e-10)


def test_candidates_are_the_classes_that_count():
    model, batch = classifier(num_labels=3).double(), batch_of(texts(12, classes=3))
    batch["candidates"] = torch.tensor([[1, 1, 0]]).expand(12, -1)
    batch["labels"] = batch["labels"].clamp(max=1)
    output = model(**batch, output_hidden_states=True)
    of_tokens = model.readout(output.hidden_states).detach()[..., :2]
    kept = batch["attention_mask"].bool()
    expected = []
    for row, mask in enumerate(kept):
        attention, logits = output.attentions[row][mask].tolist(), of_tokens[row][mask].tolist()
        expected.append(reference.leverage_loss(attention, logits, [0.0, 0.0]))
    found = REGULARIZERS["leverage"]().loss(batch, output, model)
    assert float(found.detach()) == pytest.approx(np.mean(expected), abs=1e-10)


def test_dropout_is_that_of_the_pass():
    model, batch = classifier(encoder="lstm", dropout=0.5).train(), batch_of(TRAIN)
    assert float(loss_of(model, batch).detach()) != float(loss_of(model, batch).detach())


# --- what it does


@pytest.mark.parametrize("encoder", ["lstm", "cnn"])
def test_decisions_come_to_rest_on_attention(tmp_path, encoder):
    losses, batch = {}, batch_of(VALIDATION)
    for weight in (0.0, 1.0):
        model = classifier(encoder=encoder)
        settings = replace(SETTINGS, epochs=16, select_by="loss", regularizers={"leverage": weight})
        history = train(model, tmp_path / str(weight), settings, rows=(texts(192), VALIDATION))
        losses[weight] = float(loss_of(model, batch).detach())
        assert history[-1]["eval_accuracy"] > 0.9
    assert losses[1.0] < losses[0.0] / 2
    assert history[-1]["regularizer_leverage"] < history[0]["regularizer_leverage"] / 2


def test_fewer_texts_are_attention_proof(tmp_path):
    shares, batch = {}, batch_of(VALIDATION)
    for weight in (0.0, 1.0):
        model = classifier(encoder="lstm")
        settings = replace(SETTINGS, epochs=16, select_by="loss", regularizers={"leverage": weight})
        train(model, tmp_path / str(weight), settings, rows=(texts(192), VALIDATION))
        with torch.no_grad():
            encoded = model.encode(batch)
        affine = encoded.affine
        proof = attention_proof(affine.token_logits, affine.bias, encoded.content, encoded.logits.argmax(1))
        shares[weight] = float(proof.double().mean())
    assert shares[1.0] < shares[0.0] / 2


def test_attention_and_read_out_each_get_a_gradient():
    model, batch = classifier(encoder="lstm"), batch_of(TRAIN)
    loss_of(model, batch).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert model.attention.scorer.score.weight.grad.any()
    assert model.readout.weight.grad.any()


@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_one_item_and_no_item_add_nothing(projection):
    model = classifier(projection=projection)
    batch = batch_of(TRAIN.take([0, 1]).with_columns(input_ids=[[], [5]], length=[0, 1]))
    loss = loss_of(model, batch)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_mixed_precision(tmp_path):
    histories = []
    for mixed in (False, True):
        model = classifier(encoder="lstm")
        settings = replace(SETTINGS, epochs=2, mixed_precision=mixed)
        histories.append(train(model, tmp_path / str(mixed), settings))
    plain, other = (history[-1]["regularizer_leverage"] for history in histories)
    assert plain != other
    assert other == pytest.approx(plain, rel=0.05)


def test_resumed_equals_undisturbed(tmp_path):
    settings = {"encoder": "lstm", "hidden_size": 4, "dropout": 0.3}
    whole = classifier(**settings)
    expected = train(whole, tmp_path / "undisturbed")
    with pytest.raises(Stopped):
        train(classifier(**settings), tmp_path, on_progress=stop_at(3))
    model = classifier(seed=99, **settings)
    history = train(model, tmp_path)
    assert same(weights(model), weights(whole))
    assert [row["regularizer_leverage"] for row in history] == [row["regularizer_leverage"] for row in expected]


# --- which models it refuses


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: classifier(readout="tanh"), "affine in the attention .* model.readout is 'tanh'"),
        (lambda: classifier(output="multi_label"), "one label a text, .* model.output 'multi_label'"),
        (bypass, "a model with a path around it"),
        (hierarchical, "one attention over the words .* attends at word, sentence"),
    ],
)
def test_models_that_cannot_have_it_are_refused_before_training(tmp_path, build, message):
    model = build()
    before = weights(model)
    rows = TRAIN
    if model.config.multi_label:
        rows = TRAIN.with_columns(labels=np.eye(2, dtype=int)[np.asarray(TRAIN["labels"])].tolist())
    with pytest.raises(InputError, match=message):
        train(model, tmp_path, rows=(rows, rows))
    assert same(before, weights(model))
