"""Masked fine-tuning: half of each batch, counts from none to all alike, and nothing but content is ever masked."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from attn_faithful._seeds import generator_for
from attn_faithful.training.base import train_base
from attn_faithful.training.masking import Masking, class_prior
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import LengthGroups
from tests.training.planted import (
    COLLATE,
    IN_SENTENCES,
    WITH_QUERY,
    Stopped,
    batch_of,
    bypass,
    classifier,
    hierarchical,
    in_sentences,
    same,
    stop_at,
    texts,
    weights,
    with_labels,
    with_query,
)

MASK = 1  # an id that no text has
TRAIN, VALIDATION = texts(48), texts(24, seed=1)
SETTINGS = TrainSettings(epochs=3, batch_size=16, learning_rate=1e-2, masking="half")
MASKING = Masking(MASK, seed=3)


def words(count, length):
    """Different texts of one length, without padding."""
    ids = 2 + torch.arange(count * length).view(count, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def masked_of(batch, step=0, masking=MASKING, **part):
    return masking.of_batch(batch, step, **part)["input_ids"]


# --- which tokens


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_half_of_the_texts_of_each_step(count):
    chosen = np.zeros(count)
    steps = 400
    for step in range(steps):
        # texts of many words: one that is chosen has none masked in few cases
        changed = Masking(MASK, seed=0)._half(count, step)
        assert int(changed.sum()) in (count // 2, (count + 1) // 2)
        chosen += changed
    assert chosen.sum() == pytest.approx(steps * count / 2, abs=0 if count % 2 == 0 else 3 * np.sqrt(steps) / 2)
    if count > 1:
        assert chisquare(chosen).pvalue > 0.01


def test_texts_that_are_not_chosen_stay_and_the_counts_of_the_others_are_uniform():
    length = 4
    batch = words(64, length)
    counts, places = [], np.zeros(length)
    for step in range(30):
        is_masked = masked_of(batch, step) == MASK  # (B, T)
        kept = masked_of(batch, step)[~is_masked]
        assert torch.equal(kept, batch["input_ids"][~is_masked])
        counts += is_masked.sum(1).tolist()
        places += is_masked.sum(0).numpy()
    found = np.bincount(counts, minlength=length + 1)  # of 1920 texts, half of them not chosen
    expected = np.full(length + 1, 960 / (length + 1))
    expected[0] += 960
    assert chisquare(found, expected).pvalue > 0.01
    assert chisquare(places).pvalue > 0.01


def test_the_masks_are_those_of_a_loop_over_texts():
    batch = batch_of(TRAIN)
    special = torch.zeros_like(batch["input_ids"])
    special[:, 0] = 1
    step = 7
    found = masked_of({**batch, "special_tokens_mask": special}, step)
    expected = batch["input_ids"].tolist()
    count = len(expected)
    half = generator_for(3, step, "masked half")
    size = (count + int(half.integers(2))) // 2
    for row in half.permutation(count)[:size]:
        length = int(batch["attention_mask"][row].sum())
        content = expected[row][1:length]
        generator = generator_for(3, step, "masks", *content)
        masks = int(generator.integers(0, len(content), endpoint=True))
        for place in generator.permutation(np.arange(1, length))[:masks]:
            expected[row][place] = MASK
    assert found.tolist() == expected
    assert found.tolist() != batch["input_ids"].tolist()


def test_special_tokens_and_padding_are_never_masked():
    batch = batch_of(TRAIN)
    special = torch.zeros_like(batch["input_ids"])
    special[:, [0, 2]] = 1
    batch["special_tokens_mask"] = special
    before = {name: value.clone() for name, value in batch.items()}
    content = batch["attention_mask"].bool() & ~special.bool()
    seen = torch.zeros_like(content)
    for step in range(60):
        seen |= masked_of(batch, step) == MASK
    assert torch.equal(seen, content), "all content, and nothing else"
    made = MASKING.of_batch(batch, 0)
    for name, value in before.items():
        assert torch.equal(batch[name], value), "the batch itself stays"
        if name != "input_ids":
            assert made[name] is batch[name]


def test_texts_without_content_stay():
    batch = {"input_ids": torch.zeros(4, 1, dtype=torch.long), "attention_mask": torch.zeros(4, 1, dtype=torch.long)}
    assert torch.equal(masked_of(batch), batch["input_ids"])


def test_a_text_has_its_masks_wherever_it_stands():
    batch = batch_of(TRAIN)
    ids, read = batch["input_ids"], batch["attention_mask"].bool()
    every = [MASKING._masked(row.numpy(), is_read.numpy(), 5) for row, is_read in zip(ids, read, strict=True)]
    found = masked_of(batch, 5)
    chosen = np.flatnonzero(MASKING._half(len(ids), 5))
    assert all(np.array_equal(found[row], every[row]) for row in chosen)
    wide = torch.nn.functional.pad(ids, (3, 2))  # padding on both sides
    wide_read = torch.nn.functional.pad(read, (3, 2))
    for row, one in enumerate(every):
        assert np.array_equal(MASKING._masked(wide[row].numpy(), wide_read[row].numpy(), 5)[3:-2], one)


def test_parts_of_processes_are_those_of_the_whole():
    batch = batch_of(TRAIN)
    whole = masked_of(batch, 2)
    parts = []
    for process in range(3):
        part = {name: value[process * 16 : (process + 1) * 16] for name, value in batch.items()}
        parts.append(masked_of(part, 2, process=process, processes=3))
    assert torch.equal(torch.cat(parts), whole)


def test_draws_follow_seed_and_step():
    batch = batch_of(TRAIN)
    first = masked_of(batch, 1)
    assert torch.equal(masked_of(batch, 1), first)
    assert not torch.equal(masked_of(batch, 2), first)
    assert not torch.equal(masked_of(batch, 1, Masking(MASK, seed=4)), first)


def test_every_token_of_every_text_can_be_masked():
    special = [[1] + [0] * (length - 1) for length in VALIDATION["length"]]
    rows = VALIDATION.with_columns(special_tokens_mask=special)
    for before, after in zip(rows["input_ids"], MASKING.all_of_rows(rows)["input_ids"], strict=True):
        assert after[0] == before[0]
        assert set(after[1:].tolist()) == {MASK}
    assert all(set(ids.tolist()) == {MASK} for ids in MASKING.all_of_rows(VALIDATION)["input_ids"])


def test_every_text_of_a_masked_split_has_masks_that_stay():
    rows = MASKING.of_rows(VALIDATION)
    shares = [np.mean(np.asarray(ids) == MASK) for ids in rows["input_ids"]]
    assert 0.3 < np.mean(shares) < 0.7
    assert [len(ids) for ids in rows["input_ids"]] == list(VALIDATION["length"])
    again = MASKING.of_rows(VALIDATION)
    assert [ids.tolist() for ids in again["input_ids"]] == [ids.tolist() for ids in rows["input_ids"]]
    special = VALIDATION.with_columns(special_tokens_mask=[[1] * length for length in VALIDATION["length"]])
    kept = MASKING.of_rows(special)["input_ids"]
    assert [ids.tolist() for ids in kept] == [ids.tolist() for ids in VALIDATION["input_ids"]]


# --- in training


def train(model, folder, settings=SETTINGS, on_progress=None, rows=TRAIN, selection=VALIDATION, collate=COLLATE):
    checkpoints = folder / "checkpoints"
    task = TrainingTask(rows, selection, collate, settings, 3, checkpoints, on_progress, mask_token_id=MASK)
    return train_base(model, task)


def test_a_training_that_was_stopped_ends_with_the_same_bits(tmp_path):
    whole, resumed = classifier(encoder="lstm"), classifier(encoder="lstm")
    history = train(whole, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(resumed, tmp_path / "stopped", on_progress=stop_at(2))
    again = classifier(encoder="lstm")
    found = train(again, tmp_path / "stopped")
    assert same(weights(whole), weights(again))
    metrics = ("loss", "eval_loss", "eval_masked_loss", "eval_masked_accuracy", "eval_selection")
    assert [[row[name] for name in metrics] for row in found] == [[row[name] for name in metrics] for row in history]


def test_every_step_has_masks_of_its_own(tmp_path):
    model, seen = classifier(), []
    model.register_forward_pre_hook(
        lambda module, given, inputs: seen.append(inputs["input_ids"]) if module.training else None, with_kwargs=True
    )
    train(model, tmp_path, replace(SETTINGS, epochs=2, batch_size=24))
    order, expected = LengthGroups(TRAIN["length"], 24, 3), []
    for epoch in range(2):
        order.set_epoch(epoch)
        expected += [COLLATE([TRAIN[i] for i in part]) for part in np.split(np.asarray(list(order)), 2)]
    assert len(seen) == len(expected) == 4
    for step, batch in enumerate(expected):
        assert torch.equal(seen[step], masked_of(batch, step))


def test_evaluations_are_of_texts_as_they_are_and_beside_them_of_masked_ones(tmp_path):
    model = classifier()
    settings = replace(SETTINGS, select_by="loss")
    history = train(model, tmp_path, settings)
    best = min(history, key=lambda row: row["eval_selection"])
    for rows, prefix in ((VALIDATION, "eval"), (Masking(MASK, 3).of_rows(VALIDATION), "eval_masked")):
        with torch.no_grad():
            output = model(**batch_of(rows))
        found = classification_metrics(output.logits.double().softmax(-1).numpy(), np.asarray(rows["labels"]))
        assert best[f"{prefix}_loss"] == pytest.approx(float(output.loss), abs=1e-6)
        assert best[f"{prefix}_accuracy"] == found["accuracy"]
        assert best[f"{prefix}_roc_auc"] == pytest.approx(found["roc_auc"])
    assert best["eval_loss"] != best["eval_masked_loss"]
    assert best["eval_prior_gap"] == pytest.approx(gap_of(model, VALIDATION, 0.5), abs=1e-6)


def gap_of(model, rows, prior):
    """How far the mean probability of the second class is from its share, with every token masked."""
    batch = batch_of(rows)
    batch["input_ids"] = torch.where(batch["attention_mask"].bool(), MASK, 0)
    with torch.no_grad():
        chances = model(**batch).logits.double().softmax(-1)[:, 1]
    return abs(float(chances.mean()) - prior)


@pytest.mark.parametrize("select_by", ["loss", "roc_auc"])
def test_an_epoch_that_misses_the_prior_counts_as_so_much_worse(tmp_path, select_by):
    model = classifier()
    history = train(model, tmp_path, replace(SETTINGS, epochs=4, learning_rate=0.1, select_by=select_by))
    sign = 1 if select_by == "loss" else -1
    for row in history:
        missed = max(0, row["eval_prior_gap"] - 0.02)
        assert row["eval_selection"] == pytest.approx(row[f"eval_{select_by}"] + sign * missed, abs=1e-12)
    assert max(row["eval_prior_gap"] for row in history) > 0.02
    best = min(history, key=lambda row: sign * row["eval_selection"])
    assert best["eval_prior_gap"] == pytest.approx(gap_of(model, VALIDATION, 0.5), abs=1e-6)


def test_the_prior_is_what_a_constant_model_of_least_loss_says():
    """By the losses themselves: with class weights, and with several labels a text."""
    generator = np.random.default_rng(0)
    labels = generator.choice(3, size=40, p=[0.2, 0.3, 0.5])
    many = (generator.random((40, 3)) < [0.2, 0.5, 0.9]).astype(int)
    for output, given in (("softmax", labels), ("multi_label", many)):
        for factors in (None, [3.0, 0.5, 1.0]):
            model = classifier(num_labels=3, output=output, class_weights=factors)
            constant = torch.zeros(3, dtype=torch.float64, requires_grad=True)
            targets = torch.tensor(given, dtype=torch.long if output == "softmax" else torch.float64)
            optimizer = torch.optim.LBFGS([constant], max_iter=200, tolerance_grad=1e-12, tolerance_change=0)

            def loss(model=model, constant=constant, targets=targets, optimizer=optimizer):
                optimizer.zero_grad()
                value = model.loss_of(constant.expand(40, 3), targets)
                value.backward()
                return value

            optimizer.step(loss)
            logits = constant.detach()
            chances = logits.softmax(-1) if output == "softmax" else logits.sigmoid()
            assert class_prior(given, 3, factors) == pytest.approx(chances.tolist(), abs=1e-6)


def test_with_every_token_masked_a_model_says_the_class_prior(tmp_path):
    """As Madsen et al. (2024) check it; a model that has never seen a mask says anything."""
    many = texts(300)
    rows = many.take([i for i, label in enumerate(many["labels"]) if label == 0 or i % 6 == 1])
    prior = np.mean(np.asarray(rows["labels"]) == 1)
    assert 0.2 < prior < 0.3
    settings = replace(SETTINGS, epochs=6, select_by="loss")
    off = {}
    for masking in ("half", None):
        model = classifier(seed=2)
        train(model, tmp_path / str(masking), replace(settings, masking=masking), rows=rows, selection=rows)
        batch = batch_of(rows)
        batch["input_ids"] = torch.where(batch["attention_mask"].bool(), MASK, 0)
        with torch.no_grad():
            chances = model(**batch).logits.softmax(-1)[:, 1]
        off[masking] = float((chances - prior).abs().max())
    assert off["half"] < 0.06 < off[None]


MODELS = {
    "bypass": (bypass(), TRAIN, COLLATE, {}),
    "hierarchical": (hierarchical(), in_sentences(TRAIN), IN_SENTENCES, {"diversity": 0.1}),
    "pair": (classifier(encoder="gru", query=True), with_query(TRAIN), WITH_QUERY, {"stability": 0.1}),
    "several labels": (
        classifier(num_labels=2, output="multi_label"),
        with_labels(TRAIN, [[label, 1 - label] for label in TRAIN["labels"]]),
        COLLATE,
        {},
    ),
    "scaled": (classifier(scale="tasc_lin"), TRAIN, COLLATE, {"leverage": 0.1}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_is_trained_with_masks(tmp_path, name):
    model, rows, collate, regularizers = MODELS[name]
    seen = []
    model.register_forward_pre_hook(
        lambda module, given, inputs: seen.append((module.training, inputs)), with_kwargs=True
    )
    settings = replace(SETTINGS, epochs=1, regularizers=regularizers)
    (row,) = train(model, tmp_path, settings, rows=rows, selection=rows, collate=collate)
    assert np.isfinite([row["loss"], row["eval_loss"], row["eval_masked_loss"]]).all()
    masks = [int((inputs["input_ids"] == MASK).sum()) for training, inputs in seen if training and "labels" in inputs]
    assert min(masks) > 0
    for _, inputs in seen:
        assert not (inputs.get("query_input_ids", torch.zeros(1)) == MASK).any()
    assert set(regularizers) == {key.removeprefix("regularizer_") for key in row if key.startswith("regularizer_")}
