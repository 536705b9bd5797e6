"""``attn-faithful evaluate`` and ``evaluate_attention``: what they write and print, and what must not change it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoTokenizer

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.cli import main
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.store import find_runs
from tests.experiments.tiny import DEFAULT_TESTS, cells, run
from tests.reference import conicity as reference

TABLES = ("predictions", "tokens", "scores", "variants")
WATCHED = (("attention_correlation", "attention~leave_one_out"), ("attention_permutation", "attention"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a small trained LSTM."""
    folder = tmp_path_factory.mktemp("model") / "cell"
    settings = {"encoder": "lstm", "embedding_size": 8, "hidden_size": 8}
    return run(cells(model=settings, twin=None)[0], folder) / "model"


@pytest.fixture(scope="module")
def texts():
    """Texts of several lengths with their own ids, one without a token, two that are equal."""
    generator = np.random.default_rng(0)
    words = ["good", "awful", "something", "superb", "great", "horrible"]
    said = [" ".join(generator.choice(words, n)) for n in generator.integers(1, 12, 40)] + ["", "good awful good"] * 2
    return [{"id": f"t{i}", "text": text, "label": ("negative", "positive")[i % 2]} for i, text in enumerate(said)]


def written(rows, path):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


@pytest.fixture(scope="module")
def whole(model, texts, tmp_path_factory):
    """All tests on all texts, as the command line does it."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(["evaluate", str(model), "--data", written(texts, folder / "a.parquet"), "--output", str(folder)]) == 0
    (found,) = find_runs([folder])
    return found


def by_example(folder, table):
    """Rows of a table by example, NaN as a word so that it equals itself."""
    rows: dict[str, list[str]] = {}
    for row in folder.read_table(table).to_pylist():
        rows.setdefault(row["example"], []).append(repr(row))
    return rows


def test_tables_and_records(whole, texts):
    assert whole.done
    meta, summary = whole.read_meta(), whole.read_summary()
    assert meta["evaluation"]["tests"] == DEFAULT_TESTS
    assert {"torch", "captum", "scipy"} <= set(meta["versions"])
    assert whole.read_table("predictions").column("example").to_pylist() == [row["id"] for row in texts]
    tokens = whole.read_table("tokens").to_pydict()
    assert {"input_x_gradient", "leave_one_out"} <= set(tokens)
    for words, weights, gradient in zip(tokens["tokens"], tokens["attention"], tokens["input_x_gradient"], strict=True):
        assert len(words) == len(weights) == len(gradient)
    assert tokens["tokens"][texts.index(texts[-1])] == ["good", "awful", "good"]  # C26: three entries, in order
    for record in summary["tests"]:
        if record["class"] == "all":
            assert record["n"] + record["n_undefined"] == 44, record
    classes = {record["class"] for record in summary["tests"]}
    assert classes == {"all", "negative", "positive"}
    taus = [
        r
        for r in summary["tests"]
        if r["metric"] == "attention_correlation" and r["source"] == "attention~leave_one_out"
    ]
    every = next(r for r in taus if r["class"] == "all")
    assert every["n"] + every["n_undefined"] == 44
    assert every["reasons"]["no content token"] == 2
    scores = whole.read_table("scores").to_pandas()
    own = scores[(scores.metric == "attention_correlation") & (scores.source == "attention~leave_one_out")]
    assert every["mean"] == pytest.approx(own.value.mean(), abs=1e-12)
    assert len(own) == 44
    assert (own.value.isna() == own.reason.notna()).all()
    json.dumps(summary, allow_nan=False)


def test_order_and_batch_size_change_no_bit(whole, model, texts, tmp_path):
    path = written(texts[::-1], tmp_path / "reversed.parquet")
    assert main(["evaluate", str(model), "--data", path, "--output", str(tmp_path), "--chunk-size", "5"]) == 0
    (other,) = find_runs([tmp_path])
    for table in TABLES:
        assert by_example(other, table) == by_example(whole, table), table


def test_equal_texts_have_equal_numbers(whole, texts):
    scores = whole.read_table("scores").to_pandas()
    equal = [row["id"] for row in texts if row["text"] == "good awful good"]
    first, second = (scores[scores.example == example].value.to_numpy() for example in equal)
    np.testing.assert_array_equal(first, second)


def test_a_finished_run_is_not_made_again(whole, model, texts, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")  # names hold folders, and sentences stand on one line
    path = written(texts, tmp_path / "a.parquet")
    before = (whole / "meta.json").stat().st_mtime_ns
    assert main(["evaluate", str(model), "--data", path, "--output", str(whole.path.parents[2])]) == 0
    assert (whole / "meta.json").stat().st_mtime_ns == before
    shown = capsys.readouterr()
    first = shown.out.splitlines()
    assert "the model has accuracy" in first[1], "competence comes first"
    assert first[2].startswith("No verdict: the model is not shown to predict better than always")
    assert "no attention at all could change the decision" in shown.out
    assert len(first) < 45, "an answer and one short table"
    assert "(random)" not in shown.out
    assert "--full" in shown.out
    assert "text" not in shown.err.split(":")[0]
    assert main(["evaluate", str(model), "--data", path, "--output", str(whole.path.parents[2]), "--full"]) == 0
    shown = capsys.readouterr()
    for word in (
        "tau-b",
        "median TVD",
        "eps-max JSD",
        "flip distance",
        "undefined",
        "negative",
        "positive",
        "(random)",
    ):
        assert word in shown.out, word


def test_from_python_the_same_result(whole, model, texts, tmp_path):
    loaded, tokenizer = af.load(model)
    result = af.evaluate_attention(loaded, tokenizer, texts, output=tmp_path)
    for table in TABLES:
        assert by_example(result.folder, table) == by_example(whole, table), table
    frame = result.table()
    assert set(frame["test"].dropna()) == set(DEFAULT_TESTS)
    assert {"mean", "low", "high", "n", "n_undefined", "direction", "meaning"} <= set(frame)
    assert len(result.table(by_class=True)) == 3 * len(frame)
    examples = result.examples.set_index("example")
    assert len(examples) == 44
    assert "attention_correlation attention~leave_one_out" in examples
    assert math.isnan(examples.loc["t40", "flip_distance attention"])
    assert "Result(" in repr(result)
    assert "<table" in result._repr_html_()


def test_data_sets_and_plain_texts(model, texts, tmp_path):
    import datasets

    loaded, tokenizer = af.load(model)
    rows = datasets.Dataset.from_list(texts[:6])
    one = af.evaluate_attention(loaded, tokenizer, rows, ["permutation"], output=tmp_path / "a")
    two = af.evaluate_attention(
        loaded, tokenizer, datasets.DatasetDict(test=rows), ["permutation"], output=tmp_path / "b"
    )
    assert by_example(one.folder, "scores") == by_example(two.folder, "scores")
    plain = af.evaluate_attention(
        loaded, tokenizer, [row["text"] for row in texts[:6]], ["permutation"], output=tmp_path / "c"
    )
    assert plain.folder.read_summary()["base"]["accuracy"] is None  # C28: no labels, no accuracy
    np.testing.assert_array_equal(plain.table()["mean"], one.table()["mean"])  # NaN equals NaN
    with pytest.raises(InputError, match="the list is empty"):
        af.evaluate_attention(loaded, tokenizer, [], output=tmp_path)
    with pytest.raises(InputError, match="row 1"):
        af.evaluate_attention(loaded, tokenizer, ["good", None], output=tmp_path)


def test_importance_from_elsewhere(whole, model, texts, tmp_path):
    """The attention itself, given back as importance, agrees with attention wherever that is defined."""
    tokens = whole.read_table("tokens").to_pydict()
    given = tmp_path / "scores.parquet"
    pq.write_table(
        pa.table({"example": tokens["example"], "tokens": tokens["tokens"], "scores": tokens["attention"]}), given
    )
    path = written(texts, tmp_path / "a.parquet")
    arguments = ["evaluate", str(model), "--data", path, "--output", str(tmp_path), "--tests", "correlation"]
    assert main([*arguments, "--source-file", str(given)]) == 0
    (found,) = find_runs([tmp_path])
    scores = found.read_table("scores").to_pandas()
    taus = scores[(scores.metric == "attention_correlation") & (scores.source == "attention~given")].value.dropna()
    assert len(taus) > 30
    np.testing.assert_allclose(taus, 1, atol=1e-12)
    assert "given" in found.read_table("tokens").column_names


def test_targets_and_other_settings_are_stored(model, texts, tmp_path):
    path = written(texts[:8], tmp_path / "a.parquet")
    arguments = ["evaluate", str(model), "--data", path, "--output", str(tmp_path), "--tests", "correlation"]
    more = ["--target", "positive", "--controls", "random", "--seeds", "3", "--set", "evaluation.sources.reduction=l2"]
    assert main([*arguments, *more]) == 0
    (found,) = find_runs([tmp_path])
    settings = found.read_meta()["evaluation"]
    assert (settings["target"], settings["controls"], settings["seed"]) == ("positive", ["random"], 3)
    assert settings["sources"]["reduction"] == "l2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tests", "corelation"], "Did you mean 'correlation'"),
        (["--tests", "attefa"], "needs a trained twin; use attn-faithful attefa"),
        (["--controls", "unifrom"], "Did you mean 'uniform'"),
        (["--target", "positve"], "Did you mean 'positive'"),
        (["--split", "validation"], "Unknown split of"),
        (["--set", "evaluation.tests.permutation.permutation=5"], "Did you mean 'permutations'"),
        (["--set", "evaluation.tests.flips.rankings=[attention, salency]"], "Did you mean 'saliency'"),
        (["--set", "train.epochs=5"], "evaluate takes keys of data and evaluation only"),
        (["--source-file", "nowhere.parquet"], "nowhere.parquet"),
        (["--text-column", "txt"], "Did you mean 'text'"),
    ],
)
def test_wrong_flags_are_one_line(model, texts, tmp_path, capsys, arguments, message):
    path = written(texts[:8], tmp_path / "a.parquet")
    assert main(["evaluate", str(model), "--data", path, "--output", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert message in error[-1]
    assert "Traceback" not in "".join(error)


def test_a_model_that_is_not_there(texts, tmp_path, capsys):
    path = written(texts[:4], tmp_path / "a.parquet")
    assert main(["evaluate", str(tmp_path / "nothing"), "--data", path, "--output", str(tmp_path)]) == 2
    assert "There is no folder" in capsys.readouterr().err


def test_a_model_that_does_not_speak_the_protocol(texts, tmp_path):
    class Silent:
        sites = ("pool",)

    with pytest.raises(InputError, match="Silent has no encode, config, parameters"):
        af.evaluate_attention(Silent(), None, texts, output=tmp_path)


def test_labels_that_the_model_does_not_have(model, tmp_path, capsys):
    path = written([{"text": "good", "label": "neutral"}, {"text": "bad", "label": "negative"}], tmp_path / "a.parquet")
    assert main(["evaluate", str(model), "--data", path, "--output", str(tmp_path)]) == 2
    assert "neutral" in capsys.readouterr().err


def test_the_recipe_of_jain_and_wallace_in_its_smoke_form(tmp_path, capsys):
    recipe = Path(__file__).parents[2] / "recipes" / "papers" / "jain_wallace_2019.yaml"
    assert main(["run", str(recipe), "--smoke", "--full", "--output", str(tmp_path)]) == 0
    found = find_runs([tmp_path])
    axes = {tuple(folder.read_meta()["axes"][name] for name in ("encoder", "attention")) for folder in found}
    assert axes == {(encoder, attention) for encoder in ("lstm", "average", "cnn") for attention in ("additive", "dot")}
    for folder in found:
        assert {r["test"] for r in folder.read_summary()["tests"]} == {"correlation", "permutation", "adversarial"}
    shown = capsys.readouterr().out
    for word in ("Mock-1 lstm additive, correlation", "Mock-1 cnn dot, adversarial", "flip distance"):
        assert word in shown


def test_conicity_of_every_text_equals_a_loop(whole, model, texts):
    """Whatever stands beside a text in its block; the model itself gives the states."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AttentionClassifier.from_pretrained(model).eval()
    scores = whole.read_table("scores").to_pandas()
    found = scores[(scores.metric == "conicity") & (scores.source == "attention")].set_index("example")
    assert set(scores[scores.metric == "conicity"].source) == {"attention"}
    compared = 0
    for text in texts:
        row = found.loc[text["id"]]
        ids = tokenizer(text["text"])["input_ids"]
        expected = None
        if ids:
            output = network(torch.tensor([ids]), output_hidden_states=True)
            expected = reference.conicity(output.hidden_states[0].detach().double().numpy())
        if expected is None:
            assert math.isnan(row.value)
            assert row.reason == ("n<2" if ids else "no content token")
        else:
            assert row.value == pytest.approx(expected, abs=1e-6)  # float32 states
            compared += 1
    assert compared > 30


