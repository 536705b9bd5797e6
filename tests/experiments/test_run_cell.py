"""The stages of a cell on tiny data: what they write, what a stop leaves, empty texts, unknown labels, controls."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from attn_faithful import schema
from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.experiments.estimate import estimate
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.prepare import prepare
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.models.architectures import load_model
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.wiegreffe_pinter import imposed_control
from tests.experiments.tiny import RAW, Stopped, cells, numbers, run, tables

FULL = {
    "variants": [{"objective": "constrained", "max_tvd": 0.2}],
    "twin_seeds": [5, 6],
    "wiegreffe_pinter": ["uniform", "imposed_twin", "mlp", "imposed_uniform", "imposed"],
}
TWINS = ("attefa-5", "attefa-6", "constrained-0.2-5", "constrained-0.2-6")
CONTROLS = ["uniform", "mlp", "imposed_uniform", "imposed", *(f"imposed_twin-{twin}" for twin in TWINS)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A cell with two objectives, two twin seeds and all controls, undisturbed: folder and what was told."""
    told = []
    folder = run(cells(**FULL)[0], tmp_path_factory.mktemp("whole") / "cell", lambda *args: told.append(args[:3]))
    return folder, told


# --- what is written


def test_columns(whole):
    folder, _ = whole
    unused = {"exact", "changes", "saliency", "input_x_gradient", "integrated_gradients", "leave_one_out", "occlusion"}
    unused |= {"attention_gradient", "attention_x_gradient", "state_saliency", "state_leave_one_out", "hidden_gradient"}
    unused |= {"raw_attention", "value_norm", "value_zeroing", "rollout", "attention_flow", "attention_relevance"}
    unused |= {"signed_input_x_gradient", "signed_integrated_gradients", "signed_leave_one_out"}
    unused |= {
        "learned_heads",
        "random",
        "given",
        "query",
        "removed",
        "core",
        "p_values",
    }  # of tests that were not asked for
    for name in ("predictions", "tokens", "variants", "controls", "history", "scores"):
        expected = [column for column in schema.columns(name) if column not in unused]
        if name in ("variants", "scores"):
            expected.remove("label")  # of multi-label data
        assert folder.read_table(name).column_names == expected, name


def test_files(whole):
    folder, _ = whole
    twins = [f"twin{variant}-{seed}" for variant in ("", "-constrained-0.2") for seed in (5, 6)]
    assert {path.name for path in folder.path.iterdir()} == {
        "meta.json",
        "summary.json",
        "model",
        *twins,
        *(f"control-{name}.json" for name in CONTROLS),
        *(f"{name}.parquet" for name in ("predictions", "tokens", "variants", "controls", "history", "scores")),
    }
    for name in ("model", *twins):
        assert {"config.json", "model.safetensors", "tokenizer.json", "training.json"} <= {
            path.name for path in (folder / name).iterdir()
        }
    assert folder.done


def test_rows(whole):
    folder, _ = whole
    examples = [f"test-{i}" for i in range(20)]
    predictions, tokens = folder.read_table("predictions").to_pydict(), folder.read_table("tokens").to_pydict()
    assert predictions["example"] == tokens["example"] == examples
    assert np.sum(predictions["probabilities"], axis=1) == pytest.approx(np.ones(20), abs=1e-6)
    assert sorted(set(predictions["label"])) == [0, 1]
    for i in range(20):
        n = len(tokens["tokens"][i])
        assert 4 <= n <= 7
        assert sum(tokens["informative"][i]) == 1
        assert tokens["tokens"][i].count("something") == n - 1
        assert len(tokens["attention"][i]) == n
        assert len(tokens["offsets"][i]) == 2 * n
        assert sum(tokens["attention"][i]) == pytest.approx(1, abs=1e-6)
    variants = folder.read_table("variants").to_pydict()
    assert variants["variant"] == list(TWINS) * 20
    assert variants["example"] == [example for example in examples for _ in TWINS]
    history = folder.read_table("history").to_pydict()
    assert set(history["run"]) == {"base", *TWINS}
    assert {e for r, e in zip(history["run"], history["epoch"], strict=True) if r == "base"} == {1, 2}


