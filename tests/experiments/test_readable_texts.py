"""Texts that a stock model cannot read beside others: twins are trained without them, and they are undefined."""

from __future__ import annotations

import json
import math
import warnings

import datasets
import numpy as np
import pytest
import torch
from transformers import BartConfig, BartForSequenceClassification

from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments import readable_texts as readable
from attn_faithful.experiments.inputs import DataInput, ModelInput
from attn_faithful.experiments.run_stock_twins import stock_attefa
from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
from attn_faithful.models.stock.model import StockModel
from attn_faithful.reports.report import report
from attn_faithful.training.stock_twin import StockTwinSettings
from tests.experiments.test_undefined_texts import words_with_an_end
from tests.experiments.tiny import numbers

TEXTS = ["good film", "a good film a", "bad", "a bad film", "good a", "bad film film"]
DATA = {
    "train": [*TEXTS, "good </s> film", *TEXTS, "bad </s> film bad", "good </s> film"],
    "validation": ["film </s> good", *TEXTS],
    "test": [*TEXTS[:4], "good </s> film bad", *TEXTS[4:], "good </s> film bad"],
}
SETTINGS = StockTwinSettings(epochs=2, batch_size=4, learning_rate=2e-3, sample=8, perturbation=1.0)
REASON = "not measured: ValueError: All examples must have the same number of <eos> tokens."


@pytest.fixture(scope="module")
def bart():
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return BartForSequenceClassification(
        BartConfig(
            vocab_size=8,
            d_model=8,
            encoder_ffn_dim=8,
            decoder_ffn_dim=8,
            max_position_embeddings=20,
            num_labels=2,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            id2label={0: "neg", 1: "pos"},
            **sizes,
        )
    ).eval()


def labelled(texts):
    return [{"text": text, "label": "pos" if "good" in text else "neg"} for text in texts]