def test_the_recipe_of_serrano_and_smith_in_its_smoke_form(tmp_path, capsys):
    recipe = Path(__file__).parents[2] / "recipes" / "papers" / "serrano_smith_2019.yaml"
    assert main(["run", str(recipe), "--smoke", "--full", "--output", str(tmp_path)]) == 0
    found = find_runs([tmp_path])
    axes = {tuple(folder.read_meta()["axes"][name] for name in ("architecture", "encoder")) for folder in found}
    assert axes == {(a, e) for a in ("hierarchical", "flat") for e in ("rnn", "conv", "noenc")}
    for folder in found:
        summary = folder.read_summary()
        assert {r["test"] for r in summary["tests"]} == {"flips"}
        site = "sentence" if folder.read_meta()["axes"]["architecture"] == "hierarchical" else "pool"
        assert {r["site"] for r in summary["tests"]} == {site}
        kinds = {fact["fact"] for fact in summary["facts"]}
        assert kinds == {"flip_fractions", "flip_contingency", "negative_js", "paired_rankings"}
    shown = capsys.readouterr().out
    for word in ("Mock-1 rnn hierarchical, flips", "rankings in pairs", "smallest_set", "Top only"):
        assert word in shown


def test_the_recipe_of_meister_in_its_smoke_form(tmp_path, capsys):
    recipe = Path(__file__).parents[2] / "recipes" / "papers" / "meister_2021.yaml"
    command = ["run", str(recipe), "--smoke", "--full", "--only", "encoder=lstm", "--output", str(tmp_path)]
    assert main(command) == 0
    found = find_runs([tmp_path])
    assert len(found) == 4
    for folder in found:
        scores = folder.read_table("scores").to_pandas()
        assert {"hidden_entropy", "importance_entropy"} <= set(scores.metric)
        tau = scores[(scores.metric == "attention_correlation") & (scores.source == "attention~state_leave_one_out")]
        assert tau.value.notna().any()
    shown = capsys.readouterr().out
    assert "results against projection" in shown
    assert "hidden entropy" in shown


