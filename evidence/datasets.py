"""The data sets of a paper and ours: vocabulary, length and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from attn_faithful.reports.papers import PAPERS
from evidence.cells import CellSummary
from evidence.markdown import table

PRINTED = Path(__file__).with_name("printed.yaml")


def datasets_table(paper: str, cells: Sequence[CellSummary]) -> str:
    """Every data set of a paper's table 1: the printed facts and ours."""
    printed = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["datasets"][paper]
    lines = []
    for data, facts in printed.items():
        ours = _ours(paper, data, cells)
        vocabulary, length = str(facts.get("vocabulary", "")), str(facts["tokens"])
        lines.append([data, "paper", vocabulary, length, str(facts["train"]), str(facts["test"])])
        lines.append([data, *ours])
    return table(["data", "", "vocabulary", "mean length", "train", "test"], lines)


def _ours(paper: str, data: str, cells: Sequence[CellSummary]) -> list[str]:
    """Ours of a data set, or why there is nothing."""
    for cell in cells:
        if cell.paper == paper and cell.axes["data"] == data:
            facts = cell.data
            length = f"{facts['train']['tokens_mean']:.0f}"
            return ["ours", str(facts["vocabulary"]), length, _counts(facts["train"]), _counts(facts["test"])]
    return [_reason(paper, data), "", "", "", ""]


def _counts(split: Mapping[str, Any]) -> str:
    """Texts a class; of more than three classes all together."""
    classes = list(split["classes"].values())
    if len(classes) > 3:
        return str(split["n"])
    return " / ".join(map(str, classes))


def _reason(paper: str, data: str) -> str:
    for known in PAPERS:
        if known.recipe == f"{paper}.yaml" and data in known.missing:
            return known.missing[data]
    return "not run"
