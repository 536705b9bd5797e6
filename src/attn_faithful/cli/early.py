"""Faults of a command that are found without torch: files that are missing, names that nobody knows.

Loading the libraries takes seconds; a misspelt name should not. Whatever passes here is checked again in full.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful import names
from attn_faithful._checks import Faults, InputError, check_choice, check_device, did_you_mean
from attn_faithful.cli.flags import data_overrides, listed, numbers, recipe_overrides, split_keys
from attn_faithful.loading import check_there

_CONFIGURATION = "config.json"
_SPLITS = ("train", "validation", "test")
_OF_OWN_MODELS = ("encoder", "attention", "projection", "vectors")
_WITH_A_BASE = {  # flags of attefa that a model which is there has no use for -> what to do instead
    "epochs": "give --twin-epochs for its twins",
    "seeds": "give --twin-seeds for its twins",
    "weights": "give one with --set twin.weight=X",
    "wiegreffe_pinter": "train a model of our own",
}
_POSITIVE = ("limit", "fit_texts", "batch_size", "chunk_size", "epochs", "twin_epochs", "processes", "learning_rate")


# the commands


def evaluate(given: argparse.Namespace) -> None:
    """Check the flags of ``evaluate``."""
    _check_model(given.model)
    _check_source(given.data)
    if given.fit_data is not None:
        _check_source(given.fit_data)
    if given.tests != "all":
        _check_names("test", given.tests, names.TESTS)
    _check_names("control", given.controls, names.NULL_ATTENTIONS)
    _check_name("queries", given.queries, names.QUERIES)
    _check_name("units", given.units, names.UNITS)
    _check_name("dtype", given.dtype, names.DTYPES)
    _check_folder(given.name)
    _check_file("--source-file", given.source_file)
    _check_name("split", given.split, _SPLITS)
    _check_common(given)
    _check_keys(data_overrides(given))


def explain(given: argparse.Namespace) -> None:
    """Check the flags of ``explain``."""
    _check_model(given.model)
    _check_names("source", given.sources, names.SOURCES)
    check_device(given.device, names.DEVICES)


def compare(given: argparse.Namespace) -> None:
    """Check the flags of ``compare``."""
    if len(given.run) > 2:
        raise InputError(
            f"Expected two runs, or one with twins, but got {len(given.run)}; compare two at a time, or take "
            "attn-faithful report for tables of all."
        )
    if given.output is not None and Path(given.output).is_dir():
        raise InputError(f"--output: expected the name of a file, but {given.output} is a folder; name a file in it.")


def train(given: argparse.Namespace) -> None:
    """Check the flags of ``train``."""
    if given.model is not None:
        _check_fine_tuning(given)
        return
    _check_source(given.data)
    _check_names("encoder", given.encoder, names.ENCODERS)
    _check_name("attention", given.attention, names.ATTENTIONS)
    _check_name("projection", given.projection, names.PROJECTIONS)
    _check_folder(given.name)
    _check_training(given).raise_all()


def attefa(given: argparse.Namespace) -> None:
    """Check the flags of ``attefa``."""
    numbers("--layers", given.layers, int)
    numbers("--twin-seeds", given.twin_seeds, int)
    numbers("--weights", given.weights, float)
    _check_names("control", given.wiegreffe_pinter, names.WIEGREFFE_PINTER)
    if given.model is None:
        if given.layers is not None:
            raise InputError("--layers is of the twins of a transformers model; give the model with --model.")
        train(given)
        return
    _check_stock(given)
    for name, instead in _WITH_A_BASE.items():
        if getattr(given, name) is not None:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag} goes with a base that is to be trained, not with --model; {instead}.")
    _check_common(given)
    _check_keys(data_overrides(given), {**names.KEYS, "twin": names.STOCK_TWIN})


def _check_fine_tuning(given: argparse.Namespace) -> None:
    """Check the flags of ``train --model``."""
    _check_stock(given)
    _check_common(given)
    _check_name("parallel", given.parallel, names.PARALLEL)
    overrides = data_overrides(given)
    split_keys(overrides, "train of a transformers model", "train")
    _check_keys(overrides, {**names.KEYS, "train": names.FINE_TUNE})


def _check_stock(given: argparse.Namespace) -> None:
    """The model and data of a command that trains a transformers model, and flags that go with our own models alone."""
    for name in _OF_OWN_MODELS:
        if getattr(given, name) is not None:
            raise InputError(
                f"--{name} describes a model of our own that is to be built, and --model names one that is there; "
                "leave one of the two out."
            )
    _check_model(given.model)
    _check_source(given.data)
    _check_folder(given.name)


def bench(given: argparse.Namespace) -> None:
    """Check the flags of ``bench``."""
    if given.set is not None:
        check_there(given.set)
        if given.smoke:
            raise InputError("--smoke makes a small set, and a set is named here; leave one of the two out.")
    if given.source_file is not None and given.metric is not None:
        raise InputError("--source-file enters an explanation and --metric a test; enter one at a time.")
    if given.source_file is not None or given.metric is not None:
        for flag in ("no_twins", "make_only"):
            if getattr(given, flag):
                name = flag.replace("_", "-")
                raise InputError(f"--{name} is of the package's own tests, not of what is entered; leave it out.")
    _check_file("--source-file", given.source_file)
    _check_folder(given.name)
    check_device(given.device, names.DEVICES)
    _check_output(given.output)


def run(given: argparse.Namespace) -> None:
    """Check the flags of ``run``, and the recipe's keys."""
    _check_recipe(given.recipe)
    _check_training(given).raise_all()


