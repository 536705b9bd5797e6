"""Every benchmark, one process after another, as tables and as JSON: ``make bench``, or with --quick in a minute.

Of each stage, model and mean length: time an example, how many times faster that is than the same as its definition
reads (plain.py; nothing where that would take over half a minute), and the peak memory of ours; "> 10 s" of a run that
was stopped or not begun. The two run in turns. One thread, unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import captum.attr  # noqa: F401 -- imports come before memory is counted
import datasets
import growth
import matplotlib.pyplot  # noqa: F401
import storing  # noqa: F401 -- registers its stages
from measure import TOO_LONG, Case, Record, cell_text, in_child, machine, markdown, measured, seconds_text
from setups import MODELS, setup
from stages import STAGES
from transformers.utils.logging import disable_progress_bar

import training

MEANS = (19, 180, 2000)
ORDER = (
    "training step",
    "twin training step",
    "gradients",
    "leave-one-out",
    "permutations",
    "adversary",
    "flips",
    "erasure",
    "hidden-state importance",
    "encode to disk",
    "report",
)
EXAMPLES = {19: 32, 180: 16, 2000: 4}
SLOW = ("leave-one-out", "hidden-state importance", "erasure")
FEW = {19: 32, 180: 4, 2000: 1}  # texts that will do for these
WRITTEN = {19: 1000, 180: 200, 2000: 16}  # what writes has costs that do not grow with the examples


def examples_of(stage: str, model: str, mean: int) -> int:
    """How many texts one run does."""
    if stage in ("encode to disk", "report"):
        texts, share = WRITTEN[mean], 5 if stage == "report" else 1
        if model == "MiniLM":
            share = 20
    else:
        texts, share = (FEW if stage in SLOW else EXAMPLES)[mean], 8 if model == "MiniLM" else 1
    return max(1, texts // share)


def make(stage: str, model: str, mean: int, small: bool) -> Case:
    """One stage on one model and some texts; small for a first run."""
    if small:
        return STAGES[stage](setup(model, 6, 2))
    return STAGES[stage](setup(model, mean, examples_of(stage, model, mean)))


def rows(models: list[str], means: list[int], stages: list[str], enough: float) -> list[Record]:
    """All combinations, each in a child; what a shorter length says would take too long is not begun."""
    records = []
    for stage, model in itertools.product(stages, models):
        shorter: Record = {}
        for mean in means:
            record = row(stage, model, mean, shorter, enough)
            shorter = record
            records.append(record)
            print("  ".join([stage, model, str(mean), cell_text(record)]), file=sys.stderr, flush=True)
    return records


def row(stage: str, model: str, mean: int, shorter: Record, enough: float) -> Record:
    """One combination, unless the record of a shorter length says that it would take too long."""
    record: Record = {"stage": stage, "model": model, "mean length": mean}
    count = examples_of(stage, model, mean)
    # at least in proportion to the tokens
    foreseen = shorter.get("seconds", 0) * mean / shorter.get("mean length", 1) * count
    skipped = shorter.get("skipped", "")
    if foreseen > TOO_LONG or skipped.startswith(">"):
        return {**record, "skipped": f"> {max(foreseen, TOO_LONG):.0f} s"}
    if skipped:
        return {**record, "skipped": skipped}
    plainly = not _too_slow(shorter, mean, count)
    record = in_child(partial(measured, partial(make, stage, model, mean), enough=enough, plainly=plainly), record)
    if not plainly:
        record["note"] = "the baseline would take over half a minute"
    return record


def _too_slow(shorter: Record, mean: int, count: int) -> bool:
    """Whether the baseline would take long, going by a shorter length; packed texts go back in quadratic time."""
    if shorter.get("plain share") != 1.0:
        return False
    return bool(shorter["plain seconds"] * count * (mean / shorter["mean length"]) ** 2 > 30)


def table(records: list[Record]) -> str:
    """A row a stage and model, a column a mean length: time, ratio, memory; or why there are none."""
    means = list(dict.fromkeys(record["mean length"] for record in records))
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for record in records:
        cells.setdefault((record["stage"], record["model"]), {})[record["mean length"]] = cell_text(record)
    lines = []
    for (stage, model), by_mean in cells.items():
        first, *others = [by_mean.get(mean, "") for mean in means]
        if first[:1].isalpha():  # words: what holds for every length is said once
            others = ["" if text == first else text for text in others]
        lines.append([stage, model, first, *others])
    return markdown(["stage", "model", *(f"{mean:,}" for mean in means)], lines)


def recurrent_table(records: list[Record]) -> str:
    """The BiLSTM's encoder against packing, and its training step against matrix products."""
    head = ("tokens", "encoder", "packed", "ratio", "training step", "of products of like shape", "of a square product")
    lines = []
    for record in records:
        encoder, packed, step = (record[f"{name} seconds"] for name in ("encoder", "packed", "step"))
        rate = record["operations"] / step
        lines.append(
            [
                str(record["length"]),
                seconds_text(encoder),
                seconds_text(packed),
                f"{packed / encoder:.2f}",
                seconds_text(step),
                f"{rate / record['rate of like shape']:.2f}",
                f"{rate / record['rate of a square']:.2f}",
            ]
        )
    return markdown(head, lines)


