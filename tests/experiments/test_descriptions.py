"""What tables call a model, which of its attention was read, and what it was trained on."""

from __future__ import annotations

import json

import pytest
import torch

import attn_faithful as af
from attn_faithful.cli import main
from attn_faithful.experiments import descriptions, identity
from attn_faithful.experiments.descriptions import ModelNames, attention_read, trained_on
from attn_faithful.store import RunFolder
from tests.data.pieces import wordpiece
from tests.experiments.test_evaluation_stock import NAMES, TEXTS, bert


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("user/roberta-nli", "user/roberta-nli"),
        ("runs/train/reviews-lstm-10-ab12cd34/model", "reviews-lstm-10-ab12cd34"),
        ("out/checkpoint-500", "out/checkpoint-500"),
        ("./bert-finetuned/", "bert-finetuned"),
        ("runs/attefa/cell/twin-10", "cell/twin-10"),
    ],
)
def test_names_of_places(tokenizer, place, name):
    model = af.wrap(bert(tokenizer))
    assert ModelNames.of(model, place).in_tables.rsplit(" ", 1)[0] == name


def test_two_checkpoints_of_one_name_are_told_apart(tokenizer, tmp_path, capsys):
    """Two folders "bert" with other weights: their pages, the list of runs and the folders say other names."""
    for place, size in (("one", 1.0), ("two", 1.1)):
        model = bert(tokenizer, **NAMES)
        with torch.no_grad():
            model.classifier.weight.mul_(size)
        model.save_pretrained(tmp_path / place / "bert")
        tokenizer.save_pretrained(tmp_path / place / "bert")
    data = tmp_path / "texts.jsonl"
    data.write_text("\n".join(map(json.dumps, TEXTS)))
    for place in ("one", "two"):
        command = ["evaluate", str(tmp_path / place / "bert"), "--data", str(data), "--tests", "entropy"]
        assert main([*command, "--output", str(tmp_path / "runs")]) == 0
    folders = sorted((tmp_path / "runs" / "evaluate").iterdir())
    names = [RunFolder(folder).read_meta()["axes"]["model"] for folder in folders]
    assert len(set(names)) == 2
    assert all(name.startswith("bert ") for name in names)
    capsys.readouterr()
    assert main(["ls", str(tmp_path / "runs")]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in names)


def test_an_evaluation_takes_one_pass_over_the_weights(tokenizer, tmp_path, monkeypatch):
    passes = []
    plain = identity.weights_digest
    for module in (descriptions, identity):
        monkeypatch.setattr(module, "weights_digest", lambda network: passes.append(network) or plain(network))
    af.evaluate_attention(bert(tokenizer, **NAMES), tokenizer, TEXTS, ["entropy"], output=tmp_path)
    assert len(passes) == 1


def test_a_model_in_memory_is_named_by_its_kind_and_weights(tokenizer):
    model = bert(tokenizer)
    before = ModelNames.of(af.wrap(model)).in_tables
    assert before.startswith("bert ")
    assert ModelNames.of(af.wrap(model)).in_tables == before
    with torch.no_grad():
        model.classifier.weight.add_(1)
    assert ModelNames.of(af.wrap(model)).in_tables != before


def test_what_was_read_of_a_stock_model(tokenizer):
    model = af.wrap(bert(tokenizer), heads=[1], queries="mean")
    found = attention_read(model)
    assert found["rows"] == {"layer.0": "mean", "layer.1": "mean"}
    assert (found["heads"], found["layers"], found["heads_in_all"]) == ([1], 2, 2)
    assert attention_read(af.wrap(bert(tokenizer)))["rows"] == {"layer.0": "token", "layer.1": "token"}
    assert attention_read(af.AttentionModel()) is None


def test_an_explanation_says_that_its_text_was_cut(tokenizer, tmp_path):
    model = bert(tokenizer, max_position_embeddings=12, **NAMES)
    found = af.explain(af.wrap(model), tokenizer, "good bad " * 20, tests=(), sources=())
    assert "The text was longer than the model reads and cut to the limit of 12 tokens" in str(found)
    assert "attention of layer 1 of 2 (from 0), all heads, the row of the token that the classifier reads" in str(found)


def test_what_a_model_was_trained_on(tmp_path):
    run = RunFolder(tmp_path / "cell")
    (run.path / "model").mkdir(parents=True)
    assert trained_on(str(run.path / "model")) is None
    run.write_meta({"data": {"train": {"n": 9, "tokens_mean": 15.0}}})
    assert trained_on(str(run.path / "model")) == {"n": 9, "tokens_mean": 15.0}
    assert trained_on("user/name") is None
    assert trained_on(None) is None
