"""The commands that train: ``run``, ``train``, ``attefa``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, listed, numbers, pair, recipe_overrides, set_flags
from attn_faithful.cli.looking import FULL, complain, say, show_answers, show_recommendations

_SMOKE = {"train.epochs": 1, "twin.epochs": 1, "data.limit": 200}
_SMOKE_TEXTS = 64  # of each split, where a trained model gets twins


def run(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe import load_recipe

    recipe = load_recipe(given.recipe, recipe_overrides(given), given.smoke)
    _carry_out(recipe, given, only(given.only), given.data_dir)


def train(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe import make_recipe

    overrides = _without_twin(recipe_overrides(given))
    recipe = {**_recipe_of_flags(given, "train"), "twin": None, "smoke": _without_twin(_SMOKE)}
    _carry_out(make_recipe(recipe, "train", overrides, given.smoke), given)


def _without_twin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys of a recipe but for those of its twins."""
    return {key: value for key, value in settings.items() if not key.startswith("twin.")}


def attefa(given: argparse.Namespace) -> None:
    if given.model is not None:
        _stock_attefa(given)
        return
    from attn_faithful.experiments.recipe import make_recipe

    weights = numbers("--weights", given.weights, float) or []
    variants: list[dict[str, Any]] = [{"weight": weight} for weight in weights if weight != 1]
    if given.max_tvd is not None:
        variants.append({"objective": "constrained", "max_tvd": given.max_tvd})
    recipe = {
        **_recipe_of_flags(given, "attefa"),
        "twin": set_flags({"epochs": given.twin_epochs, "learning_rate": given.learning_rate}),
        "twin_seeds": numbers("--twin-seeds", given.twin_seeds, int),
        "variants": variants,
        "wiegreffe_pinter": listed(given.wiegreffe_pinter) or [],
        "smoke": _SMOKE,
    }
    _carry_out(make_recipe(recipe, "attefa", recipe_overrides(given), given.smoke), given)


def _recipe_of_flags(given: argparse.Namespace, command: str) -> dict[str, Any]:
    """The recipe of one data set that the flags of ``train`` and ``attefa`` describe, without its twins."""
    recipe: dict[str, Any] = {
        "name": given.name or command,
        "data": {"source": given.data},
        "model": set_flags({"attention": given.attention, "projection": given.projection}),
        "grid": {"model.encoder": listed(given.encoder) or ["lstm"]},
    }
    settings = set_flags({"epochs": given.epochs, "learning_rate": given.learning_rate})
    if settings:
        recipe["train"] = settings
    return recipe


def only(texts: Sequence[str]) -> dict[str, list[str]]:
    """Axis -> labels of the cells that ``--only`` names."""
    pairs = [pair("--only", text) for text in texts]
    return {axis: labels.split(",") for axis, labels in pairs}


def _carry_out(
    recipe: Any, given: argparse.Namespace, chosen: dict[str, list[str]] | None = None, data_dir: str | None = None
) -> None:
    """Run the cells of a recipe and print its answers and tables."""
    from attn_faithful.api import carry_out
    from attn_faithful.reports.tables.catalogue import recipe_tables, short_tables

    groups, main = carry_out(
        recipe, given.output, data_dir, chosen, given.processes, given.parallel, device=given.device
    )
    if not main:
        return
    if given.full:
        show_answers(groups, recipe_tables(groups, recipe.on_disk()), "")
    else:
        show_answers(groups, short_tables(groups, recipe.on_disk()), FULL)
    say(f"Run folders: {Path(given.output) / recipe.name}")
    show_recommendations(groups)


# twins of a transformers classifier that is trained already


@dataclass(frozen=True)
class _Titled:
    """What the progress of the twins is shown for, as for the cell of a recipe."""

    title: str


def _stock_attefa(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.inputs import DataInput, ModelInput
    from attn_faithful.experiments.quiet import quiet
    from attn_faithful.experiments.run_stock_twins import stock_attefa
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
    from attn_faithful.loading import load
    from attn_faithful.reports.progress.progress import Progress

    recipe, settings = _stock_settings(given)
    with quiet():
        model, tokenizer = load(given.model, device=given.device)
    if not model.layered:
        raise InputError(
            f"{given.model} is one of our own models; leave --model out, and attefa trains it and its twin."
        )
    warnings.simplefilter("ignore", UndefinedTextWarning)  # told by _show_stock, of finished runs too
    cell = _Titled(f"{model.config.model_type} on {given.data}")
    with Progress([cell]) as progress:
        folder = stock_attefa(
            ModelInput(model, tokenizer, origin=given.model),
            DataInput(recipe.data),
            settings,
            seeds=numbers("--twin-seeds", given.twin_seeds, int) or [0],
            output=Path(given.output) / recipe.name,
            on_progress=partial(progress.update, cell),
        )
    _show_stock(folder, given.full)


def _stock_settings(given: argparse.Namespace) -> tuple[Any, Any]:
    """The recipe whose data the twins are trained on, and how they are trained."""
    from attn_faithful.experiments.recipe import make_recipe
    from attn_faithful.experiments.run_stock_twins import twin_settings

    overrides = data_overrides(given)
    for key in overrides:
        if not key.startswith(("data.", "twin.")):
            raise InputError(f"--set {key}: attefa of a trained model takes keys of data and twin only.")
    twin = set_flags(
        {
            "epochs": given.twin_epochs,
            "learning_rate": given.learning_rate,
            "batch_size": given.batch_size,
            "layers": numbers("--layers", given.layers, int),
            "max_tvd": given.max_tvd,
            "objective": None if given.max_tvd is None else "constrained",
        }
    )
    data: dict[str, Any] = {}
    for key, value in overrides.items():
        if key.startswith("twin."):
            twin[key.removeprefix("twin.")] = value
        else:
            data[key] = value
    if given.smoke:
        twin["epochs"] = 1
        data.setdefault("data.limit", _SMOKE_TEXTS)
    settings = twin_settings(twin)
    recipe = make_recipe({"name": given.name or "attefa", "data": {"source": given.data}}, "attefa", data)
    return recipe, settings


def _show_stock(folder: Any, full: bool) -> None:
    from attn_faithful.experiments.undefined_texts import failure_note
    from attn_faithful.reports.aggregate import aggregate
    from attn_faithful.reports.result import Result
    from attn_faithful.reports.tables.models import base_table
    from attn_faithful.reports.tables.twins import attefa_table

    result = Result(folder.path)
    groups = aggregate([result])
    tables = [base_table(groups), attefa_table(groups)]
    if full:
        show_answers(groups, [*tables, *result.tables()], "")
    else:
        show_answers(groups, tables, FULL)
    meta = result.info
    say(*(f"Note: {note}" for note in meta.data.notes))
    say(f"Run folder: {folder.path}")
    if meta.failed:
        complain(failure_note(meta.failed, meta.data.splits["test"]["n"]))
