"""The commands that train: ``run``, ``train``, ``attefa``; and ``check``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, listed, numbers, pair, recipe_overrides
from attn_faithful.cli.looking import FULL, say, show, show_answers
from attn_faithful.reports.characters import visible


def run(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe import load_recipe

    _carry_out(load_recipe(given.recipe, recipe_overrides(given), given.smoke), given)


def train(given: argparse.Namespace) -> None:
    _carry_out(_single_recipe(given, twin=False), given)


def attefa(given: argparse.Namespace) -> None:
    if given.model is not None:
        _stock_attefa(given)
    else:
        _carry_out(_single_recipe(given, twin=True), given)


def _stock_attefa(given: argparse.Namespace) -> None:
    """Twins of a transformers classifier that is trained already."""
    from functools import partial
    from pathlib import Path
    from types import SimpleNamespace

    from attn_faithful.api import load
    from attn_faithful.experiments.recipe import make_recipe
    from attn_faithful.experiments.run_cell import quiet
    from attn_faithful.experiments.run_stock_twins import stock_attefa, twin_settings
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning, told
    from attn_faithful.reports.aggregate import aggregate
    from attn_faithful.reports.progress.progress import Progress
    from attn_faithful.reports.result import Result
    from attn_faithful.reports.tables.table import attefa_table, base_table

    found = data_overrides(given)
    for key in found:
        if not key.startswith(("data.", "twin.")):
            raise InputError(f"--set {key}: attefa of a trained model takes keys of data and twin only.")
    twin = {key.removeprefix("twin."): value for key, value in found.items() if key.startswith("twin.")}
    flags = {
        "epochs": given.twin_epochs,
        "learning_rate": given.learning_rate,
        "batch_size": given.batch_size,
        "layers": numbers("--layers", given.layers, int),
        "max_tvd": given.max_tvd,
        "objective": None if given.max_tvd is None else "constrained",
    }
    twin = {key: value for key, value in flags.items() if value is not None} | twin
    if given.smoke:
        twin["epochs"] = 1
        found.setdefault("data.limit", 64)
    settings = twin_settings(twin)
    data = {key: value for key, value in found.items() if key.startswith("data.")}
    recipe = make_recipe({"name": given.name or "attefa", "data": {"source": given.data}}, "attefa", data)
    with quiet():
        model, tokenizer = load(given.model)
    if not model.layered:
        raise InputError(
            f"{given.model} is one of our own models; leave --model out, and attefa trains it and its twin."
        )
    warnings.simplefilter("ignore", UndefinedTextWarning)  # said below, of finished runs too
    cell = SimpleNamespace(title=f"{model.config.model_type} on {given.data}")
    with Progress([cell]) as progress:
        folder = stock_attefa(
            model,
            tokenizer,
            recipe.data,
            settings,
            seeds=numbers("--twin-seeds", given.twin_seeds, int) or [0],
            output=Path(given.output) / recipe.name,
            origin=given.model,
            on_progress=partial(progress.update, cell),
        )
    records = aggregate([folder])
    result = Result(folder.path)
    rest = result.tables() if given.full else []
    show_answers(records, [base_table(records), attefa_table(records), *rest], "" if given.full else FULL)
    say(*(f"Note: {note}" for note in result.meta["data"]["notes"]))
    say(f"Run folder: {folder.path}")
    if failed := result.meta.get("failed"):
        said = told(failed, result.meta["data"]["test"]["n"])
        print(f"attn-faithful: {visible(said)}", file=sys.stderr)


def _single_recipe(given: argparse.Namespace, twin: bool) -> Any:
    from attn_faithful.experiments.recipe import make_recipe

    encoders = listed(given.encoder) or ["lstm"]
    model = {name: getattr(given, name) for name in ("attention", "projection") if getattr(given, name) is not None}
    raw: dict[str, Any] = {
        "name": given.name or ("attefa" if twin else "train"),
        "data": {"source": given.data},
        "model": model,
        "grid": {"model.encoder": encoders},
        "smoke": {"train.epochs": 1, "twin.epochs": 1, "data.limit": 200}
        if twin
        else {"train.epochs": 1, "data.limit": 200},
    }
    if given.epochs is not None:
        raw.setdefault("train", {})["epochs"] = given.epochs
    if given.learning_rate is not None:
        raw.setdefault("train", {})["learning_rate"] = given.learning_rate
    overrides = recipe_overrides(given)
    if not twin:
        raw["twin"] = None
        overrides = {key: value for key, value in overrides.items() if not key.startswith("twin.")}
        return make_recipe(raw, "train", overrides, given.smoke)
    settings = {"epochs": given.twin_epochs, "learning_rate": given.learning_rate}
    raw["twin"] = {key: value for key, value in settings.items() if value is not None}
    raw["twin_seeds"] = numbers("--twin-seeds", given.twin_seeds, int)
    weights = numbers("--weights", given.weights, float) or []
    raw["variants"] = [{"weight": weight} for weight in weights if weight != 1]
    if given.max_tvd is not None:
        raw["variants"].append({"objective": "constrained", "max_tvd": given.max_tvd})
    raw["controls"] = listed(given.controls) or []
    return make_recipe(raw, "attefa", overrides, given.smoke)


def only(texts: Sequence[str]) -> dict[str, list[str]]:
    return {axis: labels.split(",") for axis, labels in (pair("--only", text) for text in texts)}


def _carry_out(recipe: Any, given: argparse.Namespace) -> None:
    from dataclasses import asdict
    from pathlib import Path

    from attn_faithful.api import carry_out
    from attn_faithful.reports.tables.catalogue import recipe_tables, short_tables
    from attn_faithful.reports.tables.trends import trends

    chosen = only(getattr(given, "only", []))
    data_dir = getattr(given, "data_dir", None)
    records, main = carry_out(recipe, given.output, data_dir, chosen, given.processes, given.parallel)
    if main:
        if given.full:
            show_answers(records, recipe_tables(records, trends(records), asdict(recipe)), "")
        else:
            show_answers(records, short_tables(records, asdict(recipe)), FULL)
        say(f"Run folders: {Path(given.output) / recipe.name}")


def check(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.check import check_cells
    from attn_faithful.experiments.estimate import estimate
    from attn_faithful.experiments.grid import expand
    from attn_faithful.experiments.prepare import statistics
    from attn_faithful.experiments.recipe import load_recipe, make_recipe
    from attn_faithful.experiments.recipe_file import find_recipe
    from attn_faithful.reports.tables.table import data_table, plan_table

    overrides = recipe_overrides(given)
    is_recipe = str(find_recipe(given.what)).endswith((".yaml", ".yml"))
    if given.model is not None:
        if is_recipe:
            raise InputError("--model goes with a data set, which the model is to be tested on, and not with a recipe.")
        _check_for_model(given)
        return
    if is_recipe:
        recipe = load_recipe(given.what, overrides, given.smoke)
    else:
        recipe = make_recipe({"name": "check", "data": {"source": given.what}}, "check", overrides)
    cells = expand(recipe, given.data_dir, only(given.only))
    checked = check_cells(cells)
    estimates, prepared = estimate(cells)
    facts = [{"axes": {"data": data.texts.name}, "data": statistics(data)} for data in prepared]
    plan = [(cell.title, cell.folder, e.minutes, e.megabytes) for cell, e in zip(cells, estimates, strict=True)]
    show([data_table(facts), plan_table(recipe.name, plan) if is_recipe else None])
    _verdict(checked.warnings)


def _check_for_model(given: argparse.Namespace) -> None:
    """Whether a trained model can be tested on a data set."""
    from attn_faithful.api import load
    from attn_faithful.experiments.check import check_for_model
    from attn_faithful.experiments.recipe import make_recipe
    from attn_faithful.experiments.run_cell import quiet
    from attn_faithful.reports.progress.remaining import duration
    from attn_faithful.reports.tables.table import data_table

    overrides = {key: value for key, value in data_overrides(given).items() if key.startswith("data.")}
    data = make_recipe({"name": "check", "data": {"source": given.what}}, "check", overrides).data
    with quiet():
        model, tokenizer = load(given.model)
    checked = check_for_model(model, tokenizer, data, given.split, given.model)
    show([data_table(checked.facts)])
    say(f"All tests on {checked.texts:,} texts: {duration(checked.seconds)} at most, measured on a few of them.")
    _verdict(checked.warnings)


def _verdict(warnings: Sequence[str]) -> None:
    """The last lines of ``check`` where there is no fault."""
    say(*(f"Warning: {warning}" for warning in warnings))
    counted = f", {len(warnings)} to look at" if warnings else ""
    print(f"No fault found{counted}.")