def test_progress_is_told_within_a_block(model, texts, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(
        "attn_faithful.reports.progress.progress.Counter.update", lambda self, done, of: told.append((done, of))
    )
    data = written(texts, tmp_path / "a.parquet")
    given = ["--data", data, "--tests", "entropy,correlation,permutation", "--output", str(tmp_path)]
    assert main(["evaluate", str(model), *given]) == 0
    done = [n for n, _ in told]
    assert {of for _, of in told} == {len(texts)}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, len(texts))
    assert len(set(done)) > 5  # of one block of at most 64 texts


def test_copies_that_are_told_otherwise_change_no_other_number(model, texts, tmp_path):
    """Equal texts with other labels and marks, in another order: what does not depend on these is the same."""
    loaded, tokenizer = af.load(model)
    once = list({row["text"]: row for row in texts}.values())
    once = [row | {"why": [1] + [0] * (len(row["text"].split()) - 1) if row["text"] else []} for row in once]
    other = {"positive": "negative", "negative": "positive"}
    turned = [
        row | {"id": f"{row['id']}-again", "label": other[row["label"]], "why": row["why"][::-1]} for row in once[::3]
    ]
    same = [row | {"id": f"{row['id']}-same"} for row in once[::2]]
    settings = {
        "test_settings": {"flips": {"rankings": ["attention", "input_x_gradient"], "random": 1}},
        "controls": [],
    }
    chosen = {"settings": settings, "rationale": "why", "text_column": "text", "label_column": "label"}
    alone = af.evaluate_attention(loaded, tokenizer, once, output=tmp_path / "a", **chosen)
    many = af.evaluate_attention(loaded, tokenizer, [*turned, *once, *same][::-1], output=tmp_path / "b", **chosen)
    for table in TABLES:
        expected, found = by_example(alone.folder, table), by_example(many.folder, table)
        for row in once:
            assert found.get(row["id"]) == expected.get(row["id"]), table
    scores = many.folder.read_table("scores").to_pandas()
    told = scores.metric.isin(["adversarial_accuracy"]) | scores.metric.str.contains("rationale|plausibility")
    assert set(many.table()["test"].dropna()) >= {"plausibility", "adversarial", "flips"}
    own = {example: rows.value.to_numpy() for example, rows in scores[~told].groupby("example")}
    for row in turned:
        np.testing.assert_array_equal(own[row["id"]], own[row["id"].removesuffix("-again")])
    right = scores[scores.metric == "adversarial_accuracy"].set_index("example").value
    for row in turned:
        assert math.isnan(right[row["id"]]) or right[row["id"]] == 1 - right[row["id"].removesuffix("-again")]


