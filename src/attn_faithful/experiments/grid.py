"""From a recipe to its cells: the combinations of its grid and seeds, each with a folder of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.experiments.identity import cell_identity, digest
from attn_faithful.experiments.recipe import VALUE, WITH, DataSettings, Recipe, assign, make_recipe
from attn_faithful.experiments.strict_yaml import build
from attn_faithful.training.twin import TwinSettings

# keys of a recipe that may name a file or folder
_FILES = ((("data",), "source"), (("vectors",), "path"), (("data", "mock"), "positive"), (("data", "mock"), "negative"))


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
    def twins(self) -> list[tuple[TwinSettings, int]]:
        """Settings and seed of every twin, the recipe's own first."""
        twin = self.recipe.twin
        if twin is None:
            return []
        seeds = self.recipe.twin_seeds or [self.seed]
        every = [twin, *(build(TwinSettings, {**asdict(twin), **v}, "variants") for v in self.recipe.variants)]
        return [(settings, seed) for settings in every for seed in seeds]

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
    cells: dict[str, Cell] = {}
    labels: dict[str, set[str]] = {}
    raw = asdict(replace(recipe, grid={}, expected=None, smoke={}))
    for values in itertools.product(*recipe.grid.values()):
        resolved = json.loads(json.dumps(raw))
        axes: dict[str, str] = {}
        for key, value in zip(recipe.grid, values, strict=True):
            axes[key.split(".")[-1]] = _label(value)
            # what goes with this value alone: its tokenizer, its epochs
            further = value.get(WITH, {}) if isinstance(value, Mapping) else {}
            own = {name: v for name, v in value.items() if name != WITH} if isinstance(value, Mapping) else value
            if isinstance(own, Mapping) and VALUE in own:  # a number or a word with a name of its own
                own = own[VALUE]
            for name, given in {key: own, **further}.items():
                assign(resolved, name, given, f"{recipe.name}: grid")
        one = make_recipe(resolved, f"{recipe.name}: grid")
        one = replace(one, data=_local(one, data_dir))
        shown = {"data": _data_name(one.data), "encoder": one.model.get("encoder", "lstm")}
        axes = {**shown, **axes}
        for axis, label in axes.items():
            labels.setdefault(axis, set()).add(label)
        if only and any(axes.get(axis) not in wanted for axis, wanted in only.items()):
            continue
        for seed in one.seeds:
            cell = Cell(replace(one, seeds=[seed]), axes, seed, _folder(one, axes, seed))
            cells[cell.folder] = cell
    for axis, wanted in (only or {}).items():
        if axis not in labels:
            raise InputError(f"--only: there is no axis {axis!r}; this recipe has {', '.join(labels)}.")
        if unknown := set(wanted) - labels[axis]:
            raise InputError(f"--only: {axis} has no {min(unknown)!r}; it has {', '.join(sorted(labels[axis]))}.")
    return list(cells.values())


def _label(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("source") or ",".join(f"{k}={v}" for k, v in value.items()))
    return str(value)


def _local(recipe: Recipe, data_dir: str | Path | None) -> Any:
    data = recipe.data
    if data_dir is None or data.folder is None or not (Path(data_dir) / data.folder).is_dir():
        return data
    found = {
        **asdict(data),
        **(data.local or {}),
        "source": str(Path(data_dir) / data.folder),
        "name": _data_name(data),
    }
    return build(DataSettings, found, f"{recipe.name}: data: local")


def _data_name(data: DataSettings) -> str:
    """What tables call the data: a file without its ending, a Hub id without its owner."""
    path = Path(data.source)
    return data.name or (path.stem if path.is_file() else path.name)


def _folder(recipe: Recipe, axes: Mapping[str, str], seed: int) -> str:
    # what only says how to talk about a cell must not make it stale
    settings = asdict(replace(recipe, name="run", claim="", expected=None, grid={}, smoke={}, seeds=[seed]))
    for told in ("folder", "local"):  # used up when the source was chosen
        settings["data"].pop(told)
    for place, key in _FILES:
        given = settings[place[0]] if len(place) == 1 else settings[place[0]].get(place[1]) or {}
        if given.get(key) and Path(given[key]).exists():
            given[key] = digest(Path(given[key]))  # what a file holds counts, not where it lies
    return cell_identity(settings).folder([*axes.values(), str(seed)])
