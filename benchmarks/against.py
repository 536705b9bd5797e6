"""Whole evaluations of this checkout beside those of an earlier commit: two checkouts in turns, in one run.

    python benchmarks/against.py [COMMIT]            # ddf1ba8, before the work on transformers' speed
    python benchmarks/against.py COMMIT --cases "flips, layer 0"

Each side is a process of its own with one thread, which loads the models first; a case is run by both in turns, and the
least processor time of each counts. What is timed is `evaluate_attention`, with the files that it writes. The MLP is
trained by the earlier commit, so that this one loads an old checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minilm
import pyarrow.parquet as pq
import tables
from measure import AbsentError, Record

COMMIT = "ddf1ba8"
WORKER = Path(__file__).with_name("against_worker.py")
MLP_TEXTS = 10_000


@dataclass(frozen=True)
class Evaluation:
    """One case.

    Attributes:
        name: in the table.
        tests: as `evaluate_attention` takes them.
        model: "MiniLM" or "MLP".
        length: of MiniLM's texts, see minilm.py.
        texts: how many.
        sites: where attention is tested; empty for the last layer.
        turns: runs of each side.
    """

    name: str
    tests: Sequence[str]
    model: str = "MiniLM"
    length: str = "SST"
    texts: int = 8
    sites: Sequence[str] = field(default_factory=list)
    turns: int = 2


CASES = (
    Evaluation(
        "correlation, permutation, erasure, flips", ["correlation", "permutation", "erasure", "flips"], texts=12
    ),
    Evaluation("flips, layer 0", ["flips"], sites=["layer.0"], texts=4),
    Evaluation("flips, last layer, Yelp", ["flips"], length="Yelp", texts=2),
    Evaluation("permutation, layer 3", ["permutation"], sites=["layer.3"]),
    Evaluation("permutation, layer 4", ["permutation"], sites=["layer.4"]),
    Evaluation("adversarial, layer 0", ["adversarial"], sites=["layer.0"], texts=4),
    Evaluation("MLP: correlation, permutation", ["correlation", "permutation"], model="MLP", texts=MLP_TEXTS),
)


class Side:
    """A checkout's process, which is given one evaluation after another."""

    def __init__(self, code: Path, log: Path) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(code / "src"),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )

    def seconds(self, work: Mapping[str, Any]) -> float:
        """Processor time of an evaluation, or of a training."""
        self.process.stdin.write(json.dumps(work) + "\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline()
        if not told:
            raise SystemExit(f"an evaluation failed:\n{self.log.read_text()[-2000:]}")
        return json.loads(told)["seconds"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The code of a commit.

    Raises:
        AbsentError: this checkout's history does not have it.
    """
    git = ["git", "-C", str(minilm.ROOT)]
    added = subprocess.run([*git, "worktree", "add", "-q", "--detach", str(folder), commit], capture_output=True)
    if added.returncode:
        raise AbsentError(f"the history has no commit {commit}")
    try:
        yield folder
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(folder)], check=False)


def compare(commit: str, cases: Sequence[Evaluation]) -> list[Record]:
    """Both sides on some cases."""
    found = []
    with tempfile.TemporaryDirectory() as scratch, checkout(commit, Path(scratch) / "code") as old_code:
        where = Path(scratch)
        sides = {"old": Side(old_code, where / "old.txt"), "new": Side(minilm.ROOT, where / "new.txt")}
        models = {"MiniLM": minilm.minilm_folder()}
        if any(case.model == "MLP" for case in cases):
            models["MLP"] = trained_mlp(sides["old"], where)
        for case in cases:
            record = _compared(case, sides, models[case.model])
            found.append({**record, "commit": commit})
            print(told(record), file=sys.stderr, flush=True)
        for side in sides.values():
            side.close()
    return found


def _compared(case: Evaluation, sides: Mapping[str, Side], model: Path) -> Record:
    """One case, in turns after a first run on one text."""
    texts = sst(case.texts) if case.model == "MLP" else minilm.strings(case.length, case.texts)
    work = {"model": str(model), "tests": list(case.tests), "sites": list(case.sites)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side.seconds({**work, "texts": ["a rather short text"]})
    for _ in range(case.turns):
        for name, side in sides.items():
            times[name].append(side.seconds({**work, "texts": texts}))
    least = {f"{name} seconds": min(seconds) for name, seconds in times.items()}
    return {"case": case.name, "texts": len(texts), **least}


def told(record: Record) -> str:
    ratio = record["old seconds"] / record["new seconds"]
    return (
        f"{record['case']}: {record['old seconds']:.2f} s, now {record['new seconds']:.2f} s, {ratio:.2f} times faster"
    )


def sst(count: int) -> list[str]:
    """So many texts of SST, neutral ones too; made ones where the data is not there."""
    folder = minilm.DATA / "sst5"
    if not folder.is_dir():
        return minilm.strings("SST", count)
    texts: list[str] = []
    for split in ("train", "test", "validation"):
        texts += pq.read_table(folder / f"{split}.parquet").column("text").to_pylist()
    return texts[:count]


def trained_mlp(side: Side, where: Path) -> Path:
    """An MLP that one of the sides trains on a thousand texts whose label is arbitrary."""
    data = where / "texts.jsonl"
    rows = [{"text": text, "label": ("no", "yes")[number % 2]} for number, text in enumerate(sst(1000))]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    side.seconds({"command": ["train", "--data", str(data), "--encoder", "mlp", "--epochs", "1", "--output", "mlp"]})
    return next((where / "mlp").rglob("model"))


def records(quick: bool) -> list[Record]:
    """All cases, or why there are none."""
    if quick:
        return []
    try:
        return compare(COMMIT, CASES)
    except AbsentError as reason:
        return [{"skipped": str(reason)}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default=COMMIT)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    cases = [case for case in CASES if case.name in options.cases]
    print(tables.against(compare(options.commit, cases)))


if __name__ == "__main__":
    main()
