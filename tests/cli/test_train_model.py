"""``train --model`` as it is typed: what it prints, what it leaves, and what is refused with nothing written."""

import pytest

from attn_faithful import load
from attn_faithful.cli import main
from attn_faithful.store import find_runs
from tests.cli.test_commands import refused, reviews, write_csv
from tests.data.pieces import wordpiece


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    import torch
    from transformers import BertConfig, BertModel

    path = tmp_path_factory.mktemp("encoder") / "tiny"
    tokenizer = wordpiece()
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **size)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", reviews())


def test_what_it_prints_and_leaves(encoder, data, tmp_path, capsys):
    arguments = ["train", "--model", encoder, "--data", data, "--epochs", "2", "--batch-size", "16", "--seeds", "1,2"]
    arguments += ["--learning-rate", "1e-3", "--set", "train.warmup_ratio=0", "--output", str(tmp_path / "runs")]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    for part in ("Base models on the test split", "reviews", "tiny ", "2 seeds", "Bases of different seeds"):
        assert part in printed.out
    assert f"Run folders: {tmp_path / 'runs' / 'train'}" in printed.out
    assert "Note: No validation split was given" in printed.out
    assert "bert on reviews, seed 1: base epoch 0/2" in printed.err
    runs = find_runs([tmp_path / "runs"])
    assert [run.read_meta()["seed"] for run in runs] == [1, 2]
    train = runs[0].read_meta()["recipe"]["train"]
    assert (train["epochs"], train["batch_size"], train["learning_rate"], train["warmup_ratio"]) == (2, 16, 1e-3, 0)
    model, _ = load(runs[0] / "model")
    assert model.config.id2label == {0: "neg", 1: "pos"}
    assert main(arguments) == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert "epoch" not in again.err, "finished runs are read"
    assert main([*arguments, "--full"]) == 0
    assert "words in the vocabulary" in capsys.readouterr().out


def test_smoke(encoder, data, tmp_path):
    assert main(["train", "--model", encoder, "--data", data, "--smoke", "--output", str(tmp_path)]) == 0
    (run,) = find_runs([tmp_path])
    assert run.read_meta()["recipe"]["train"]["epochs"] == 1
    assert run.read_meta()["recipe"]["data"]["limit"] == 64


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--set", "train.head=old"], ["'old'", "keep"]),
        (["--set", "train.masking=haf"], ["'haf'", "'half'"]),
        (["--set", "train.regularizers.tying=1"], ["'tying' reads more of a model than its attention", "deceive"]),
        (["--set", "train.regularizers.deceive=-1"], ["'deceive'", "a number from 0"]),
        (["--set", "train.regularizers.deceive=1"], ["'deceive' needs to know which words", "data.impermissible"]),
        (["--epochs", "3", "--set", "train.epochs=4"], ["train.epochs is told twice"]),
        (["--set", "train.epochs=many"], ["train: epochs", "'many'"]),
        (["--set", "train.warmup_ratio=1.5"], ["warmup_ratio must lie from 0 to below 1"]),
        (["--set", "train.trackers=tensorbord"], ["'tensorbord'"]),
        (["--label-column", "star"], ["'star'", "Did you mean 'stars'"]),
        (["--processes", "2"], ["Expected 2 processes, but the launcher started 1"]),
    ],
)
def test_wrong_input(encoder, data, tmp_path, capsys, arguments, parts):
    line = refused(capsys, tmp_path / "out", "train", "--model", encoder, "--data", data, *arguments)
    assert all(part in line for part in parts), line


def test_our_own_model(data, tmp_path, capsys):
    flags = ["--encoder", "mlp", "--epochs", "1", "--set", "model.hidden_size=4", "--set", "model.embedding_size=4"]
    assert main(["train", "--data", data, *flags, "--output", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
    (run,) = find_runs([tmp_path / "runs"])
    line = refused(capsys, tmp_path / "out", "train", "--model", str(run / "model"), "--data", data)
    assert "one of our own models" in line
    assert "leave --model out" in line
