"""The regularizer of stable attention: against a loop over texts, by gradcheck, and whatever stands beside a text."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from attn_faithful._seeds import generator_for
from attn_faithful.training.base import train_base
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.regularizers.stability import RADIUS
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from tests.reference import stability
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
SETTINGS = TrainSettings(epochs=4, batch_size=16, learning_rate=1e-2, regularizers={"stability": 1.0})
DRAW = (3, 17)


def regularizer(draw=DRAW):
    made = REGULARIZERS["stability"]()
    made.draw = draw
    return made


def loss(model, batch, draw=DRAW):
    return regularizer(draw).loss(batch, None, model)


def flat():
    return classifier(encoder="lstm", hidden_size=4).double(), batch_of(TRAIN)


def bag():
    return classifier(encoder="none", projection="sparsemax").double(), batch_of(TRAIN)


def pair():
    return classifier(encoder="gru", hidden_size=4, query=True).double(), batch_of(with_query(TRAIN), WITH_QUERY)


def documents():
    return hierarchical().double(), batch_of(in_sentences(TRAIN), IN_SENTENCES)


def scaled():
    return classifier(encoder="lstm", hidden_size=4, scale="tasc_lin").double(), batch_of(TRAIN)


MODELS = [flat, bag, pair, documents, scaled]


def row_of(batch, row):
    """One text of a batch without its padding."""
    alone = {name: value[row : row + 1] for name, value in batch.items()}
    length, of_query = int(alone["attention_mask"].sum()), 0
    if "query_attention_mask" in alone:
        of_query = int(alone["query_attention_mask"].sum())
    for name, value in alone.items():
        if value.dim() == 2:
            alone[name] = value[:, : of_query if name.startswith("query") else length]
    return alone


@pytest.mark.parametrize("made", MODELS)
def test_the_loss_equals_a_loop_over_texts(made):
    model, batch = made()
    values = []
    for row in range(len(batch["input_ids"])):
        alone = row_of(batch, row)
        tokens = alone["input_ids"][0].tolist()
        if not model.reads_ids:
            del alone["input_ids"]
        embedded = model.embedding.weight[tokens].detach().numpy()
        drawn = generator_for(*DRAW, "stability", *tokens).standard_normal(embedded.shape, dtype=np.float32)
        changed = stability.perturbed_embeddings(embedded, drawn.astype(float), RADIUS)
        attention = []
        for embeddings in (embedded, changed):
            output = model(inputs_embeds=torch.tensor(embeddings)[None], **alone)
            attention.append(output.attentions[0].tolist())
        values.append(stability.correlation_distance(*attention))
    assert float(loss(model, batch).detach()) == pytest.approx(np.mean(values), abs=1e-10)
    assert np.mean(values) > 1e-6


@pytest.mark.parametrize("made", MODELS)
def test_gradients(made):
    model, batch = made()
    batch = {name: value[:5] for name, value in batch.items()}

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return loss(self.model, batch)

    whole = Loss()
    names = ("model.embedding.weight", "model.attention.scorer.token.weight", "model.encoder.rnn.weight_hh_l0")
    values = dict(whole.named_parameters())
    names = [name for name in names if name in values]
    assert len(names) >= 2
    chosen = [values[name].detach().clone().requires_grad_() for name in names]

    def of(*parameters):
        return functional_call(whole, dict(zip(names, parameters, strict=True)), ())

    assert torch.autograd.gradcheck(of, chosen)


@pytest.mark.parametrize("made", MODELS)
def test_a_text_has_its_numbers_whatever_stands_beside_it(made):
    model, batch = made()
    alone = [float(loss(model, row_of(batch, row)).detach()) for row in range(len(batch["input_ids"]))]
    assert float(loss(model, batch).detach()) == pytest.approx(np.mean(alone), abs=1e-12)
    turned = {name: value.flip(0) for name, value in batch.items()}
    assert float(loss(model, turned).detach()) == pytest.approx(np.mean(alone), abs=1e-12)


def test_draws_follow_seed_and_step():
    model, batch = flat()
    first = float(loss(model, batch).detach())
    assert float(loss(model, batch).detach()) == first
    assert float(loss(model, batch, (3, 18)).detach()) != first
    assert float(loss(model, batch, (4, 17)).detach()) != first


@pytest.mark.parametrize("build", [classifier, hierarchical])
def test_dropout_is_no_change_of_the_embeddings(build):
    model = build(encoder="lstm", hidden_size=4, dropout=0.5).double()
    batch = batch_of(in_sentences(TRAIN), IN_SENTENCES)
    if build is classifier:
        del batch["sentence_ids"]
    expected = float(loss(model.eval(), batch).detach())
    state = torch.get_rng_state()
    assert float(loss(model.train(), batch).detach()) == expected
    assert model.training
    assert model.dropout.training
    assert torch.equal(state, torch.get_rng_state())


def test_texts_of_one_token_and_of_none_add_nothing():
    model = classifier(encoder="lstm")
    batch = batch_of(TRAIN.take([0, 1]).with_columns(input_ids=[[], [5]], length=[0, 1]))
    found = loss(model, batch)
    found.backward()
    assert float(found.detach()) == pytest.approx(0, abs=1e-7)
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_special_tokens_are_moved_and_do_not_count():
    model, batch = flat()
    special = torch.zeros_like(batch["input_ids"])
    special[:, 0] = 1
    found = loss(model, {**batch, "special_tokens_mask": special})
    assert float(found.detach()) > 1e-6
    none = loss(model, {**batch, "special_tokens_mask": torch.ones_like(special)})
    assert float(none.detach()) == 0


def test_equal_attention_is_stable():
    model = classifier(encoder="lstm", attention="uniform")
    assert float(loss(model, batch_of(TRAIN)).detach()) == 0


def train(model, folder, settings=SETTINGS, on_progress=None):
    rows, selection, collate = TRAIN, VALIDATION, COLLATE
    if model.reads_sentences:
        rows, selection, collate = in_sentences(TRAIN), in_sentences(VALIDATION), IN_SENTENCES
    return train_base(model, TrainingTask(rows, selection, collate, settings, 3, folder / "checkpoints", on_progress))


@pytest.mark.parametrize("settings", [{"encoder": "lstm"}, {"encoder": "cnn"}, {"freeze_embeddings": True}])
def test_training_makes_attention_stable(tmp_path, settings):
    found = {}
    for weight in (0.0, 1.0):
        model = classifier(**settings)
        train(model, tmp_path / str(weight), replace(SETTINGS, epochs=6, regularizers={"stability": weight}))
        found[weight] = float(loss(model, batch_of(VALIDATION)).detach())
    assert found[1.0] < 0.8 * found[0.0]


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
    for name in ("loss", "regularizer_stability", "eval_loss"):
        assert [row[name] for row in history] == [row[name] for row in expected]
