"""What users have in their hands: models and data of every kind, taken, or told what to do; choices that hold."""

from __future__ import annotations

import copy
import json
import shutil

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, pipeline

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.files.in_memory import as_rows
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from tests.data.pieces import wordpiece
from tests.experiments.test_evaluation_stock import NAMES, bert
from tests.experiments.tiny import DEFAULT_TESTS

TEXTS = ["good movie, not bad", "bad movie bad", "unbelievably good"]
LABELS = ["positive", "negative", "positive"]
CLASSES = ["negative", "positive"]


@pytest.fixture(scope="module")
def pieces():
    return wordpiece()


@pytest.fixture(scope="module")
def plain(pieces):
    return bert(pieces, **NAMES)


@pytest.fixture(scope="module")
def folder(plain, pieces, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain")
    plain.save_pretrained(path)
    pieces.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def words():
    return train_tokenizer(TEXTS)


def own(words, seed: int = 0, **settings) -> AttentionClassifier:
    torch.manual_seed(seed)
    config = AttentionClassifierConfig(
        vocab_size=len(words), embedding_size=6, hidden_size=8, id2label=dict(enumerate(CLASSES)), **settings
    )
    return AttentionClassifier(config).eval()


def tau(result) -> dict:
    """Every number of every text."""
    scores = result.folder.read_table("scores").to_pandas()
    keys = ["example", "site", "slot", "source", "metric"]
    return scores.set_index(keys)["value"].sort_index().to_dict()


def same(found, expected, tolerance: float = 0.0) -> None:
    one, other = tau(found), tau(expected)
    assert one.keys() == other.keys()
    assert one
    for key, value in one.items():
        assert value == pytest.approx(other[key], abs=tolerance, nan_ok=True), key


def run(model, tokenizer, output, data=TEXTS, tests=("permutation",), **given):
    return af.evaluate_attention(
        model, tokenizer, data, tests, output=output, **{"settings": {"controls": []}, **given}
    )


@pytest.fixture(scope="module")
def expected(plain, pieces, tmp_path_factory):
    return run(af.wrap(plain), pieces, tmp_path_factory.mktemp("expected"))


# choices


CHOSEN = {"layers": [0], "heads": [1], "queries": "mean"}


def test_what_wrap_was_told_holds(plain, pieces, tmp_path):
    result = run(af.wrap(plain, **CHOSEN), pieces, tmp_path / "wrapped")
    assert set(result.tokens["site"]) == {"layer.0"}
    assert (result.meta["evaluation"]["queries"], result.meta["evaluation"]["heads"]) == ("mean", [1])
    told = {"controls": [], "sites": ["layer.0"], "heads": [1], "queries": "mean"}
    same(result, run(plain, pieces, tmp_path / "told", settings=told))
    model = af.wrap(plain, **CHOSEN)
    batch = pieces(TEXTS, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    over = model.encode(batch, "layer.0").attention
    assert over.shape[1] == 1
    row = result.tokens.set_index("example").iloc[2]  # "unbelievably good": words, in the mean over rows of head 1
    assert sum(row["attention"]) == pytest.approx(float((over[2, 0] * (1 - batch["special_tokens_mask"][2])).sum()))


def test_explanations_show_what_wrap_was_told(plain, pieces, tmp_path):
    found = af.explain(af.wrap(plain, **CHOSEN), pieces, TEXTS[0], output=tmp_path, tests="permutation")
    result = run(af.wrap(plain, **CHOSEN), pieces, tmp_path / "again", data=TEXTS[:1])
    shown = next(line for line in found[0].lines if line.kind.key == "attention")
    assert list(shown.values) == pytest.approx(list(result.tokens["attention"][0]))
    usual = run(plain, pieces, tmp_path / "usual", data=TEXTS[:1])
    assert list(shown.values) != pytest.approx(list(usual.tokens["attention"][0]), abs=1e-3)


@pytest.mark.parametrize(
    ("wrapped", "settings", "message"),
    [
        ({"heads": [1]}, {"heads": [0]}, r"wrapped with heads=\[1\], but the settings ask for \[0\]"),
        ({"heads": [1]}, {"heads": []}, r"wrapped with heads=\[1\], but the settings ask for \[\]"),
        ({"queries": "mean"}, {"queries": "token"}, "wrapped with queries='mean', but the settings ask for 'token'"),
        ({"queries": "mean"}, {"queries": "auto"}, "wrapped with queries='mean', but the settings ask for 'auto'"),
        ({"layers": [0]}, {"sites": ["layer.1"]}, r"wrapped with layers=\[0\], but the settings ask for the site"),
    ],
)
def test_settings_that_contradict_what_wrap_was_told_are_refused(plain, pieces, tmp_path, wrapped, settings, message):
    with pytest.raises(InputError, match=message):
        run(af.wrap(plain, **wrapped), pieces, tmp_path, settings=settings)


def test_settings_that_say_the_same_are_taken(plain, pieces, tmp_path):
    settings = {"heads": [1], "queries": "mean", "sites": "layer.0", "controls": []}
    result = run(af.wrap(plain, layers=0, heads=-1, queries="mean"), pieces, tmp_path, settings=settings)
    assert result.meta["evaluation"]["heads"] == [1]


def test_twins_of_what_wrap_was_told_and_cannot_hold_are_refused(plain, pieces):
    from attn_faithful.data.settings import DataSettings
    from attn_faithful.experiments.inputs import DataInput, ModelInput
    from attn_faithful.experiments.run_stock_twins import stock_attefa
    from attn_faithful.training.stock_twin import StockTwinSettings

    data = DataInput(DataSettings(source="mock-1"))
    for given in ({"heads": [1]}, {"queries": "mean"}):
        with pytest.raises(InputError, match="all heads of a layer in all rows"):
            stock_attefa(ModelInput(af.wrap(plain, **given), pieces), data)
    with pytest.raises(InputError, match=r"wrapped with layers=\[0\], but the settings ask for \[1\]"):
        stock_attefa(ModelInput(af.wrap(plain, layers=[0]), pieces), data, StockTwinSettings(layers=[1]))


def test_choices_of_a_transformers_model_are_refused_of_others(words, tmp_path):
    for settings in ({"queries": "mean"}, {"heads": [0]}):
        with pytest.raises(InputError, match="AttentionClassifier is none; leave"):
            run(own(words), words, tmp_path, settings=settings)


def test_settings_of_tests_hold_beside_defaults(plain, pieces, tmp_path):
    settings = {"test_settings": {"correlation": {"k": 5}, "permutation": {"permutations": 7}}}
    meta = af.evaluate_attention(
        plain, pieces, TEXTS[:1], None, output=tmp_path, settings={**settings, "tests": "permutation", "controls": []}
    ).meta["evaluation"]
    assert meta["tests"] == ["permutation"]
    found = af.explain(
        plain,
        pieces,
        TEXTS[0],
        output=tmp_path / "explained",
        sources="saliency",
        tests=["correlation", "permutation"],
        settings=settings,
    )
    assert {line.kind.key for line in found[0].lines} >= {"attention", "saliency"}
    (path,) = (tmp_path / "explained").glob("*/meta.json")
    told = json.loads(path.read_text())["evaluation"]
    assert told["settings"]["correlation"] == {"against": ["saliency"], "k": 5}
    assert told["settings"]["permutation"] == {"permutations": 7}
    with pytest.raises(InputError, match=r"tests are \['permutation'\], but the settings ask for \['flips'\]"):
        run(plain, pieces, tmp_path, settings={"tests": ["flips"]})


def test_a_flag_and_a_set_that_differ_are_refused(folder, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("text,label\na b,positive\n")
    given = ["evaluate", str(folder), "--data", str(tmp_path / "d.csv")]
    for flags in (
        ["--limit", "3", "--set", "data.limit=4"],
        ["--tests", "flips", "--set", "evaluation.tests=[entropy]"],
    ):
        assert main([*given, *flags]) == 2
        assert "told twice" in capsys.readouterr().err


# models


def test_models_of_every_kind_are_taken(plain, pieces, folder, expected, tmp_path):
    pipe = pipeline("text-classification", model=plain, tokenizer=pieces)
    for place, (model, tokenizer) in enumerate(
        (
            (plain, pieces),
            (torch.nn.DataParallel(plain), pieces),
            (pipe, None),
            (folder, None),
            (str(folder), pieces),
        )
    ):
        same(run(model, tokenizer, tmp_path / str(place), tests="permutation"), expected)
    same(
        af.evaluate_attention(pipe, TEXTS, tests="permutation", output=tmp_path / "p", settings={"controls": []}),
        expected,
    )
    assert len(af.explain(pipe, TEXTS[0], tests="permutation")) == 1
    assert len(af.explain(str(folder), data=TEXTS[:2], tests="permutation")) == 2


def test_what_is_no_model_or_tokenizer_is_told(plain, pieces, words, tmp_path):
    lm = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2))
    for model, tokenizer, message in (
        (pieces, plain, r"has no sites.*the order is model, tokenizer, data.*Supported are"),
        (type(plain), pieces, "the class BertForSequenceClassification; make or load one"),
        (plain, None, "Expected the model's tokenizer"),
        (plain, TEXTS, "Expected a tokenizer of transformers, but got list"),
        (lm, words, "is a causal language model.*Supported are.*What would be next"),
        (torch.nn.Linear(2, 2), words, "Expected a transformers model, but got Linear.*encode="),
        ("nowhere/at/all", None, "There is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            run(model, tokenizer, tmp_path)
    with pytest.raises(InputError, match="Expected data"):
        af.evaluate_attention(plain, pieces)


def test_a_folder_of_a_model_for_another_task_is_told_so(plain, pieces, tmp_path):
    lm = GPT2LMHeadModel(GPT2Config(vocab_size=len(pieces), n_embd=8, n_layer=1, n_head=2))
    for name, model, what in (("lm", lm, "causal language model"), ("base", plain.bert, "without a head")):
        model.save_pretrained(tmp_path / name)
        pieces.save_pretrained(tmp_path / name)
        with pytest.raises(InputError, match=f"{name} cannot be tested: .*{what}.*Supported are") as told:
            af.load(tmp_path / name)
        assert "Auto" not in str(told.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hidden_act", "foo", "names 'foo', which this version of transformers does not know"),
        ("hidden_size", "16", "hidden_size"),
        ("num_attention_heads", 3, "multiple of the number of attention heads"),
        ("intermediate_size", 24, "weights have other shapes than its configuration says"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_told_in_one_sentence(folder, tmp_path, key, value, message):
    shutil.copytree(folder, tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(InputError, match=f"m cannot be loaded: .*{message}"):
        af.load(tmp_path / "m")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_are_measured_in_float32(words, tmp_path, kind):
    """The numbers are those of float32 weights that were rounded; both types are stated."""
    half = own(words, encoder="lstm").to(kind)
    whole = copy.deepcopy(half).float()
    tests = ["correlation", "adversarial", "erasure"]
    result = run(half, words, tmp_path / "half", tests=tests)
    same(result, run(whole, words, tmp_path / "whole", tests=tests))
    name = str(kind).removeprefix("torch.")
    assert result.meta["precision"] == {"stored": name, "measured": "float32"}
    assert result.meta["data"]["notes"] == [f"The model's weights are stored in {name} and measured in float32."]
    assert next(half.parameters()).dtype == kind
    half.save_pretrained(tmp_path / "saved")
    words.save_pretrained(tmp_path / "saved")
    loaded = run(tmp_path / "saved", None, tmp_path / "loaded", tests=tests)
    same(loaded, result)
    assert loaded.meta["precision"] == result.meta["precision"]
    batch = words(TEXTS, padding=True, return_tensors="pt")
    keep = torch.ones(3, 1, batch["input_ids"].shape[1], dtype=torch.bool)
    assert torch.equal(half.encode(batch).attention, whole.encode(batch).attention)
    assert torch.equal(half.without(batch, keep), whole.without(batch, keep))


# data


def frame() -> pd.DataFrame:
    return pd.DataFrame({"text": TEXTS, "label": LABELS}, index=[7, 8, 9])


GIVEN = {
    "frame": frame,
    "strings of pandas": lambda: frame().astype("string"),
    "categories": lambda: frame().astype({"label": "category"}),
    "series": lambda: frame()["text"],
    "array": lambda: np.array(TEXTS),
    "objects": lambda: np.array(TEXTS, dtype=object),
    "column": lambda: datasets.Dataset.from_dict({"text": TEXTS})["text"],
    "table": lambda: pa.table({"text": TEXTS}),
    "columns": lambda: {"text": np.array(TEXTS), "label": pd.Series(LABELS)},
    "splits": lambda: {"train": frame()[:1], "test": frame()},
    "generator": lambda: (text for text in TEXTS),
    "rows": lambda: ({"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)),
    "tuple": lambda: tuple(TEXTS),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_data_of_every_kind_is_taken(words, tmp_path, kind):
    model = own(words, encoder="mlp")
    expected = run(model, words, tmp_path / "list")
    found = run(model, words, tmp_path / "found", data=GIVEN[kind]())
    assert list(found.tokens["tokens"].map(list)) == list(expected.tokens["tokens"].map(list))
    assert sorted(tau(found).values()) == pytest.approx(sorted(tau(expected).values()), nan_ok=True)
    labelled = kind in ("frame", "strings of pandas", "categories", "columns", "splits", "rows")
    assert set(found.examples["label"]) == ({0, 1} if labelled else {-1})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("superb", r"put it into a list, \[text\], or call explain"),
        (3, "Expected a data set .*, but got int"),
        ({"text": "a", "label": 1}, r"put a row by itself into a list, \[row\]"),
        ({"text": ["a", "b"], "label": [1]}, "text has 2, label has 1"),
        (set(TEXTS), "a set, whose order changes"),
        (np.array([TEXTS]), r"one axis, but got the shape \(1, 3\)"),
        (pd.DataFrame({"text": []}), "none"),
        ([], "empty"),
        (pd.Series(["a", None]), "row 1"),
        ([["a"]], "texts or rows as mappings"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "'text' stands twice"),
    ],
)
def test_data_that_is_none_is_told(words, tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        run(own(words, encoder="mlp"), words, tmp_path, data=data)


def test_missing_values_of_pandas_and_numpy_are_missing():
    columns = {"text": ["a", "b"], "label": [1.0, float("nan")], "more": [pd.NA, "x"], "when": [pd.NaT, None]}
    rows = as_rows(pd.DataFrame(columns))
    assert rows["label"][:] == [1.0, None]
    assert rows["more"][:] == [None, "x"]
    assert rows["when"][:] == [None, None]


@pytest.mark.parametrize("names", ["correlation", "correlation,entropy", ["correlation"]])
def test_one_name_stands_for_a_list_of_one(words, tmp_path, names):
    result = run(
        own(words, encoder="mlp"), words, tmp_path, tests=names, settings={"extra_sources": "saliency", "controls": []}
    )
    assert set(result.table()["test"]) == ({"correlation", "entropy"} if "," in names else {"correlation"})
    assert "saliency" in result.tokens.columns


# models of one's own


def test_a_wrapped_function_is_tested_as_the_model_behind_it(words, tmp_path):
    model = own(words, encoder="lstm", dropout=0.5).train()
    outer = af.wrap(encode=model.encode, without=model.without, labels=CLASSES, name="mine")
    result = run(outer, words, tmp_path, data=frame(), tests=None)
    assert set(result.table()["test"]) == set(DEFAULT_TESTS)
    assert result.meta["axes"]["model"] == "mine"
    assert any("input_x_gradient left out" in note for note in result.meta["data"]["notes"])
    assert model.training
    tests = ["permutation", "adversarial", "flips"]
    direct, wrapped = tau(run(model, words, tmp_path / "direct", data=frame(), tests=tests)), tau(result)
    # the function gives no gradients with respect to embeddings
    both = {key: value for key, value in direct.items() if "signed_input_x_gradient" not in key[3]}
    assert both
    for key, value in both.items():
        assert wrapped[key] == pytest.approx(value, abs=1e-6, nan_ok=True), key
    again = run(
        af.wrap(encode=model.encode, without=model.without, labels=CLASSES, name="mine"),
        words,
        tmp_path,
        data=frame(),
        tests=None,
    )
    assert again.path == result.path  # a finished run is taken for what it is
    with torch.no_grad():
        model.readout.weight += 1
    other = run(outer, words, tmp_path, data=frame(), tests=None)
    assert other.path != result.path


def test_a_version_stands_for_weights_and_code(words, tmp_path):
    def versioned(seed: int, version: str):
        model = own(words, seed, encoder="mlp")
        return af.wrap(encode=lambda batch: model.encode(batch), labels=CLASSES, name="mine", version=version)

    first = run(versioned(0, "1"), words, tmp_path)
    assert run(versioned(1, "1"), words, tmp_path).path == first.path
    assert run(versioned(1, "2"), words, tmp_path).path != first.path


def test_what_a_wrapped_function_lacks_is_told(words, tmp_path):
    model = own(words, encoder="mlp")
    with pytest.raises(InputError, match=r'without the names of its classes.*labels=\["negative", "positive"\]'):
        run(af.wrap(encode=model.encode), words, tmp_path)
    bare = af.wrap(encode=model.encode, labels=CLASSES)
    result = run(bare, words, tmp_path, tests=None)
    assert {"correlation", "erasure"}.isdisjoint(result.table()["test"])
    assert any(note.startswith("erasure left out") for note in result.meta["data"]["notes"])
    for test, message in (("erasure", "no without="), ("correlation", "sources that it does not give")):
        with pytest.raises(InputError, match=f"{test}.* cannot be asked.*{message}"):
            run(bare, words, tmp_path, tests=test)
    shown = [line.kind.key for line in af.explain(bare, words, TEXTS[0])[0].lines]
    assert "attention_gradient" in shown
    assert {"input_x_gradient", "signed_input_x_gradient", "leave_one_out"}.isdisjoint(shown)
    with pytest.raises(InputError, match=r"unknown argument 'label'\. Did you mean 'labels'"):
        af.wrap(encode=model.encode, label=CLASSES)
    with pytest.raises(InputError, match="two or more different names"):
        af.wrap(encode=model.encode, labels="positive")


def test_what_a_wrapped_function_gives_is_checked(words):
    model, batch = own(words, encoder="mlp"), words(TEXTS, padding=True, return_tensors="pt")
    right = model.encode(batch)
    for wrong, message in (
        (right.attention, "to return an attn_faithful Encoded, but got Tensor"),
        (copy.copy(right).__class__(**{**vars(right), "content": right.content[:, 1:]}), "content has the shape"),
        (copy.copy(right).__class__(**{**vars(right), "logits": right.logits + 1}), "own logits for its own attention"),
    ):
        with pytest.raises(InputError, match=message):
            af.wrap(encode=lambda batch, wrong=wrong: wrong).encode(batch)


def test_a_wrapped_function_over_pieces_is_tested_over_words(plain, pieces, tmp_path):
    inner = af.wrap(plain)

    def encode(batch):
        assert "word_ids" not in batch
        return inner.encode(batch, "layer.1")

    outer = af.wrap(encode=encode, labels=CLASSES, module=plain, pad_token_id=pieces.pad_token_id)
    result = run(outer, pieces, tmp_path)
    assert list(result.tokens.set_index("example")["tokens"].iloc[2]) == ["unbelievably", "good"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tests": 3}, "Expected tests to be a list of names, but got 3"),
        ({"settings": "seed=1"}, "Expected settings as a mapping, such as .*, but got 'seed=1'"),
        ({"settings": ["seed"]}, "Expected settings as a mapping"),
    ],
)
def test_tests_and_settings_of_other_kinds_are_told(words, tmp_path, given, message):
    for call in (af.evaluate_attention, af.explain):
        with pytest.raises(InputError, match=message):
            call(own(words), words, ["good"], output=tmp_path, **given)
    with pytest.raises(InputError, match="settings of flips as a mapping"):
        af.explain(own(words), words, "good", tests={"flips": 3})