def twins(model, output, data, settings=SETTINGS):
    rows = datasets.DatasetDict({split: datasets.Dataset.from_list(labelled(texts)) for split, texts in data.items()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedTextWarning)
        model_input = ModelInput(model, words_with_an_end(), name="tiny")
        texts = DataInput(DataSettings(source="films"), rows)
        folder = stock_attefa(model_input, texts, settings, output=output)
    return folder, [str(w.message) for w in caught if w.category is UndefinedTextWarning]


@pytest.fixture(scope="module")
def run(bart, tmp_path_factory):
    return twins(bart, tmp_path_factory.mktemp("runs"), DATA)


def values_of(folder, texts):
    scores = folder.read_table("scores").to_pandas()
    scores["text"] = [texts[int(example.rpartition("-")[2])] for example in scores["example"]]
    return scores.set_index(["text", "source", "site", "metric"])["value"]


def test_twins_are_those_of_the_other_texts(run, bart, tmp_path):
    whole = {split: [text for text in texts if "</s>" not in text] for split, texts in DATA.items()}
    other, said = twins(bart, tmp_path, whole)
    assert not said
    found, expected = values_of(run[0], DATA["test"]), values_of(other, whole["test"])
    assert len(expected) == 6 * (3 + 3)  # TVD, JSD and AtteFa of all layers, JSD of each
    assert expected.drop("attefa", level="metric").notna().all()
    np.testing.assert_array_equal(found[expected.index], expected)
    mine, theirs = (numbers(folder.read_summary())["twins"]["attefa-0"] for folder in (run[0], other))
    assert mine["attefa"] == {**theirs["attefa"], "n_undefined": 2}
    assert mine["constant_tvd"]["value"] == theirs["constant_tvd"]["value"]
    assert mine["accuracy"] == theirs["accuracy"]
    assert [row["content_mass"] for row in mine["layers"]] == [row["content_mass"] for row in theirs["layers"]]
    assert run[0].read_summary()["base"] == other.read_summary()["base"]


def test_they_are_undefined_with_the_reason_and_counted(run):
    folder, said = run
    lost = folder.read_table("scores").to_pandas().query("example in ('test-4', 'test-7')")
    assert lost["value"].isna().all()
    assert set(lost["reason"]) == {REASON}
    assert set(lost["metric"]) == {"tvd", "jsd", "attefa"}
    meta, summary = folder.read_meta(), folder.read_summary()
    assert meta["failed"] == {"test-4": REASON, "test-7": REASON}
    for record in summary["tests"]:
        if record["class"] == "all":
            assert (record["n"], record["n_undefined"], record["reasons"]) == (6, 2, {REASON: 2})
    notes = [
        "3 of 15 texts of train were left out of training, since the model cannot read them; the first is 'train-6': "
        + REASON.removeprefix("not measured: "),
        "1 of 7 texts of validation were left out of training, since the model cannot read them; the first is "
        "'validation-0': " + REASON.removeprefix("not measured: "),
    ]
    assert meta["data"]["notes"][-2:] == notes
    assert said == [
        *notes,
        f"2 of 8 texts could not be measured and are undefined, the first is 'test-4': {REASON}",
    ]
    chances = folder.read_table("predictions").to_pandas().set_index("example")["probabilities"]
    assert np.isnan(chances["test-4"]).all()
    assert np.isfinite(np.stack(chances.drop(["test-4", "test-7"]))).all()
    json.dumps(summary, allow_nan=False)


def test_a_report_is_made_of_it(run, tmp_path):
    made = report([run[0].path], tmp_path / "report")
    assert {"attefa", "twins_by_seed"} <= made.tables.keys()


def test_the_command_line_tells_them(bart, tmp_path, capsys):
    bart.save_pretrained(tmp_path / "model")
    words_with_an_end().save_pretrained(tmp_path / "model")
    data = tmp_path / "films"
    data.mkdir()
    for split, texts in DATA.items():
        lines = [f"{row['text']},{row['label']}" for row in labelled(texts)]
        (data / f"{split}.csv").write_text("\n".join(["text,label", *lines]))
    command = ["attefa", "--model", str(tmp_path / "model"), "--data", str(data), "--output", str(tmp_path / "runs")]
    command += ["--twin-epochs", "1", "--batch-size", "4"]
    for _ in range(2):  # of a finished run too
        assert main(command) == 0
        said = capsys.readouterr()
        assert said.out.count("3 of 15 texts of train were left out of training") == 1
        assert said.err.count("2 of 8 texts could not be measured and are undefined, the first is") == 1
        assert "Traceback" not in said.err


def test_a_model_that_reads_no_text_is_told(bart, tmp_path):
    with pytest.raises(InputError, match=r"The model can read no text of train \(.*same number of <eos>"):
        twins(bart, tmp_path, DATA | {"train": ["good </s> film", "bad </s> a"]})
    many = DATA | {"test": ["good </s>" + " film" * n for n in range(1, 14)]}
    with pytest.raises(InputError, match="The model can read no text of test"):
        twins(bart, tmp_path, many)
    assert not list(tmp_path.rglob("meta.json"))


def asked_of(model, texts, monkeypatch, broken):
    """Which of some texts a model can read where something breaks, and what it was asked."""
    seen, asked = StockModel.seen, []

    def watched(self, batch, calls=None):
        asked.append(batch["input_ids"].shape)
        return broken(seen, self, batch, calls)

    monkeypatch.setattr(StockModel, "seen", watched)
    rows = Rows({"input_ids": texts, "example": [f"t{i}" for i in range(len(texts))]})
    return readable.read_split(model, "test", rows, Collator(1)), asked


def test_logits_that_are_no_numbers(bart, monkeypatch):
    def broken(seen, self, batch, calls):
        found = seen(self, batch, calls)
        found.logits[(batch["input_ids"] == 5).any(1), 0] = math.inf
        return found

    model = StockModel(bart)
    split, asked = asked_of(model, [[4, 2], [5, 2], [4, 6, 2]], monkeypatch, broken)
    assert split.failed == {"t1": readable.NOT_FINITE}
    assert split.places == [0, 2]
    assert [block.copies for block in split.blocks(model)] == [[[2], [0]]]
    assert len(asked) == 1  # nothing was asked again


def test_what_is_of_the_run_is_raised_at_once(bart, monkeypatch):
    def broken(seen, self, batch, calls):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        asked_of(StockModel(bart), [[4, 2], [5, 2]], monkeypatch, broken)
