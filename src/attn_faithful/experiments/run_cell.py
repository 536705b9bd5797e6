"""The stages of one cell: train the base, encode, train the twins, evaluate, score. Each resumes where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.data.text_column import Texts
from attn_faithful.evaluators import attefa
from attn_faithful.experiments.earlier_runs import take_over
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import Prepared, collator, prepare
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.results import Writer, kept_tables, tidy
from attn_faithful.experiments.run_tables import item_finder, long_history, meta_of, queries, token_finder
from attn_faithful.experiments.run_tests import EvaluatedModel, evaluate_rows, token_ids
from attn_faithful.experiments.scoring import facts_of, metric_facts, records_of
from attn_faithful.experiments.threads import threads_for, weights_of
from attn_faithful.experiments.trained_models import trained
from attn_faithful.experiments.undefined_texts import failures, warn_of
from attn_faithful.models.architectures import new_model
from attn_faithful.models.inference import Outputs
from attn_faithful.store import RunFolder, strict, weights
from attn_faithful.training.base import train_base
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import seeded
from attn_faithful.training.twin import TwinSettings, new_twin, train_twin
from attn_faithful.training.wiegreffe_pinter import imposed_control, uniform_control, with_imposed_attention

Tell = Callable[[str, int, int, dict[str, Any]], None]


def run_cell(cell: Cell, folder: RunFolder, on_progress: Tell, processes: ProcessGroup = SINGLE_PROCESS) -> None:
    """Carry out all stages of a cell whose folder is not done; what an earlier run finished is kept.

    Args:
        cell: what to do.
        folder: where to.
        tell: ``tell(stage, epoch, epochs, metrics)`` after every epoch.
        team: the processes that do it together; the main one writes.
    """
    if folder.done:
        tidy(folder)
        return
    start = time.time()
    few = threads_for(weights_of(cell.recipe.model))
    with quiet(), recipe_precision(), few, processes.writing(folder):
        if folder.done:  # another process was faster
            return
        take_over(cell, folder)
        tokenizer = _saved_tokenizer(folder / "model")
        data = prepare(cell.recipe, tokenizer)
        _check_selection(cell, data)
        base, record = _base(cell, data, folder, on_progress, processes)
        history = {"base": record["history"]}
        outputs = {split: processes.run_over(base, rows, collator(rows)) for split, rows in data.rows.items()}
        test = data.rows["test"]
        summary: dict[str, Any] = {
            "base": {
                **_classified(outputs["test"], test, data),
                "epoch": record["epoch"],
                "seconds": record["seconds"],
            },
            "informative_mass": _informative_mass(outputs["test"], test),
            "twins": {},
            "controls": _controls(cell, data, outputs, folder, on_progress, processes),
        }
        texts = Texts.of(data.texts.splits["test"], "text")
        tokens = token_finder(data.tokenizer, texts, test)
        items = item_finder(tokens, texts, test)
        of = [weights(folder / "model"), cell.recipe.evaluation.on_disk()]
        writer = Writer(folder, test, items, queries(data.texts.splits["test"]), processes, of=of)
        for settings, seed in cell.twins:
            twin, record = _twin(cell, data, base, outputs, settings, seed, folder, on_progress, processes)
            name = f"{settings.variant}-{seed}"
            history[name] = record["history"]
            found = processes.run_over(twin, test, collator(test))
            columns = attefa.run(
                test["example"],
                (outputs["test"].probabilities, outputs["test"].attention),
                (found.probabilities, found.attention),
                name,
                multi_label=data.config.multi_label,
            )
            if processes.main:
                writer.extend(attefa.per_example(columns), columns)
            numbers = attefa.score(
                np.asarray(columns["output_tvd"]),
                np.asarray(columns["attention_jsd"]),
                outputs["test"].probabilities,
                settings.max_tvd if settings.objective == "constrained" else None,
                data.config.multi_label,
            )
            summary["twins"][name] = {
                "variant": settings.variant,
                "seed": seed,
                "epoch": record["epoch"],
                "seconds": record["seconds"],
                **_classified(found, test, data),
                **{name: number.as_json() for name, number in numbers.items()},
            }
        evaluate_rows(
            EvaluatedModel(base, collator(test), data.texts.label_names, token_ids(data.tokenizer)),
            test,
            cell.recipe.evaluation,
            writer,
            None,
            processes,
            lambda done, of: on_progress("tests", done, of, {}),
        )
        writer.close()
        if processes.main:
            names, many = data.texts.label_names, data.config.multi_label
            with kept_tables(folder):
                records = records_of(folder, test["example"], outputs["test"].probabilities, names, many)
                facts = [fact.as_json() for fact in facts_of(folder, test["example"], names, many)]
            summary |= {"tests": records, "metrics": metric_facts(records), "facts": facts}
            folder.write_table("history", long_history(history))
            folder.write_summary(summary)
            folder.write_meta(meta_of(cell, data, time.time() - start, processes) | failures(writer.failed))
            tidy(folder)
            warn_of(writer.failed, len(test))
        processes.wait("cell")


def _base(
    cell: Cell, data: Prepared, folder: RunFolder, on_progress: Tell, processes: ProcessGroup
) -> tuple[Any, dict[str, Any]]:
    settings = cell.recipe.train
    selection = data.rows[settings.select_on]

    def fit(checkpoints: Path) -> tuple[Any, list[dict[str, Any]]]:
        on_progress("base", 0, settings.epochs, {})
        with seeded(cell.seed_of("base", "weights")):
            model = new_model(data.config)
            if data.vectors is not None:
                model.load_vectors(data.vectors)
        task = TrainingTask(
            data.rows["train"],
            selection,
            collator(selection),
            settings,
            cell.seed_of("base"),
            checkpoints,
            lambda epoch, epochs, metrics: on_progress("base", epoch, epochs, metrics),
        )
        return model, train_base(model, task)

    metric = f"eval_{settings.select_by}"
    sign = 1 if settings.select_by == "loss" else -1
    return trained("model", folder, data.tokenizer, fit, lambda row: sign * row[metric], processes, texts=data.texts)


def _twin(
    cell: Cell,
    data: Prepared,
    base: Any,
    outputs: dict[str, Outputs],
    settings: TwinSettings,
    seed: int,
    folder: RunFolder,
    on_progress: Tell,
    processes: ProcessGroup,
) -> tuple[Any, dict[str, Any]]:
    name = "twin" if settings.variant == "attefa" else f"twin-{settings.variant}"
    columns = ("base_attention", "base_probabilities")

    def fit(checkpoints: Path) -> tuple[Any, list[dict[str, Any]]]:
        on_progress(f"{name} {seed}", 0, settings.epochs, {})
        twin = new_twin(base, cell.seed_of("twin", seed, "weights"), settings.start, data.vectors)
        train, selection = (with_base(data.rows[s], outputs[s]) for s in ("train", settings.select_on))
        task = TrainingTask(
            train,
            selection,
            collator(train, columns),
            settings,
            cell.seed_of("twin", seed),
            checkpoints,
            lambda epoch, epochs, metrics: on_progress(f"{name} {seed}", epoch, epochs, metrics),
        )
        return twin, train_twin(twin, task)

    rank = "eval_selection"
    return trained(f"{name}-{seed}", folder, data.tokenizer, fit, lambda row: row[rank], processes, texts=data.texts)


def _saved_tokenizer(path: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path) if path.is_dir() else None


def _controls(
    cell: Cell,
    data: Prepared,
    outputs: dict[str, Outputs],
    folder: RunFolder,
    on_progress: Tell,
    processes: ProcessGroup,
) -> dict[str, Any]:
    """Scores of the controls of Wiegreffe and Pinter (2019), kept beside the models they came from."""
    results: dict[str, Any] = {}
    for control in cell.recipe.wiegreffe_pinter:
        path = folder / f"control-{control}.json"
        if not path.is_file():
            on_progress(control, 0, cell.recipe.train.epochs, {})
            train = {"uniform": uniform_control, "imposed": imposed_control}[control]
            rows = {split: with_imposed_attention(data.rows[split], outputs[split]) for split in data.rows}
            task = TrainingTask(
                rows["train"],
                rows[cell.recipe.train.select_on],
                collator(data.rows["train"]),
                cell.recipe.train,
                cell.seed_of("control", control),
                folder / f".{control}.checkpoints",
                lambda epoch, epochs, metrics, control=control: on_progress(control, epoch, epochs, metrics),
            )
            chances = train(data.config, data.vectors, task, rows["test"])
            found = classification_metrics(chances, np.asarray(data.rows["test"]["labels"]), data.config.multi_label)
            text = json.dumps(strict(found), allow_nan=False)
            if processes.main:
                folder.place(path, lambda target, text=text: target.write_text(text))
            processes.wait(control)
        results[control] = json.loads(path.read_text())
    return results


def _check_selection(cell: Cell, data: Prepared) -> None:
    for part, settings in (("train", cell.recipe.train), ("twin", cell.recipe.twin)):
        if settings is not None and not len(data.rows[settings.select_on]):
            raise InputError(f"{part}.select_on: the split {settings.select_on!r} of {data.texts.name} is empty.")


def _classified(outputs: Outputs, rows: Rows, data: Prepared) -> dict[str, Any]:
    return classification_metrics(outputs.probabilities, np.asarray(rows["labels"]), data.config.multi_label)


def _informative_mass(outputs: Outputs, rows: Rows) -> float | None:
    """Mean attention on planted words; None where nothing is known to be planted."""
    if "informative" not in rows.column_names:
        return None
    pairs = [(a, i) for a, i in zip(outputs.attention, rows["informative"], strict=True) if len(a) == len(i) > 0]
    return float(np.mean([float(a @ np.asarray(i, dtype=float)) for a, i in pairs])) if pairs else None


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and warnings of transformers but ours; its settings come back afterwards."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