def test_summary_is_strict_and_agrees_with_the_tables(whole):  # C33
    folder, _ = whole

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    for name in ("summary.json", "meta.json", "model/training.json", "control-uniform.json"):
        json.loads((folder / name).read_text(), parse_constant=refuse)
    summary = folder.read_summary()
    predictions = folder.read_table("predictions").to_pydict()
    correct = np.argmax(predictions["probabilities"], axis=1) == predictions["label"]
    assert summary["base"]["accuracy"] == pytest.approx(correct.mean(), abs=1e-10)
    tokens = folder.read_table("tokens").to_pydict()
    mass = [np.dot(a, i) for a, i in zip(tokens["attention"], tokens["informative"], strict=True)]
    assert summary["informative_mass"] == pytest.approx(np.mean(mass), abs=1e-10)
    variants, scores = folder.read_table("variants").to_pydict(), folder.read_table("scores").to_pydict()
    for name, twin in summary["twins"].items():
        mine = [v == name for v in variants["variant"]]
        tvd, jsd = (np.asarray(variants[c])[mine] for c in ("output_tvd", "attention_jsd"))
        assert twin["tvd"]["value"] == pytest.approx(tvd.mean(), abs=1e-10)
        assert twin["attefa"]["value"] == pytest.approx(min(1, tvd.mean() / (jsd.mean() / np.log(2))), abs=1e-10)
        assert ("jsd_at_tvd" in twin) == (twin["variant"] == "constrained-0.2")
        stored = [
            v
            for v, s, m in zip(scores["value"], scores["source"], scores["metric"], strict=True)
            if (s, m) == (name, "tvd")
        ]
        assert stored == tvd.tolist()
        assert 1 <= twin["epoch"] <= 3
    assert list(summary["controls"]) == CONTROLS
    assert all(0 <= control["roc_auc"] <= 1 for control in summary["controls"].values())
    stored = folder.read_table("controls").to_pydict()
    for name, control in summary["controls"].items():
        rows = [i for i, each in enumerate(stored["control"]) if each == name]
        assert [stored["example"][i] for i in rows] == predictions["example"]
        chances = np.asarray(stored["probabilities"])[rows]
        again = classification_metrics(chances, np.asarray(predictions["label"]))
        assert {metric: control[metric] for metric in again} == pytest.approx(again, abs=1e-10)
    of_a_twin = summary["controls"]["imposed_twin-constrained-0.2-6"]
    assert (of_a_twin["variant"], of_a_twin["seed"]) == ("constrained-0.2", 6)


def test_each_twins_attention_is_imposed_on_a_model_of_its_own(whole, tmp_path):
    """Every split's texts under the twin that was saved, and the MLP trained under it, in one plain loop."""
    folder, _ = whole
    (cell,) = cells(**FULL)
    data = prepare(cell.recipe)
    found = folder.read_summary()["controls"]
    for name, model in (("imposed", "model"), ("imposed_twin-attefa-6", "twin-6")):
        guide = load_model(folder / model)
        rows = {}
        for split, texts in data.rows.items():
            attention = [guide(torch.from_numpy(np.array([ids]))).attentions[0].tolist() for ids in texts["input_ids"]]
            rows[split] = texts.with_columns(attention_weights=attention)
        seed = cell.seed_of("control", "imposed")
        task = TrainingTask(rows["train"], rows["validation"], Collator(), cell.recipe.train, seed, tmp_path / name)
        chances = imposed_control(data.config, None, task, rows["test"])
        expected = classification_metrics(chances, data.rows["test"].labels)
        assert {metric: found[name][metric] for metric in expected} == pytest.approx(expected, abs=1e-10), name


def test_meta_tells_how_to_repeat_it(whole):
    meta = whole[0].read_meta()
    assert meta["axes"] == {"data": "mock-1", "encoder": "mlp"}
    assert meta["seed"] == 10
    assert meta["recipe"]["twin"]["epochs"] == 3
    assert {"attn_faithful", "torch", "transformers", "datasets", "python"} <= set(meta["versions"])
    assert meta["data"]["test"]["classes"] == {"negative": 10, "positive": 10}
    assert (meta["data"]["test"]["truncated"], meta["data"]["test"]["empty"]) == (0, 0)
    assert len(meta["data"]["fingerprint"]) == 64
    again = make_recipe({**meta["recipe"], "grid": {}}, "meta.json")
    assert expand(again)[0].folder == cells(**FULL)[0].folder


