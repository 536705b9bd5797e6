"""Training with regularizers: against a loop written by hand, resumed, and what they are refused for."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from attn_faithful._checks import InputError
from attn_faithful.functional.conicity import conicity, mean_conicity
from attn_faithful.training.base import train_base
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import LengthGroups
from tests.reference import conicity as reference
from tests.training.planted import (
    COLLATE,
    IN_SENTENCES,
    WITH_QUERY,
    Stopped,
    batch_of,
    classifier,
    hierarchical,
    in_sentences,
    same,
    stop_at,
    texts,
    weights,
    with_query,
)

TRAIN, VALIDATION = texts(48), texts(24, seed=1)
DOCUMENTS = in_sentences(TRAIN)
BOTH = {"diversity": 0.5, "tying": 0.1}
SETTINGS = TrainSettings(epochs=4, batch_size=16, learning_rate=1e-2, regularizers=BOTH)


def train(model, folder, settings=SETTINGS, on_progress=None):
    rows, selection, collate = TRAIN, VALIDATION, COLLATE
    if model.reads_sentences:
        rows, selection, collate = DOCUMENTS, in_sentences(VALIDATION), IN_SENTENCES
    if model.has_query:
        rows, selection, collate = with_query(TRAIN), with_query(VALIDATION), WITH_QUERY
    return train_base(model, TrainingTask(rows, selection, collate, settings, 3, folder / "checkpoints", on_progress))


def conicity_of(model):
    batch = batch_of(VALIDATION)
    if model.has_query:
        batch = batch_of(with_query(VALIDATION), WITH_QUERY)
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    return float(conicity(states, batch["attention_mask"].bool())[0].nanmean())


# --- what they do


def _by_hand(model, batch):
    """``loss + .5 conicity + .1 distance`` with the states of the encoder, text by text."""
    embedded = model.embedding(batch["input_ids"])
    read = batch["attention_mask"].bool()
    states = model.encoder(embedded, read)
    attention, _ = model.attention(states, read, None)
    context = (attention[:, :, None] * states).sum(1)
    losses = F.cross_entropy(model.read_out(context), batch["labels"], reduction="none")
    total = losses.sum()
    for state, embedding, kept in zip(states, embedded, read, strict=True):
        mean = state[kept].mean(0)
        total = total + 0.5 * F.cosine_similarity(state[kept], mean[None]).abs().mean()
        total = total + 0.1 * (state[kept] - embedding[kept]).square().sum(1).mean()
    return total / len(losses)


def test_steps_equal_a_loop_written_by_hand(tmp_path):
    model = classifier().double()
    by_hand = copy.deepcopy(model)
    settings = replace(SETTINGS, epochs=2, weight_decay=0.0, select_by="loss")
    history = train(model, tmp_path, settings)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=settings.learning_rate)
    order = LengthGroups(TRAIN["length"], 16, 3)
    for epoch in range(2):
        order.set_epoch(epoch)
        index, losses = list(order), []
        for start in range(0, len(index), 16):
            batch = COLLATE([TRAIN[i] for i in index[start : start + 16]])
            optimizer.zero_grad()
            loss = _by_hand(by_hand, batch)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        # Trainer adds up in float32
        assert history[epoch]["loss"] == pytest.approx(np.mean(losses), rel=1e-6)
    for name, value in by_hand.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-10, atol=1e-10)


def test_regularizers_of_a_batch_equal_the_reference():
    model, batch = classifier(encoder="lstm", hidden_size=4).double().train(), batch_of(TRAIN)
    output = model(**batch, output_hidden_states=True)
    kept = batch["attention_mask"].bool()
    states, embedded = output.hidden_states.detach().numpy(), model.embedding(batch["input_ids"]).detach().numpy()
    expected = {"diversity": [], "tying": []}
    for row, mask in enumerate(kept.numpy()):
        expected["diversity"].append(reference.conicity(states[row][mask]))
        expected["tying"].append(reference.tying_distance(states[row][mask], embedded[row][mask]))
    for name, values in expected.items():
        loss = REGULARIZERS[name]().loss(batch, output, model)
        assert float(loss.detach()) == pytest.approx(np.mean(values), abs=1e-10)


def test_regularizers_of_documents_equal_the_reference():
    """By sentence, a sentence of one word has no conicity; and the sentences' states have their own."""
    model, batch = hierarchical().double().train(), batch_of(DOCUMENTS, IN_SENTENCES)
    special = (1 - batch["attention_mask"]) | (batch["sentence_ids"] == 3).long()  # a sentence without content
    batch["special_tokens_mask"] = special
    output = model(**batch, output_hidden_states=True)
    states, embedded = output.hidden_states.detach().numpy(), model.embedding(batch["input_ids"]).detach().numpy()
    expected = {"diversity": [], "tying": []}
    for row, ids in enumerate(batch["sentence_ids"].numpy()):
        kept = special[row].numpy() == 0
        sentences = [states[row][kept & (ids == sentence)] for sentence in np.unique(ids[kept])]
        own = output.sentence_states[row][np.unique(ids[kept])].detach().numpy()
        of_words, of_sentences = reference.mean_conicity(sentences), reference.conicity(own)
        expected["diversity"].append(of_words + of_sentences)
        expected["tying"].append(reference.tying_distance(states[row][kept], embedded[row][kept]))
    for name, values in expected.items():
        loss = REGULARIZERS[name]().loss(batch, output, model)
        assert float(loss.detach()) == pytest.approx(np.mean(values), abs=1e-10)


