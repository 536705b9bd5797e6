"""Time and peak memory against length, and against the number of examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import Case, Record, in_child, markdown, measured, seconds_text
from setups import setup
from stages import STAGES

LENGTHS = (50, 100, 200, 500, 1000, 2000)
GROWING = ("gradients", "leave-one-out", "permutations", "adversary")
# the adversary and permutations see nothing but attention and token logits: they grow alike for every encoder
ENCODERS = {
    "gradients": ("MLP", "BiLSTM", "CNN", "Transformer", "HAN", "MiniLM"),
    "leave-one-out": ("MLP", "BiLSTM", "CNN", "Transformer", "HAN", "MiniLM"),
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
    records = []
    for stage in GROWING:
        for model in ENCODERS[stage][: 2 if quick else None]:
            for length in LENGTHS[:2] if quick else LENGTHS:
                record = {"stage": stage, "model": model, "length": length}
                # a hierarchical model's words are its items here
                make = partial(_one, stage, model, length, "word" if model == "HAN" else None)
                work = partial(measured, make, enough=0.3, limit=STOPPED)
                records.append(in_child(work, record))
    return records


def _one(stage: str, model: str, length: int, site: str | None, small: bool) -> Case:
    case = STAGES[stage](setup(model, 6 if small else length, 1, site))
    return Case(case.examples, case.ours)


def by_examples() -> list[Record]:
    """``attn-faithful evaluate`` of an MLP on texts of 3 to 60 words, in a process of its own."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        data = {n: _texts(where / f"d{n}.jsonl", n) for n, _ in EXAMPLES[:3]}
        told = _command(
            where, "train", "--data", data[1000], "--encoder", "mlp", "--epochs", "1", "--output", where / "t"
        )
        model = next((where / "t").rglob("model"), None)
        if model is None:
            raise SystemExit(f"training failed:\n{told['said']}")
        for n, tests in EXAMPLES:
            found = _command(
                where, "evaluate", model, "--data", data[n], "--tests", tests, "--output", where / f"{n}{tests}"
            )
            record = {"examples": n, "tests": tests, "seconds": found["seconds"], "wall seconds": found["wall"]}
            records.append({**record, "bytes": found["bytes"], "own bytes": found["own bytes"]})
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


def _command(where: Path, *arguments: Any) -> dict[str, Any]:
    """Processor seconds, wall seconds and peak memory of a command, the imports included.

    "bytes" is all that was resident; "own bytes" leaves out mapped files, which the system may take back.
    """
    start, own = time.perf_counter(), 0
    with (where / "said").open("w+") as said, (where / "wrong").open("w+") as wrong:
        # a fresh interpreter says its own peak: that of a child includes what its parent held
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *map(str, arguments)], cwd=where, env=os.environ, stdout=said, stderr=wrong
        )
        while process.poll() is None:
            own = max(own, _own(process.pid))
            time.sleep(0.02)
        told = []
        for file in (said, wrong):
            file.seek(0)
            told.append(file.read())
    lines = [line for line in told[1].splitlines() if line.startswith("measured ")]
    if process.returncode or not lines:
        raise SystemExit(f"{arguments[0]} failed:\n{told[1][-2000:]}")
    _, held, seconds = lines[-1].split()
    wall = time.perf_counter() - start
    return {"bytes": int(held), "own bytes": own, "seconds": float(seconds), "wall": wall, "said": told[0]}


def _own(pid: int) -> int:
    """Bytes that a process holds now beside mapped files; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def length_table(records: list[Record]) -> str:
    """A row a stage and model, a column a length: time and memory."""
    lengths = sorted({record["length"] for record in records})
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for record in records:
        memory = f"{record.get('bytes', 0) / 2**20:.0f} MB"
        if "seconds" in record:
            text = f"{seconds_text(record['seconds'])}, {memory}"
        else:
            text = f"> {STOPPED:.0f} s, {memory}" if record.get("bytes") else "-"
        cells.setdefault((record["stage"], record["model"]), {})[record["length"]] = text
    rows = [[stage, model, *(own.get(n, "-") for n in lengths)] for (stage, model), own in cells.items()]
    return markdown(["stage", "model", *(f"{n} tokens" for n in lengths)], rows)


def examples_table(records: list[Record]) -> str:
    """A row a number of examples and tests."""
    rows = [
        [
            f"{r['examples']:,}",
            r["tests"],
            seconds_text(r["seconds"]),
            *(f"{r[name] / 2**20:.0f} MB" for name in ("own bytes", "bytes")),
        ]
        for r in records
    ]
    return markdown(["examples", "tests", "time", "peak memory", "with mapped files"], rows)
