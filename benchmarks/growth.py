"""Time and peak memory of own models against length, and against the number of examples."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from measure import Case, Record, in_child, measured
from setups import setup
from stages import STAGES

LENGTHS = (50, 100, 200, 500, 1000, 2000)
GROWING = ("gradients", "leave-one-out", "permutations", "adversary")
# the adversary and permutations see nothing but attention and token logits: they grow alike for every encoder
ENCODERS = {
    "gradients": ("MLP", "BiLSTM", "CNN", "Transformer", "HAN"),
    "leave-one-out": ("MLP", "BiLSTM", "CNN", "Transformer", "HAN"),
    "permutations": ("MLP",),
    "adversary": ("MLP",),
}
STOPPED = 10.0  # seconds: what takes longer is stopped, and its memory by then is told
EXAMPLES = (
    (1000, "entropy"),
    (10_000, "entropy"),
    (100_000, "entropy"),
    (1000, "correlation,permutation"),
    (10_000, "correlation,permutation"),
)

_RUN = """
import sys, time
from pathlib import Path
from attn_faithful.cli.main import main
try:
    main()
finally:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print("\\nmeasured", int(lines["VmHWM"].split()[0]) * 1024, time.process_time(), file=sys.stderr)
"""


def by_length(quick: bool) -> list[Record]:
    """One text of each length."""
    lengths, few_models = (LENGTHS[:2], 2) if quick else (LENGTHS, None)
    records = []
    for stage in GROWING:
        for model, length in itertools.product(ENCODERS[stage][:few_models], lengths):
            record = {"stage": stage, "model": model, "length": length}
            # a hierarchical model's words are its items here
            make = partial(_one, stage, model, length, "word" if model == "HAN" else None)
            records.append(in_child(partial(measured, make, enough=0.3, limit=STOPPED), record))
    return records


def _one(stage: str, model: str, length: int, site: str | None, small: bool) -> Case:
    case = STAGES[stage](setup(model, 6 if small else length, 1, site))
    return Case(case.examples, case.ours)


def by_examples(quick: bool) -> list[Record]:
    """``attn-faithful evaluate`` of an MLP on texts of 3 to 60 words, in a process of its own."""
    records: list[Record] = []
    if quick:
        return records
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        data = {n: _texts(where / f"d{n}.jsonl", n) for n, _ in EXAMPLES[:3]}
        trained = where / "t"
        training = _run(where, "train", "--data", data[1000], "--encoder", "mlp", "--epochs", "1", "--output", trained)
        model = next(trained.rglob("model"), None)
        if model is None:
            raise SystemExit(f"training failed:\n{training.output}")
        for n, tests in EXAMPLES:
            output = where / f"{n}{tests}"
            run = _run(where, "evaluate", model, "--data", data[n], "--tests", tests, "--output", output)
            records.append(
                {
                    "examples": n,
                    "tests": tests,
                    "seconds": run.seconds,
                    "wall seconds": run.wall,
                    "bytes": run.resident,
                    "own bytes": run.unmapped,
                }
            )
    return records


def _texts(path: Path, count: int) -> Path:
    generator = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(count):
            length = int(np.clip(generator.lognormal(2.8, 0.5), 3, 60))
            words = [f"w{i}" for i in generator.integers(0, 2000, length)]
            label = ("neg", "pos")[int(generator.integers(2))]
            words[int(generator.integers(length))] = {"neg": "bad", "pos": "good"}[label]
            file.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")
    return path


@dataclass(frozen=True)
class CommandRun:
    """A command, the imports included.

    Attributes:
        seconds, wall: processor time and time that passed.
        resident: the most bytes in memory.
        unmapped: the most without mapped files, which the system may take back.
        output: what it wrote to standard output.
    """

    seconds: float
    wall: float
    resident: int
    unmapped: int
    output: str


def _run(where: Path, *arguments: Any) -> CommandRun:
    """A command in a fresh interpreter, which says its own peak: that of a child includes what its parent held."""
    start, unmapped = time.perf_counter(), 0
    command = [sys.executable, "-c", _RUN, *map(str, arguments)]
    with (where / "output").open("w+") as output, (where / "errors").open("w+") as errors:
        process = subprocess.Popen(command, cwd=where, env=os.environ, stdout=output, stderr=errors)
        while process.poll() is None:
            unmapped = max(unmapped, _unmapped(process.pid))
            time.sleep(0.02)
        output_text, errors_text = _read(output), _read(errors)
    lines = [line for line in errors_text.splitlines() if line.startswith("measured ")]
    if process.returncode or not lines:
        raise SystemExit(f"{arguments[0]} failed:\n{errors_text[-2000:]}")
    _, resident, seconds = lines[-1].split()
    return CommandRun(float(seconds), time.perf_counter() - start, int(resident), unmapped, output_text)


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def _unmapped(pid: int) -> int:
    """Bytes that a process holds now beside mapped files; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
