"""The check of a device: it finds a number that is another, and says why where there is no device."""

import copy
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def check():
    """The script, which lies beside others and not in a package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("check_device")
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("check_device", "setups", "plain", "measure"):
            sys.modules.pop(name, None)


def tables():
    tokens = {
        "example": "t0",
        "site": "pool",
        "tokens": ["a", "b"],
        "attention": [0.3, 0.7],
        "leave_one_out": [0.1, 0.2],
    }
    score = {"example": "t0", "site": "pool", "source": "attention", "metric": "tau", "value": 1.0, "reason": None}
    return {
        "predictions": [{"example": "t0", "label": 1, "probabilities": [0.2, 0.8]}],
        "tokens": [tokens],
        "scores": [score, {**score, "metric": "entropy", "value": float("nan"), "reason": "one item"}],
        "variants": [{"example": "t0", "variant": "best", "attention_jsd": 0.5, "removed": [1], "changes": [0.1, 0.2]}],
    }


def test_equal_numbers_are_equal(check):
    found = check.compared(tables(), tables())
    assert (found.numbers, found.largest, found.near_ties, found.others) == (11, 0.0, 0, [])


def test_rounding_is_told_and_allowed(check):
    other = tables()
    other["tokens"][0]["attention"][1] += 4e-6
    found = check.compared(tables(), other)
    assert found.largest == pytest.approx(4e-6)
    assert not found.others


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("predictions", "probabilities", [0.2, 0.80002]),
        ("tokens", "attention", [0.3, 0.69]),
        ("tokens", "attention", [0.3]),
        ("scores", "value", -1.0),
        ("scores", "value", float("nan")),
        ("scores", "reason", "one item"),
        ("variants", "removed", [0]),
        ("variants", "changes", [0.1, 0.3]),
    ],
)
def test_another_number_is_found(check, table, column, value):
    other = tables()
    other[table][0][column] = value
    found = check.compared(tables(), other)
    assert [where.split(":")[0] for where, _, _ in found.others] == [f"{table}.{column}"]


@pytest.mark.parametrize("change", [{"leave_one_out": [0.1, 0.100001]}, {"attention": [0.5, 0.500001]}])
def test_near_a_tie_another_order_is_allowed(check, change):
    cpu = tables()
    cpu["tokens"][0] |= change
    other = copy.deepcopy(cpu)
    other["scores"][0]["value"] = -1.0
    found = check.compared(cpu, other)
    assert (found.near_ties, found.others) == (1, [])


@pytest.mark.parametrize(("site", "gap", "others"), [("layer.1", 2e-3, 0), ("layer.1", 2e-2, 1), ("pool", 2e-3, 1)])
def test_what_a_search_finds_in_a_layer_may_be_further_off(check, site, gap, others):
    cpu = tables()
    cpu["scores"][0] |= {"metric": "adversarial_attention", "site": site}
    other = copy.deepcopy(cpu)
    other["scores"][0]["value"] += gap
    found = check.compared(cpu, other)
    assert len(found.others) == others
    assert found.searched == pytest.approx(0 if others else gap)


def test_a_missing_row_is_found(check):
    other = tables()
    other["scores"].pop()
    assert check.compared(tables(), other).others == [("scores: rows", 2, 1)]


def test_without_the_device_it_says_why(check, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check.main(["--output", str(tmp_path / "device.json")]) == 0
    assert "no cuda; it has cpu" in capsys.readouterr().out
    assert "no cuda" in json.loads((tmp_path / "device.json").read_text())["skipped"]


def test_the_status_tells_what_is_another(check, monkeypatch, tmp_path):
    monkeypatch.setattr(check, "MODELS", {"BiLSTM": check.bilstm})
    own = check.evaluated
    runs = []

    def broken(model, said, device):
        found, seconds = own(model, said, device)
        runs.append(device)
        if len(runs) == 3:  # one to get ready, the CPU's, the device's
            found["scores"].pop()
        return found, seconds

    arguments = ["--device", "cpu", "--texts", "2", "--output", str(tmp_path / "device.json")]
    assert check.main(arguments) == 0
    monkeypatch.setattr(check, "evaluated", broken)
    assert check.main(arguments) == 1
    (row,) = json.loads((tmp_path / "device.json").read_text())["models"]
    assert row["n others"] == 1
