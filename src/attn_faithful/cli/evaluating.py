"""The commands that test a trained model: ``evaluate``, ``explain``."""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, joined, listed, numbers
from attn_faithful.cli.looking import FULL, say, show_answers
from attn_faithful.reports.characters import visible


def evaluate(given: argparse.Namespace) -> None:
    from pathlib import Path

    from attn_faithful.api import load
    from attn_faithful.experiments.recipe import check_folder_name
    from attn_faithful.experiments.run_cell import quiet
    from attn_faithful.experiments.run_evaluation import evaluate_task, make_task
    from attn_faithful.experiments.run_recipe import process_group
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning, told
    from attn_faithful.reports.progress.progress import Counter
    from attn_faithful.reports.result import Result

    check_folder_name("name", given.name)
    data, settings = _evaluation(given)
    with process_group(given.processes, "data") as processes:
        with quiet():
            model, tokenizer = load(given.model)
        for seed in numbers("--seeds", given.seeds, int) or [settings.seed]:
            task = make_task(
                model,
                tokenizer,
                data,
                replace(settings, seed=seed),
                given.split,
                source_file=given.source_file,
                origin=given.model,
            )
            warnings.simplefilter("ignore", UndefinedTextWarning)  # said below, of finished runs too
            with Counter(f"{task.name} on {task.texts.name}", processes.rank, processes.world) as counter:
                folder = evaluate_task(
                    task,
                    Path(given.output) / given.name,
                    chunk_size=given.batch_size,
                    processes=processes,
                    on_progress=counter.update,
                )
            if processes.main:
                result = Result(folder.path)
                tables = result.tables() if given.full else [result.short_table()]
                show_answers([{"runs": [folder.path]}], tables, "" if given.full else FULL)
                say(*(f"Note: {note}" for note in result.meta["data"]["notes"]))
                say(f"Run folder: {folder.path}")
                if failed := folder.read_meta().get("failed"):
                    said = told(failed, len(task.texts.splits[task.split]))
                    print(f"attn-faithful: {visible(said)}", file=sys.stderr)


def _evaluation(given: argparse.Namespace) -> tuple[Any, Any]:
    """The data and the tests that the flags of ``evaluate`` ask for."""
    from attn_faithful.experiments.recipe import make_recipe

    overrides = data_overrides(given)
    for key in overrides:
        if not key.startswith(("data.", "evaluation.")):
            raise InputError(f"--set {key}: evaluate takes keys of data and evaluation only.")
    names = {"tests": None if given.tests == "all" else given.tests, "controls": given.controls}
    flags: dict[str, Any] = {f"evaluation.{key}": listed(text) for key, text in names.items() if text is not None}
    single = {"target": given.target, "queries": given.queries, "units": given.units}
    flags |= {f"evaluation.{key}": value for key, value in single.items() if value is not None}
    if given.layers not in (None, "last"):
        sites = [f"layer.{part}" if part.isdigit() else part for part in listed(given.layers) or []]
        flags["evaluation.sites"] = sites
    overrides = joined(flags, overrides)
    if given.smoke:
        overrides.setdefault("data.limit", 64)
    recipe = make_recipe({"name": "evaluate", "data": {"source": given.data}}, "evaluate", overrides)
    return recipe.data, recipe.evaluation


def explain(given: argparse.Namespace) -> None:
    from rich.console import Console

    from attn_faithful import api
    from attn_faithful.data.training_texts import CAUTION
    from attn_faithful.experiments.run_cell import quiet

    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", api.TrainedOnWarning)  # said below
        model, tokenizer = api.load(given.model)
        chosen = listed(given.sources)
        found = api.explain(model, tokenizer, list(given.text), **({"sources": chosen} if chosen else {}))
    Console().print(found)
    say(*(f"Note: {note}" for note in found.run.meta["data"]["notes"] if note.startswith(CAUTION)))
    if given.html is not None:
        say(found.save(given.html))
