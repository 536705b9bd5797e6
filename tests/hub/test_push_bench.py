"""A set and a leaderboard pushed to a stand-in for the Hub, and the set read back: with an empty cache, and offline."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.hub import bench_download
from attn_faithful.hub.push_bench import write_bench, write_leaderboard_space
from tests.hub.conftest import ROOT, own_environment
from tests.hub.standin import Repository, standin
from tests.project.test_bench_files import write_set
from tests.project.test_bench_results import write_result

CLIENTS = Path(__file__).with_name("bench_clients.py")
PAGE = "<!doctype html><title>board</title>"


def client(what, folder, environment):
    run = subprocess.run(
        [sys.executable, str(CLIENTS), what, str(folder)],
        env={**own_environment(), "PYTHONPATH": str(ROOT / "src"), **environment},
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
    """A set, the same with two changed files, and result files."""
    place = tmp_path_factory.mktemp("bench")
    write_set(place / "set")
    (place / "set" / "notes.txt").write_text("not the set's")
    shutil.copytree(place / "set", place / "changed")
    for name in ("a", "b"):
        (place / "changed" / "models" / name / "config.json").write_text("{ }")
    write_result(place / "results" / "ours.json")
    write_result(place / "results" / "theirs.json", name="theirs")
    write_result(place / "more" / "ours.json")
    return place


@pytest.fixture(scope="module")
def pushed(server, folder):
    return client("push", folder, server.environment(folder / "cache-of-push"))


@pytest.fixture(scope="module")
def read(server, folder, pushed):
    server.repositories["dataset", "user/board-data"] = Repository({"README.md": b"# A data set\n"})
    half = dict(held(server, "user/bench"))
    del half["models/a/model.safetensors"]
    half["manifest.json"] = half["manifest.json"][:100]
    server.repositories["dataset", "user/half"] = Repository(half)
    return client("download", folder, server.environment(folder / "cache"))


def held(server, name, kind="dataset"):
    return server.repositories[kind, name].files


def test_a_set_is_pushed_as_it_is(server, folder, pushed):
    assert pushed["urls"][0] == f"{server.url}/datasets/user/bench"
    files = dict(held(server, "user/bench"))
    card = files.pop("README.md").decode()
    there = {}
    for path in (folder / "set").rglob("*"):
        if path.is_file() and path.name != "notes.txt":
            there[path.relative_to(folder / "set").as_posix()] = path.read_bytes()
    assert files == there
    assert "license: cc0-1.0" in card
    assert "- config_name: single\n  data_files: texts/single.jsonl" in card
    assert "attn-faithful bench user/bench\n" in card
    assert "| free | no | 2 | 2 |" in card
    assert "Made with torch 2." in card
    assert hashlib.sha256(files["manifest.json"]).hexdigest() in card
    assert server.repositories["dataset", "user/secret"].private


def test_a_connection_that_is_lost_once(server, pushed):
    assert held(server, "user/drop-once").keys() == held(server, "user/bench").keys()


def test_a_set_comes_back_as_it_was(server, folder, read):
    """Its sha256 are equal, and what its manifest does not name is not fetched."""
    originals = {}
    for file in read["files"]:
        originals[file] = hashlib.sha256((folder / "set" / file).read_bytes()).hexdigest()
    assert read["files"] == originals
    assert read["there"] == sorted([*originals, "manifest.json"])
    assert read["again"]
    assert read["secret"] == 2


def test_what_cannot_be_read(server, read):
    refused = read["refused"]
    assert all(text.startswith("InputError: ") and "\n" not in text for text in refused.values()), refused
    assert "There is no data set user/missing on the Hub" in refused["user/missing"]
    assert "user/board-data on the Hub is no set of AttentionBench" in refused["user/board-data"]
    assert "manifest.json cannot be read" in refused["user/half"]
    assert '"user/name"' in refused["bench"]
    assert "has no revision 'v9'" in refused["revision"]
    assert "you may not read it" in refused["token"]


def test_offline_from_the_cache(server, folder, read):
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    found = client("offline", folder, {**server.environment(folder / "cache"), **dead})
    assert found["models"] == 2
    assert found["refused"].startswith("InputError: The set user/drop-once is not whole in the Hub's cache")
    assert "HF_HUB_OFFLINE" in found["refused"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalEntryNotFoundError("Got: ConnectError"), r"\(it cannot be reached\); try again"),
        (TimeoutError("read\ntimed out"), r"\(TimeoutError: read timed out\); try again"),
    ],
)
def test_a_hub_that_cannot_be_reached(monkeypatch, error, said):
    def lost(*arguments):
        raise error

    monkeypatch.setattr(bench_download, "_fetch", lost)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(InputError, match=rf"^The set user/bench was not fetched from the Hub at \S+ {said}"):
        bench_download.download_set("user/bench")


def test_a_leaderboard_is_a_static_space(server, folder, pushed):
    assert pushed["urls"][1] == f"{server.url}/spaces/user/board"
    files = held(server, "user/board", "space")
    assert files.keys() == {"README.md", "index.html", "results/ours.json", "results/theirs.json"}
    assert files["index.html"] == PAGE.encode()
    assert files["results/ours.json"] == (folder / "results" / "ours.json").read_bytes()
    assert b"sdk: static\napp_file: index.html" in files["README.md"]


def test_refusals(server, folder, pushed):
    refused = pushed["refused"]
    assert all(text.startswith("InputError: ") and "\n" not in text for text in refused.values()), refused
    assert "models/a/config.json is changed, and 1 more)" in refused["changed"]
    assert "holds no manifest.json" in refused["no_set"]
    assert "Expected a licence" in refused["licence"]
    assert "taken by somebody else" in refused["taken"]
    assert "lost 3 times" in refused["lost"]
    assert "Two result files are called ours.json" in refused["twice"]
    assert "holds no result file" in refused["no_results"]
    assert not {("dataset", f"user/{name}") for name in ("changed", "none", "l")} & server.repositories.keys()


def test_a_lost_hub_leaves_a_whole_folder(server, folder, pushed):
    aside = folder / "hub" / "bench-drop-always"
    assert str(aside) in pushed["refused"]["lost"]
    there = {path.relative_to(aside).as_posix() for path in aside.rglob("*") if path.is_file()}
    assert there == held(server, "user/bench").keys()


def test_files_are_written_and_nothing_is_pushed(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    place = write_bench(folder / "set", "user/bench", tmp_path / "a")
    assert (place / "models" / "a" / "model.safetensors").read_bytes() == b"a" * 3000
    assert "license: unknown" in (place / "README.md").read_text(encoding="utf-8")
    space = write_leaderboard_space(PAGE, [folder / "results"], "user/board", tmp_path / "b")
    assert (space / "results" / "theirs.json").is_file()
    with pytest.raises(InputError, match="new or empty folder"):
        write_bench(folder / "set", "user/bench", tmp_path / "a")
    with pytest.raises(InputError, match="user/name"):
        write_bench(folder / "set", "bench", tmp_path / "c")


def test_the_command_line_writes_a_set(folder, tmp_path, capsys):
    into = tmp_path / "a"
    given = ["push", "bench", str(folder / "set"), "--to", "user/bench", "--license", "cc0-1.0", "--into", str(into)]
    assert main(given) == 0
    assert capsys.readouterr().out.strip() == str(into)
    assert "license: cc0-1.0" in (into / "README.md").read_text(encoding="utf-8")


def test_the_command_line_writes_a_leaderboard(folder, tmp_path, capsys):
    into = tmp_path / "a"
    assert main(["push", "leaderboard", str(folder / "results"), "--to", "user/board", "--into", str(into)]) == 0
    assert capsys.readouterr().out.strip() == str(into)
    assert "theirs" in (into / "index.html").read_text(encoding="utf-8")
    assert {path.name for path in (into / "results").iterdir()} == {"ours.json", "theirs.json"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["push", "leaderboard", "{there}/set", "--to", "user/b"], "manifest.json is no result file"),
        (["push", "leaderboard", "{there}/results", "--to", "user/b", "--license", "mit"], "--license belongs to"),
        (["push", "bench", "{there}/changed", "--to", "user/b"], "models/a/config.json is changed, and 1 more)"),
        (["push", "bench", "{there}/set", "--to", "user/b", "--results", "r"], "--results belongs to push model, but"),
        (["push", "data", "{there}/set", "--to", "user/b", "--into", "d"], "--into belongs to push model, push bench"),
    ],
)
def test_the_command_line_refuses(folder, capsys, given, said):
    assert main([part.format(there=folder) for part in given]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
