"""Regularizers of transformers classifiers: against eager attention and a slow reference, gradients, what they do."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful._seeds import generator_for
from attn_faithful.data.collate import Collator
from attn_faithful.models.stock.model import StockModel
from attn_faithful.names import ATTENTION_REGULARIZERS
from attn_faithful.training.fine_tuning import FineTuneTrainer, fine_tune
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.regularizers.stability import RADIUS
from attn_faithful.training.settings import FineTuneSettings
from attn_faithful.training.task import TrainingTask
from tests.models.stock_families import PAD, build, eager, read
from tests.reference import marked_attention as reference
from tests.reference import stability as perturbation
from tests.training.planted import Stopped, same, stop_at, texts, weights
from tests.training.test_fine_tuning import NO_DROPOUT, ended

MARKS = {"deceive": "impermissible", "rationale": "rationale"}
SLOW = {"deceive": reference.hidden_mass_loss, "rationale": reference.rationale_divergence}
SETTINGS = FineTuneSettings(epochs=4, batch_size=16, learning_rate=2e-3, select_by="loss")
MOVING = replace(SETTINGS, epochs=6, batch_size=4, learning_rate=5e-3)
COLLATE = Collator(PAD, ("special_tokens_mask",))


def marked(rows):
    """The rows with the planted word marked in both ways, and the token that ends texts special."""
    marks = [((np.asarray(ids) >= 7) & (np.asarray(ids) < 19)).astype(int).tolist() for ids in rows["input_ids"]]
    special = [[*[0] * (len(ids) - 1), 1] for ids in rows["input_ids"]]
    return rows.with_columns(impermissible=marks, rationale=marks, special_tokens_mask=special)


TRAIN = marked(ended(texts(48, classes=3)))
VALIDATION = marked(ended(texts(24, seed=1, classes=3)))


def batch_of(rows, name=None):
    columns = COLLATE.columns if name is None else (*COLLATE.columns, MARKS[name])
    return Collator(PAD, columns)([rows[i] for i in range(len(rows))])


def classifier(name="bert", dtype=torch.float32, seed=0, **settings):
    network = build(name, seed=seed, **settings).to(dtype)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.mul_(0.3)  # attention that can still be moved
    return StockModel(network)


def tune(model, folder, on_progress=None, rows=TRAIN, collate=COLLATE, settings=SETTINGS, **regularizers):
    settings = replace(settings, regularizers=regularizers)
    return fine_tune(model, TrainingTask(rows, VALIDATION, collate, settings, 3, folder / "checkpoints", on_progress))


def trainer_of(model, name, folder):
    """What trains it, before any step, with one regularizer."""
    from attn_faithful.training.trainer import task_arguments

    settings = replace(SETTINGS, regularizers={name: 1.0})
    task = TrainingTask(TRAIN, VALIDATION, COLLATE, settings, 3, folder / "checkpoints")
    arguments = task_arguments(task, "eval_loss", False)
    return FineTuneTrainer(model=model.model, stock=model, eval_dataset=VALIDATION, **arguments)


def mass(model):
    """Mean attention of the heads of the last layer on the marked words, by transformers' own eager attention."""
    batch = batch_of(VALIDATION, "deceive")
    attention = eager(model.model, read(batch))[1][-1][:, :, 0]  # (B, H, T), of the first token
    return float((attention * batch["impermissible"][:, None]).sum(-1).mean())


# --- the loss


def rows_of(name, batch):
    """The row that the classifier reads, of each text."""
    if name in ("bert", "distilbert"):
        return torch.zeros(len(batch["input_ids"]), dtype=torch.long)
    return batch["attention_mask"].sum(1) - 1