def check(given: argparse.Namespace) -> None:
    """Check the flags of ``check``, and the recipe's keys or that the data are there."""
    from attn_faithful.experiments.recipe_file import find_recipe

    faults = Faults(collect=True)
    is_recipe = find_recipe(given.what).suffix in (".yaml", ".yml")
    faults.gather(partial(_check_recipe if is_recipe else _check_source, given.what))
    if given.model is not None:
        faults.gather(partial(_check_model, given.model))
    faults.gather(partial(_check_name, "split", given.split, _SPLITS))
    faults.gather(_check_training(given).raise_all)
    faults.raise_all()


# groups of flags


def _check_training(given: argparse.Namespace) -> Faults:
    """The faults of flags that every command with training shares."""
    faults = Faults(collect=True)
    faults.gather(partial(_check_common, given))
    faults.gather(partial(_check_name, "parallel", given.parallel, names.PARALLEL))
    faults.gather(partial(_check_file, "--vectors", given.vectors))
    faults.gather(lambda: _check_keys(recipe_overrides(given)))
    return faults


def _check_common(given: argparse.Namespace) -> None:
    """The flags that every command with texts shares, and other numbers."""
    faults = Faults(collect=True)
    for name in _POSITIVE:
        value = getattr(given, name, None)
        if value is not None and not (value > 0 and math.isfinite(value)):
            faults.add(InputError(f"--{name.replace('_', '-')} must be positive, but is {value}."))
    faults.gather(partial(check_device, given.device, names.DEVICES))
    faults.gather(partial(_check_seeds, given.seeds))
    faults.gather(partial(_check_output, given.output))
    faults.raise_all()


def _check_seeds(text: str | None) -> None:
    seeds = numbers("--seeds", text, int) or []
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds expects different numbers, but got {text!r}.")


def _check_output(path: str) -> None:
    output = Path(path).expanduser()
    nearest = next((part for part in (output, *output.parents) if part.exists()), None)
    if nearest is not None and not nearest.is_dir():
        raise InputError(f"--output: {nearest} is a file and no folder; choose another.")


# recipes


def _check_recipe(path: str) -> None:
    """The keys of a recipe's parts, of its grid and of its smoke overrides."""
    from attn_faithful.experiments.recipe_file import find_recipe, read_recipe

    recipe = read_recipe(path)
    where = str(find_recipe(path))
    faults = Faults(collect=True)
    for part, known in names.KEYS.items():
        parents = part.split(".") if part else []
        settings = _part(recipe, parents)
        if isinstance(settings, dict):
            faults.gather(partial(_check_known, settings, known, ": ".join([where, *parents])))
    for part in ("grid", "smoke"):
        if isinstance(recipe.get(part), dict):
            faults.gather(partial(_check_keys, recipe[part], where=f"{where}: {part}"))
    faults.raise_all()


def _part(recipe: dict[str, Any], parents: Iterable[str]) -> Any:
    part: Any = recipe
    for name in parents:
        part = part.get(name) if isinstance(part, dict) else None
    return part


def _check_known(keys: Iterable[object], known: Iterable[str], where: str) -> None:
    faults = Faults(collect=True)
    for key in keys:
        if key not in known:
            faults.add(InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}"))
    faults.raise_all()


def _check_keys(
    keys: Iterable[object], known: Mapping[str, tuple[str, ...]] = names.KEYS, where: str = "--set"
) -> None:
    """Check dotted keys of a recipe, by their old or present names."""
    from attn_faithful.experiments.spellings import Spelling

    spelling = Spelling(where)
    faults = Faults(collect=True)
    for key in keys:
        faults.gather(partial(_check_key, key, str(spelling.key(key)), known, where))
    faults.raise_all()


def _check_key(key: object, present: str, known: Mapping[str, tuple[str, ...]], where: str) -> None:
    part = ""
    for name in present.split("."):
        if part not in known:
            return
        if name not in known[part]:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(name, known[part])}")
        part = f"{part}.{name}" if part else name


# single flags


def _check_names(what: str, text: str | None, known: Iterable[str]) -> None:
    for name in listed(text) or ():
        check_choice(what, name, known)


def _check_name(what: str, name: str | None, known: Iterable[str]) -> None:
    if name is not None:
        check_choice(what, name, known)


def _check_file(flag: str, path: str | None) -> None:
    if path is not None and not Path(path).expanduser().is_file():
        raise InputError(f"{flag}: there is no file {path}; check the path.")


def _check_folder(name: str | None) -> None:
    from attn_faithful.experiments.recipe_file import check_folder_name

    if name is not None:
        check_folder_name("name", name)


def _check_source(source: str) -> None:
    from attn_faithful.data.files.paths import check_there as check_source_there

    check_source_there(source)


def _check_model(path: str) -> None:
    """The path of a saved model, and what to give where a run folder was meant."""
    check_there(path)
    folder = Path(path)
    if not folder.exists() or (folder / _CONFIGURATION).is_file():
        return
    inside = folder / "model"
    hint = "give the folder of a saved model"
    if (inside / _CONFIGURATION).is_file():
        hint = f"give {inside}"
    raise InputError(f"{path} holds no {_CONFIGURATION}, so it is no saved model; {hint}.")