def test_models_load_and_say_the_same(whole):
    from attn_faithful.data.rows import Rows
    from attn_faithful.models.inference import run_over
    from attn_faithful.models.pooled import AttentionClassifier

    folder, _ = whole
    rows = prepare(cells(**FULL)[0].recipe).rows["test"]
    assert isinstance(rows, Rows)
    found = run_over(AttentionClassifier.from_pretrained(folder / "twin-6"), rows, Collator())
    variants = folder.read_table("variants").to_pydict()
    stored = [p for p, name in zip(variants["probabilities"], variants["variant"], strict=True) if name == "attefa-6"]
    assert found.probabilities == pytest.approx(np.asarray(stored), abs=1e-10)


def test_a_twin_starts_from_weights_of_its_own(tmp_path):
    """At a learning rate of almost nothing models end where they began: base and twins, all with the cell's seed 10."""
    still = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-12}
    settings = {"train": still, "twin": still, "twin_seeds": [10, 11], "wiegreffe_pinter": ["uniform"]}
    folder = run(cells(**settings)[0], tmp_path / "cell")
    started = {name: load_file(folder / name / "model.safetensors") for name in ("model", "twin-10", "twin-11")}
    for one, other in itertools.combinations(started, 2):
        for parameter, value in started[one].items():
            beside = started[other][parameter]
            if value.dim() > 1 or float(value.abs().max()) > 1e-6:  # a bias that begins at 0 does so everywhere
                assert not torch.allclose(value, beside, atol=1e-6), (one, other, parameter)


def test_told_of_every_epoch(whole):
    assert whole[1][:3] == [("base", 0, 2), ("base", 1, 2), ("base", 2, 2)]
    assert list(dict.fromkeys(stage for stage, *_ in whole[1])) == [
        "base",
        *CONTROLS[:4],
        "twin 5",
        "imposed_twin-attefa-5",
        "twin 6",
        "imposed_twin-attefa-6",
        "twin-constrained-0.2 5",
        "imposed_twin-constrained-0.2-5",
        "twin-constrained-0.2 6",
        "imposed_twin-constrained-0.2-6",
    ]
    planned = [(stage, epochs) for stage, epoch, epochs in whole[1] if epoch == 0]
    assert planned == list(cells(**FULL)[0].stages.items())


# --- stopped and resumed


@pytest.mark.parametrize("stop", [("imposed", 2), ("imposed_twin-attefa-6", 2), ("twin 6", 3)])
def test_a_killed_run_goes_on_to_the_same_numbers(whole, tmp_path, stop):
    def kill(stage, epoch, *rest):
        if (stage, epoch) == stop:
            raise Stopped

    (cell,) = cells(**FULL)
    with pytest.raises(Stopped):
        run(cell, tmp_path / "cell", kill)
    assert not RunFolder(tmp_path / "cell").done
    told = []
    folder = run(cell, tmp_path / "cell", lambda *args: told.append(args[:3]))
    assert told[0] == (stop[0], 0, stop[1])
    assert told[1:] == whole[1][whole[1].index((*stop, stop[1])) :]  # from the epoch whose checkpoint was not written
    assert tables(folder) == tables(whole[0])
    assert numbers(folder.read_summary()) == numbers(whole[0].read_summary())
    assert {path.name for path in folder.path.iterdir()} == {path.name for path in whole[0].path.iterdir()}


def test_a_finished_cell_is_left_alone(whole):
    before = {path: path.stat().st_mtime_ns for path in whole[0].path.rglob("*")}

    def refuse(*args):
        raise AssertionError(f"trained again: {args[:3]}")

    run(cells(**FULL)[0], whole[0].path, refuse)
    assert {path: path.stat().st_mtime_ns for path in whole[0].path.rglob("*")} == before