def test_a_document_of_one_sentence_adds_what_a_flat_text_does():
    model, batch = hierarchical().double(), batch_of(TRAIN)
    output = model(**batch, sentence_ids=torch.zeros_like(batch["input_ids"]), output_hidden_states=True)
    batch["sentence_ids"] = torch.zeros_like(batch["input_ids"])
    found = REGULARIZERS["diversity"]().loss(batch, output, model)
    expected = conicity(output.hidden_states, batch["attention_mask"].bool())[0].mean()
    assert float(found.detach()) == pytest.approx(float(expected.detach()), abs=1e-12)


def test_special_tokens_do_not_count():
    model, batch = classifier(encoder="lstm", hidden_size=4).double(), batch_of(TRAIN)
    special = torch.zeros_like(batch["input_ids"])
    special[:, 0] = 1
    batch["special_tokens_mask"] = special
    output = model(**batch, output_hidden_states=True)
    content = batch["attention_mask"].bool() & ~special.bool()
    found = REGULARIZERS["diversity"]().loss(batch, output, model)
    assert torch.equal(found, conicity(output.hidden_states, content)[0].mean())


def test_undefined_texts_add_nothing():
    model = classifier()
    rows = TRAIN.take([0, 1]).with_columns(input_ids=[[], [5]], length=[0, 1])
    batch = batch_of(rows)
    output = model(**batch, output_hidden_states=True)
    assert float(REGULARIZERS["diversity"]().loss(batch, output, model).detach()) == 0
    one = float((output.hidden_states[1, 0] - model.embedding.weight[5]).detach().square().sum())
    assert float(REGULARIZERS["tying"]().loss(batch, output, model).detach()) == pytest.approx(one / 2, rel=1e-6)


def test_diversity_lowers_conicity_of_words_and_of_sentences(tmp_path):
    found, batch = {}, batch_of(in_sentences(VALIDATION), IN_SENTENCES)
    for weight in (0.0, 2.0):
        model = hierarchical()
        train(model, tmp_path / str(weight), replace(SETTINGS, epochs=6, regularizers={"diversity": weight}))
        found[weight] = []
        for site in model.sites:
            with torch.no_grad():
                encoded = model.encode(batch, site)
            found[weight].append(float(mean_conicity(encoded.states, encoded.allowed)[0].nanmean()))
    for plain, diverse in zip(found[0.0], found[2.0], strict=True):
        assert diverse < plain - 0.1


@pytest.mark.parametrize(
    ("encoder", "query"), [("lstm", False), ("cnn", False), ("transformer", False), ("lstm", True)]
)
def test_diversity_lowers_conicity(tmp_path, encoder, query):
    found = {}
    for weight in (0.0, 2.0):
        model = classifier(encoder=encoder, query=query)
        history = train(model, tmp_path / str(weight), replace(SETTINGS, epochs=6, regularizers={"diversity": weight}))
        found[weight] = conicity_of(model)
    assert found[2.0] < found[0.0] - 0.1
    assert history[-1]["regularizer_diversity"] < history[0]["regularizer_diversity"]


def test_tying_draws_states_to_embeddings(tmp_path):
    history = train(classifier(), tmp_path, replace(SETTINGS, epochs=6, regularizers={"tying": 1.0}))
    assert history[-1]["regularizer_tying"] < 0.7 * history[0]["regularizer_tying"]


