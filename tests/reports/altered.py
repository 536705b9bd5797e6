"""The committed ten-row runs with something about them changed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CELLS = Path(__file__).parent / "golden" / "cells"
LSTM, MLP = CELLS / "mock-1-lstm-1", CELLS / "mock-1-mlp-1"
EVIL = ["$x_1$ | <b>&amp;</b> 100%", "_{~^\\}# `[a](javascript:b)` **"]
FOREIGN = ["中文标签", "תווית בעברית مرحبا"]


def copied(path, *, cell=LSTM, **meta) -> Path:
    """A copy of a run with other entries of meta.json."""
    target = Path(path)
    shutil.copytree(cell, target)
    edit(target / "meta.json", **meta)
    return target


def edit(path, **entries) -> None:
    """Change entries of a JSON file."""
    held = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**held, **entries}, ensure_ascii=False), encoding="utf-8")


def relabelled(path, labels, data="Mock-1", encoder="lstm", cell=LSTM) -> Path:
    """A copy with other names of the classes and axes, in the summary too."""
    target = copied(path, cell=cell, label_names=labels, axes={"data": data, "encoder": encoder})
    names = dict(zip(("negative", "positive"), labels, strict=True))
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    for record in summary["tests"]:
        record["class"] = names.get(record["class"], record["class"])
    edit(target / "summary.json", tests=summary["tests"])
    return target


def undefined(path, reason="constant attention") -> Path:
    """A copy in which no text has a value of any metric."""
    target = copied(path)
    scores = pq.read_table(target / "scores.parquet")
    n = scores.num_rows
    for name, values in (("value", pa.array([math.nan] * n)), ("reason", pa.array([reason] * n))):
        scores = scores.set_column(scores.column_names.index(name), name, values)
    pq.write_table(scores, target / "scores.parquet")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    for record in summary["tests"]:
        gone = record["n"] + record["n_undefined"]
        record |= {"mean": None, "std": None, "low": None, "high": None, "n": 0, "n_undefined": gone}
        record["reasons"] = {reason: gone} if gone else {}
    edit(target / "summary.json", tests=summary["tests"], twins={}, facts=[])
    return target


def older(path) -> Path:
    """A copy without the columns and entries that came later than the first version of the schema."""
    target = copied(path)
    lacking = {
        "scores": ["slot", "reason"],
        "variants": ["slot", "exact", "removed", "changes", "probabilities"],
        "tokens": ["slot", "offsets", "attention_gradient", "informative"],
    }
    for name, columns in lacking.items():
        table = pq.read_table(target / f"{name}.parquet")
        pq.write_table(table.drop_columns(columns), target / f"{name}.parquet")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    del summary["facts"]
    (target / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return target


def single(path) -> Path:
    """A copy with one text."""
    target = copied(path)
    for name in ("predictions", "tokens", "scores", "variants"):
        table = pq.read_table(target / f"{name}.parquet")
        first = pq.read_table(target / "predictions.parquet").column("example")[0].as_py()
        kept = [example == first for example in table.column("example").to_pylist()]
        pq.write_table(table.filter(pa.array(kept)), target / f"{name}.parquet")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    for record in summary["tests"]:
        record |= {"std": 0.0, "low": None, "high": None, "n": min(record["n"], 1), "n_undefined": 0}
    edit(target / "summary.json", tests=summary["tests"])
    return target


def two_sites(path) -> Path:
    """A copy whose attention stands at two places of the model."""
    target = copied(path)
    for name in ("tokens", "scores"):
        table = pq.read_table(target / f"{name}.parquet")
        place = table.column_names.index("site")
        named = [table.set_column(place, "site", pa.array([site] * table.num_rows)) for site in ("layer.0", "layer.1")]
        pq.write_table(pa.concat_tables(named), target / f"{name}.parquet")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    tests = [{**record, "site": site} for site in ("layer.0", "layer.1") for record in summary["tests"]]
    facts = [{**fact, "site": site} for site in ("layer.0", "layer.1") for fact in summary["facts"]]
    edit(target / "summary.json", tests=tests, facts=facts, twins={})
    return target
