"""Bad days: killed at any moment, two runs in one folder, damaged checkpoints; a rerun ends with the same numbers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.reports.report import report
from attn_faithful.store import RunFolder
from attn_faithful.training.checkpoints import last_checkpoint
from tests.experiments.tiny import TABLES, cells, numbers, run, tables

ROOT = Path(__file__).parents[2]
KILLS = 20
EVALUATION = {"tests": ["correlation", "entropy"], "controls": ["uniform"]}

# One process loads the libraries and stays; its children do the work and are killed.
KEEPER = """
import os, sys, torch
import captum.attr, matplotlib.backends.backend_svg, pandas, scipy.optimize, scipy.stats, sklearn.metrics
import transformers.trainer
import attn_faithful.api, attn_faithful.experiments.run_cell, attn_faithful.reports.report, attn_faithful.reports.result
from tests.experiments.test_interruptions import everything

torch.set_num_threads(1)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        everything(line.strip())
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def everything(path):
    """Train a base and a twin, test it, test the saved model on its own, and report: all in one folder."""
    from attn_faithful.api import evaluate_attention
    from attn_faithful.loading import load

    path = Path(path)
    (cell,) = cells(evaluation=EVALUATION)
    folder = run(cell, path / "runs" / "cell")
    model, tokenizer = load(folder / "model")
    texts = [{"text": text, "label": label} for text, label in (("a b c d", 0), ("good film", 1), ("b a", 0), ("", 1))]
    evaluate_attention(model, tokenizer, texts, ["correlation"], output=path / "runs" / "evaluate", name="mlp")
    report([path / "runs"], path / "report", pages=False)


class Keeper:
    """Starts and kills what is done in a folder."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", KEEPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout.readline() == "ready\n"

    def start(self, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def keeper():
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork on this system")
    keeper = Keeper()
    yield keeper
    keeper.process.kill()


def left(path):
    """What lies in a folder of runs, without what differs from run to run."""
    return sorted(str(file.relative_to(path)) for file in (path / "runs").rglob("*"))


def of_whole(path):
    """The tables of an undisturbed run, and their names; correlation alone leaves no alternatives."""
    folder = RunFolder(path)
    names = [name for name in TABLES if folder.has_table(name)]
    assert set(TABLES) - set(names) <= {"variants"}
    return tables(folder, names), names


def test_killed_at_any_moment_a_rerun_ends_with_the_same_numbers(keeper, tmp_path):
    began = time.monotonic()
    keeper.start(tmp_path / "whole")
    assert keeper.end() == 0
    seconds = time.monotonic() - began
    moments = random.Random(0)
    kills, folder = 0, 0
    while kills < KILLS:
        folder += 1
        path = tmp_path / str(folder)
        while True:
            child = keeper.start(path)
            # a rerun goes on where the last one stopped, so that later stages are met too
            wait = moments.uniform(0, 0.9 * seconds) if kills < KILLS else 60
            deadline = time.monotonic() + wait
            while time.monotonic() < deadline and Path(f"/proc/{child}").exists():
                time.sleep(0.002)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            if keeper.end() == 0:
                break
            kills += 1
            for meta in path.rglob("meta.json"):  # what says that it is done is whole
                undisturbed, names = of_whole(tmp_path / "whole" / meta.parent.relative_to(path))
                assert tables(RunFolder(meta.parent), names) == undisturbed
        assert left(path) == left(tmp_path / "whole")
        for meta in (tmp_path / "whole").rglob("meta.json"):
            again = RunFolder(path / meta.parent.relative_to(tmp_path / "whole"))
            undisturbed, names = of_whole(meta.parent)
            assert tables(again, names) == undisturbed
            assert numbers(again.read_summary()) == numbers(RunFolder(meta.parent).read_summary())
    print(f"{kills} kills in {folder} folders; undisturbed {seconds:.1f} s")


def test_the_second_run_in_one_folder_is_refused(tmp_path):
    (cell,) = cells()
    folder = RunFolder(tmp_path / "cell")
    with folder.writing(), pytest.raises(InputError, match=r"Another process is writing .*cell; wait"):
        run(cell, folder.path)
    assert run(cell, folder.path).done
    assert not (folder / ".lock").exists()


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path):
    folder = RunFolder(tmp_path / "cell")
    with folder.writing():
        folder.write_table("scores", {"example": ["a"], "value": [1.0]})
    for name in (".scores.parquet.0123456789ab", "scores.0-3.parquet", "tokens.1.parquet", "notes.1.parquet", "my.txt"):
        (folder / name).write_text("half")
    for name in (".joining.x1y2", ".model.0123456789ab", ".model.checkpoints"):
        (folder / name).mkdir()
    with folder.writing():
        there = {path.name for path in folder.path.iterdir()}
    assert there == {".lock", "scores.parquet", "notes.1.parquet", "my.txt", ".model.checkpoints"}


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt"])
def test_a_damaged_checkpoint_is_named_and_not_trained_over(tmp_path, name):
    from safetensors.torch import save_file

    checkpoint = tmp_path / ".model.checkpoints" / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    save_file({"weight": torch.ones(3)}, checkpoint / "model.safetensors")
    torch.save({"state": torch.ones(1000)}, checkpoint / "optimizer.pt")
    (checkpoint / "trainer_state.json").write_text("{}")
    assert last_checkpoint(checkpoint.parent) == str(checkpoint)
    file = checkpoint / name
    whole = file.read_bytes()
    for damage in (whole[:20], b"", b"\0" * len(whole)):
        file.write_bytes(damage)
        with pytest.raises(InputError, match=rf"{name} is damaged .*remove"):
            last_checkpoint(checkpoint.parent)
    assert checkpoint.is_dir()
    (checkpoint / "trainer_state.json").write_text("{")  # killed before it was written whole
    assert last_checkpoint(checkpoint.parent) is None
    assert not checkpoint.exists()


def test_a_clock_that_runs_backwards(tmp_path, monkeypatch):
    moments = iter(range(10**9, 0, -1))
    monkeypatch.setattr("time.time", lambda: float(next(moments)))
    assert run(cells(twin=None)[0], tmp_path / "cell").done
