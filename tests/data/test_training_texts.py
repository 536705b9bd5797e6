"""Texts that a model was trained on: found again in the same table and in others, left out or told."""

import json

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.training_texts import FILE, TrainingTexts
from tests.data.loading import load


def table(n=60, copies=3):
    """Texts of two classes, each text several times."""
    texts = [f"text {i // copies}" for i in range(n)]
    return datasets.Dataset.from_dict({"text": texts, "label": [i % 2 for i in range(n)]})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.csv"
    table().to_csv(path)
    return path


def training_texts(data):
    return TrainingTexts.of(data.splits, data.rows, data.single)


def test_the_table_of_a_run_falls_into_the_same_parts_again(file, tmp_path):
    """Also where copies of a text lie in several parts: they are told apart by their order."""
    trained = load(file)
    found = training_texts(trained)
    parts = [set(trained.splits[split]["text"]) for split in ("train", "test")]
    assert parts[0] & parts[1]
    data = load(file, purpose="evaluate", training_texts=found)
    assert data.splits["test"]["text"][:] == trained.splits["test"]["text"][:]
    assert data.splits["test"]["label"][:] == trained.splits["test"]["label"][:]
    assert [e.split("-")[1] for e in data.splits["test"]["example"]] == [
        e.split("-")[1] for e in trained.splits["test"]["example"]
    ]
    assert any("54 of 60 texts left out" in note for note in data.notes)
    found.save(tmp_path)
    again = TrainingTexts.read(tmp_path / FILE)
    assert (again.prints.tolist(), again.parts.tolist(), again.single) == (
        found.prints.tolist(),
        found.parts.tolist(),
        True,
    )
    assert b"text 1" not in (tmp_path / FILE).read_bytes()


def test_texts_that_were_chosen_are_kept_and_told(file, tmp_path):
    found = training_texts(load(file))
    kept = load(file, purpose="evaluate", training_texts=found, seen="keep")
    assert len(kept.splits["test"]) == 60
    assert any(note.startswith("CAUTION: the model was trained on 54 of these 60 texts") for note in kept.notes)
    given = load("d", rows=["text 0", "new"], purpose="evaluate", training_texts=found)
    assert len(given.splits["test"]) == 2
    assert any("trained on 1 of these 2 texts" in note for note in given.notes)
    left = load("d", rows=["text 0", "new"], purpose="evaluate", training_texts=found, seen="leave_out")
    assert left.shortened
    assert not kept.shortened
    assert left.splits["test"]["text"][:] == ["new"]
    folder = datasets.DatasetDict(
        {"train": table(), "test": datasets.Dataset.from_dict({"text": ["new"], "label": [0]})}
    )
    named = load("d", rows=folder, purpose="evaluate", training_texts=found)
    assert {split: len(rows) for split, rows in named.splits.items()} == {"train": 60, "test": 1}
    assert next(note for note in named.notes if "CAUTION" in note).endswith("(data.seen=leave_out leaves them out).")
    again = load(file, training_texts=found)  # twins of a trained model: the same split again
    assert not any("CAUTION" in note for note in again.notes)
    with pytest.raises(InputError, match=r"way with texts that a model was trained on \(data\.seen\) 'away'"):
        load(file, purpose="evaluate", seen="away")


def test_other_sources_and_limits(file, tmp_path):
    """A text of another file is left out where any copy was used; a limit counts what is left."""
    found = training_texts(load(file))
    other = tmp_path / "other.csv"
    datasets.Dataset.from_dict({"text": ["text 0", "text 0", "a", "b", "c"], "label": [0, 1, 0, 1, 0]}).to_csv(other)
    data = load(other, purpose="evaluate", training_texts=found, limit=2)
    assert len(data.splits["test"]) == 2
    assert set(data.splits["test"]["text"]) < {"a", "b", "c"}
    datasets.Dataset.from_dict({"text": ["text 0"] * 3, "label": [0, 1, 0]}).to_csv(other)
    everything = TrainingTexts(found.prints, np.ones_like(found.parts), single=True)
    with pytest.raises(InputError, match=r"trained on all 3 of 'test'.*data\.seen=keep"):
        load(other, purpose="evaluate", training_texts=everything)


def test_queries_count():
    pairs = {"text": ["a", "b"] * 10, "query": ["x", "y"] * 10, "label": [0, 1] * 10}
    trained = load("d", rows=datasets.Dataset.from_dict(pairs), query_column="query")
    asked = [{"text": "a", "query": "y"}, {"text": "a", "query": "x"}]
    found = TrainingTexts.of(trained.splits, trained.rows, single=False)
    data = load("d", rows=asked, purpose="evaluate", training_texts=found, seen="leave_out", query_column="query")
    assert data.splits["test"]["query"][:] == ["y"]


@pytest.mark.parametrize("content", [b"PAR1", b"", "columns", "types", "parts"])
def test_damaged_files_are_refused(tmp_path, content):
    path = tmp_path / FILE
    tables = {
        "columns": {"print": np.zeros(3, dtype=np.uint64)},
        "types": {"print": np.zeros(3), "part": np.zeros(3, dtype=np.uint8)},
        "parts": {"print": np.zeros(3, dtype=np.uint64), "part": np.full(3, 3, dtype=np.uint8)},
    }
    if isinstance(content, str):
        pq.write_table(pa.table(tables[content]).replace_schema_metadata({"single": "true"}), path)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        TrainingTexts.read(path)


def test_a_run_and_its_evaluation_see_the_same_test_texts(tmp_path, capsys):
    """Also after a push; the command line and Python tell of texts that are kept."""
    import attn_faithful as af
    from attn_faithful.api import TrainedOnWarning
    from attn_faithful.hub.push import write_model

    path = tmp_path / "one.csv"
    rows = [{"text": f"the {'bad' if i % 2 else 'good'} film {i // 3}", "label": i % 2} for i in range(60)]
    datasets.Dataset.from_list(rows).to_csv(path)
    small = ["--set", "model.hidden_size=8", "--set", "model.embedding_size=8"]
    train = ["train", "--data", str(path), "--encoder", "mlp", "--epochs", "1", *small, "--output", str(tmp_path / "o")]
    assert main(train) == 0
    (run,) = (tmp_path / "o" / "train").iterdir()
    assert len(TrainingTexts.read(run / "model" / FILE).prints) == 60
    capsys.readouterr()
    evaluate = ["evaluate", str(run / "model"), "--data", str(path), "--tests", "entropy"]
    assert main([*evaluate, "--output", str(tmp_path / "e")]) == 0
    assert "Note: test: 54 of 60 texts left out" in capsys.readouterr().out
    (found,) = (tmp_path / "e" / "evaluate").iterdir()
    facts = [json.loads((folder / "summary.json").read_text())["base"] for folder in (run, found)]
    assert facts[0]["accuracy"] == facts[1]["accuracy"]
    assert facts[0]["f1"] == facts[1]["f1"]
    card = "---\nlibrary_name: transformers\n---\nA model.\n"
    model, tokenizer = af.load(write_model(run / "model", "user/name", tmp_path / "pushed", card=card))
    seen = load(path).splits["train"]["text"][0]
    with pytest.warns(TrainedOnWarning, match="trained on 1 of these 2 texts"):
        result = af.evaluate_attention(model, tokenizer, [seen, "new"], ["entropy"], output=tmp_path / "k")
    assert any("CAUTION" in note for note in result.meta["data"]["notes"])
    assert main(["explain", str(run / "model"), seen]) == 0
    assert "Note: CAUTION" in capsys.readouterr().out