def tables_text(results: dict[str, Any]) -> str:
    """All tables."""
    trainer = results["trainer"]
    parts = [
        "Stages",
        table(results["stages"]),
        "BiLSTM, hidden 128, batch 32",
        recurrent_table(results["recurrent"]),
        f"Trainer, MLP of embedding 50: {seconds_text(trainer['seconds'])} a step with all that is around it, "
        f"{1 / trainer['ratio']:.2f} times the bare step",
        "Growth with the length, one text",
        growth.length_table(results["growth by length"]),
    ]
    if results["growth by examples"]:
        parts += ["Growth with the examples, MLP", growth.examples_table(results["growth by examples"])]
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes:
        models, means: of the stages.
        enough: seconds of repeats of a stage.
        lengths, recurrent_enough: of the recurrent encoder's benchmark.
        trainer_texts: texts that the Trainer's benchmark trains on.
    """

    models: tuple[str, ...] = tuple(MODELS)
    means: tuple[int, ...] = MEANS
    enough: float = 0.3
    lengths: tuple[int, ...] = (19, 180, 200)
    recurrent_enough: float = 1.5
    trainer_texts: int = 3200


QUICK = Extent(("MLP", "BiLSTM"), (19,), 0.1, (19,), 0.1, 640)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="a JSON file")
    parser.add_argument("--quick", action="store_true", help="two models, short texts, few repeats")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=None)
    parser.add_argument("--means", nargs="+", type=int, choices=MEANS, default=None)
    parser.add_argument("--stages", nargs="+", choices=ORDER, default=None, help="these stages and nothing else")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    extent = QUICK if options.quick else Extent()
    datasets.disable_progress_bars()
    disable_progress_bar()
    start = time.perf_counter()
    scratch = tempfile.TemporaryDirectory()  # children leave without cleaning up; it goes when this process ends
    tempfile.tempdir = scratch.name
    models, means = options.models or list(extent.models), options.means or list(extent.means)
    results: dict[str, Any] = {"machine": machine(), "command": ["bench.py", *sys.argv[1:]]}
    results["stages"] = rows(models, means, options.stages or list(ORDER), extent.enough)
    if options.stages:
        print(table(results["stages"]))
    else:
        results["recurrent"] = []
        for length in extent.lengths:
            work = partial(training.recurrent, length, enough=extent.recurrent_enough)
            results["recurrent"].append(in_child(work, {"length": length}))
        results["trainer"] = in_child(partial(training.overhead, count=extent.trainer_texts), {})
        results["growth by length"] = growth.by_length(options.quick)
        results["growth by examples"] = [] if options.quick else growth.by_examples()
        results["seconds"] = time.perf_counter() - start
        print(tables_text(results))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
