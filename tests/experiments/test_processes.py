"""Several processes: the same numbers as one, none lost or doubled (case C30)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attn_faithful.cli import main
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.experiments.run_recipe import cost, share
from attn_faithful.store import find_runs
from tests.experiments.tiny import cells, run

ROOT = Path(__file__).parents[2]
SIZES = (96, 7)  # three whole batches; examples that do not divide, each of which must still come back once
TINY = {
    "name": "tiny",
    "data": {"source": "mock-1", "mock": {"n_train": 48, "n_test": 13, "min_length": 3, "max_length": 6}},
    "model": {"embedding_size": 6, "hidden_size": 4},
    "train": {"epochs": 1},
    "twin": {"epochs": 1},
    "seeds": [1, 2],
    "grid": {"model.encoder": ["mlp", "lstm"]},
}


def launch(*arguments: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    """What LIBRARIES and the README say really starts several processes on CPUs."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    command += ["--num_processes", str(processes), "--main_process_port", "0", *arguments]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=ROOT)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    import yaml

    path = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


@pytest.fixture(scope="module")
def alone(recipe, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("alone")
    assert main(["run", str(recipe), "--output", str(output)]) == 0
    return output


def test_cells_shared_by_two_processes_give_the_numbers_of_one(recipe, alone, tmp_path):
    done = launch("recipes/train.py", str(recipe), "--processes", "2", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "[0] " in done.stderr
    assert "[1] " in done.stderr  # both did some of the work
    assert done.stdout.count("Run folders:") == 1  # and one of them reported
    mine, theirs = find_runs([alone]), find_runs([tmp_path])
    assert [run.path.name for run in mine] == [run.path.name for run in theirs]
    for one, two in zip(mine, theirs, strict=True):
        for table in ("predictions", "tokens", "variants", "scores"):
            assert one.read_table(table).equals(two.read_table(table)), (one.path.name, table)


def test_two_processes_evaluate_as_one(tmp_path):
    """Every example once, in the data's order, and not a bit different (C30)."""
    model = run(cells(twin=None)[0], tmp_path / "cell") / "model"
    data = tmp_path / "texts.csv"
    rows = [f"t{i},{'good something ' * (i % 7)},{('negative', 'positive')[i % 2]}" for i in range(150)]
    data.write_text("\n".join(["id,text,label", *rows]))
    arguments = [str(model), "--data", str(data), "--tests", "correlation,permutation"]
    assert main(["evaluate", *arguments, "--output", str(tmp_path / "one")]) == 0
    done = launch("recipes/evaluate.py", *arguments, "--output", str(tmp_path / "two"), "--processes", "2")
    assert done.returncode == 0, done.stderr[-2000:]
    (one,), (two,) = find_runs([tmp_path / "one"]), find_runs([tmp_path / "two"])
    assert one.path.name == two.path.name
    for table in ("predictions", "tokens", "scores", "variants"):
        mine, theirs = one.read_table(table).to_pylist(), two.read_table(table).to_pylist()
        assert [repr(row) for row in mine] == [repr(row) for row in theirs], table
    assert two.read_meta()["hardware"]["processes"] == 2
    assert sorted(path.name for path in one.path.iterdir()) == sorted(path.name for path in two.path.iterdir())


def test_a_launcher_that_starts_fewer_processes_than_asked_is_an_error(recipe, tmp_path, capsys):
    assert main(["run", str(recipe), "--processes", "2", "--output", str(tmp_path / "out")]) == 2
    assert "the launcher started 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> dict[int | str, list[dict]]:
    """What one process and two report of models trained on so many examples."""
    place = tmp_path_factory.mktemp("trained")
    for world in (1, 2):
        worker = [
            str(ROOT / "tests" / "experiments/parallel_worker.py"),
            str(place / str(world)),
            "32",
            *map(str, SIZES),
        ]
        if world == 1:
            subprocess.run([sys.executable, *worker], check=True, cwd=ROOT, timeout=300)
        else:
            done = launch(*worker)
            assert done.returncode == 0, done.stderr[-2000:]
    reports = {}
    for name in (*SIZES, "regularized", "hierarchical", "masked"):
        reports[name] = [json.loads((place / str(w) / str(name) / "report.json").read_text()) for w in (1, 2)]
    return reports


@pytest.mark.parametrize("n", SIZES)
def test_data_parallel_training_equals_one_process(trained, n):
    one, two = trained[n]
    assert (one["world"], two["world"], two["backend"]) == (1, 2, "gloo")
    assert len(two["probabilities"]) == len(two["attention"]) == n
    assert [len(weights) for weights in two["attention"]] == [len(weights) for weights in one["attention"]]
    for weights in two["attention"]:
        assert sum(weights) == pytest.approx(1, abs=1e-6)
    if n == 96:
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-4)
        np.testing.assert_allclose(two["weights"], one["weights"], atol=1e-4)
        np.testing.assert_allclose(two["probabilities"], one["probabilities"], atol=1e-4)


@pytest.mark.parametrize(("name", "regularizers"), [("regularized", 6), ("hierarchical", 5), ("masked", 1)])
def test_regularizers_in_two_processes_equal_one(trained, name, regularizers):
    one, two = trained[name]
    assert (one["world"], two["world"]) == (1, 2)
    assert len(one["regularizers"]) == regularizers
    assert two["regularizers"] == pytest.approx(one["regularizers"], rel=1e-5)
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-4)
    np.testing.assert_allclose(two["weights"], one["weights"], atol=1e-4)


def test_the_share_of_each_process_is_disjoint_and_whole():
    cells = expand(make_recipe({**TINY, "seeds": [1, 2, 3]}, "test"))
    shares = [share(cells, rank, 4, cost) for rank in range(4)]
    assert sorted(cell.folder for part in shares for cell in part) == sorted(cell.folder for cell in cells)
    assert len(shares[0]) < len(cells)
    # an LSTM costs more than all MLPs: the three LSTMs go to three processes
    assert sorted(sum(cell.axes["encoder"] == "lstm" for cell in part) for part in shares) == [0, 1, 1, 1]
