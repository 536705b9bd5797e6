"""Every push to a stand-in for the Hub, then loading in new processes: with an empty cache, offline, without us."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attn_faithful
from attn_faithful.store import RunFolder
from tests.hub.standin import standin

CLIENTS = Path(__file__).with_name("clients.py")
TAU = 0.1 + 0.2  # 17 digits


def client(what, folder, environment):
    """What a new process of `clients` prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    source = str(Path(attn_faithful.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, str(CLIENTS), what, str(folder)], env={**own, "PYTHONPATH": source, **environment},
        cwd=folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def server():
    with standin() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds a finished run, whose numbers are partly undefined; the client adds its model."""
    place = tmp_path_factory.mktemp("hub")
    run = RunFolder(place / "run")
    run.write_table("predictions", {"example": ["a", "b"], "label": [1, 0], "probabilities": [[0.1, 0.9], [0.7, 0.3]]})
    record = {"test": "correlation", "metric": "tau", "site": "pool", "class": "all"}
    numbers = {"mean": TAU, "std": 0.0, "low": 0.25, "high": 0.5, "n": 2, "n_undefined": 0, "reasons": {}}
    nothing = dict.fromkeys(("mean", "std", "low", "high")) | {"n": 0, "n_undefined": 2, "reasons": {"constant": 2}}
    about = {"title": "tau-b", "meaning": "rank correlation", "direction": "higher", "shown": True}
    run.write_summary({
        "base": {"accuracy": 0.5}, "twins": {}, "metrics": {"tau": about},
        "tests": [
            {**record, "source": "attention~saliency", **numbers},
            {**record, "source": "attention~leave_one_out", **nothing},
        ],
    })  # fmt: skip
    axes = {"data": "Mock-1", "encoder": "lstm"}
    local = {"data": {"source": "/home/somebody/mock-1", "name": "Mock-1"}}
    run.write_meta({"axes": axes, "seed": 10, "label_names": ["negative", "positive"], "recipe": local})
    (place / "page.html").write_text("<!doctype html><title>report</title>", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def pushed(server, folder):
    return client("push", folder, server.environment(folder / "cache-of-push"))


@pytest.fixture(scope="module")
def loaded(server, folder, pushed):
    return client("load", folder, server.environment(folder / "cache"))


@pytest.fixture(scope="module")
def offline(server, folder, loaded):
    """In the cache that `loaded` filled; the endpoint is dead."""
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    return client("load", folder, {**server.environment(folder / "cache"), **dead, "HF_DATASETS_OFFLINE": "1"})


@pytest.fixture(scope="module")
def without(server, folder, pushed):
    return client("without", folder, server.environment(folder / "cache-without"))


@pytest.fixture(scope="module")
def refused(server, folder, pushed):
    return client("refuse", folder, server.environment(folder / "cache-of-push"))


def held(server, name, kind="model"):
    return server.repositories[kind, name].files


def test_addresses(server, pushed):
    ends = ("user/pooled", "user/han", "spaces/user/attefa", "spaces/user/my-erasure", "spaces/user/tau",
            "spaces/user/entropy", "datasets/user/tables",
            "spaces/user/report", "user/drop-once")  # fmt: skip
    assert pushed["urls"] == [f"{server.url}/{end}" for end in ends]


@pytest.mark.parametrize("name", ["pooled", "han"])
def test_models_come_back_as_they_were(pushed, loaded, name):
    logits, attention, weights, settings = loaded[name]
    assert weights == pushed[name][2]
    assert settings == pushed[name][3]
    for found, expected in ((logits, pushed[name][0]), (attention, pushed[name][1])):
        for row, other in zip(found, expected, strict=True):
            assert row == pytest.approx(other, rel=0, abs=1e-6)
    assert loaded["ids"] == pushed["ids"]


def test_loading_takes_the_packages_class(loaded):
    assert loaded["own"] == {"pooled": True, "han": False}


def test_pipeline(pushed, loaded):
    found = loaded["pipeline"]
    assert [each["label"] for each in found] == [
        "negative" if row[0] > row[1] else "positive" for row in pushed["pooled"][0]
    ]
    assert all(0.5 <= each["score"] <= 1 for each in found)
    assert loaded["han_pipeline"].startswith("InputError: Expected `sentence_ids`")
    assert "encode_texts(..., sentences=True)" in loaded["han_pipeline"]


def test_metrics_load_from_the_hub(loaded):
    assert loaded["attefa"] == pytest.approx(0.2)
    assert loaded["erasure"] == pytest.approx(0.2)
    assert loaded["several"]["kendall_tau_b"] == pytest.approx(1)
    assert 0 < loaded["several"]["importance_entropy"] < 1


def test_tables_load_from_the_hub(loaded):
    assert loaded["table"]["probabilities"] == [[0.1, 0.9], [0.7, 0.3]]


def test_offline_from_the_cache(loaded, offline):
    assert offline == loaded


def test_without_the_package(without):
    assert not without["imported"]
    assert "trust_remote_code=True" in without["unasked"]  # never runs code that nobody asked for
    for name in ("pooled", "han"):
        assert without[f"missing_{name}"].startswith("ImportError: ")
        assert "pip install attn_faithful" in without[f"missing_{name}"]
        assert "\n" not in without[f"missing_{name}"]
    assert without["classes"] == {
        "pooled": "attn_faithful.models.modeling.AttentionClassifier",
        "han": "attn_faithful.models.han.HANClassifier",
    }


def test_what_is_pushed(server, pushed):
    files = {"README.md", "attn_faithful_model.py", "config.json", "model.safetensors", "tokenizer.json"}
    assert files <= held(server, "user/pooled").keys()
    assert server.repositories["model", "user/han"].private
    assert not server.repositories["model", "user/pooled"].private
    space = held(server, "user/attefa", "space")
    assert space.keys() == {"README.md", "app.py", "attefa.py", "requirements.txt"}
    assert b"gradio" in space["requirements.txt"]
    assert f"attn-faithful~={attn_faithful.__version__}".encode() in space["requirements.txt"]
    assert held(server, "user/my-erasure", "space")["my-erasure.py"]
    assert held(server, "user/report", "space")["index.html"].startswith(b"<!doctype html>")
    tables = held(server, "user/tables", "dataset")
    assert tables.keys() == {"README.md", "meta.json", "predictions.parquet", "summary.json"}
    assert b"somebody" not in tables["meta.json"]
    assert json.loads(tables["summary.json"])["tests"][0]["mean"] == TAU


def test_a_connection_that_is_lost_once(server, pushed):
    assert server.calls.count("POST /api/models/user/drop-once/commit/main") == 2
    assert held(server, "user/drop-once").keys() == held(server, "user/pooled").keys()


def test_card(server, pushed):
    """Case C33: undefined numbers stand in the text, with their reason; the others come back as they were."""
    from huggingface_hub import ModelCard

    text = held(server, "user/pooled")["README.md"].decode()
    assert text == pushed["card"]
    found = {result.metric_name: result for result in ModelCard(text).data.eval_results}
    assert found.keys() == {"accuracy", "tau-b (with saliency)"}
    tau = found["tau-b (with saliency)"]
    assert (tau.metric_value, tau.metric_args) == (TAU, {"low": 0.25, "high": 0.5, "n": 2})
    assert (tau.dataset_type, tau.dataset_name, tau.dataset_split) == ("mock-1", "Mock-1", "test")
    assert "- tau-b (with leave_one_out): constant (2)." in text
    assert "- **tau-b**: rank correlation." in text


def test_refusals(refused):
    assert all(text.startswith("InputError: ") and "\n" not in text for text in refused.values()), refused
    says = {
        "taken": "other/taken is taken by somebody else", "not_yours": "choose a name of your own",
        "public": "is public", "bad_token": "does not know this token", "name": '"user/name"',
        "metric": "Did you mean 'attefa'", "no_model": "no saved model", "no_run": "no finished run",
        "no_page": "found 0", "nan": "not finite (x[0].value)", "partial": "metadata cannot be read",
        "no_token": "hf auth login",
    }  # fmt: skip
    assert not {key: refused[key] for key, words in says.items() if words not in refused[key]}


def test_a_refused_card_leaves_no_repository(server, refused):
    assert not {("model", "user/nan"), ("model", "user/partial")} & server.repositories.keys()


def test_a_lost_hub_leaves_a_whole_folder(server, folder, refused):
    for key, place, name in (
        ("lost", folder / "run" / "hub" / "model-drop-always", ("user/pooled", "model")),
        ("lost_metric", Path("hub") / "metric-attefa", ("user/attefa", "space")),
    ):
        assert "lost 3 times" in refused[key]
        assert str(place) in refused[key]
        there = {path.name for path in (folder / place).iterdir()}
        assert there >= held(server, *name).keys()
    assert "did not answer within 1 seconds" in refused["silent"]
    assert (folder / "hub" / "metric-erasure" / "erasure.py").is_file()