@pytest.mark.parametrize("regularizer", MARKS)
@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2"])
def test_losses_of_a_batch_equal_the_reference(tmp_path, name, regularizer):
    model = classifier(name, torch.float64)
    batch = batch_of(VALIDATION, regularizer)
    places = rows_of(name, batch)
    attention = eager(model.model, read(batch))[1][-1]  # (B, H, Q, T)
    losses = []
    for text, place in enumerate(places):
        kept = batch["attention_mask"][text].bool()
        marks = batch[MARKS[regularizer]][text][kept].bool().tolist()
        of_heads = [SLOW[regularizer](head[kept].tolist(), marks) for head in attention[text, :, place]]
        losses.append(np.mean(of_heads))
    trainer = trainer_of(model, regularizer, tmp_path)
    output = trainer.output_of(model.model, batch)  # in eval mode, as the reference
    assert output.attentions.shape == (24, 4, batch["input_ids"].shape[1])
    loss = REGULARIZERS[regularizer]().loss(batch, output, model)
    assert float(loss.detach()) == pytest.approx(np.mean(losses), abs=1e-10)
    own = model.model(**read(batch), labels=batch["labels"]).loss
    assert float(output.loss.detach()) == pytest.approx(float(own.detach()), abs=1e-10)
    assert model.config._attn_implementation == "sdpa"


def test_a_classifier_of_the_mean_has_the_mean_of_its_rows(tmp_path):
    """ModernBERT may read the mean of its states: attention is then the mean over the rows of the text."""
    model = classifier("modernbert", classifier_pooling="mean")
    assert model.probe.reads == "every"
    batch = batch_of(VALIDATION, "deceive")
    attention = eager(model.model, read(batch))[1][-1]  # (B, H, Q, T)
    kept = batch["attention_mask"][:, None, :, None]
    mean = (attention * kept).sum(2) / kept.sum(2)  # (B, H, T)
    output = trainer_of(model, "deceive", tmp_path).output_of(model.model, batch)
    torch.testing.assert_close(output.attentions, mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("regularizer", MARKS)
def test_padding_and_order_change_nothing(tmp_path, regularizer):
    model = classifier("bert", torch.float64)
    trainer = trainer_of(model, regularizer, tmp_path)
    found = []
    for places in (range(24), [*range(12, 24), *range(12)]):
        parts = []
        for start in range(0, 24, 12):
            batch = batch_of(VALIDATION.take(list(places)[start : start + 12]), regularizer)
            parts.append(REGULARIZERS[regularizer]().loss(batch, trainer.output_of(model.model, batch), model))
        found.append(float(torch.stack(parts).mean().detach()))
    whole = batch_of(VALIDATION, regularizer)
    found.append(float(REGULARIZERS[regularizer]().loss(whole, trainer.output_of(model.model, whole), model).detach()))
    assert found == pytest.approx([found[0]] * 3, abs=1e-12)


@pytest.mark.parametrize("regularizer", MARKS)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_gradients(tmp_path, name, regularizer):
    """Of the whole loss along a random direction of all weights, against central differences, in float64."""
    model = classifier(name, torch.float64)
    trainer = trainer_of(model, regularizer, tmp_path)
    batch = batch_of(VALIDATION, regularizer)
    parameters = list(model.model.parameters())

    def total():
        output = trainer.output_of(model.model, batch)
        return output.loss + 0.7 * REGULARIZERS[regularizer]().loss(batch, output, model)

    torch.manual_seed(5)
    directions = [torch.randn_like(weight) for weight in parameters]
    gradients = torch.autograd.grad(total(), parameters, allow_unused=True)
    slope = 0.0
    for gradient, direction in zip(gradients, directions, strict=True):
        if gradient is not None:
            slope += float((gradient * direction).sum())
    values = []
    step = 1e-5
    with torch.no_grad():
        for sign in (1, -2):
            for weight, direction in zip(parameters, directions, strict=True):
                weight.add_(direction, alpha=sign * step)
            values.append(float(total()))
    assert abs(slope) > 1e-2
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6)


# --- stability, whose loss runs the model itself


