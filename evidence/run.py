"""Runs the cells of the schedule, several at once; whoever stops it goes on with the same command.

    python -m evidence.run --data-dir DIR --vectors glove.6B.50d.top50k.txt.gz --output runs/evidence --jobs 2
    python -m evidence.run --data-dir DIR --list             # cells and minutes, nothing runs

Every cell is a run of ``attn-faithful`` in a process of its own, whose output goes to OUTPUT/logs. A cell that fails is
told at the end and does not stop the others.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from evidence.schedule import Task, read_schedule, tasks

ROOT = Path(__file__).parents[1]


class Runner:
    """Carries out tasks as commands.

    Args:
        data_dir: folder of the data sets.
        vectors: file of word vectors.
        output: folder of the run folders and logs.
    """

    def __init__(self, data_dir: str, vectors: str, output: Path) -> None:
        self.data_dir = data_dir
        self.vectors = vectors
        self.output = output
        self.logs = output / "logs"
        self.stopped = threading.Event()

    def run(self, task: Task) -> bool:
        """Whether the cell is finished."""
        if self.stopped.is_set():
            return False
        return self.finish(task.name, task.command(self.data_dir, self.vectors))

    def finish(self, name: str, command: Sequence[str]) -> bool:
        """Whether what has this name is finished; what this output has from the same command is not asked again.

        Args:
            name: what it is, for people and for the name of its log.
            command: the words after ``attn-faithful``, without ``--output``.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        file_name = re.sub(r"[^a-z0-9]+", "-", name.lower())
        log, mark = self.logs / f"{file_name}.log", self.logs / f"{file_name}.done"
        words = shlex.join(command)
        if mark.exists() and mark.read_text(encoding="utf-8") == words:
            return True
        begun = time.monotonic()
        with log.open("a", encoding="utf-8") as file:
            code = self.carry_out(command, file)
        minutes = (time.monotonic() - begun) / 60
        if code == 0:
            mark.write_text(words, encoding="utf-8")
        said = "done" if code == 0 else f"failed, see {log}"
        print(f"{time.strftime('%H:%M')} {name}: {said} ({minutes:.1f} min)", flush=True)
        return code == 0

    def carry_out(self, command: Sequence[str], log: IO[str]) -> int:
        """The exit status of the command, whose output goes to the log."""
        whole = [sys.executable, "-m", "attn_faithful.cli", *command, "--output", str(self.output)]
        return subprocess.run(whole, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False).returncode

    def run_all(self, given: Sequence[Task], jobs: int) -> list[Task]:
        """Carry out tasks in their order, so many at once; returns those that are not finished."""
        with ThreadPoolExecutor(jobs) as pool:
            try:
                finished = list(pool.map(self.run, given))
            except KeyboardInterrupt:
                self.stopped.set()
                print("Stopped. The same command goes on from here.", flush=True)
                raise SystemExit(130) from None
        return [task for task, done in zip(given, finished, strict=True) if not done]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, metavar="DIR", help="folder of the data sets")
    parser.add_argument("--vectors", metavar="FILE", help="word vectors (GloVe)")
    parser.add_argument("--output", default="runs/evidence", metavar="DIR", help="folder of the run folders")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells at once")
    parser.add_argument("--paper", metavar="NAME", help="only cells of this recipe")
    parser.add_argument("--list", action="store_true", help="print the cells and their minutes")
    given = parser.parse_args()
    chosen = [task for task in tasks(read_schedule()) if given.paper in (None, task.entry.paper)]
    if given.list:
        for task in chosen:
            print(f"{task.entry.minutes:6.1f}  {task.name}")
        hours = sum(task.entry.minutes for task in chosen) / 60
        print(f"{len(chosen)} cells, about {hours:.1f} hours of one core")
        return
    if given.vectors is None and any(task.entry.vectors for task in chosen):
        parser.error("expected --vectors FILE, which the embeddings of most cells begin with")
    unfinished = Runner(given.data_dir, given.vectors, Path(given.output)).run_all(chosen, given.jobs)
    if unfinished:
        raise SystemExit(f"{len(unfinished)} cells are not finished: {', '.join(task.name for task in unfinished)}")


if __name__ == "__main__":
    main()
