"""Training of transformers classifiers: ``train --model``, and the twins of ``attefa --model``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, joined, numbers, set_flags, split_keys
from attn_faithful.cli.looking import FULL, complain, say, say_folders, show_answers

_SMOKE_TEXTS = 64  # of each split
_NO_PAPER = {"claim": "", "expected": None}


@dataclass(frozen=True)
class _Titled:
    """What progress is shown for, as for the cell of a recipe."""

    title: str


# fine-tuning


def fine_tune(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.fine_tune_plan import FineTuning
    from attn_faithful.experiments.launcher import process_group
    from attn_faithful.experiments.run_fine_tuning import own_seeds, run_seeds
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
    from attn_faithful.reports.progress.progress import Progress

    recipe, settings = _fine_tune_settings(given)
    warnings.simplefilter("ignore", UndefinedTextWarning)  # told by _show_fine_tuned, of finished runs too
    with process_group(given.processes, given.parallel) as processes:
        tuning = FineTuning.of(given.model, recipe.data, settings, given.device)
        cells = {seed: _Titled(f"{tuning.title}, seed {seed}") for seed in own_seeds(recipe.seeds, processes)}
        with Progress(list(cells.values()), processes.rank, processes.world, kept=given.kept) as progress:

            def on_progress(seed: int, *facts: Any) -> None:
                if processes.main or not processes.together:
                    progress.update(cells[seed], *facts)

            def on_done(seed: int) -> None:
                progress.finish(cells[seed])

            output = Path(given.output) / recipe.name
            folders = run_seeds(tuning, recipe.seeds, output, on_progress, on_done, processes)
        if processes.main:
            _show_fine_tuned(folders, output, given.full)


def _fine_tune_settings(given: argparse.Namespace) -> tuple[Any, Any]:
    """The recipe whose data and seeds are trained with, and how."""
    from attn_faithful.experiments.fine_tune_plan import fine_tune_settings
    from attn_faithful.experiments.recipe import make_recipe

    flags = {
        "train.epochs": given.epochs,
        "train.learning_rate": given.learning_rate,
        "train.batch_size": given.batch_size,
    }
    overrides = joined(set_flags(flags), data_overrides(given))
    data, training = split_keys(overrides, "train of a transformers model", "train")
    if given.smoke:
        training["epochs"] = 1
        data.setdefault("data.limit", _SMOKE_TEXTS)
    settings = fine_tune_settings(training)
    raw = {"name": given.name or "train", "data": {"source": given.data}}
    seeds = set_flags({"seeds": numbers("--seeds", given.seeds, int)})
    recipe = make_recipe({**raw, **seeds}, "train", data)
    return recipe, settings


def _show_fine_tuned(folders: Sequence[Any], output: Path, full: bool) -> None:
    from attn_faithful.reports.aggregate import aggregate
    from attn_faithful.reports.run import Run
    from attn_faithful.reports.tables.catalogue import recipe_tables, short_tables

    runs = [Run(folder.path) for folder in folders]
    groups = aggregate(runs)
    if full:
        show_answers(groups, recipe_tables(groups, _NO_PAPER), "")
    else:
        show_answers(groups, short_tables(groups, _NO_PAPER), FULL)
    _end(runs[0].info, output, [run.path for run in runs])


# twins of a transformers classifier that is trained already


def stock_attefa(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.inputs import DataInput, ModelInput
    from attn_faithful.experiments.quiet import quiet
    from attn_faithful.experiments.run_stock_twins import stock_attefa as train_twins
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
    from attn_faithful.loading import load
    from attn_faithful.reports.progress.progress import Progress

    recipe, settings = _twin_settings(given)
    with quiet():
        model, tokenizer = load(given.model, device=given.device)
    if not model.layered:
        raise InputError(
            f"{given.model} is one of our own models; leave --model out, and attefa trains it and its twin."
        )
    warnings.simplefilter("ignore", UndefinedTextWarning)  # told by _show_twins, of finished runs too
    cell = _Titled(f"{model.config.model_type} on {given.data}")
    with Progress([cell], kept=given.kept) as progress:
        folder = train_twins(
            ModelInput(model, tokenizer, origin=given.model),
            DataInput(recipe.data),
            settings,
            seeds=numbers("--twin-seeds", given.twin_seeds, int) or [0],
            output=Path(given.output) / recipe.name,
            on_progress=partial(progress.update, cell),
        )
    _show_twins(folder, given.full)


def _twin_settings(given: argparse.Namespace) -> tuple[Any, Any]:
    """The recipe whose data the twins are trained on, and how they are trained."""
    from attn_faithful.experiments.recipe import make_recipe
    from attn_faithful.experiments.run_stock_twins import twin_settings

    data, of_twin = split_keys(data_overrides(given), "attefa of a trained model", "twin")
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
    twin |= of_twin
    if given.smoke:
        twin["epochs"] = 1
        data.setdefault("data.limit", _SMOKE_TEXTS)
    settings = twin_settings(twin)
    recipe = make_recipe({"name": given.name or "attefa", "data": {"source": given.data}}, "attefa", data)
    return recipe, settings


def _show_twins(folder: Any, full: bool) -> None:
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
    _end(result.info, folder.path.parent, [folder.path])


# what both end with


def _end(meta: Any, parent: object, folders: Sequence[object]) -> None:
    """Print notes of the data, where the runs lie, and how many texts could not be read."""
    from attn_faithful.experiments.undefined_texts import failure_note

    say(*(f"Note: {note}" for note in meta.data.notes))
    say_folders(parent, folders)
    if meta.failed:
        complain(failure_note(meta.failed, meta.data.splits["test"]["n"]))