def test_a_gold_label_that_is_missing_is_told_before_any_work(model, texts, tmp_path):
    loaded, tokenizer = af.load(model)
    rows = [{"text": row["text"], "label": row["label"] if i else None} for i, row in enumerate(texts[:4])]
    with pytest.raises(InputError, match=r"target gold: the example .* has no single known label"):
        af.evaluate_attention(
            loaded, tokenizer, [r["text"] for r in rows], ["entropy"], output=tmp_path, settings={"target": "gold"}
        )
    assert not list(tmp_path.iterdir())


def test_numbers_by_class_are_those_of_the_texts_that_the_model_gives_it(whole):
    """From the stored probabilities and scores, text by text: the most likely class, by its name."""
    predictions = whole.read_table("predictions").to_pydict()
    named = whole.read_meta()["label_names"]
    said = {
        example: named[row.index(max(row))]
        for example, row in zip(predictions["example"], predictions["probabilities"], strict=True)
    }
    assert set(said.values()) == set(named)
    scores = whole.read_table("scores").to_pandas()
    compared = 0
    for record in whole.read_summary()["tests"]:
        if record["class"] not in named or (record["metric"], record["source"]) not in WATCHED:
            continue
        own = scores[(scores.metric == record["metric"]) & (scores.source == record["source"])]
        kept = [v for e, v in zip(own.example, own.value, strict=True) if said[e] == record["class"] and v == v]
        assert record["n"] == len(kept) > 0
        assert record["mean"] == pytest.approx(sum(kept) / len(kept), abs=1e-12)
        compared += 1
    assert compared == 2 * len(WATCHED)