def test_an_evaluation_has_the_loss_of_the_labels_alone(tmp_path):
    model = classifier()
    history = train(model, tmp_path, replace(SETTINGS, epochs=1, select_by="loss"))
    with torch.no_grad():
        loss = float(model(**batch_of(VALIDATION)).loss)
    assert history[-1]["eval_loss"] == pytest.approx(loss, rel=1e-5)


def test_mixed_precision(tmp_path):
    settings = replace(SETTINGS, epochs=2, regularizers={"diversity": 0.5})
    histories = []
    for mixed in (False, True):
        model = classifier(encoder="lstm")
        histories.append(train(model, tmp_path / str(mixed), replace(settings, mixed_precision=mixed)))
    plain, other = (history[-1]["regularizer_diversity"] for history in histories)
    assert plain != other
    assert other == pytest.approx(plain, rel=0.05)


# --- nothing changes without


def test_weights_of_0_are_as_none(tmp_path):
    plain, zero = classifier(dropout=0.3), classifier(dropout=0.3)
    one = train(plain, tmp_path / "a", replace(SETTINGS, regularizers={}))
    two = train(zero, tmp_path / "b", replace(SETTINGS, regularizers={"diversity": 0, "tying": 0.0}))
    assert same(weights(plain), weights(zero))
    assert one[-1].keys() == two[-1].keys()
    assert not any(key.startswith("regularizer") for key in one[-1])


# --- the same again


@pytest.mark.parametrize("build", [classifier, hierarchical])
def test_resumed_equals_undisturbed(tmp_path, build):
    settings = {"encoder": "lstm", "hidden_size": 4, "dropout": 0.3}
    whole = build(**settings)
    expected = train(whole, tmp_path / "undisturbed")
    with pytest.raises(Stopped):
        train(build(**settings), tmp_path, on_progress=stop_at(3))
    model = build(seed=99, **settings)
    history = train(model, tmp_path)
    assert same(weights(model), weights(whole))
    for name in ("loss", "regularizer_diversity", "regularizer_tying", "eval_loss"):
        assert [row[name] for row in history] == [row[name] for row in expected]


# --- what goes wrong


@pytest.mark.parametrize(
    ("regularizers", "message"),
    [
        ({"diversty": 1.0}, "Unknown regularizer 'diversty'. Did you mean 'diversity'?"),
        ({"diversity": -0.1}, "weight of the regularizer 'diversity' as a number from 0, but got -0.1"),
        ({"tying": math.nan}, "number from 0, but got nan"),
        ({"tying": math.inf}, "number from 0, but got inf"),
        ({"tying": "much"}, "number from 0, but got 'much'"),
        ({"tying": True}, "number from 0, but got True"),
    ],
)
def test_settings_are_checked(regularizers, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        TrainSettings(regularizers=regularizers)


@pytest.mark.parametrize("build", [classifier, hierarchical])
def test_tying_needs_one_width(tmp_path, build):
    model = build(encoder="lstm", hidden_size=8)
    before = weights(model)
    with pytest.raises(InputError, match=r"gives 16 numbers .* embedding 8; set model\.embedding_size=16"):
        train(model, tmp_path)
    assert same(before, weights(model))


@pytest.mark.parametrize(("epoch", "kept"), [(1, []), (3, ["checkpoint-3", "checkpoint-6"])])
def test_a_loss_of_nan_stops_and_keeps_the_checkpoints(tmp_path, monkeypatch, epoch, kept):
    steps_an_epoch, steps = 3, []
    whole = REGULARIZERS["diversity"].loss

    def breaks(self, batch, output, model):
        steps.append(1)
        loss = whole(self, batch, output, model)
        return loss * math.nan if len(steps) == steps_an_epoch * (epoch - 1) + 2 else loss

    monkeypatch.setattr(REGULARIZERS["diversity"], "loss", breaks)
    last = "there is no checkpoint yet"
    if kept:
        last = f"the last checkpoint is .*{kept[-1]}"
    message = rf"loss of epoch {epoch} is nan with the regularizers diversity nan \(weight 0.5\), tying .*; {last}\."
    with pytest.raises(InputError, match=message):
        train(classifier(), tmp_path)
    checkpoints = sorted((tmp_path / "checkpoints").glob("checkpoint-*"))
    assert {path.name for path in checkpoints} <= set(kept)
    assert bool(checkpoints) == bool(kept)
    for path in checkpoints:
        assert all(value.isfinite().all() for value in load_file(path / "model.safetensors").values())
