"""Fine-tuning from a folder and texts to a run folder: heads, labels, padding, resuming, several processes."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments.fine_tune_plan import FineTuning
from attn_faithful.experiments.run_fine_tuning import run_seed, run_seeds
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.report import report
from attn_faithful.reports.run import Run
from attn_faithful.store import find_runs
from attn_faithful.training.settings import FineTuneSettings
from tests.data.pieces import bytes_of, wordpiece
from tests.experiments.test_processes import launch
from tests.experiments.tiny import Stopped

GOOD, BAD = ["a good film", "good fun", "so good and warm"], ["a bad film", "bad fun", "so bad and long"]
ROWS = [{"text": text, "label": label} for label, texts in (("pos", GOOD), ("neg", BAD)) for text in texts]
KINDS = ("regularizer_deceive", "regularizer_stability")
SETTINGS = FineTuneSettings(epochs=3, batch_size=6, learning_rate=2e-2)


def write(folder, splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        lines = [json.dumps(row) for row in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder)


def save(folder, network, tokenizer):
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def bert_config(tokenizer, **settings):
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=12,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )


def classifier(tokenizer, names, **settings):
    torch.manual_seed(0)
    named = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    return BertForSequenceClassification(bert_config(tokenizer, **named, **settings))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    test = [*ROWS, {"text": "warm", "label": "pos"}]
    return write(tmp_path_factory.mktemp("data") / "films", {"train": ROWS * 6, "validation": ROWS, "test": test})


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece()


@pytest.fixture(scope="module")
def encoder(tokenizer, tmp_path_factory):
    """A bare encoder, without a head for classes."""
    torch.manual_seed(1)
    return save(tmp_path_factory.mktemp("encoder") / "tiny", BertModel(bert_config(tokenizer)), tokenizer)


def tune(origin, data, output, settings=SETTINGS, seed=3, on_progress=lambda *facts: None, **of_data):
    return run_seed(FineTuning.of(origin, DataSettings(data, **of_data), settings), seed, output, on_progress)


@pytest.fixture(scope="module")
def folder(encoder, data, tmp_path_factory):
    return tune(encoder, data, tmp_path_factory.mktemp("runs"))


def probabilities_of(model, texts):
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForSequenceClassification.from_pretrained(model).eval()
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        return network(**inputs).logits.softmax(-1).numpy()


# --- what is written


def test_what_is_written(folder, encoder):
    meta, summary = folder.read_meta(), folder.read_summary()
    assert meta["axes"] == {"data": "films", "model": meta["axes"]["model"]}
    assert meta["axes"]["model"].startswith("tiny ")
    assert (meta["seed"], meta["model"], meta["label_names"]) == (3, encoder, ["neg", "pos"])
    left_out = ("regularizers", "masking")  # where there are none
    told = {name: value for name, value in vars(SETTINGS).items() if name not in left_out}
    assert meta["recipe"]["train"] == told
    assert meta["data"]["train"]["n"] == 36
    assert meta["versions"]["transformers"]
    assert summary["base"]["accuracy"] > 0.8
    assert summary["base"]["epoch"] in (1, 2, 3)
    history = folder.read_table("history").to_pandas()
    assert set(history["run"]) == {"base"}
    assert set(history["epoch"]) == {1, 2, 3}
    assert {"loss", "eval_loss", "eval_accuracy", "learning_rate"} <= set(history["metric"])
    tokens = folder.read_table("tokens").to_pandas()
    assert set(tokens["site"]) == {"layer.1"}
    assert tokens["tokens"][0].tolist() == ["a", "good", "film"]


def test_transformers_reads_the_model_and_says_what_the_run_says(folder):
    config = json.loads((folder / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "neg", "1": "pos"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert "transformers_weights" not in str(sorted(path.name for path in (folder / "model").iterdir()))
    predictions = folder.read_table("predictions").to_pandas()
    texts = [*(row["text"] for row in ROWS), "warm"]
    expected = probabilities_of(folder / "model", texts)
    np.testing.assert_allclose(np.stack(predictions["probabilities"]), expected, atol=1e-6)
    right = expected.argmax(1) == predictions["label"].to_numpy()
    assert folder.read_summary()["base"]["accuracy"] == right.mean()


def test_evaluate_reads_the_model_and_knows_what_it_was_trained_on(folder, data, tmp_path, capsys):
    model = str(folder / "model")
    arguments = ["evaluate", model, "--data", data, "--tests", "entropy", "--output", str(tmp_path)]
    assert main(arguments) == 0
    (run,) = find_runs([tmp_path])
    assert run.read_meta()["trained_on"]["n"] == 36
    assert "trained on 6 of these 7 texts" in capsys.readouterr().out
    model, _ = af.load(folder / "model")
    assert model.sites == ("layer.0", "layer.1", "joint")


def test_a_report_is_made_of_it(folder, tmp_path):
    made = report([folder.path], tmp_path / "report")
    assert {"data", "base_models"} <= made.tables.keys()


def test_seeds_are_runs_of_one_model(encoder, data, tmp_path, folder):
    told = []
    tuning = FineTuning.of(encoder, DataSettings(data), SETTINGS)
    folders = run_seeds(tuning, [3, 4], tmp_path, lambda seed, *facts: told.append(seed))
    assert set(told) == {3, 4}
    assert folders[0].path.name == folder.path.name
    (group,) = aggregate([Run(each.path) for each in folders])
    assert group.seeds == [3, 4]
    assert group.base.accuracy.n == 2
    one, other = (load_file(each / "model" / "model.safetensors") for each in folders)
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])
    same = load_file(folder / "model" / "model.safetensors")
    assert all(torch.equal(same[name], weight) for name, weight in one.items()), "the same seed, the same bits"


def test_settings_tell_runs_apart(encoder, data, tmp_path):
    settings = FineTuneSettings(epochs=1, batch_size=12)
    one = tune(encoder, data, tmp_path, settings)
    other = tune(encoder, data, tmp_path, FineTuneSettings(epochs=1, batch_size=12, learning_rate=1e-3))
    assert one.path != other.path
    groups = aggregate([Run(one.path), Run(other.path)])
    assert [group.axes["learning_rate"] for group in groups] == ["2e-05", "0.001"]


def test_regularizers_of_attention(encoder, data, tmp_path, folder):
    def settings(weight):
        return FineTuneSettings(**{**vars(SETTINGS), "regularizers": {"deceive": weight}})

    hidden = {"impermissible": ["GOOD", "bad"]}
    run = tune(encoder, data, tmp_path, settings(2.0), **hidden)
    assert run.read_meta()["recipe"]["train"]["regularizers"] == {"deceive": 2.0}
    history = run.read_table("history").to_pandas()
    losses = history[history["metric"] == "regularizer_deceive"]["value"].tolist()
    assert losses[-1] < losses[0]
    plain = tune(encoder, data, tmp_path, **hidden)
    assert plain.path == tune(encoder, data, tmp_path, settings(0.0), **hidden).path, "a weight of 0 is as none"
    masses = []
    for each in (run, plain):
        result = af.evaluate_attention(
            str(each / "model"), None, data, ["impermissible"], output=tmp_path / "e", progress=False, **hidden
        )
        table = result.table().set_index(["metric", "source"])["mean"]
        masses.append(table["impermissible_mass", "attention"])
    assert masses[0] < masses[1]
    groups = aggregate([Run(plain.path), Run(run.path)])
    assert [group.axes.get("deceive") for group in groups] == ["-", "2.0"]


def test_epochs_chosen_on_test_are_noted(encoder, data, tmp_path):
    run = tune(encoder, data, tmp_path, FineTuneSettings(epochs=1, select_on="test"))
    (group,) = aggregate([Run(run.path)])
    assert list(group.select_on) == ["train"]


# --- stopped and resumed


def test_a_killed_run_ends_with_the_same_bits(folder, encoder, data, tmp_path):
    def stop(stage, epoch, *rest):
        if epoch == 2:
            raise Stopped

    with pytest.raises(Stopped):
        tune(encoder, data, tmp_path, on_progress=stop)
    assert not any(tmp_path.rglob("meta.json"))
    told = []
    again = tune(encoder, data, tmp_path, on_progress=lambda *facts: told.append(facts[1]))
    assert told == [0, 2, 3], "the first epoch is not trained again"
    assert again.path.name == folder.path.name
    one, other = ((each / "model" / "model.safetensors").read_bytes() for each in (folder, again))
    assert one == other
    for table in ("predictions", "tokens"):
        assert again.read_table(table).equals(folder.read_table(table))
    assert not list(again.path.glob(".*")), "no checkpoint, lock or part is left"


def test_a_finished_run_is_not_made_again(encoder, data, folder):
    told = []
    again = tune(encoder, data, folder.path.parent, on_progress=lambda *facts: told.append(facts))
    assert again.path == folder.path
    assert not told


# --- heads and labels


def start_of(origin, data, head="keep", **of_data):
    return FineTuning.of(origin, DataSettings(data, **of_data), FineTuneSettings(head=head)).start


def test_a_classifier_keeps_its_head_and_the_order_of_its_classes(tokenizer, data, tmp_path):
    network = classifier(tokenizer, ["pos", "neg"])
    start = start_of(save(tmp_path / "own", network, tokenizer), data)
    assert start.texts.label_names == ["pos", "neg"]
    for seed in (0, 1):
        assert torch.equal(start.model(seed).model.classifier.weight, network.classifier.weight)


def test_classes_without_names_take_those_of_the_data(tokenizer, data, tmp_path):
    network = classifier(tokenizer, ["LABEL_0", "LABEL_1"])
    start = start_of(save(tmp_path / "own", network, tokenizer), data)
    assert start.model(0).config.id2label == {0: "neg", 1: "pos"}
    assert any("classes have no names" in note for note in start.texts.notes)


@pytest.mark.parametrize("names", [["good", "bad"], ["a", "b", "c"], ["LABEL_0", "LABEL_1", "LABEL_2"]])
def test_a_classifier_of_other_classes_is_refused_until_a_new_head_is_asked_for(tokenizer, data, tmp_path, names):
    network = classifier(tokenizer, names)
    origin = save(tmp_path / "own", network, tokenizer)
    with pytest.raises(InputError, match=r"train\.head=new"):
        start_of(origin, data)
    start = start_of(origin, data, head="new")
    model = start.model(0).model
    assert model.config.id2label == {0: "neg", 1: "pos"}
    assert model.classifier.weight.shape == (2, 12)
    assert torch.equal(model.bert.pooler.dense.weight, network.bert.pooler.dense.weight)


def test_a_new_head_in_the_place_of_one_with_as_many_classes(tokenizer, data, tmp_path):
    network = classifier(tokenizer, ["neg", "pos"])
    origin = save(tmp_path / "own", network, tokenizer)
    start = start_of(origin, data, head="new")
    heads = [start.model(seed).model.classifier.weight for seed in (0, 0, 1)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert not torch.equal(heads[0], network.classifier.weight)


def test_data_that_are_wrong_themselves_are_told_as_such(tokenizer, tmp_path):
    origin = save(tmp_path / "own", classifier(tokenizer, ["neg", "pos"]), tokenizer)
    rows = [{"text": "good", "label": "pos"}, {"text": None, "label": "neg"}]
    with pytest.raises(InputError, match="row 1") as told:
        start_of(origin, write(tmp_path / "data", {"train": rows, "test": rows}))
    assert "train.head=new" not in str(told.value)


def test_several_labels_a_text(encoder, tmp_path):
    rows = [{"text": row["text"], "label": [row["label"], "film"] if "film" in row["text"] else []} for row in ROWS]
    data = write(tmp_path / "data", {"train": rows * 4, "validation": rows, "test": rows})
    run = tune(encoder, data, tmp_path / "runs", FineTuneSettings(epochs=1, select_by="loss"), multi_label=True)
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert len(config["id2label"]) == 3
    chances = np.stack(run.read_table("predictions").to_pandas()["probabilities"])
    assert not np.allclose(chances.sum(1), 1, atol=1e-3)
    assert Run(run.path).multi_label


def test_pairs_are_joined_as_evaluations_join_them(encoder, tmp_path):
    rows = [{"text": "a good film", "query": row["text"], "label": row["label"]} for row in ROWS]
    data = write(tmp_path / "data", {"train": rows * 4, "validation": rows, "test": rows})
    tuning = FineTuning.of(encoder, DataSettings(data, query_column="query"), SETTINGS)
    encoded = tuning.data.encoded["train"][0]
    reader = AutoTokenizer.from_pretrained(encoder)
    expected = reader("a good film", rows[0]["query"])
    assert encoded["input_ids"].tolist() == expected["input_ids"]
    assert encoded["token_type_ids"].tolist() == expected["token_type_ids"]
    run = run_seed(tuning, 0, tmp_path / "runs")
    out = af.evaluate_attention(
        str(run / "model"), None, data, ["entropy"], output=tmp_path / "e", query_column="query", progress=False
    )
    np.testing.assert_allclose(out.probabilities, Run(run.path).probabilities, atol=1e-6)


def test_texts_are_cut_at_the_positions_of_the_model(encoder, tmp_path):
    rows = [*ROWS, {"text": "good " * 100, "label": "pos"}]
    data = write(tmp_path / "data", {"train": rows * 4, "validation": rows, "test": rows})
    run = tune(encoder, data, tmp_path / "runs", FineTuneSettings(epochs=1))
    assert run.read_meta()["data"]["train"]["truncated"] == 4


def test_a_model_without_a_padding_token(tmp_path):
    """GPT-2 has none, and empty texts of it have no token at all."""
    tokenizer = bytes_of()
    tokenizer.pad_token = None
    torch.manual_seed(0)
    network = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_embd=12, n_layer=2, n_head=2, n_positions=64, eos_token_id=2)
    )
    origin = save(tmp_path / "gpt2", network, tokenizer)
    rows = [*ROWS, {"text": "", "label": "pos"}]
    data = write(tmp_path / "data", {"train": rows * 4, "validation": rows, "test": rows})
    run = tune(origin, data, tmp_path / "runs", FineTuneSettings(epochs=2, batch_size=8, learning_rate=5e-3))
    meta = run.read_meta()
    assert "The model has no padding token: batches are padded with '</s>'." in meta["data"]["notes"]
    model, reader = af.load(run / "model")
    assert model.config.pad_token_id == reader.pad_token_id == 2
    weights = load_file(run / "model" / "model.safetensors")
    assert all(bool(weight.isfinite().all()) for weight in weights.values())
    history = run.read_table("history").to_pandas()
    assert np.isfinite(history["value"]).all()


# --- what is refused


def test_our_own_models_are_refused(data, tmp_path):
    from attn_faithful.data.tokenizer import train_tokenizer
    from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig

    tokenizer = train_tokenizer([row["text"] for row in ROWS])
    own = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
    origin = save(tmp_path / "own", own, tokenizer)
    with pytest.raises(InputError, match=r"one of our own models.*leave --model out"):
        start_of(origin, data)


def test_a_folder_that_lacks_weights_is_refused(encoder, data, tokenizer, tmp_path):
    from safetensors.torch import save_file

    shutil.copytree(encoder, tmp_path / "half")
    held = load_file(f"{encoder}/model.safetensors")
    for name in list(held):
        if "layer.1" in name:
            del held[name]
    save_file(held, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks the weights .*layer\.1.*incomplete"):
        start_of(str(tmp_path / "half"), data)
    own = save(tmp_path / "own", classifier(tokenizer, ["neg", "pos"]), tokenizer)
    held = load_file(f"{own}/model.safetensors")
    del held["classifier.weight"]
    save_file(held, f"{own}/model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks the weights classifier.weight; it is incomplete"):
        start_of(own, data)


def test_a_regression_is_refused_until_a_new_head_is_asked_for(tokenizer, data, tmp_path):
    origin = save(tmp_path / "own", classifier(tokenizer, ["LABEL_0"]), tokenizer)
    with pytest.raises(InputError, match=r"two classes or more.*train\.head=new"):
        start_of(origin, data)
    assert start_of(origin, data, head="new").model(0).config.num_labels == 2


def test_a_folder_without_a_tokenizer_is_refused(encoder, data, tmp_path):
    BertModel.from_pretrained(encoder).save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="no tokenizer"):
        start_of(str(tmp_path / "bare"), data)


# --- several processes


@pytest.fixture(scope="module")
def still(tokenizer, tmp_path_factory):
    """An encoder without dropout, whose random numbers would be others in each process."""
    torch.manual_seed(1)
    config = bert_config(tokenizer, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return save(tmp_path_factory.mktemp("encoder") / "still", BertModel(config), tokenizer)


@pytest.mark.parametrize(("parallel", "deceive"), [("data", "0"), ("data", "0.5"), ("cells", "0")])
def test_two_processes_give_the_numbers_of_one(still, data, tmp_path, parallel, deceive):
    arguments = ["train", "--model", still, "--data", data, "--epochs", "2", "--batch-size", "12"]
    arguments += ["--learning-rate", "0.005", "--seeds", "3,4" if parallel == "cells" else "3"]
    arguments += ["--set", f"train.regularizers.deceive={deceive}", "--set", "data.impermissible=[good, bad]"]
    arguments += ["--set", f"train.regularizers.stability={deceive}"]
    assert main([*arguments, "--output", str(tmp_path / "one")]) == 0
    more = ["--parallel", parallel, "--processes", "2", "--output", str(tmp_path / "two")]
    done = launch("-m", "attn_faithful.cli", *arguments, *more)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("Run folders:") == 1
    mine, theirs = find_runs([tmp_path / "one"]), find_runs([tmp_path / "two"])
    assert [run.path.name for run in mine] == [run.path.name for run in theirs]
    for one, two in zip(mine, theirs, strict=True):
        weights = [load_file(run / "model" / "model.safetensors") for run in (one, two)]
        for name, weight in weights[0].items():
            if parallel == "cells":
                assert torch.equal(weights[1][name], weight), name
            elif not name.endswith("key.bias"):  # it moves all scores of a row alike: Adam steps by rounding
                # sums over halves of a batch are rounded otherwise
                torch.testing.assert_close(weights[1][name], weight, atol=1e-4, rtol=1e-4, msg=name)
        chances = [np.stack(run.read_table("predictions").to_pandas()["probabilities"]) for run in (one, two)]
        np.testing.assert_allclose(chances[0], chances[1], atol=1e-4)
        losses = []
        for run in (one, two):
            history = run.read_table("history").to_pandas()
            losses.append(history[history["metric"].isin(["loss", "grad_norm", "eval_loss", *KINDS])]["value"])
        np.testing.assert_allclose(*losses, rtol=1e-4)
