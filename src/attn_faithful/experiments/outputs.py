"""What a cell writes: tables of its base's outputs, histories, and meta.json."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

import datasets
import numpy as np
import torch
import transformers

from attn_faithful import __version__
from attn_faithful.data.encoding import span_finder
from attn_faithful.experiments.plan import Cell
from attn_faithful.experiments.prepare import Prepared, statistics
from attn_faithful.experiments.team import Team
from attn_faithful.models.inference import Outputs
from attn_faithful.models.modeling import AttentionClassifier
from attn_faithful.store import RunFolder


def write_outputs(folder: RunFolder, data: Prepared, outputs: Outputs, team: Team) -> None:
    """Tables "predictions" and "tokens" of the test split: each process its examples, joined by the main one."""
    test, mine = data.rows["test"], team.mine(len(outputs))
    shard = None if team.world == 1 else team.rank
    rows = test.take(mine)
    attention = [outputs.attention[i].tolist() for i in mine]
    spans = span_finder(data.tokenizer)
    texts = data.texts.splits["test"]["text"][:]
    found = [spans(texts[i])[: len(weights)] for i, weights in zip(mine, attention, strict=True)]
    predictions = {
        "example": rows["example"],
        "label": [np.asarray(label).tolist() for label in rows["labels"]],
        "probabilities": outputs.probabilities[mine].tolist(),
    }
    tokens: dict[str, list[Any]] = {
        "example": rows["example"],
        "site": ["pool"] * len(rows),
        "slot": [0] * len(rows),
        "tokens": [[texts[i][start:end] for start, end in places] for i, places in zip(mine, found, strict=True)],
        "offsets": [[place for span in places for place in span] for places in found],
        "attention": attention,
    }
    if "informative" in rows.column_names:
        tokens["informative"] = [np.asarray(i).tolist() for i in rows["informative"]]
    for name, table in (("predictions", predictions), ("tokens", tokens)):
        folder.write_table(name, table, shard=shard)
        team.wait(name)
        if shard is not None and team.main:
            folder.merge_shards(name, test["example"], team.world)
    team.wait("outputs")


def long_history(history: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """Histories by epoch as one long table."""
    table: dict[str, list[Any]] = {"run": [], "epoch": [], "metric": [], "value": []}
    for run, rows in history.items():
        for row in rows:
            for metric, value in row.items():
                if metric != "epoch" and isinstance(value, int | float):
                    for name, entry in zip(table, (run, round(row["epoch"]), metric, float(value)), strict=True):
                        table[name].append(entry)
    return table


def meta_of(cell: Cell, data: Prepared, seconds: float, team: Team) -> dict[str, Any]:
    """Everything that says how a cell's numbers came about."""
    return {
        "axes": cell.axes,
        "seed": cell.seed,
        "recipe": asdict(cell.recipe),
        "label_names": data.texts.label_names,
        "data": statistics(data),
        "parameters": sum(p.numel() for p in AttentionClassifier(data.config).parameters()),
        "seconds": round(seconds, 1),
        "versions": {
            "attn_faithful": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "datasets": datasets.__version__,
            "python": platform.python_version(),
        },
        "hardware": {
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "cuda": torch.cuda.is_available(),
            "processes": team.world,
        },
    }
