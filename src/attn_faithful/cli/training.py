"""The commands that train: ``run``, ``train``, ``attefa``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_faithful.cli.flags import listed, numbers, pair, recipe_overrides, set_flags
from attn_faithful.cli.foreseeing import foresee_training
from attn_faithful.cli.looking import FULL, say_folders, show_answers, show_recommendations
from attn_faithful.cli.stock_training import fine_tune, stock_attefa

_SMOKE = {"train.epochs": 1, "twin.epochs": 1, "data.limit": 200}


def run(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe import load_recipe

    recipe = load_recipe(given.recipe, recipe_overrides(given), given.smoke)
    _carry_out(recipe, given, only(given.only), given.data_dir)


def train(given: argparse.Namespace) -> None:
    if given.model is not None:
        fine_tune(given)
        return
    from attn_faithful.experiments.recipe import make_recipe

    overrides = _without_twin(recipe_overrides(given))
    recipe = {**_recipe_of_flags(given, "train"), "twin": None, "smoke": _without_twin(_SMOKE)}
    _carry_out(make_recipe(recipe, "settings", overrides, given.smoke), given)


def _without_twin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys of a recipe but for those of its twins."""
    return {key: value for key, value in settings.items() if not key.startswith("twin.")}


def attefa(given: argparse.Namespace) -> None:
    if given.model is not None:
        stock_attefa(given)
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

    kept = foresee_training(recipe, given, chosen, data_dir)
    groups, main = carry_out(
        recipe, given.output, data_dir, chosen, given.processes, given.parallel, device=given.device, kept=kept
    )
    if not main:
        return
    if given.full:
        show_answers(groups, recipe_tables(groups, recipe.on_disk()), "")
    else:
        show_answers(groups, short_tables(groups, recipe.on_disk()), FULL)
    say_folders(Path(given.output) / recipe.name, [run.path for group in groups for run in group.runs])
    show_recommendations(groups)
