"""A terminal is told how long the work will take before it starts, how to stop it, and how to go on."""

import json
import sys
from types import SimpleNamespace

import pytest

from attn_faithful._checks import InputError
from attn_faithful.cli import foreseeing, main
from attn_faithful.cli.stopping import EVALUATING, TRAINING
from attn_faithful.reports.progress import progress
from tests.cli.test_commands import QUICK, reviews, write_csv


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", reviews())


@pytest.fixture
def terminal(monkeypatch):
    """Somebody waits, and all work is long."""
    monkeypatch.setattr(foreseeing, "_in_a_terminal", lambda given: True)
    monkeypatch.setattr(progress, "ADVISED", 0.0)


def err_of(capsys):
    """What stands on standard error, however its lines are broken."""
    return " ".join(capsys.readouterr().err.split())


COLUMNS = ["--text-column", "body", "--label-column", "stars"]


def train(data, output):
    given = ["train", "--data", data, *COLUMNS, "--encoder", "mlp", "--epochs", "1", *QUICK, "--output", str(output)]
    assert main(given) == 0
    (folder,) = (output / "train").iterdir()
    return folder


def test_training_and_tests_are_foreseen_once_and_change_nothing(capsys, monkeypatch, tmp_path, data, terminal):
    told = train(data, tmp_path / "told")
    err = err_of(capsys)
    assert "Training, 1 run and " in err
    assert f" at most. Ctrl-C stops it; {TRAINING}" in err
    assert err.count("Ctrl-C") == 1

    train(data, tmp_path / "told")
    assert "Ctrl-C" not in err_of(capsys), "nothing is left to do"

    monkeypatch.setattr(foreseeing, "_in_a_terminal", lambda given: False)
    untold = train(data, tmp_path / "untold")
    bases = [json.loads((folder / "summary.json").read_text(encoding="utf-8"))["base"] for folder in (told, untold)]
    assert {**bases[0], "seconds": 0} == {**bases[1], "seconds": 0}
    capsys.readouterr()

    monkeypatch.setattr(foreseeing, "_in_a_terminal", lambda given: True)
    monkeypatch.setattr(foreseeing, "_MANY", 1)
    monkeypatch.setattr("attn_faithful.experiments.estimate_tests.seconds_of_tests", lambda task: 600.0)
    evaluate = ["evaluate", str(told / "model"), "--data", data, *COLUMNS, "--tests", "permutation"]
    for said in (1, 0):  # a finished run has nothing to foresee
        assert main([*evaluate, "--output", str(tmp_path / "told")]) == 0
        err = err_of(capsys)
        assert err.count("Ctrl-C") == said
        assert (f" texts: about 10 min at most. Ctrl-C stops it; {EVALUATING}" in err) == bool(said)


def test_what_is_wrong_is_said_by_the_work_itself(capsys, monkeypatch, tmp_path, data, terminal):
    def wrong(cells):
        raise InputError("Expected what the work itself will say.")

    monkeypatch.setattr("attn_faithful.experiments.estimate.estimate", wrong)
    train(data, tmp_path)
    assert "Expected" not in err_of(capsys)


def test_nobody_waits_for_a_log_a_smoke_test_or_several_processes(monkeypatch):
    given = SimpleNamespace(smoke=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert foreseeing._in_a_terminal(given)
    assert not foreseeing._in_a_terminal(SimpleNamespace(smoke=True))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not foreseeing._in_a_terminal(given)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert not foreseeing._in_a_terminal(given)
