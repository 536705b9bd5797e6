"""The evaluate module by its path, and by its bare name from a new process in another folder with no network."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError

CARD = hub._MODULES / "attefa" / "README.md"

# Name look-ups fail at once, as without a network: the test must not wait for one, nor reach one.
WITHOUT_NETWORK = """
import doctest, socket, sys
def unreachable(*args, **kwargs):
    raise socket.gaierror("no network in this test")
socket.getaddrinfo = socket.create_connection = unreachable
result = doctest.testfile(sys.argv[1], module_relative=False)
sys.exit(result.failed or not result.attempted)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """evaluate's caches, in a temporary folder."""
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_MODULES_CACHE", folder / "modules")
        patch.setattr("evaluate.config.HF_METRICS_CACHE", folder / "metrics")
        patch.setattr(sys, "path", [*sys.path])
        yield folder


@pytest.fixture
def metric(cache):
    import evaluate

    return evaluate.load(str(CARD.parent), cache_dir=str(cache))


def test_module_is_thin():
    lines = (CARD.parent / "attefa.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


def test_card_runs_by_path(cache, monkeypatch):
    monkeypatch.chdir(CARD.parents[1])
    result = doctest.testfile(str(CARD), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_metric_by_path(metric):
    columns = {
        "predictions": [[0.7, 0.3], [0.5, 0.5]],
        "references": [[0.4, 0.6], [0.5, 0.5]],
        "prediction_attentions": [[1.0, 0.0], []],
        "reference_attentions": [[0.0, 1.0], []],
    }
    result = metric.compute(**columns)
    assert list(result) == ["attefa", "tvd", "jsd", "s_jsd", "n", "n_undefined", "reason"]
    assert result["attefa"] == pytest.approx(0.3, abs=1e-12)
    assert (result["n"], result["n_undefined"]) == (1, 1)
    for row in zip(*columns.values(), strict=True):
        metric.add(**dict(zip(columns, row, strict=True)))
    assert metric.compute(reduction="none")["reason"] == [None, "no content token"]
    columns["reference_attentions"][0] = [1.0]
    with pytest.raises(InputError, match="in example 0, but `prediction_attentions` has 2"):
        metric.compute(**columns)


def test_card_runs_by_name_from_a_new_process_without_network(cache, tmp_path):
    (installed,) = hub.install_metrics(["attefa"])
    assert cache in installed.parents
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
    environment |= {
        "HF_HOME": str(tmp_path / "home"),
        "HF_MODULES_CACHE": str(cache / "modules"),
        "PYTHONPATH": str(Path(hub.__file__).parents[1]),
    }
    command = [sys.executable, "-c", WITHOUT_NETWORK, str(CARD)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert str(installed.parent) in run.stderr  # evaluate says which file it took from its cache


def test_install_is_idempotent_and_brings_changes_in(cache, tmp_path, monkeypatch):
    script = tmp_path / "attefa" / "attefa.py"
    script.parent.mkdir()
    original = (CARD.parent / "attefa.py").read_text(encoding="utf-8")
    monkeypatch.setattr(hub, "_MODULES", tmp_path)
    installed = []
    for extra in ("", "", "\nCHANGED = True\n", ""):
        script.write_text(original + extra, encoding="utf-8")
        installed += hub.install_metrics()
    assert installed[0] == installed[1] == installed[3] != installed[2]
    assert installed[0].read_text(encoding="utf-8") == original
    from evaluate import loading

    module = loading.CachedEvaluationModuleFactory("evaluate-metric--attefa").get_module()
    assert module.hash == installed[0].parent.name


def test_errors_are_clear(cache, monkeypatch):
    with pytest.raises(InputError, match=r"Unknown metric 'atefa'\. Did you mean 'attefa'"):
        hub.install_metrics(["atefa"])
    monkeypatch.delattr("evaluate.loading._create_importable_file")
    with pytest.raises(RuntimeError, match=r"works otherwise than expected.*evaluate\.load"):
        hub.install_metrics()
