"""Regularizers of the attention on marked words: what they do to a model, on what models, and what data they refuse."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.training.base import train_base
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from tests.reference import marked_attention as reference
from tests.training.planted import COLLATE, Stopped, classifier, same, stop_at, texts, weights

NAMES = {"deceive": "impermissible", "rationale": "rationale"}
SETTINGS = TrainSettings(epochs=12, batch_size=16, learning_rate=3e-2)


def marked(rows):
    """The rows with the planted word, of ids below 14, marked in both ways."""
    marks = [(np.asarray(ids) < 14).astype(int).tolist() for ids in rows["input_ids"]]
    return rows.with_columns(impermissible=marks, rationale=marks)


TRAIN, PLAIN_VALIDATION = marked(texts(64)), texts(24, seed=1)  # what selects needs no marks
VALIDATION = marked(PLAIN_VALIDATION)


def train(model, folder, settings, rows=TRAIN, on_progress=None, collate=COLLATE, selection=PLAIN_VALIDATION):
    task = TrainingTask(rows, selection, collate, settings, 3, folder / "checkpoints", on_progress)
    return train_base(model, task)


def mass(model, rows=VALIDATION, columns=()):
    """Mean attention on the marked words, and accuracy."""
    batch = Collator(columns=("impermissible", *columns))([rows[i] for i in range(len(rows))])
    hidden = batch.pop("impermissible")
    with torch.no_grad():
        output = model(**batch)
    right = (output.logits.argmax(-1) == batch["labels"]).double().mean()
    return float((output.attentions * hidden).sum(-1).mean()), float(right)


@pytest.mark.parametrize("encoder", ["none", "lstm"])
def test_they_move_attention(tmp_path, encoder):
    found = {}
    for name, weight in (("deceive", 0.0), ("deceive", 1.0), ("rationale", 1.0)):
        model = classifier(encoder=encoder)
        history = train(model, tmp_path / f"{name}{weight}", replace(SETTINGS, regularizers={name: weight}))
        found[name, weight] = mass(model)
    plain, deceptive, drawn = found["deceive", 0.0][0], found["deceive", 1.0][0], found["rationale", 1.0][0]
    assert deceptive < 0.7 * plain
    assert drawn > plain
    assert history[-1]["regularizer_rationale"] < history[0]["regularizer_rationale"]


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_a_batch_equal_the_reference(name):
    model = classifier(encoder="lstm", hidden_size=4).double()
    batch = Collator(columns=(NAMES[name],))([VALIDATION[i] for i in range(len(VALIDATION))])
    special = torch.zeros_like(batch["input_ids"])
    special[:, 0] = 1
    batch["special_tokens_mask"] = special
    read = {key: value for key, value in batch.items() if key != NAMES[name]}
    output = model(**read)
    content = batch["attention_mask"].bool() & ~special.bool()
    slow = {"deceive": reference.hidden_mass_loss, "rationale": reference.rationale_divergence}[name]
    losses = []
    for attention, marks, kept in zip(output.attentions, batch[NAMES[name]], content, strict=True):
        losses.append(slow(attention[kept].tolist(), marks[kept].bool().tolist()) or 0.0)
    loss = REGULARIZERS[name]().loss(batch, output, model)
    assert float(loss.detach()) == pytest.approx(np.mean(losses), abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_hierarchical_models_too(tmp_path, name):
    def in_sentences(rows):
        ids = [(np.arange(n) // 3).tolist() for n in rows["length"]]
        return rows.with_columns(sentence_ids=ids)

    collate = Collator(columns=("sentence_ids",))
    found = {}
    for weight in (0.0, 2.0):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = HANClassifier(HANConfig(vocab_size=20, embedding_size=8, hidden_size=4, encoder="gru"))
        settings = replace(SETTINGS, regularizers={name: weight})
        rows, selection = in_sentences(TRAIN), in_sentences(PLAIN_VALIDATION)
        train(model, tmp_path / str(weight), settings, rows, collate=collate, selection=selection)
        found[weight], _ = mass(model, in_sentences(VALIDATION), ("sentence_ids",))
    if name == "deceive":
        assert found[2.0] < 0.7 * found[0.0]
    else:
        assert found[2.0] > 1.2 * found[0.0]


def test_a_killed_training_goes_on(tmp_path):
    settings = replace(SETTINGS, epochs=3, regularizers={"deceive": 0.5, "rationale": 0.1})
    whole = classifier()
    history = train(whole, tmp_path / "whole", settings)
    stopped = classifier()
    with pytest.raises(Stopped):
        train(stopped, tmp_path / "stopped", settings, on_progress=stop_at(2))
    again = classifier()
    resumed = train(again, tmp_path / "stopped", settings)
    assert same(weights(whole), weights(again))
    assert resumed[-1]["regularizer_deceive"] == history[-1]["regularizer_deceive"]


# --- refused before training


def all_marked(rows):
    marks = [list(row) for row in rows["impermissible"]]
    marks[3] = [1] * len(marks[3])
    return rows.with_columns(impermissible=marks)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "deceive",
            texts(8),
            r"'deceive' needs to know which words.*no column 'impermissible'; set data\.impermissible",
        ),
        ("rationale", texts(8), r"no column 'rationale'; set data\.rationale"),
        ("deceive", all_marked(TRAIN), r"all \d of the training example 't-3' are marked"),
        (
            "rationale",
            TRAIN.with_columns(rationale=[[0] * n for n in TRAIN["length"]]),
            "none of the 64 training texts has one; set data.rationale",
        ),
    ],
)
def test_data_that_it_cannot_have(tmp_path, name, rows, message):
    model = classifier()
    before = weights(model)
    with pytest.raises(InputError, match=message):
        train(model, tmp_path, replace(SETTINGS, regularizers={name: 1.0}), rows)
    assert same(before, weights(model))


def test_a_text_whose_content_is_all_marked_beside_special_tokens():
    rows = TRAIN.with_columns(special_tokens_mask=[[1, *[0] * (n - 1)] for n in TRAIN["length"]])
    marks = [[0, *[1] * (n - 1)] for n in TRAIN["length"]]
    with pytest.raises(InputError, match="example 't-0' are marked"):
        REGULARIZERS["deceive"]().check_rows(rows.with_columns(impermissible=marks))
    # of a rationale this is no fault
    REGULARIZERS["rationale"]().check_rows(rows.with_columns(rationale=marks))


def test_a_text_without_a_token_is_no_fault():
    rows = TRAIN.take([0, 1]).with_columns(input_ids=[[], [5, 15]], length=[0, 2], impermissible=[[], [1, 0]])
    REGULARIZERS["deceive"]().check_rows(rows)


def test_the_checkpoint_of_a_regularized_training_holds_the_model_alone(tmp_path):
    with pytest.raises(Stopped):
        train(
            classifier(),
            tmp_path,
            replace(SETTINGS, epochs=2, regularizers={"deceive": 1.0}),
            on_progress=stop_at(2),
        )
    (checkpoint,) = (tmp_path / "checkpoints").glob("checkpoint-*")
    assert load_file(checkpoint / "model.safetensors").keys() == classifier().state_dict().keys()
