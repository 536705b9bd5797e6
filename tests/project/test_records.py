"""The records of a run folder: what is read is what was written, in folders of this version and of older ones."""

import json
import math
from pathlib import Path

import pytest

from attn_faithful.records.controls import ControlRecord
from attn_faithful.records.facts import FACTS, FlipContingency, fact_from_json
from attn_faithful.records.meta import CELL_KEYS, EVALUATION_KEYS, TWIN_KEYS, DataFacts, RunMeta
from attn_faithful.records.scores import ScoreRecord
from attn_faithful.records.summary import RunSummary
from attn_faithful.records.twins import Measured, TwinRecord
from attn_faithful.store import strict

CELLS = sorted((Path(__file__).parents[1] / "reports" / "golden" / "cells").rglob("meta.json"))
RECORD = ScoreRecord("correlation", "spearman", "word", "attention~random", "all", 0.5, 0.1, 0.4, 0.6, 9, 1, {"n<2": 1})


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CELLS, ids=lambda path: path.parent.name)
def test_a_stored_run_is_read_and_written_the_same(path):
    summary, meta = read(path.with_name("summary.json")), read(path)
    summary_again = strict(RunSummary.from_json(summary).as_json())
    for key, value in summary.items():
        assert summary_again[key] == value, key
    keys = CELL_KEYS if "recipe" in meta else EVALUATION_KEYS
    meta_again = strict(RunMeta.from_json(meta).as_json(keys))
    for key, value in meta.items():
        if key != "schema":  # written by the store
            assert meta_again[key] == value, key


def test_undefined_is_nan_in_memory_and_null_on_disk():
    record = ScoreRecord.from_json({**RECORD.as_json(), "mean": None, "low": None})
    assert math.isnan(record.mean)
    assert math.isnan(record.low)
    assert record.std == RECORD.std
    assert strict(record.as_json())["mean"] is None
    measured = Measured.from_json({"value": None, "low": None, "reason": "no defined example"})
    assert math.isnan(measured.value)
    assert math.isnan(measured.low)
    assert measured.std is None
    assert strict(measured.as_json()) == {"value": None, "low": None, "reason": "no defined example"}


def test_the_group_is_called_class_on_disk():
    assert RECORD.as_json()["class"] == "all"
    assert ScoreRecord.from_json(RECORD.as_json()) == RECORD
    assert "std_seeds" not in RECORD.as_json()


def test_keys_that_are_missing_or_unknown():
    oldest = {"axes": {"data": "imdb"}, "seed": 3, "label_names": [0, 1], "colour": "blue"}
    meta = RunMeta.from_json(oldest)
    assert meta.label_names == ["0", "1"]
    assert meta.numbers is None
    assert meta.failed == {}
    assert meta.data == DataFacts()
    assert RunSummary.from_json({"base": {"f1": 0.5}}).tests == []
    twin = TwinRecord.from_json({"variant": "attefa", "seed": 1, "f1": 0.2, "jsd": {"value": 0.1}})
    assert twin.metrics == {"f1": 0.2}
    assert twin.jsd.value == 0.1
    assert not twin.collapsed


def test_a_control_of_a_twin_says_which():
    """Entries of older runs name no control; those under a twin's attention do."""
    entries = {
        "imposed": {"accuracy": 0.5, "f1": None, "roc_auc": 0.6},
        "imposed_twin-kl-5": {"control": "imposed_twin", "variant": "kl", "seed": 5, "accuracy": 0.5, "f1": 0.4},
    }
    summary = RunSummary.from_json({"controls": entries})
    assert summary.as_json()["controls"] == entries
    first, second = summary.controls.values()
    assert first == ControlRecord("imposed", {"accuracy": 0.5, "f1": None, "roc_auc": 0.6})
    assert second == ControlRecord("imposed_twin", {"accuracy": 0.5, "f1": 0.4}, "kl", 5)
    assert (first.kind, second.kind) == ("imposed", "imposed_twin kl")


def test_facts_are_told_apart_by_their_kind():
    entry = {"site": "word", "source": "random", "n": 0}
    shares = dict.fromkeys(("flip_both", "flip_top_only", "flip_random_only", "flip_neither"), None)
    fact = fact_from_json({"fact": "flip_contingency", **entry, **shares})
    assert isinstance(fact, FlipContingency)
    assert math.isnan(fact.flip_both)
    assert strict(fact.as_json()) == {"fact": "flip_contingency", **entry, **shares}
    assert fact_from_json({"fact": "of a later version", **entry}) is None
    assert set(FACTS) == {"flip_fractions", "flip_contingency", "negative_js", "paired_rankings"}


@pytest.mark.parametrize("keys", [CELL_KEYS, EVALUATION_KEYS, TWIN_KEYS])
def test_meta_holds_the_keys_of_its_kind(keys):
    meta = RunMeta({"data": "imdb"}, 0, ["no", "yes"], failed={"7": "not measured"})
    entry = meta.as_json(keys)
    assert set(entry) == {*keys, "failed"}
