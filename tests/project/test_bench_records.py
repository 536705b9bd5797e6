"""The records of AttentionBench: what is read is what was written."""

import json
import math

from attn_faithful.records.bench import BenchLine, BenchManifest, BenchModel, BenchResult, BenchScore, BenchVerdict
from attn_faithful.store import strict

MODEL = BenchModel("a", "free", False, "lstm", "single", 0, "Any attention gives the same.", {"jsd": 0.5}, ["t1"], {})
SCORE = BenchScore("entropy", "attention", "free", "text", "all", 0.5, 0.4, 0.6, 3, 4, 1, {"one item": 1})
LINE = BenchLine("entropy", "attention", 0.4, "below", 0.8, 0.7, 0.9, 0.1, {"free": 0.2}, 3, 4)

VERDICT = BenchVerdict("free", "verdict", {"against": 3, "mixed": 1})


def on_disk(record):
    return json.loads(json.dumps(strict(record.as_json()), allow_nan=False))


def test_a_manifest_is_read_as_it_was_written():
    manifest = BenchManifest([MODEL], {"single.jsonl": "0" * 64}, 1, {"torch": "2"})
    assert BenchManifest.from_json(on_disk(manifest)) == manifest


def test_a_result_is_read_as_it_was_written():
    result = BenchResult(
        "mine", "test", "m:f", "0" * 64, [SCORE], [LINE], [VERDICT], None, {"torch": "2"}, "2026-01-31", 3.5
    )
    assert BenchResult.from_json(on_disk(result)) == result


def test_undefined_numbers_are_null_on_disk():
    result = BenchResult("mine", "explanation", "f.json", "0" * 64, [BenchScore("m", "s", "all", "token", "all")])
    stored = on_disk(result)
    assert stored["scores"][0]["auc"] is None
    assert math.isnan(BenchResult.from_json(stored).scores[0].auc)
    assert math.isnan(BenchResult.from_json(stored).seconds)
