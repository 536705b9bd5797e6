"""Every benchmark, one process after another, as tables and as JSON: ``make bench``, or with --quick in a minute.

Of each stage, model and mean length: time an example, how many times faster that is than the same as its definition
reads (plain.py; nothing where that would take over half a minute), and the peak memory of ours; "> 10 s" of a run that
was stopped or not begun. The two run in turns. One thread, unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
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
        return WRITTEN[mean] // (20 if model == "MiniLM" else 5 if stage == "report" else 1) or 1
    return max(1, (FEW if stage in SLOW else EXAMPLES)[mean] // (8 if model == "MiniLM" else 1))


def make(stage: str, model: str, mean: int, small: bool) -> Case:
    """One stage on one model and some texts; small for a first run."""
    return STAGES[stage](setup(model, 6, 2) if small else setup(model, mean, examples_of(stage, model, mean)))


def rows(models: list[str], means: list[int], stages: list[str], enough: float) -> list[Record]:
    """All combinations, each in a child; what a shorter length says would take too long is not begun."""
    records = []
    for stage in stages:
        for model in models:
            shorter: Record = {}
            for mean in means:
                record = {"stage": stage, "model": model, "mean length": mean}
                count = examples_of(stage, model, mean)
                # at least in proportion to the tokens
                foreseen = shorter.get("seconds", 0) * mean / shorter.get("mean length", 1) * count
                if foreseen > TOO_LONG or shorter.get("skipped", "")[:1] == ">":
                    record["skipped"] = f"> {max(foreseen, TOO_LONG):.0f} s"
                elif shorter.get("skipped"):
                    record["skipped"] = shorter["skipped"]
                else:
                    plainly = not _too_slow(shorter, mean, count)
                    work = partial(measured, partial(make, stage, model, mean), enough=enough, plainly=plainly)
                    record = in_child(work, record)
                    if not plainly:
                        record["note"] = "the baseline would take over half a minute"
                shorter = record
                records.append(record)
                print("  ".join([stage, model, str(mean), cell_text(record)]), file=sys.stderr, flush=True)
    return records


def _too_slow(shorter: Record, mean: int, count: int) -> bool:
    """Whether the baseline would take long, going by a shorter length; packed texts go back in quadratic time."""
    if shorter.get("plain share") != 1.0:
        return False
    return bool(shorter["plain seconds"] * count * (mean / shorter["mean length"]) ** 2 > 30)


def table(records: list[Record]) -> str:
    """A row a stage and model, a column a mean length: time, ratio, memory; or why there are none."""
    means = list(dict.fromkeys(r["mean length"] for r in records))
    found: dict[tuple[str, str], dict[int, str]] = {}
    for r in records:
        found.setdefault((r["stage"], r["model"]), {})[r["mean length"]] = cell_text(r)
    lines = []
    for key, cells in found.items():
        texts = [cells.get(mean, "") for mean in means]
        # what holds for every length is said once
        lines.append([*key, texts[0], *("" if texts[0][:1].isalpha() and t == texts[0] else t for t in texts[1:])])
    return markdown(["stage", "model", *(f"{mean:,}" for mean in means)], lines)


def recurrent_table(records: list[Record]) -> str:
    """The BiLSTM's encoder against packing, and its training step against matrix products."""
    head = ("tokens", "encoder", "packed", "ratio", "training step", "of products of like shape", "of a square product")
    lines = []
    for r in records:
        rate = r["operations"] / r["step seconds"]
        times = [seconds_text(r[f"{name} seconds"]) for name in ("encoder", "packed", "step")]
        lines.append(
            [
                str(r["length"]),
                *times[:2],
                f"{r['packed seconds'] / r['encoder seconds']:.2f}",
                times[2],
                f"{rate / r['rate of like shape']:.2f}",
                f"{rate / r['rate of a square']:.2f}",
            ]
        )
    return markdown(head, lines)


def told(results: dict[str, Any]) -> str:
    """All tables."""
    over = results["trainer"]
    parts = [
        "Stages",
        table(results["stages"]),
        "BiLSTM, hidden 128, batch 32",
        recurrent_table(results["recurrent"]),
        f"Trainer, MLP of embedding 50: {seconds_text(over['seconds'])} a step with all that is around it, "
        f"{1 / over['ratio']:.2f} times the bare step",
        "Growth with the length, one text",
        growth.length_table(results["growth by length"]),
    ]
    if results["growth by examples"]:
        parts += ["Growth with the examples, MLP", growth.examples_table(results["growth by examples"])]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="a JSON file")
    parser.add_argument("--quick", action="store_true", help="two models, short texts, few repeats")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=None)
    parser.add_argument("--means", nargs="+", type=int, choices=MEANS, default=None)
    parser.add_argument("--stages", nargs="+", choices=ORDER, default=None, help="these stages and nothing else")
    given = parser.parse_args()
    datasets.disable_progress_bars()
    disable_progress_bar()
    start = time.perf_counter()
    scratch = tempfile.TemporaryDirectory()  # children leave without cleaning up; it goes when this process ends
    tempfile.tempdir = scratch.name
    models = given.models or (["MLP", "BiLSTM"] if given.quick else list(MODELS))
    means = given.means or ([19] if given.quick else list(MEANS))
    results: dict[str, Any] = {"machine": machine(), "command": ["bench.py", *sys.argv[1:]]}
    results["stages"] = rows(models, means, given.stages or list(ORDER), 0.1 if given.quick else 0.3)
    if given.stages:
        print(table(results["stages"]))
    else:
        lengths, enough = ((19,), 0.1) if given.quick else ((19, 180, 200), 1.5)
        recurrent = [partial(training.recurrent, n, enough=enough) for n in lengths]
        results["recurrent"] = [in_child(work, {"length": n}) for n, work in zip(lengths, recurrent, strict=True)]
        results["trainer"] = in_child(partial(training.overhead, count=640 if given.quick else 3200), {})
        results["growth by length"] = growth.by_length(given.quick)
        results["growth by examples"] = [] if given.quick else growth.by_examples()
        results["seconds"] = time.perf_counter() - start
        print(told(results))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
