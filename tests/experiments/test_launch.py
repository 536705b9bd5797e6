"""A recipe with cells whose data cannot be had: the others are run, and it is said what was left out."""

import pytest

from attn_faithful._checks import MissingSourceError
from attn_faithful.api import run_recipe
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
