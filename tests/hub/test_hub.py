"""Every push to a stand-in for the Hub, then loading in new processes: with an empty cache, offline, without us."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attn_faithful
from attn_faithful.hub import metric_names
from attn_faithful.store import RunFolder
from tests.hub.clients import ATTEFA
from tests.hub.conftest import ROOT, own_environment
from tests.hub.standin import Repository, standin

CLIENTS = Path(__file__).with_name("clients.py")
TAU = 0.1 + 0.2  # 17 digits


def client(what, folder, environment, python=sys.executable):
    """What a new process of `clients` prints; of the source tree, or of the installed wheel."""
    if python == sys.executable:
        environment = {"PYTHONPATH": str(ROOT / "src"), **environment}
    run = subprocess.run(
        [str(python), str(CLIENTS), what, str(folder)],
        env={**own_environment(), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
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
    run.write_summary(
        {
            "base": {"accuracy": 0.5},
            "twins": {},
            "metrics": {"tau": about},
            "tests": [
                {**record, "source": "attention~saliency", **numbers},
                {**record, "source": "attention~leave_one_out", **nothing},
            ],
        }
    )
    axes = {"data": "Mock-1", "encoder": "lstm"}
    local = {"data": {"source": "/home/somebody/mock-1", "name": "Mock-1"}}
    run.write_meta({"axes": axes, "seed": 10, "label_names": ["negative", "positive"], "recipe": local})
    (place / "page.html").write_text("<!doctype html><title>report</title>", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def pushed(server, folder):
    return client("push", folder, server.environment(folder / "cache-of-push"))


@pytest.fixture(scope="module")
def altered(server, pushed):
    """Repositories as a newer version would leave them."""
    pooled, attefa = held(server, "user/pooled"), held(server, "user/attefa", "space")
    config = json.loads(pooled["config.json"])
    for name, change in (("newer", {"mixing": 2}), ("mamba", {"encoder": "mamba"})):
        later = json.dumps({**config, **change, "attn_faithful_version": "99.1.0"}).encode()
        server.repositories["model", f"user/{name}"] = Repository({**pooled, "config.json": later})
    script = attefa["attefa.py"].replace(attn_faithful.__version__.encode(), b"99.1.0")
    server.repositories["space", "user/later"] = Repository({**attefa, "later.py": script})


@pytest.fixture(scope="module")
def loaded(server, folder, altered):
    return client("load", folder, server.environment(folder / "cache"))


@pytest.fixture(scope="module")
def offline(server, folder, loaded, wheel_python):
    """In the cache that `loaded` filled, by the installed wheel; the endpoint is dead."""
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    environment = {**server.environment(folder / "cache"), **dead, "HF_DATASETS_OFFLINE": "1"}
    return client("offline", folder, environment, wheel_python)


@pytest.fixture(scope="module")
def without(server, folder, pushed):
    return client("without", folder, server.environment(folder / "cache-without"))


@pytest.fixture(scope="module")
def refused(pushed):
    return pushed["refused"]


def held(server, name, kind="model"):
    return server.repositories[kind, name].files


def test_addresses(server, pushed):
    ends = (
        "user/pooled",
        "user/han",
        "spaces/user/attefa",
        "spaces/user/my-erasure",
        "spaces/user/tau",
        "spaces/user/entropy",
        "datasets/user/tables",
        "spaces/user/report",
        "user/drop-once",
        "user/old-han",
        "user/headless",
    )
    assert pushed["urls"] == [f"{server.url}/{end}" for end in ends]


@pytest.mark.parametrize("name", ["pooled", "han"])
@pytest.mark.parametrize("by", ["our push", "push_to_hub"])
def test_models_come_back_as_they_were(pushed, loaded, name, by):
    """Case C32: weights, logits, attention, settings and the tokenizer."""
    logits, attention, weights, settings = loaded[name] if by == "our push" else loaded["plain"][name]
    assert weights == pushed[name][2]
    assert settings == pushed[name][3]
    for found, expected in ((logits, pushed[name][0]), (attention, pushed[name][1])):
        for row, other in zip(found, expected, strict=True):
            assert row == pytest.approx(other, rel=0, abs=1e-6)
    assert loaded["ids"] == pushed["ids"]


def test_loading_takes_the_packages_class(loaded):
    assert loaded["own"] == {"pooled": True, "han": False}


def test_pipeline(pushed, loaded):
    """Of the HAN too, whose tokenizer says the sentences; the second text of `outputs` is one sentence."""
    found = loaded["pipelines"]["user/pooled"]
    assert [each["label"] for each in found] == [
        "negative" if row[0] > row[1] else "positive" for row in pushed["pooled"][0]
    ]
    assert all(0.5 <= each["score"] <= 1 for each in found)
    of_han = loaded["pipelines"]["user/han"]
    assert of_han == loaded["pipelines"]["user/old-han"]
    z = pushed["han"][0][1]
    assert of_han[1]["label"] == ("negative" if z[0] > z[1] else "positive")
    assert of_han[1]["score"] == pytest.approx(1 / (1 + math.exp(-abs(z[1] - z[0]))), abs=1e-6)
    first = pushed["han"][0][0]  # as one sentence, which it is not
    assert of_han[0]["score"] != pytest.approx(1 / (1 + math.exp(-abs(first[1] - first[0]))), abs=1e-9)


def test_trainer_pushes(server, loaded):
    """``Trainer(push_to_hub=True)``: what it pushes is loaded, and code travels with it."""
    assert loaded["trained"] == "lstm"
    files = held(server, "user/trained")
    assert {"attn_faithful_model.py", "config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files.keys()


def test_what_another_version_wrote(loaded):
    refused = loaded["refused"]
    assert all("\n" not in text for text in refused.values()), refused
    ours = attn_faithful.__version__
    said = f"attn_faithful 99.1.0 wrote it, and this is {ours}: pip install -U attn-faithful."
    assert refused["newer"] == f"InputError: The configuration sets mixing, which is not known here. {said}"
    assert refused["mamba"].startswith("InputError: Unknown encoder 'mamba'. Known: average, cnn")
    assert refused["mamba"].endswith(said)
    assert refused["later"].startswith("ImportError: The metric attefa was made with attn-faithful 99.1.0, but ")
    assert "pip install attn-faithful~=99.1.0" in refused["later"]


def test_a_checkpoint_without_its_head(loaded):
    """Case C32: transformers alone prints a report and goes on with a random head."""
    assert loaded["refused"]["headless"] == (
        "InputError: The checkpoint user/headless lacks the weights readout.bias, readout.weight; it is incomplete."
    )


def test_two_processes_share_a_metric(loaded):
    first, second = loaded["shared"]
    assert second is None
    alone = loaded["alone"]
    assert alone["n"] == len(ATTEFA["predictions"])
    assert first == pytest.approx(alone)


def test_metrics_load_from_the_hub(loaded):
    assert loaded["attefa"] == pytest.approx(0.2)
    assert loaded["erasure"] == pytest.approx(0.2)
    assert loaded["several"]["kendall_tau_b"] == pytest.approx(1)
    assert 0 < loaded["several"]["importance_entropy"] < 1


def test_tables_load_from_the_hub(loaded):
    assert loaded["table"]["probabilities"] == [[0.1, 0.9], [0.7, 0.3]]


def test_offline_from_the_cache(loaded, offline):
    assert {name: value for name, value in offline.items() if name != "wheel"} == loaded


def test_the_wheel_knows_no_source_tree(offline, wheel_python):
    wheel = offline["wheel"]
    assert wheel_python.parents[1] in Path(wheel["file"]).parents
    assert str(ROOT / "src") not in wheel["path"]
    assert wheel["version"] == attn_faithful.__version__


def test_the_wheel_brings_the_metrics(offline, folder):
    status, said = offline["wheel"]["installing"]
    assert status == 0
    assert [Path(line).stem for line in said.splitlines()] == metric_names()
    assert all(folder / "cache" in Path(line).parents for line in said.splitlines())
    assert offline["wheel"]["loaded"].keys() == set(metric_names())
    assert offline["wheel"]["by_path"] == "attefa"
    for name, files in offline["wheel"]["modules"].items():
        assert {"README.md", "app.py", "requirements.txt", f"{name}.py"} <= set(files)


@pytest.mark.parametrize("name", metric_names())
def test_the_wheel_brings_pages_that_compute(offline, name):
    found, half = offline["wheel"]["apps"][name]
    assert math.isfinite(next(iter(found.values())))
    assert found["n"] >= 1
    assert half.startswith("Error: ValueError: Expected rows with the columns")


def test_the_wheel_brings_the_recipes(offline):
    here = ROOT / "recipes"
    found = offline["wheel"]["recipes"]
    assert set(found) == {str(path.relative_to(here)) for path in here.rglob("*.yaml")}
    status, said = offline["wheel"]["smoke"]
    assert status == 0
    assert "No fault found." in said


def test_the_wheel_brings_the_templates(offline):
    here = ROOT / "src" / "attn_faithful" / "reports" / "html" / "templates"
    assert offline["wheel"]["templates"] == sorted(path.name for path in here.iterdir() if path.is_file())


def test_the_wheel_brings_the_command_line(offline, wheel_python):
    """The console script, and a command that reads data by a recipe's defaults."""
    command = wheel_python.with_name("attn-faithful" + (".exe" if os.name == "nt" else ""))
    said = subprocess.run([command, "--help"], env=own_environment(), capture_output=True, text=True, timeout=300)
    assert said.stdout.startswith("usage: attn-faithful"), said.stderr
    status, said = offline["wheel"]["checking"]
    assert status == 0
    assert "No fault found." in said


