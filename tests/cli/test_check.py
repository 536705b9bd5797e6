"""``check``: all faults at once, pairs, classes that look misspelt, and data against a trained model."""

import datasets
import pytest
import torch

from attn_faithful._checks import Faults, InputError, SeveralFaultsError
from attn_faithful.cli import main
from attn_faithful.data.misspelt_classes import near_classes
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments.strict_settings import build
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig

NEWS = [("match", "Sport"), ("goal", "sport "), ("money", "business"), ("stocks", "buisness")]
NEWS += [("up", "business"), ("down", "business"), ("again", "sport"), ("x", "business"), ("y", "sport")] * 3


def file(path, **columns):
    datasets.Dataset.from_dict(columns).to_json(path)
    return str(path)


def told(capsys):
    return [line.removeprefix("attn-faithful: ") for line in capsys.readouterr().err.splitlines() if "attn-f" in line]


def test_pairs_are_checked(capsys, tmp_path):
    path = file(
        tmp_path / "pairs.jsonl", premise=["a man"] * 40, hypothesis=["no one", "a b c"] * 20, label=[0, 1] * 20
    )
    assert main(["check", path]) == 0
    printed = capsys.readouterr().out
    assert "asked by 'hypothesis'" in printed
    assert printed.endswith("No fault found.\n")


@pytest.mark.parametrize(("classes", "n"), [(2, 10), (5, 20)])
def test_what_chooses_the_epoch_is_checked(capsys, tmp_path, classes, n):
    path = file(tmp_path / "few.jsonl", text=[f"a {i}" for i in range(n)], label=[i % classes for i in range(n)])
    for command in (["check", path], ["train", "--data", path, "--encoder", "mlp", "--output", str(tmp_path / "runs")]):
        assert main(command) == 2
        (line,) = told(capsys)
        assert f"of {classes} are there" in line  # a validation split of one or two texts
    assert main(["check", path, "--set", "train.select_by=loss"]) == 0


def test_classes_that_look_misspelt_are_told(capsys, tmp_path):
    path = file(tmp_path / "news.jsonl", text=[text for text, _ in NEWS], label=[label for _, label in NEWS])
    assert main(["check", path, "--set", "train.select_by=loss"]) == 0
    printed = capsys.readouterr().out
    assert "Warning: news: Classes 'Sport' (1 row) and 'sport' (7 rows) differ in capitals" in printed
    assert "Warning: news: Classes 'buisness' (1 row) and 'business' (10 rows): one misspelt?" in printed
    assert "all: blanks around 1 labels were cut." in printed
    assert printed.endswith("No fault found, 2 to look at.\n")


@pytest.mark.parametrize(
    ("counts", "pairs"),
    [
        ({"Very Good": 50, "very good": 40}, 1),
        ({"very_good": 50, "very  good!": 40}, 1),
        ({"caf\u00e9": 50, "cafe\u0301": 1}, 1),
        ({"positive": 50, "postive": 1}, 1),
        ({"positive": 50, "postive": 12}, 1),
        ({"positive": 50, "postive": 30}, 0),
        ({"positive": 50, "negative": 1}, 0),
        ({"increase": 50, "decrease": 40}, 0),
        ({"grade 1": 50, "grade 2": 1}, 0),
        ({"1 star": 50, "2 star": 1}, 0),
        ({"ham": 50, "spam": 1}, 0),
        ({"+": 5, "-": 5}, 0),
        ({"C": 5, "C++": 5}, 1),
        ({str(i): 1 for i in range(1001)}, 0),
    ],
)
def test_near_classes(counts, pairs):
    assert len(near_classes(counts)) == pairs


def test_all_faults_are_printed_at_once(capsys, tmp_path):
    path = file(tmp_path / "bad.jsonl", text=[None, "b", None, "c"] * 3, label=["a", None, "b", "a"] * 3)
    assert main(["check", path, "--keep", "a,c", "--drop", "d"]) == 2
    faults = told(capsys)
    assert [("keep" in f, "drop." in f, "'text'" in f, "a label" in f) for f in faults[:4]] == [
        (True, False, False, False),
        (False, True, False, False),
        (False, False, False, True),
        (False, False, True, False),
    ]
    assert "(5 more of this kind.)" in faults[3]
    assert main(["check", path, "--set", "data.kep=a", "--set", "twin.epoch=3", "--vectors", "none.txt"]) == 2
    assert len(told(capsys)) == 3
    recipe = tmp_path / "two.yaml"
    recipe.write_text(f"data: {{source: {path}, limt: 3}}\ntrain: {{epoch: 2}}\nmodel: {{encodr: mlp}}\n")
    assert main(["check", str(recipe)]) == 2
    assert [part in line for part, line in zip(("'limt'", "'encodr'", "'epoch'"), sorted(told(capsys)), strict=True)]
    columns = file(tmp_path / "two.jsonl", text=["a", "b"], stars=[1, 2], rating=[1, 2])
    assert main(["check", columns]) == 2
    assert "stars, rating could be it" in told(capsys)[0]


def test_settings_tell_all_faults_too():
    with pytest.raises(SeveralFaultsError) as caught:
        build(DataSettings, {"limt": 3, "seed": "x"}, "data")
    assert len(caught.value.faults) == 2
    faults = Faults()
    with pytest.raises(InputError, match="first"):
        faults.gather(lambda: faults.add(InputError("first")))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tokenizer = train_tokenizer(["good film bad"])
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer), encoder="mlp", embedding_size=4, hidden_size=4, id2label={0: "neg", 1: "pos"}
    )
    path = tmp_path_factory.mktemp("model")
    AttentionClassifier(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def test_data_are_checked_for_a_model(capsys, tmp_path, model):
    path = file(tmp_path / "few.jsonl", text=["good film", "bad film so"] * 3, label=[1, 0] * 3)
    assert main(["check", path, "--model", model]) == 0
    printed = capsys.readouterr().out
    parts = ("few", "test", "neg 3 / pos 3", "5 words in the vocabulary", "1 is 'pos'", "No fault found.")
    for part in (*parts, "All tests on 6 texts: ", " at most, measured"):
        assert part in printed
    path = file(tmp_path / "other.jsonl", text=["a b c d e f g"] * 6, label=["pos", "neg"] * 3)
    assert main(["check", path, "--model", model]) == 2
    assert "42 of the 42 tokens" in told(capsys)[0]
    path = file(tmp_path / "labels.jsonl", text=["good", None, "bad"], label=["pos", "neg", "poss"])
    assert main(["check", path, "--model", model]) == 2
    assert len(told(capsys)) == 2
    assert main(["check", path, "--model", str(tmp_path / "none")]) == 2
    assert main(["check", "quickstart", "--model", model]) == 2
    assert "--model goes with a data set" in told(capsys)[-1]
