"""The measuring code: what is written, and that the baselines do what ours do. No time is asserted."""

from __future__ import annotations

import importlib
import json
import platform
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("measure", "plain", "setups", "stages", "training", "storing", "growth", "bench")

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="peak memory is read from /proc")


@pytest.fixture(scope="module")
def modules():
    """The scripts, which lie beside each other and not in a package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


def test_a_row_has_times_ratio_and_memory(modules, monkeypatch):
    bench = modules["bench"]
    monkeypatch.setattr(bench, "EXAMPLES", {19: 2})
    monkeypatch.setattr(bench, "FEW", {19: 2})
    records = bench.rows(["MLP"], [19], ["adversary", "leave-one-out"], enough=0.0)
    for record in records:
        assert set(record) == {
            "stage",
            "model",
            "mean length",
            "examples",
            "bytes",
            "seconds",
            "plain seconds",
            "plain share",
            "ratio",
        }
        assert record["examples"] == 2
        assert record["bytes"] > 2**20  # the embeddings alone are more
        assert record["ratio"] == pytest.approx(record["plain seconds"] / record["seconds"])
        assert 0 < record["plain share"] <= 1
    assert json.loads(json.dumps(records)) == records
    lines = bench.table(records).splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 4 for line in lines)
    assert all(line.rstrip(" |").endswith(" MB") and " x, " in line for line in lines[2:])


@pytest.mark.parametrize("model", ["MLP", "BiLSTM", "HAN"])
def test_baselines_give_what_ours_give(modules, model):
    stages, checked = modules["stages"], []
    for name, stage in stages.STAGES.items():
        if name in ("report", "encode to disk"):
            continue
        case = stage(modules["setups"].setup(model, 12, 2))
        if case.check is not None:
            assert case.check(case.ours(), case.plain()), name
            checked.append(name)
    assert checked == ["gradients", "leave-one-out", "flips", "training step"]


def test_a_clock_of_hundredths_of_a_second(modules, monkeypatch):
    measure = modules["measure"]
    clock = time.process_time
    monkeypatch.setattr(measure.time, "process_time", lambda: clock() // 0.01 * 0.01)
    runs = iter(range(10**9))
    seconds, first = measure.spent(lambda: next(runs))
    assert 0 < seconds < 1e-3
    assert first == 0
    record: dict = {}
    measure.measured(lambda small: measure.Case(1, lambda: 1, lambda: 2), record, enough=0.0)
    assert record["ratio"] > 0


def test_a_difference_is_told_and_not_timed(modules):
    measure = modules["measure"]
    case = measure.Case(1, lambda: 1, lambda: 2, check=lambda a, b: a == b)
    record: dict = {}
    measure.measured(lambda small: case, record, enough=0.0)
    assert record["skipped"] == "the two do not give the same"
    assert "ratio" not in record


def test_what_is_not_there_says_why(modules):
    bench = modules["bench"]
    (record,) = bench.rows(["HAN"], [19], ["report"], enough=0.0)
    assert record["skipped"] == "as for the MLP"
    assert "as for the MLP" in bench.table([record])


def test_what_takes_too_long_is_stopped(modules):
    measure = modules["measure"]

    def endless():
        while True:
            pass

    record = {"stage": "none"}
    works = iter([measure.Case(1, lambda: None), measure.Case(3, endless)])
    measure.measured(lambda small: next(works), record, enough=0.0, limit=0.05)
    assert record["skipped"].startswith(">")
    assert "seconds" not in record


def test_peak_memory_of_a_child(modules):
    measure = modules["measure"]

    def make(small: bool):
        return measure.Case(1, lambda: b"1" * (1 if small else 64 * 2**20))

    record = measure.in_child(lambda told: measure.measured(make, told, enough=0.0), {})
    assert 64 * 2**20 <= record["bytes"] < 80 * 2**20


def test_a_child_that_fails_leaves_words(modules):
    def fail(record):
        raise KeyError("gone")

    assert modules["measure"].in_child(fail, {"stage": "none"}) == {"stage": "none", "skipped": "KeyError: 'gone'"}


def test_machine_is_told_without_names(modules):
    told = modules["measure"].machine()
    assert {"date", "cpus", "threads", "versions", "memory"} <= set(told)
    assert told["versions"]["torch"]
    node = platform.node()
    assert not node or node not in json.dumps(told)
    assert str(FOLDER.parent) not in json.dumps(told)
