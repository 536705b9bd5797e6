"""A recipe with cells whose data cannot be had: the others are run, and it is said what was left out."""

import pytest
import torch

from attn_faithful._checks import InputError, MissingSourceError
from attn_faithful.api import carry_out, run_recipe
from attn_faithful.experiments import run_cell as run_cell_module
from attn_faithful.experiments.launcher import PARALLEL, process_group
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.training.placement import trains_on_cpu
from tests.experiments.tiny import RAW

AWAY = {"name": "Away", "source": "./nowhere/at-all"}
HERE = {"name": "Here", **RAW["data"]}


def recipe(*data):
    return {**RAW, "data": {}, "twin": None, "grid": {"data": list(data)}, "seeds": [1, 2]}


def test_cells_without_data_are_left_out_and_told(tmp_path, capsys):
    records = run_recipe(recipe(AWAY, HERE), tmp_path)
    assert {record["axes"]["data"] for record in records} == {"Here"}
    told = capsys.readouterr().err
    assert told.count("Left out: Away") == 1  # once for all seeds
    assert "Expected a file or folder at './nowhere/at-all', but there is none" in told
    assert all(folder.name.startswith("here-") for folder in (tmp_path / "tiny").iterdir())


def test_where_no_cell_can_be_run_the_reason_is_an_error(tmp_path):
    with pytest.raises(MissingSourceError, match="there is none; check the path"):
        run_recipe(recipe(AWAY), tmp_path)
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 .* but RANK, MASTER_ADDR, MASTER_PORT are not set; .*unset"),
        ({"WORLD_SIZE": "4", "RANK": "1", "MASTER_ADDR": "here"}, "WORLD_SIZE=4 .* but MASTER_PORT are not set"),
        ({"WORLD_SIZE": "two"}, "Expected numbers in the launcher's variables, but they are .*two"),
        (
            {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1"},
            "says that a launcher started 2 processes, but RANK is 2",
        ),
    ],
)
def test_variables_that_another_program_left_behind_are_told(monkeypatch, variables, message):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for parallel in PARALLEL:
        with pytest.raises(InputError, match=message), process_group(None, parallel):
            pass


def test_one_process_needs_no_launcher(monkeypatch):
    for variables in ({"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": "1"}, {"RANK": "3"}, {"WORLD_SIZE": ""}):
        for name in ("WORLD_SIZE", "RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with process_group() as processes:
            assert (processes.rank, processes.world) == (0, 1)


def test_the_device_is_that_of_the_training(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(run_cell_module, "run_cell", lambda *cell: seen.append(trains_on_cpu()) or pytest.skip("seen"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in ("cpu", "auto"):
        with pytest.raises(pytest.skip.Exception):
            carry_out(make_recipe(recipe(HERE), "test"), tmp_path, progress=False, device=device)
    assert seen == [True, False]