@pytest.mark.parametrize("asked", ["gold", "positive", "predicted"])
def test_importance_is_about_the_class_that_was_asked_for(model, texts, tmp_path, asked):
    """Signed, so that a class and its opposite differ: the stored importance is that of the model asked directly."""
    rows = [row for row in texts if row["text"]][:12]
    more = ["--target", asked, "--set", "evaluation.sources.sign=signed", "--tests", "correlation"]
    assert (
        main(
            ["evaluate", str(model), "--data", written(rows, tmp_path / "a.parquet"), "--output", str(tmp_path), *more]
        )
        == 0
    )
    (folder,) = find_runs([tmp_path])
    loaded, tokenizer = af.load(model)

    def chances(words):
        with torch.no_grad():
            return loaded(**tokenizer([" ".join(words)], return_tensors="pt")).logits.softmax(-1)[0].double()

    tokens = folder.read_table("tokens").to_pydict()
    others = 0
    for place, row in enumerate(rows):
        words, whole_text = row["text"].split(), chances(row["text"].split())
        predicted = int(whole_text.argmax())
        target = {"gold": int(row["label"] == "positive"), "positive": 1, "predicted": predicted}[asked]
        others += target != predicted
        without = [chances(words[:t] + words[t + 1 :])[target] for t in range(len(words))]
        expected = [float(whole_text[target] - chance) for chance in without]
        assert tokens["example"][place] == row["id"]
        assert tokens["leave_one_out"][place] == pytest.approx(expected, abs=1e-6)
        # two classes: what speaks for one speaks against the other
        batch = tokenizer([row["text"]], return_tensors="pt")
        request = Request(loaded, batch, loaded.encode(batch), SourceSettings(sign="signed"))
        for_predicted = attribute("input_x_gradient", request).values
        side = 1 if target == predicted else -1
        assert tokens["input_x_gradient"][place] == pytest.approx((side * for_predicted[0]).tolist(), abs=1e-6)
    assert (others > 0) == (asked != "predicted")


def test_the_device_is_told_and_named(whole):
    assert whole.read_meta()["hardware"]["device"] == "cpu"


@pytest.mark.parametrize("command", ["evaluate", "explain", "check"])
def test_a_device_that_is_not_there_is_told_in_one_line(model, texts, tmp_path, capsys, monkeypatch, command):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = written(texts, tmp_path / "a.parquet")
    arguments = {
        "evaluate": [str(model), "--data", data, "--output", str(tmp_path / "out")],
        "explain": [str(model), "a good film"],
        "check": [data, "--model", str(model)],
    }
    assert main([command, *arguments[command], "--device", "cuda"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "no 'cuda'; it has 'cpu'" in told
    assert not (tmp_path / "out").exists()


def test_from_python_too(model, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no 'cuda'"):
        af.load(model, device="cuda")
    loaded, tokenizer = af.load(model, device="auto")
    assert loaded.device.type == "cpu"
    for call in (af.evaluate_attention, af.explain):
        with pytest.raises(InputError, match="no 'cuda'"):
            call(loaded, tokenizer, ["a good film"], output=tmp_path, device="cuda")
        call(loaded, tokenizer, ["a good film"], tests=["entropy"], output=tmp_path, device="cpu")
