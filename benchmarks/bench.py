"""Every benchmark into build/bench.json, two parts at a time: ``make bench``, which then writes the tables too.

    python benchmarks/bench.py --parts minilm              # one part anew, the others stay as they are in the file
    python benchmarks/bench.py --stages leave-one-out      # these stages: printed, not written
    python benchmarks/bench.py --quick                     # few models, short texts, few repeats; printed

Of each stage, model and length: time an example, how many times faster that is than its peers, run in turns, and the
peak memory of ours; "> 10 s" of a run that was stopped or not begun. One thread, unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import against
import captum.attr  # noqa: F401 -- imports come before memory is counted
import datasets
import growth
import matplotlib.pyplot  # noqa: F401
import minilm
import minilm_bench
import own_bench
import tables
from measure import AbsentError, Record, machine
from transformers.utils.logging import disable_progress_bar

Part = Callable[[bool], Any]
PARTS: dict[str, Part] = {
    "minilm": minilm_bench.records,
    "forward": minilm_bench.forward_records,
    "own": own_bench.records,
    "against": against.records,
    "recurrent": own_bench.recurrent_records,
    "trainer": own_bench.trainer_record,
    "growth of minilm": minilm_bench.growth_records,
    "growth by length": growth.by_length,
    "growth by examples": growth.by_examples,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"), help="a JSON file")
    parser.add_argument("--quick", action="store_true", help="two models, short texts, few repeats")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=None, help="these, one after another")
    parser.add_argument("--stages", nargs="+", default=None, help="these stages of the models that are named")
    parser.add_argument("--models", nargs="+", choices=own_bench.MODELS, default=["MiniLM"], help="for --stages")
    parser.add_argument("--lengths", nargs="+", default=None, help="for --stages: SST, Yelp, IMDB; 19, 180")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Record]:
    """Records of some stages alone."""
    found = []
    if "MiniLM" in options.models:
        found += minilm_bench.chosen(options.stages, options.lengths)
    models = [model for model in options.models if model != "MiniLM"]
    lengths = [int(length) for length in options.lengths or () if length.isdigit()]
    found += own_bench.chosen(options.stages, models, lengths)
    return found


# parts that run one after another, the two lists beside each other on a core each
LANES = (
    ("minilm", "forward", "growth of minilm", "recurrent"),
    ("own", "against", "trainer", "growth by length", "growth by examples"),
)


def run(parts: list[str], quick: bool, results: dict[str, Any]) -> None:
    """Fill in some parts of the results."""
    for part in parts:
        start = time.perf_counter()
        results[part] = PARTS[part](quick)
        seconds = time.perf_counter() - start
        results.setdefault("seconds", {})[part] = seconds
        results.setdefault("machines", {})[part] = machine()
        print(f"{part}: {seconds:.0f} s", file=sys.stderr, flush=True)


def in_lanes(scratch: Path) -> dict[str, Any]:
    """All parts, those of each lane in a process of its own."""
    start = time.perf_counter()
    with contextlib.suppress(AbsentError):
        minilm.minilm_folder()  # which both would make
    outputs = [scratch / f"{number}.json" for number in range(len(LANES))]
    processes = []
    for parts, output in zip(LANES, outputs, strict=True):
        command = [sys.executable, __file__, "--output", str(output), "--parts", *parts]
        processes.append(subprocess.Popen(command))
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise SystemExit("a part failed")
    results: dict[str, Any] = {"seconds": {}, "machines": {}}
    for output in outputs:
        of_lane = json.loads(output.read_text())
        for name in ("seconds", "machines"):
            results[name] |= of_lane.pop(name)
        results |= of_lane
    results["seconds"]["all"] = time.perf_counter() - start
    return results


def main() -> None:
    options = arguments()
    datasets.disable_progress_bars()
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:  # children leave without cleaning up
        tempfile.tempdir = scratch
        if options.stages is not None:
            for record in chosen(options):
                print(tables.line(record))
            return
        if options.quick:
            results: dict[str, Any] = {}
            run(options.parts or list(PARTS), True, results)
            print(tables.everything(results))
            return
        if options.parts is None:
            results = in_lanes(Path(scratch))
        else:
            results = json.loads(options.output.read_text()) if options.output.is_file() else {}
            run(options.parts, False, results)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