def test_a_full_disk_loses_nothing(whole, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    (cell,) = cells(**FULL)
    copy = tmp_path / "cell"
    shutil.copytree(whole[0].path, copy)
    for name in ("meta.json", "summary.json", "variants.parquet"):
        (copy / name).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(OSError, match="No space left"):
            run(cell, copy)
    assert not RunFolder(copy).done
    told = []
    folder = run(cell, copy, lambda *args: told.append(args))
    assert told == []  # every model was kept
    assert tables(folder) == tables(whole[0])


@pytest.mark.parametrize("name", ["training.json", "model.safetensors"])
def test_a_damaged_model_is_named(whole, tmp_path, name):
    copy = tmp_path / "cell"
    shutil.copytree(whole[0].path, copy)
    (copy / "meta.json").unlink()
    (copy / "model" / name).write_bytes(b"{")
    with pytest.raises(InputError, match=r"model is damaged.*remove that folder and run again"):
        run(cells(**FULL)[0], copy)


def test_another_order_of_work_gives_the_same_numbers(whole, tmp_path):
    """A cell with one twin seed alone finds that twin again: seeds are keyed, not drawn in turn."""
    folder = run(cells(twin_seeds=[6])[0], tmp_path / "cell")
    assert numbers(folder.read_summary()["twins"]["attefa-6"]) == numbers(whole[0].read_summary()["twins"]["attefa-6"])
    assert tables(folder)["predictions"] == tables(whole[0])["predictions"]


# --- texts and labels


def write_set(path, test, seed=0):
    """A folder of planted texts with ``test`` as its test split."""
    generator = np.random.default_rng(seed)

    def rows(n):
        for i in range(n):
            words = ["thing"] * generator.integers(3, 7)
            words[generator.integers(len(words))] = (["bad", "awful"], ["good", "great"])[i % 2][generator.integers(2)]
            yield {"text": " ".join(words), "label": ("neg", "pos")[i % 2]}

    path.mkdir()
    for split, content in (("train", rows(40)), ("validation", rows(12)), ("test", test)):
        (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    return {"data": {"source": str(path)}}


TEST = [
    {"text": f"thing {word} thing", "label": label}
    for word, label in (("good", "pos"), ("bad", "neg"), ("great", "pos"))
]
EMPTY = [{"text": "", "label": "neg"}, {"text": "  \t ", "label": "pos"}]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    path = tmp_path_factory.mktemp("labelled")
    return run(cells(**write_set(path / "set", TEST))[0], path / "cell")


def test_empty_texts_are_predicted_and_counted(labelled, tmp_path):  # C23
    folder = run(cells(**write_set(tmp_path / "set", [TEST[0], EMPTY[0], *TEST[1:], EMPTY[1]]))[0], tmp_path / "cell")
    predictions, tokens = folder.read_table("predictions").to_pydict(), folder.read_table("tokens").to_pydict()
    assert len(predictions["example"]) == 5
    for i in (1, 4):
        assert sum(predictions["probabilities"][i]) == pytest.approx(1, abs=1e-6)
        assert tokens["attention"][i] == tokens["tokens"][i] == tokens["offsets"][i] == []
    twin = folder.read_summary()["twins"]["attefa-10"]
    assert (twin["attefa"]["n"], twin["attefa"]["n_undefined"]) == (3, 2)
    scores = folder.read_table("scores").to_pydict()
    reasons = {(e, m): r for e, m, r in zip(scores["example"], scores["metric"], scores["reason"], strict=True)}
    assert all(reasons[f"test-{i}", metric] == "no content token" for i in (1, 4) for metric in ("jsd", "attefa"))
    assert folder.read_meta()["data"]["test"]["empty"] == 2
    kept = [0, 2, 3]
    plain = labelled.read_table("variants").to_pydict()
    found = folder.read_table("variants").to_pydict()
    for column in ("attention_jsd", "output_tvd"):
        assert [found[column][i] for i in kept] == pytest.approx(plain[column], abs=1e-6)
    chances = labelled.read_table("predictions").to_pydict()["probabilities"]
    assert np.asarray(predictions["probabilities"])[kept] == pytest.approx(np.asarray(chances), abs=1e-6)
    before = labelled.read_summary()["twins"]["attefa-10"]
    assert twin["attefa"]["value"] == pytest.approx(before["attefa"]["value"], abs=1e-5)


def test_unknown_labels_in_the_test_split(labelled, tmp_path):  # C28
    hidden = [{**row, "label": -1} for row in TEST]
    folder = run(cells(**write_set(tmp_path / "set", hidden))[0], tmp_path / "cell")
    summary, before = folder.read_summary(), labelled.read_summary()
    assert summary["base"]["f1"] is summary["base"]["accuracy"] is summary["base"]["roc_auc"] is None
    assert summary["twins"]["attefa-10"]["f1"] is None
    assert numbers(summary["twins"]["attefa-10"]["attefa"]) == numbers(before["twins"]["attefa-10"]["attefa"])
    assert folder.read_table("predictions").to_pydict()["label"] == [-1, -1, -1]


def test_one_class_in_the_test_split(tmp_path):  # C29
    folder = run(cells(**write_set(tmp_path / "set", [TEST[0], TEST[2]]))[0], tmp_path / "cell")
    summary = folder.read_summary()
    assert summary["base"]["roc_auc"] is None
    assert summary["base"]["accuracy"] is not None
    assert summary["twins"]["attefa-10"]["attefa"]["n"] == 2
    assert folder.read_meta()["data"]["test"]["classes"] == {"neg": 0, "pos": 2}


def test_long_texts_are_cut_and_counted(tmp_path):  # C24
    long = [*TEST, {"text": "good " * 50, "label": "pos"}]
    given = write_set(tmp_path / "set", long)
    model = {
        "encoder": "transformer",
        "positions": "learned",
        "max_positions": 8,
        "embedding_size": 8,
        "hidden_size": 8,
    }
    folder = run(cells(**given, model=model)[0], tmp_path / "cell")
    assert folder.read_meta()["data"]["test"]["truncated"] == 1
    assert len(folder.read_table("tokens").to_pydict()["attention"][3]) == 8
    uncut = run(cells(**given, twin=None)[0], tmp_path / "other")
    assert uncut.read_meta()["data"]["test"]["truncated"] == 0
    assert len(uncut.read_table("tokens").to_pydict()["attention"][3]) == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"select_on": "validation"}, "data": {"source": "nowhere.csv"}}, "nowhere.csv"),
        ({"vectors": {"path": "nowhere.txt"}}, "nowhere.txt"),
        ({"train": {"class_weights": [1.0, 2.0, 3.0]}}, "Expected 2 class_weights"),
        ({"train": {"trackers": ["wandbb"]}}, "tiny: train: trackers: Unknown tracker 'wandbb'"),
        ({"twin": {"trackers": ["wandbb"]}}, "tiny: twin: trackers: Unknown tracker 'wandbb'"),
    ],
)
def test_bad_settings_stop_before_any_work(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(cells(**changes)[0], tmp_path / "cell")
    assert not (tmp_path / "cell").exists()


def test_several_labels(tmp_path):
    rows = [
        {"text": f"thing {word}", "label": labels}
        for word, labels in (("good", ["a"]), ("bad", ["b"]), ("great", ["a", "b"]))
    ]
    (tmp_path / "set").mkdir()
    for split, times in (("train", 8), ("validation", 2), ("test", 2)):
        (tmp_path / "set" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * times))
    data = {"source": str(tmp_path / "set"), "multi_label": True}
    train = {**RAW["train"], "class_weights": "balanced"}
    folder = run(cells(data=data, train=train)[0], tmp_path / "cell")
    assert folder.read_table("predictions").to_pydict()["label"][2] == [1, 1]
    twin = folder.read_summary()["twins"]["attefa-10"]
    assert 0 <= twin["tvd"]["value"] <= 1
    assert folder.read_meta()["label_names"] == ["a", "b"]


# --- what a run will take


def test_estimate():
    some = cells(seeds=[1, 2], grid={"twin.epochs": [3, 30]})
    estimates, prepared = estimate(some)
    assert len(estimates) == 4
    assert len(prepared) == 1
    assert all(e.minutes > 0 and e.megabytes > 0 for e in estimates)
    assert estimates[2].minutes == pytest.approx(estimates[0].minutes * 32 / 5)  # epochs of base and twin
    assert estimates[0].minutes == estimates[1].minutes
    settings = {"twin_seeds": [5, 6], "grid": {"wiegreffe_pinter": [[], ["uniform", "imposed_twin"]]}}
    without, with_controls = (one.minutes for one in estimate(cells(**settings))[0])
    assert with_controls == pytest.approx(without * 14 / 8)  # 2 + 2 * 3 epochs; 2 more for uniform, for each twin
