"""AtteFa of a stock model from texts to a run folder: what is written, resuming, errors."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from attn_faithful._checks import InputError
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments.inputs import DataInput, ModelInput
from attn_faithful.experiments.run_stock_twins import stock_attefa
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.models.stock.model import StockModel
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.result import Result
from attn_faithful.reports.tables.listings import runs_table
from attn_faithful.reports.tables.twins import attefa_table
from attn_faithful.training.stock_twin import StockTwinSettings
from tests.experiments.tiny import Stopped, numbers

GOOD, BAD = ["a good film", "good fun", "so good and warm"], ["a bad film", "bad fun", "so bad and long"]
TEXTS = [{"text": text, "label": label} for label, texts in (("pos", GOOD), ("neg", BAD)) for text in texts]
DATA = {
    "train": TEXTS * 6,
    "validation": TEXTS,
    "test": [*TEXTS, {"text": "", "label": "pos"}, {"text": "warm", "label": "pos"}],
}
SETTINGS = StockTwinSettings(epochs=2, batch_size=12, learning_rate=2e-3, sample=12, perturbation=1.0)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([row["text"] for row in TEXTS])


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=12,
        max_position_embeddings=16,
        pad_token_id=0,
        id2label={0: "neg", 1: "pos"},
        label2id={"neg": 0, "pos": 1},
    )
    found = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for value in found.parameters():
            value *= 4
    return found


def data_sets():
    import datasets

    return datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split, rows in DATA.items()})


def run(model, tokenizer, output, settings=SETTINGS, name=None, rows=None, origin=None, **given):
    data = DataInput(DataSettings(source="films"), rows or data_sets())
    return stock_attefa(ModelInput(model, tokenizer, name, origin), data, settings, output=output, **given)


@pytest.fixture(scope="module")
def folder(model, tokenizer, tmp_path_factory):
    return run(model, tokenizer, tmp_path_factory.mktemp("runs"), seeds=[3, 4], name="tiny")


def test_what_is_written(folder, model):
    summary, meta = folder.read_summary(), folder.read_meta()
    assert list(summary["twins"]) == ["attefa-3", "attefa-4"]
    assert meta["axes"] == {"data": "films", "model": "tiny"}
    assert meta["twin"]["keys"] == "content"
    scores, variants = (folder.read_table(name).to_pandas() for name in ("scores", "variants"))
    assert set(scores["site"]) == {"joint", "layer.0", "layer.1"}
    for name, twin in summary["twins"].items():
        own = variants[variants["variant"] == name]
        tvd, jsd = own["output_tvd"].to_numpy(), own["attention_jsd"].to_numpy()
        whole = faithfulness.attefa(tvd, jsd)
        assert twin["attefa"]["value"] == pytest.approx(whole.attefa)
        assert twin["attefa"]["low"] <= whole.attefa <= twin["attefa"]["high"]
        assert (twin["jsd"]["n"], twin["jsd"]["n_undefined"]) == (7, 1)  # the empty text
        layers = [row["jsd"]["value"] for row in twin["layers"]]
        assert np.mean(layers) == pytest.approx(twin["jsd"]["value"])
        for row in twin["layers"]:
            assert sorted(row["assignment"]) == [0, 1, 2]
            stored = scores[(scores["source"] == name) & (scores["site"] == f"layer.{row['layer']}")]
            assert set(stored["metric"]) == {"jsd"}
            assert stored["value"].mean() == pytest.approx(row["jsd"]["value"])
            assert stored[stored["value"].isna()]["reason"].tolist() == ["no content token"]
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert len(folder.read_table("predictions")) == 8


def test_every_twin_loads_alone(folder, model):  # C31, C32
    for seed in (3, 4):
        twin = BertForSequenceClassification.from_pretrained(folder / f"twin-{seed}")
        assert torch.equal(twin.bert.embeddings.word_embeddings.weight, model.bert.embeddings.word_embeddings.weight)
        query = twin.bert.encoder.layer[0].attention.self.query.weight
        assert not torch.equal(query, model.bert.encoder.layer[0].attention.self.query.weight)
        assert (folder / f"twin-{seed}" / "tokenizer.json").is_file()
    assert model.config._attn_implementation != "attn_faithful"


def test_reports_read_it(folder):
    result = Result(folder.path)
    table = result.table()
    of = table[(table["metric"] == "attefa") & (table["source"] == "attefa-3")]
    twin = folder.read_summary()["twins"]["attefa-3"]
    assert of["mean"].tolist() == [twin["attefa"]["value"]]
    assert of["site"].tolist() == ["joint"]
    by_class = result.table(by_class=True)
    assert set(by_class["class"]) == {"all", "neg", "pos"}
    assert "layer.1" in result.tables()[0].head
    assert attefa_table(aggregate([result])) is not None
    assert runs_table([folder]).rows[0][0] == "films"


def test_a_finished_run_is_not_made_again(folder, model, tokenizer):
    told = []
    again = run(
        StockModel(model),
        tokenizer,
        folder.path.parent,
        seeds=[3, 4],
        name="tiny",
        on_progress=lambda *args: told.append(args),
    )
    assert again.path == folder.path
    assert not told


def test_a_stopped_run_goes_on(folder, model, tokenizer, tmp_path):
    def stop(stage, epoch, *rest):
        if epoch == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run(model, tokenizer, tmp_path, seeds=[4], on_progress=stop)
    told = []
    again = run(model, tokenizer, tmp_path, seeds=[4], on_progress=lambda *args: told.append(args[:2]))
    assert told == [("twin-4", 0), ("twin-4", 2)]
    expected = numbers(folder.read_summary())["twins"]["attefa-4"]
    assert numbers(again.read_summary())["twins"] == {"attefa-4": expected}


def test_wrong_input(model, tokenizer, tmp_path):
    with pytest.raises(InputError, match="seeds must be a list of different numbers"):
        run(model, tokenizer, tmp_path, seeds=[1, 1])
    with pytest.raises(InputError, match=r"Expected layers of 0 to 1, but got \[5\]"):
        run(model, tokenizer, tmp_path, StockTwinSettings(layers=[5]))
    rows = [{"text": "good", "label": "fine"}, {"text": "bad", "label": "neg"}] * 8
    with pytest.raises(InputError, match="fine"):
        run(model, tokenizer, tmp_path, rows=rows)


def test_tokens_hold_the_models_attention_averaged_over_heads(folder, model, tokenizer):
    from transformers import AutoTokenizer

    tokens = folder.read_table("tokens").to_pandas()
    assert set(tokens["site"]) == {"joint", "layer.0", "layer.1"}
    assert len(tokens) == 3 * len(DATA["test"])
    reader = AutoTokenizer.from_pretrained(folder / "twin-3")
    eager = BertForSequenceClassification(model.config)
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    for place, row in enumerate(DATA["test"]):
        of = tokens[tokens["example"] == f"test-{place}"].set_index("site")
        if not row["text"]:
            assert [len(held) for held in of["attention"]] == [0, 0, 0]
            continue
        with torch.no_grad():
            seen = eager.eval()(**reader([row["text"]], return_tensors="pt"), output_attentions=True).attentions
        by_layer = [layer[0, :, 0].mean(0).numpy() for layer in seen]  # (T,), of the token that is read
        for layer, expected in enumerate(by_layer):
            np.testing.assert_allclose(of.loc[f"layer.{layer}", "attention"], expected, atol=1e-6)
        np.testing.assert_allclose(of.loc["joint", "attention"], np.mean(by_layer, 0), atol=1e-6)
        assert of.loc["joint", "tokens"].tolist() == row["text"].split()


@pytest.mark.parametrize("older", [False, True])
def test_a_report_has_tables_figures_and_a_page(folder, tmp_path, monkeypatch, older):
    from attn_faithful.cli import main
    from attn_faithful.reports import report as reports

    place = tmp_path / "runs" / "run"
    shutil.copytree(folder.path, place)
    if older:  # as earlier versions left it
        (place / "tokens.parquet").unlink()
    kept = {"twin_tradeoff": reports.FIGURES["twin_tradeoff"]}
    monkeypatch.setattr(reports, "FIGURES", kept)
    made = reports.report([tmp_path / "runs"], tmp_path / "report")
    assert not made.left_out
    assert {"data", "base_models", "attefa", "twins_by_seed"} <= made.tables.keys()
    assert made.figures["twin_tradeoff"][0].is_file()
    page = made.pages[0].read_text(encoding="utf-8")
    assert page.count('id="card-2-twins"') == 1  # AtteFa is of all layers at once, which stand last
    assert 'id="card-0-twins"' not in page
    assert 'id="card-1-twins"' not in page
    assert "so that its twins say nothing" in str(made), "the answer is of where the twins are"
    assert ("warm" in page.partition('id="data"')[2]) != older
    assert main(["ls", str(tmp_path / "runs")]) == 0


def test_its_numbers_stand_in_the_card_of_the_model(model, tokenizer, tmp_path):
    from attn_faithful.hub.push import write_model
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.run_search import read_runs

    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    settings = replace(SETTINGS, epochs=1)
    run(model, tokenizer, tmp_path / "runs", settings, seeds=[3], origin=str(saved))
    card = model_card(*read_runs([tmp_path / "runs"]), to="user/tiny", model=saved)
    assert "AtteFa (attefa-3" in card
    written = write_model(saved, "user/tiny", tmp_path / "out", card=card)
    assert (written / "tokenizer.json").is_file()
