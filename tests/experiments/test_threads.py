"""Threads: one for small models, unless somebody chose; afterwards there are as many as before."""

import logging

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments import run_cell as stages
from attn_faithful.experiments import run_evaluation as evaluate
from attn_faithful.experiments import threads
from attn_faithful.experiments.threads import ENVIRONMENT, SMALL, asked_for, computing_weights, threads_for, weights_of
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

TEXTS = ["good film", "a bad film", "not good , not bad"]
TINY = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def machine(monkeypatch):
    """A machine with three cores, nothing chosen and nothing told yet."""
    before = torch.get_num_threads()
    for name in (ENVIRONMENT, "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_defaults", lambda: {3})
    monkeypatch.setattr(threads, "_told", set())
    torch.set_num_threads(3)
    yield monkeypatch
    torch.set_num_threads(before)


def used(weights):
    with threads_for(weights):
        inside = torch.get_num_threads()
    assert torch.get_num_threads() != 1 or inside == 1
    return inside


def test_small_models_get_one_and_large_ones_all(machine):
    assert (used(SMALL), used(SMALL + 1)) == (1, 3)
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_the_environment_says_is_left(machine, name):
    machine.setenv(name, "3")
    assert used(10) == 3


def test_what_torch_was_told_is_left(machine):
    torch.set_num_threads(2)
    assert used(10) == used(SMALL + 1) == torch.get_num_threads() == 2


def test_what_is_asked_for_comes_first(machine):
    machine.setenv(ENVIRONMENT, "2")
    assert used(10) == used(SMALL + 1) == 2
    machine.setenv("OMP_NUM_THREADS", "3")
    with asked_for(4):
        assert used(10) == used(SMALL + 1) == 4
    assert used(10) == 2
    with asked_for(None):
        assert used(10) == 2


def test_wrong_numbers(machine, capsys):
    machine.setenv(ENVIRONMENT, "many")
    with pytest.raises(InputError, match=f"{ENVIRONMENT}, but it is 'many'"):
        used(10)
    assert main(["ls", "nowhere"]) == 2
    capsys.readouterr()
    assert main(["train", "--data", "mock-1", "--threads", "0"]) == 2
    assert "one thread or more, but got 0" in capsys.readouterr().err


def test_it_is_told_once_and_only_where_it_changes_something(machine, caplog):
    with caplog.at_level(logging.WARNING, "attn_faithful"):
        used(SMALL + 1)
        with asked_for(1):
            used(10)
        assert not caplog.records
        used(12_345)
        used(10)
    (record,) = caplog.records
    assert "12,345 weights" in record.getMessage()
    assert "--threads" in record.getMessage()


def test_weights_beside_the_embeddings():
    model = AttentionClassifier(AttentionClassifierConfig(vocab_size=900, encoder="lstm", hidden_size=8))
    table = model.get_input_embeddings().weight.numel()
    assert computing_weights(model) == sum(p.numel() for p in model.parameters()) - table
    state = torch.get_rng_state()
    assert weights_of({"encoder": "lstm", "hidden_size": 8}) == computing_weights(model)
    assert torch.equal(state, torch.get_rng_state()), "nothing is drawn"
    assert weights_of({"architecture": "hierarchical"}) > 0
    bert = BertForSequenceClassification(BertConfig(**TINY))
    assert computing_weights(af.wrap(bert)) == computing_weights(bert) < SMALL
    assert computing_weights(af.AttentionModel()) > SMALL


@pytest.fixture
def seen(machine):
    """The threads that the work of a call was done with."""
    found = []
    for module, name in ((evaluate, "evaluate_rows"), (stages, "evaluate_rows")):
        real = getattr(module, name)

        def noted(*given, real=real, **named):
            found.append(torch.get_num_threads())
            return real(*given, **named)

        machine.setattr(module, name, noted)
    return found


def test_calls_from_python(seen, tmp_path):
    tokenizer = train_tokenizer(TEXTS)
    model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
    af.evaluate_attention(model, tokenizer, TEXTS, ["permutation"], output=tmp_path / "a")
    af.evaluate_attention(model, tokenizer, TEXTS, ["permutation"], output=tmp_path / "b", threads=2)
    af.explain(model, tokenizer, TEXTS[0], tests=["permutation"], threads=2)
    recipe = {"data": {"source": "mock-1", "mock": {"n_train": 20, "n_test": 4}}, "model": {"encoder": "mlp"}}
    recipe |= {"train": {"epochs": 1}, "twin": None}
    af.run_recipe(recipe, tmp_path / "c")
    af.run_recipe(recipe, tmp_path / "d", threads=2)
    assert seen == [1, 2, 2, 1, 2]
    assert torch.get_num_threads() == 3


def test_commands(seen, tmp_path, capsys):
    tokenizer = train_tokenizer(TEXTS)
    AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer))).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "data.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in TEXTS))
    command = ["evaluate", str(tmp_path / "model"), "--data", str(tmp_path / "data.jsonl"), "--tests", "permutation"]
    assert main([*command, "--output", str(tmp_path / "a")]) == 0
    assert main([*command, "--output", str(tmp_path / "b"), "--threads", "2"]) == 0
    assert main(["explain", str(tmp_path / "model"), "good", "--threads", "2"]) == 0
    assert seen == [1, 2, 2]