NAMES = ("pooled", "han", "plain_pooled", "plain_han", "trained")


@pytest.mark.parametrize("name", NAMES)
def test_without_the_package(without, name):
    """Case C32: nothing runs unasked, and without the package the error is one line that says what to install."""
    assert not without["imported"]
    assert "trust_remote_code=True" in without["unasked"][name]
    missing = without["missing"][name]
    assert missing.startswith("ImportError: ")
    assert "pip install attn_faithful" in missing
    assert "\n" not in missing
    own = "han.HANClassifier" if "han" in name else "pooled.AttentionClassifier"
    assert without["classes"][name] == f"attn_faithful.models.{own}"


def test_what_was_loaded_by_its_code_is_saved_as_any(without, pushed):
    assert without["again"] == ["attn_faithful_model.py", "config.json", "model.safetensors"]
    assert without["tokenizer"] == [i for i in pushed["ids"][1] if i]  # by the plain class


def test_what_is_pushed(server, pushed):
    files = {"README.md", "attn_faithful_model.py", "config.json", "model.safetensors", "tokenizer.json"}
    assert files <= held(server, "user/pooled").keys()
    assert server.repositories["model", "user/han"].private
    assert not server.repositories["model", "user/pooled"].private
    old = held(server, "user/old-han")
    for name in ("config.json", "attn_faithful_model.py"):
        assert old[name] == held(server, "user/han")[name]
    assert json.loads(old["tokenizer_config.json"])["tokenizer_class"] == "SentenceTokenizer"
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
        "taken": "other/taken is taken by somebody else",
        "not_yours": "choose a name of your own",
        "public": "is public",
        "bad_token": "does not know this token",
        "name": '"user/name"',
        "metric": "Did you mean 'attefa'",
        "no_model": "no saved model",
        "no_run": "no finished run",
        "no_page": "found 0",
        "nan": "not finite (x[0].value)",
        "partial": "metadata cannot be read",
        "no_token": "hf auth login",
    }
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
