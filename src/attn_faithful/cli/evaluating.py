"""The commands that test a trained model: ``evaluate``, ``explain``."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.flags import data_overrides, joined, listed, numbers, set_flags
from attn_faithful.cli.foreseeing import foresee_tests
from attn_faithful.cli.looking import FULL, complain, say, show_answers, show_recommendations
from attn_faithful.schema import MARKS

_SMOKE_TEXTS = 64


def evaluate(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.evaluation_task import make_task
    from attn_faithful.experiments.inputs import DataInput, ModelInput
    from attn_faithful.experiments.launcher import process_group
    from attn_faithful.experiments.quiet import quiet
    from attn_faithful.experiments.recipe_file import check_folder_name
    from attn_faithful.experiments.undefined_texts import UndefinedTextWarning
    from attn_faithful.loading import load

    check_folder_name("name", given.name)
    data, settings = _data_and_tests(given)
    fit = None
    if given.fit_data is not None:
        unmarked = dict.fromkeys(MARKS)  # weights of heads are fitted without marks
        fit = DataInput(replace(data, source=given.fit_data, name=None, limit=None, **unmarked))
    warnings.simplefilter("ignore", UndefinedTextWarning)  # told by _show, of finished runs too
    with process_group(given.processes, "data") as processes:
        with quiet():
            model, tokenizer = load(given.model, device=given.device, dtype=given.dtype)
        for seed in numbers("--seeds", given.seeds, int) or [settings.seed]:
            task = make_task(
                ModelInput(model, tokenizer, origin=given.model),
                DataInput(data, None, given.split, given.source_file, fit=fit, fit_texts=given.fit_texts),
                replace(settings, seed=seed),
            )
            _run(task, given, processes)


def _run(task: Any, given: argparse.Namespace, processes: Any) -> None:
    """Run the tests of one seed; the main process shows the result."""
    from attn_faithful.experiments.run_evaluation import evaluate_task
    from attn_faithful.reports.progress.progress import Counter

    output = Path(given.output) / given.name
    kept = foresee_tests(task, output, given)
    title = f"{task.name} on {task.texts.name}"
    with Counter(title, processes.rank, processes.world, kept=kept) as counter:
        folder = evaluate_task(
            task,
            output,
            chunk_size=given.chunk_size,
            processes=processes,
            on_progress=counter.update,
        )
    if processes.main:
        _show(folder.path, len(task.texts.splits[task.split]), given.full)


def _show(folder: Path, texts: int, full: bool) -> None:
    from attn_faithful.experiments.undefined_texts import failure_note
    from attn_faithful.reports.groups import SeedRuns
    from attn_faithful.reports.result import Result

    result = Result(folder)
    models = [SeedRuns(result.axes, [result])]
    if full:
        show_answers(models, result.tables(), "")
    else:
        show_answers(models, [result.short_table()], FULL)
    say(*(f"Note: {note}" for note in result.info.data.notes))
    say(f"Run folder: {folder}")
    if result.info.failed:
        complain(failure_note(result.info.failed, texts))
    show_recommendations(models)


def _data_and_tests(given: argparse.Namespace) -> tuple[Any, Any]:
    """The data and the tests that the flags of ``evaluate`` ask for."""
    from attn_faithful.experiments.recipe import make_recipe

    overrides = data_overrides(given)
    for key in overrides:
        if not key.startswith(("data.", "evaluation.")):
            raise InputError(f"--set {key}: evaluate takes keys of data and evaluation only.")
    flags = {
        "evaluation.tests": None if given.tests == "all" else listed(given.tests),
        "evaluation.controls": listed(given.controls),
        "evaluation.target": given.target,
        "evaluation.queries": given.queries,
        "evaluation.units": given.units,
        "evaluation.sites": _sites(given.layers),
    }
    overrides = joined(set_flags(flags), overrides)
    if given.smoke:
        overrides.setdefault("data.limit", _SMOKE_TEXTS)
    recipe = make_recipe({"name": "evaluate", "data": {"source": given.data}}, "evaluate", overrides)
    return recipe.data, recipe.evaluation


def _sites(layers: str | None) -> list[str] | None:
    """The sites that ``--layers`` names; None for the last one."""
    if layers in (None, "last"):
        return None
    sites = []
    for part in listed(layers) or []:
        sites.append(f"layer.{part}" if part.isdigit() else part)
    return sites


def explain(given: argparse.Namespace) -> None:
    from rich.console import Console

    from attn_faithful import api
    from attn_faithful.data.training_texts import CAUTION
    from attn_faithful.experiments.quiet import quiet
    from attn_faithful.loading import load

    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", api.TrainedOnWarning)  # told below
        model, tokenizer = load(given.model, device=given.device)
        explanation = api.explain(model, tokenizer, list(given.text), sources=listed(given.sources) or None)
    Console().print(explanation)
    cautions = [note for note in explanation.run.info.data.notes if note.startswith(CAUTION)]
    say(*(f"Note: {note}" for note in cautions))
    if given.html is not None:
        say(explanation.save(given.html))
