"""From a recipe to its cells: the combinations of its grid and seeds, each with a folder of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments.control_plan import IMPOSED_TWIN, ControlPlan
from attn_faithful.experiments.identity import cell_identity, digest
from attn_faithful.experiments.recipe import VALUE, Recipe, assign, make_recipe
from attn_faithful.experiments.spellings import WITH, stored_grid_value, stored_key
from attn_faithful.experiments.strict_settings import build
from attn_faithful.experiments.twin_plan import TwinPlan

_FILES = ("data.source", "vectors.path", "data.mock.positive", "data.mock.negative")  # keys that may name a file


@dataclass(frozen=True)
class Cell:
    """One base model with its twins.

    Attributes:
        recipe: with one value a key; its grid is empty.
        axes: what tables call this cell: data, encoder and whatever else the grid varies -> label.
        seed: of the base.
        folder: name of its run folder, from what it is and a hash of everything that could change its numbers.
    """

    recipe: Recipe
    axes: dict[str, str]
    seed: int
    folder: str

    @property
    def title(self) -> str:
        return " ".join([*self.axes.values(), f"seed {self.seed}"])

    @property
    def twins(self) -> list[TwinPlan]:
        """Every twin, the recipe's own first."""
        seeds = self.recipe.twin_seeds or [self.seed]
        return [TwinPlan(*each) for each in itertools.product(self.recipe.twins(), seeds)]

    @property
    def controls(self) -> list[ControlPlan]:
        """The controls of Wiegreffe and Pinter that need no twin, in the recipe's order."""
        names = self.recipe.wiegreffe_pinter
        return [ControlPlan(name) for name in names if name != IMPOSED_TWIN]

    def controls_of(self, twin: TwinPlan) -> list[ControlPlan]:
        """The controls of Wiegreffe and Pinter that come after a twin, under its attention."""
        names = self.recipe.wiegreffe_pinter
        return [ControlPlan(name, twin) for name in names if name == IMPOSED_TWIN]

    @property
    def stages(self) -> dict[str, int]:
        """Its trainings by the names that progress gives them, in order -> epochs at most."""
        of_base = self.recipe.train.epochs
        stages = {"base": of_base}
        for control in self.controls:
            stages[control.name] = of_base
        for twin in self.twins:
            stages[twin.stage] = twin.settings.epochs
            for control in self.controls_of(twin):
                stages[control.name] = of_base
        return stages

    def seed_of(self, *purpose: object) -> int:
        """A seed for one purpose; small enough for every library."""
        return seed_for(self.seed, *purpose) % 2**31


def expand(
    recipe: Recipe, data_dir: str | Path | None = None, only: Mapping[str, Sequence[str]] | None = None
) -> list[Cell]:
    """All cells of a recipe, seeds innermost.

    Args:
        recipe: with its grid.
        data_dir: where local copies of the data sets lie, by the recipe's ``data.folder``.
        only: axis -> labels to keep.

    Raises:
        InputError: a value of the grid that does not fit, an axis or label of ``only`` that does not exist.
    """
    only = only or {}
    cells: dict[str, Cell] = {}
    labels: dict[str, set[str]] = {}
    for combination, axes in _combinations(recipe):
        local = replace(combination, data=_local(combination, data_dir))
        axes = {"data": _data_name(local.data), "encoder": local.model.get("encoder", "lstm"), **axes}
        for axis, label in axes.items():
            labels.setdefault(axis, set()).add(label)
        is_wanted = all(axes.get(axis) in labels_wanted for axis, labels_wanted in only.items())
        if not is_wanted:
            continue
        for seed in local.seeds:
            cell = Cell(replace(local, seeds=[seed]), axes, seed, _folder(local, axes, seed))
            cells[cell.folder] = cell
    _check_only(only, labels)
    return list(cells.values())


def _combinations(recipe: Recipe) -> Iterator[tuple[Recipe, dict[str, str]]]:
    """A recipe with one value a key for each combination of the grid's values, and the labels of these."""
    where = f"{recipe.name}: grid"
    raw = json.dumps(asdict(replace(recipe, grid={}, expected=None, smoke={})))
    for values in itertools.product(*recipe.grid.values()):
        keys = json.loads(raw)
        axes: dict[str, str] = {}
        for key, value in zip(recipe.grid, values, strict=True):
            axes[stored_key(key).rpartition(".")[2]] = _label(stored_grid_value(key, value))
            for name, setting in _settings_of(key, value).items():
                assign(keys, name, setting, where)
        yield make_recipe(keys, where), axes


def _settings_of(key: str, value: Any) -> dict[str, Any]:
    """What a value of an axis sets, by dotted key: the axis itself, and what goes with this value alone."""
    if not isinstance(value, Mapping):
        return {key: value}
    settings: Any = {name: setting for name, setting in value.items() if name != WITH}
    if VALUE in settings:  # a number or a word with a name of its own
        settings = settings[VALUE]
    return {key: settings, **value.get(WITH, {})}


def _check_only(only: Mapping[str, Sequence[str]], labels: Mapping[str, set[str]]) -> None:
    for axis, wanted in only.items():
        if axis not in labels:
            raise InputError(f"--only: there is no axis {axis!r}; this recipe has {', '.join(labels)}.")
        unknown = set(wanted) - labels[axis]
        if unknown:
            raise InputError(f"--only: {axis} has no {min(unknown)!r}; it has {', '.join(sorted(labels[axis]))}.")


def _label(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    pairs = ",".join(f"{name}={setting}" for name, setting in value.items())
    return str(value.get("name") or value.get("source") or pairs)


def _local(recipe: Recipe, data_dir: str | Path | None) -> DataSettings:
    """The recipe's data, from its local copy where that exists."""
    data = recipe.data
    if data_dir is None or data.folder is None:
        return data
    folder = Path(data_dir) / data.folder
    if not folder.is_dir():
        return data
    settings = {**asdict(data), **(data.local or {}), "source": str(folder), "name": _data_name(data)}
    local: DataSettings = build(DataSettings, settings, f"{recipe.name}: data: local")
    return local


def _data_name(data: DataSettings) -> str:
    """What tables call the data: a file without its ending, a Hub id without its owner."""
    if data.name:
        return data.name
    path = Path(data.source)
    return path.stem if path.is_file() else path.name


def _folder(recipe: Recipe, axes: Mapping[str, str], seed: int) -> str:
    """The name of a cell's run folder."""
    # what only says how to talk about a cell must not make it stale
    silent = replace(recipe, name="run", claim="", expected=None, grid={}, smoke={}, seeds=[seed])
    settings = silent.on_disk()
    for name in ("folder", "local"):  # used up when the source was chosen
        settings["data"].pop(name)
    for key in _FILES:
        _read_file(settings, key)
    return cell_identity(settings).folder([*axes.values(), str(seed)])


def _read_file(settings: dict[str, Any], key: str) -> None:
    """Put the digest of a file in the place of its path: what it holds counts, not where it lies."""
    *parents, last = key.split(".")
    part = settings
    for parent in parents:
        part = part.get(parent) or {}
    path = part.get(last)
    if path and Path(path).exists():
        part[last] = digest(Path(path))
