"""The schedule: its cells are cells of the recipes, and its commands are understood."""

import pytest
import yaml
from evidence.printed import RECIPES
from evidence.schedule import Entry, Task, all_tasks, read_schedule, tasks

from attn_faithful.cli.parser import parse

ENTRIES = read_schedule()


def labels(values):
    return [value["name"] if isinstance(value, dict) else value for value in values]


@pytest.mark.parametrize("paper", sorted({entry.paper for entry in ENTRIES}))
def test_cells_are_of_the_recipe(paper):
    grid = yaml.safe_load((RECIPES / f"{paper}.yaml").read_text(encoding="utf-8"))["grid"]
    by_axis = {key.rpartition(".")[2]: labels(values) for key, values in grid.items()}
    for task in all_tasks([entry for entry in ENTRIES if entry.paper == paper]):
        assert task.axes.keys() == by_axis.keys(), task.name
        for axis, label in task.axes.items():
            assert label in by_axis[axis], task.name


def test_commands_are_understood():
    for task in all_tasks(ENTRIES):
        given = parse(task.command("DIR", "vectors.txt"))
        assert given.recipe.endswith(f"{task.entry.paper}.yaml")
        assert (given.vectors == "vectors.txt") == task.entry.vectors


def test_no_cell_stands_twice():
    names = [task.name for task in all_tasks(ENTRIES)]
    assert len(names) == len(set(names))


def test_what_is_left_out_is_not_run():
    entry = Entry("p", {"data": "SST"}, [1, 2], 3.0, vary={"projection": ["a", "b"]}, left_out="time")
    assert [task.seed for task in all_tasks([entry])] == [1, 1, 2, 2]
    assert tasks([entry]) == []
    entry = Entry("p", {"data": "SST"}, [1], 3.0, later=[2])
    assert [task.seed for task in tasks([entry])] == [1]
    assert [task.seed for task in all_tasks([entry])] == [1, 2]


def test_settings_are_written_as_flags():
    entry = Entry("p", {"data": "SST"}, [1], 3.0, limit={"test": 5}, vectors=False, set={"train.epochs": 2})
    command = Task(entry, {"data": "SST"}, 7).command("DIR", "v")
    assert command[-4:] == ["--set", "train.epochs=2", "--set", "data.limit={test: 5}"]
    assert "--vectors" not in command