def stable(draw=(3, 17)):
    made = REGULARIZERS["stability"]()
    made.draw = draw
    return made


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2"])
def test_the_loss_of_stability_equals_a_loop_over_texts(name):
    model = classifier(name, torch.float64)
    batch = batch_of(VALIDATION)
    table = model.get_input_embeddings().weight.detach()
    values = []
    model.model.set_attn_implementation("eager")
    for row, place in enumerate(rows_of(name, batch)):
        length = int(batch["attention_mask"][row].sum())
        tokens = batch["input_ids"][row, :length].tolist()
        content = ~batch["special_tokens_mask"][row, :length].bool()
        embedded = table[tokens].numpy()
        drawn = generator_for(3, 17, "stability", *tokens).standard_normal(embedded.shape, dtype=np.float32)
        changed = perturbation.perturbed_embeddings(embedded, drawn.astype(float), RADIUS)
        heads = []  # (H, T) each
        for embeddings in (embedded, changed):
            ones = torch.ones(1, length, dtype=torch.long)
            with torch.no_grad():
                output = (
                    model.model(
                        inputs_embeds=torch.tensor(embeddings)[None], attention_mask=ones, output_attentions=True
                    )
                    if name != "gpt2"
                    else _last_row(model.model, torch.tensor(embeddings)[None])
                )
            heads.append(output.attentions[-1][0, :, place])
        distances = [
            perturbation.correlation_distance(one[content].tolist(), other[content].tolist())
            for one, other in zip(*heads, strict=True)
        ]
        values.append(np.mean(distances))
    model.model.set_attn_implementation("sdpa")
    assert float(stable().loss(batch, None, model).detach()) == pytest.approx(np.mean(values), abs=1e-10)
    assert np.mean(values) > 1e-6


def _last_row(network, embedded):
    """GPT-2 without its head, which asks ids for the last token."""
    return network.transformer(inputs_embeds=embedded, output_attentions=True)


def test_the_gradient_of_stability():
    model, batch = classifier("bert", torch.float64), batch_of(VALIDATION)
    parameters = list(model.model.bert.parameters())
    torch.manual_seed(5)
    directions = [torch.randn_like(weight) for weight in parameters]
    gradients = torch.autograd.grad(stable().loss(batch, None, model), parameters, allow_unused=True)
    slope = 0.0
    for gradient, direction in zip(gradients, directions, strict=True):
        if gradient is not None:
            slope += float((gradient * direction).sum())
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for weight, direction in zip(parameters, directions, strict=True):
                weight.add_(direction, alpha=sign * 1e-6)
            values.append(float(stable().loss(batch, None, model)))
    assert abs(slope) > 1e-3
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_stability_is_without_dropout_and_leaves_the_model_in_training():
    model, batch = classifier(), batch_of(VALIDATION)
    expected = float(stable().loss(batch, None, model).detach())
    model.model.train()
    state = torch.get_rng_state()
    assert float(stable().loss(batch, None, model).detach()) == expected
    assert model.model.training
    assert torch.equal(state, torch.get_rng_state())
    assert model.config._attn_implementation == "sdpa"


def test_training_makes_attention_stable(tmp_path):
    found = {}
    for weight in (0.0, 2.0):
        model = classifier()
        tune(model, tmp_path / str(weight), settings=MOVING, stability=weight)
        found[weight] = float(stable().loss(batch_of(VALIDATION), None, model).detach())
    assert found[2.0] < 0.7 * found[0.0]


# --- what they do


def test_they_move_attention(tmp_path):
    found = {}
    for name, weight in (("deceive", 0.0), ("deceive", 1.0), ("rationale", 1.0)):
        model = classifier()
        history = tune(model, tmp_path / f"{name}{weight}", settings=MOVING, **{name: weight})
        found[name, weight] = mass(model)
        if weight:
            assert history[-1][f"regularizer_{name}"] < history[0][f"regularizer_{name}"]
    plain = found["deceive", 0.0]
    assert found["deceive", 1.0] < 0.5 * plain
    assert found["rationale", 1.0] > 1.5 * plain
    assert found["deceive", 0.0] == pytest.approx(mass_without(tmp_path), abs=0), "a weight of 0 is as none"


def mass_without(folder):
    model = classifier()
    tune(model, folder / "none", settings=MOVING)
    return mass(model)


