"""The command ``check``: the faults of a recipe, of a data set, or of a data set for a trained model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, recipe_overrides
from attn_faithful.cli.looking import say, show
from attn_faithful.cli.training import only


def check(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe_file import find_recipe

    is_recipe = str(find_recipe(given.what)).endswith((".yaml", ".yml"))
    if given.model is None:
        _check_cells(given, is_recipe)
    elif is_recipe:
        raise InputError("--model goes with a data set, which the model is to be tested on, and not with a recipe.")
    else:
        _check_for_model(given)


def _check_cells(given: argparse.Namespace, is_recipe: bool) -> None:
    """The data, vectors and models of a recipe's cells, and how long they will take."""
    from attn_faithful.experiments.check import check_cells
    from attn_faithful.experiments.estimate import estimate
    from attn_faithful.experiments.grid import expand
    from attn_faithful.experiments.recipe import load_recipe, make_recipe
    from attn_faithful.reports.tables.listings import plan_table
    from attn_faithful.reports.tables.models import data_table

    overrides = recipe_overrides(given)
    if is_recipe:
        recipe = load_recipe(given.what, overrides, given.smoke)
    else:
        recipe = make_recipe({"name": "check", "data": {"source": given.what}}, "check", overrides)
    cells = expand(recipe, given.data_dir, only(given.only))
    checked = check_cells(cells)
    estimates, prepared = estimate(cells)
    facts = [(data.texts.name, _facts(data)) for data in prepared]
    tables = [data_table(facts)]
    if is_recipe:
        rows = zip(cells, estimates, strict=True)
        plan = [(cell.title, cell.folder, cost.minutes, cost.megabytes) for cell, cost in rows]
        tables.append(plan_table(recipe.name, plan))
    show(tables)
    _conclude(checked.warnings)


def _facts(data: Any) -> Any:
    from attn_faithful.experiments.data_facts import data_facts

    return data_facts(data.texts, data.rows, data.tokenizer, vector_coverage=data.coverage)


def _check_for_model(given: argparse.Namespace) -> None:
    """Whether a trained model can be tested on a data set."""
    from attn_faithful.experiments.check import check_for_model
    from attn_faithful.experiments.quiet import quiet
    from attn_faithful.experiments.recipe import make_recipe
    from attn_faithful.loading import load
    from attn_faithful.reports.progress.remaining import duration
    from attn_faithful.reports.tables.models import data_table

    overrides = {key: value for key, value in data_overrides(given).items() if key.startswith("data.")}
    data = make_recipe({"name": "check", "data": {"source": given.what}}, "check", overrides).data
    with quiet():
        model, tokenizer = load(given.model, device=given.device)
    checked = check_for_model(model, tokenizer, data, given.split, given.model)
    show([data_table(checked.facts)])
    say(f"All tests on {checked.texts:,} texts: {duration(checked.seconds)} at most, measured on a few of them.")
    _conclude(checked.warnings)


def _conclude(warnings: Sequence[str]) -> None:
    """The last lines of ``check`` where there is no fault."""
    say(*(f"Warning: {warning}" for warning in warnings))
    counted = f", {len(warnings)} to look at" if warnings else ""
    say(f"No fault found{counted}.")
