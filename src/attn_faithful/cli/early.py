"""What can be told of a command without torch: files that are not there, names that nobody knows.

Loading the libraries takes seconds; a misspelt name should not. Whatever passes here is checked again in full.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful import names
from attn_faithful._checks import Faults, InputError, check_choice, did_you_mean
from attn_faithful.cli.flags import data_overrides, listed, numbers, recipe_overrides

_CONFIGURATION = "config.json"
_SPLITS = ("train", "validation", "test")
_COUNTS = ("limit", "batch_size", "epochs", "twin_epochs", "processes", "learning_rate")  # positive


def evaluate(given: argparse.Namespace) -> None:
    """Check the flags of ``evaluate``."""
    _model(given.model)
    _source(given.data)
    _choices("test", None if given.tests == "all" else given.tests, names.TESTS)
    _choices("control", given.controls, names.NULL_ATTENTIONS)
    _choice("queries", given.queries, names.QUERIES)
    _choice("units", given.units, names.UNITS)
    _folder(given.name)
    _file("--source-file", given.source_file)
    _choice("split", given.split, _SPLITS)
    _everywhere(given)
    _keys(data_overrides(given))


def explain(given: argparse.Namespace) -> None:
    """Check the flags of ``explain``."""
    _model(given.model)
    _choices("source", given.sources, names.SOURCES)


def train(given: argparse.Namespace) -> None:
    """Check the flags of ``train``."""
    _source(given.data)
    _choices("encoder", given.encoder, names.ENCODERS)
    _choice("attention", given.attention, names.ATTENTIONS)
    _choice("projection", given.projection, names.PROJECTIONS)
    _choice("parallel", given.parallel, names.PARALLEL)
    _file("--vectors", given.vectors)
    _folder(given.name)
    _everywhere(given)
    _keys(recipe_overrides(given))


def attefa(given: argparse.Namespace) -> None:
    """Check the flags of ``attefa``."""
    numbers("--layers", given.layers, int)
    numbers("--twin-seeds", given.twin_seeds, int)
    numbers("--weights", given.weights, float)
    _choices("control", given.controls, names.TRAINED_CONTROLS)
    if given.model is None:
        train(given)
        return
    _model(given.model)
    _source(given.data)
    _folder(given.name)
    _everywhere(given)
    _keys(data_overrides(given), {**names.KEYS, "twin": names.STOCK_TWIN})


def run(given: argparse.Namespace) -> None:
    """Check the flags of ``run``, and the recipe's keys."""
    _recipe(given.recipe)
    _recipe_flags(given)


def check(given: argparse.Namespace) -> None:
    """Check the flags of ``check``, and the recipe's keys or that the data are there."""
    from attn_faithful.experiments.recipe_file import find_recipe

    faults = Faults(collect=True)
    of_recipe = find_recipe(given.what).suffix in (".yaml", ".yml")
    faults.gather(lambda: _recipe(given.what) if of_recipe else _source(given.what))
    if given.model is not None:
        faults.gather(lambda: _model(given.model))
    faults.gather(lambda: _choice("split", given.split, _SPLITS))
    faults.gather(lambda: _everywhere(given))
    faults.gather(lambda: _choice("parallel", given.parallel, names.PARALLEL))
    faults.gather(lambda: _file("--vectors", given.vectors))
    faults.gather(lambda: _keys(recipe_overrides(given)))
    faults.raise_all()


def _recipe_flags(given: argparse.Namespace) -> None:
    _everywhere(given)
    _choice("parallel", given.parallel, names.PARALLEL)
    _file("--vectors", given.vectors)
    _keys(recipe_overrides(given))


def _everywhere(given: argparse.Namespace) -> None:
    """The flags that every command with texts shares, and other numbers."""
    faults = Faults(collect=True)
    for name in _COUNTS:
        value = getattr(given, name, None)
        if value is not None and not (value > 0 and math.isfinite(value)):
            faults.add(InputError(f"--{name.replace('_', '-')} must be positive, but is {value}."))
    faults.gather(lambda: _seeds(given.seeds))
    output = Path(given.output).expanduser()
    held = next((part for part in (output, *output.parents) if part.exists()), None)
    if held is not None and not held.is_dir():
        faults.add(InputError(f"--output: {held} is a file and no folder; choose another."))
    faults.raise_all()


def _seeds(text: str | None) -> None:
    given = numbers("--seeds", text, int) or []
    if len(set(given)) < len(given):
        raise InputError(f"--seeds expects different numbers, but got {text!r}.")


def _recipe(path: str) -> None:
    from attn_faithful.experiments.recipe_file import find_recipe, read_recipe

    raw, where = read_recipe(path), str(find_recipe(path))
    faults = Faults(collect=True)
    for part, known in names.KEYS.items():
        place: Any = raw
        for name in part.split(".") if part else ():
            place = place.get(name) if isinstance(place, dict) else None
        if isinstance(place, dict):
            said = ": ".join([where, *part.split(".")]) if part else where
            faults.gather(partial(_known, place, known, said))
    for part in ("grid", "smoke"):
        if isinstance(raw.get(part), dict):
            faults.gather(partial(_keys, raw[part], where=f"{where}: {part}"))
    faults.raise_all()


def _known(keys: Iterable[object], known: Iterable[str], where: str) -> None:
    faults = Faults(collect=True)
    for key in keys:
        if key not in known:
            faults.add(InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}"))
    faults.raise_all()


def _keys(given: Iterable[object], known: dict[str, tuple[str, ...]] = names.KEYS, where: str = "--set") -> None:
    """Check dotted keys of a recipe."""
    faults = Faults(collect=True)
    for key in given:
        owner = ""
        for part in str(key).split("."):
            if owner not in known:
                break
            if part not in known[owner]:
                faults.add(InputError(f"{where}: unknown key {key!r}.{did_you_mean(part, known[owner])}"))
                break
            owner = f"{owner}.{part}" if owner else part
    faults.raise_all()


def _choices(what: str, text: str | None, known: Iterable[str]) -> None:
    for name in listed(text) or ():
        check_choice(what, name, known)


def _choice(what: str, name: str | None, known: Iterable[str]) -> None:
    if name is not None:
        check_choice(what, name, known)


def _file(flag: str, path: str | None) -> None:
    if path is not None and not Path(path).expanduser().is_file():
        raise InputError(f"{flag}: there is no file {path}; check the path.")


def _folder(name: str | None) -> None:
    from attn_faithful.experiments.recipe_file import check_folder_name

    if name is not None:
        check_folder_name("name", name)


def _source(source: str) -> None:
    from attn_faithful.data.files.paths import check_there

    check_there(source)


def _model(path: str) -> None:
    """As `api.load` would say it; and what to give where a run folder was meant."""
    folder = Path(path)
    if not folder.exists():
        if path.count("/") != 1 or path.startswith((".", "/", "~")) or path.endswith("/"):
            raise InputError(
                f"There is no folder {path}; give the folder of a saved model or a Hub id such as user/name."
            )
        return
    if not (folder / _CONFIGURATION).is_file():
        inside = folder / "model"
        hint = f"give {inside}" if (inside / _CONFIGURATION).is_file() else "give the folder of a saved model"
        raise InputError(f"{path} holds no {_CONFIGURATION}, so it is no saved model; {hint}.")