def test_a_step_is_that_of_the_sum(tmp_path):
    """Adam's first step is the sign of the gradient: that of the loss of the labels and the weighted regularizer."""
    model = classifier(dtype=torch.float64, **NO_DROPOUT)
    before = copy.deepcopy(model.model)
    batch = batch_of(TRAIN, "deceive")
    output = trainer_of(StockModel(before), "deceive", tmp_path).output_of(before, batch)
    total = output.loss + 2.0 * REGULARIZERS["deceive"]().loss(batch, output, StockModel(before))
    total.backward()
    settings = replace(SETTINGS, epochs=1, batch_size=48, warmup_ratio=0.0, weight_decay=0.0, max_grad_norm=None)
    history = tune(model, tmp_path, settings=settings, deceive=2.0)
    assert history[0]["loss"] == pytest.approx(float(total.detach()), rel=1e-6)
    for (name, now), old in zip(model.model.named_parameters(), before.parameters(), strict=True):
        large = old.grad.abs() > 1e-6
        step = -settings.learning_rate * old.grad.sign()
        torch.testing.assert_close((now - old)[large], step[large], rtol=1e-2, atol=1e-8, msg=name)


def test_resumed_equals_undisturbed_to_the_bit(tmp_path):
    both = {"deceive": 0.5, "rationale": 0.1, "stability": 0.5}
    whole = classifier()
    expected = tune(whole, tmp_path / "undisturbed", **both)
    with pytest.raises(Stopped):
        tune(classifier(), tmp_path, stop_at(3), **both)
    model = classifier(seed=99)
    history = tune(model, tmp_path, **both)
    assert same(weights(model.model), weights(whole.model))
    for name in ("loss", "regularizer_deceive", "regularizer_rationale", "regularizer_stability", "eval_loss"):
        assert [row[name] for row in history] == [row[name] for row in expected]


# --- what goes wrong


@pytest.mark.parametrize("name", ["diversity", "tying"])
def test_regularizers_of_more_than_attention_are_refused(name):
    with pytest.raises(InputError, match=rf"'{name}' reads more of a model than its attention.*deceive, rationale"):
        FineTuneSettings(regularizers={name: 0.5})
    assert FineTuneSettings(regularizers={name: 0}).active_regularizers == {}
    assert name not in ATTENTION_REGULARIZERS


def test_texts_without_marks_are_refused_before_training(tmp_path):
    rows = ended(texts(48, classes=3)).with_columns(special_tokens_mask=TRAIN["special_tokens_mask"])
    for name, setting in (("deceive", "data.impermissible"), ("rationale", "data.rationale")):
        with pytest.raises(InputError, match=rf"'{name}' needs to know which words.*{setting}"):
            tune(
                classifier(),
                tmp_path,
                rows=rows.with_columns(special_tokens_mask=TRAIN["special_tokens_mask"]),
                **{name: 1.0},
            )


def test_a_loss_that_is_no_number_stops_training_with_the_checkpoint_kept(tmp_path):
    def spoil(epoch, *rest):
        if epoch == 2:
            with torch.no_grad():
                model.model.classifier.bias.fill_(math.nan)

    for regularizers in ({}, {"deceive": 0.5}):
        model = classifier()
        folder = tmp_path / str(len(regularizers))
        with pytest.raises(InputError, match=r"The loss of epoch 3 is nan.*the last checkpoint is .*checkpoint-6"):
            tune(model, folder, spoil, **regularizers)
        assert list((folder / "checkpoints").glob("checkpoint-*"))


def test_own_models_keep_one_row_a_text():
    from attn_faithful.training.regularizers.attention import AttentionRows
    from tests.training.planted import classifier as own

    model, batch = own(), Collator()([TRAIN[i] for i in range(4)])
    batch["input_ids"] %= 20
    batch["labels"] %= 2
    rows = AttentionRows.of(batch, model(**batch), model)
    assert rows.heads == 1
    assert rows.attention.shape == batch["input_ids"].shape
    assert torch.equal(rows.tokens, batch["attention_mask"].bool())
    stock = SimpleNamespace(layered=True)
    heads = AttentionRows.of(batch, SimpleNamespace(attentions=torch.ones(4, 3, 7)), stock)
    assert heads.each(batch["attention_mask"])[:3].tolist() == [batch["attention_mask"][0].tolist()] * 3
