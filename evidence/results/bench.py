"""The tables of docs/bench.md: how well tests and explanations tell models whose truth is known."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from attn_faithful.reports.answer import verdict
from evidence.collect_bench import HEADLINES, LINES, SCORES
from evidence.earlier import earlier_table
from evidence.markdown import table

_KINDS = ("deceptive", "random", "uniform", "imposed", "leaky", "free")
_TITLES = {
    "attention_permutation": "permutation: median change of p",
    "attention_correlation attention~leave_one_out": "correlation: tau with leave-one-out",
    "attention_correlation attention~input_x_gradient": "correlation: tau with input x gradient",
    "decision_flip": "flips: fraction removed",
    "flip_optimal": "flips: no set is smaller",
    "naopc_removal": "flips: NAOPC by removal",
    "core_is_top": "flips: top words are a certified core",
    "polarity_violation_removal": "polarity violated, by removal",
    "polarity_violation": "polarity violated, by deletion",
    "comprehensiveness": "erasure: comprehensiveness",
    "sufficiency": "erasure: sufficiency",
    "naopc": "erasure: NAOPC by deletion",
    "adversarial_attention": "adversarial: eps-max JSD",
    "attention_proof": "adversarial: no attention changes the decision",
    "certified_radius": "adversarial: certified radius",
    "attefa": "AtteFa",
    "jsd": "JSD of the twin",
    "importance_entropy": "entropy of attention",
    "conicity": "conicity of the states",
    "stability_tau": "stability",
    "verdict": "the verdict",
}
_USED = (  # metric, source -> what it is in words, the line that the verdict has
    ("attention_correlation", "attention~leave_one_out", "mean tau-b with leave-one-out", verdict.LEAVE_ONE_OUT_LINE),
    (
        "attention_correlation",
        "attention~input_x_gradient",
        "mean tau-b with a gradient, where there is no leave-one-out",
        verdict.TAU_LINE,
    ),
    ("attention_permutation", "attention", "mean of the median changes of p", verdict.SHUFFLE_LINE),
    ("flip_optimal", "attention", "share of texts with the shortest order", verdict.SHORT_LINE),
    ("polarity_violation_removal", "attention", "share of texts violated, by removal", verdict.POLARITY_LINE),
)

Row = Mapping[str, str]


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _find(rows: Sequence[Row], **values: str) -> Row | None:
    """The one row with these values; None where there is none."""
    found = [row for row in rows if values.items() <= dict(row).items()]
    return found[0] if found else None


def _auc(row: Row | None) -> str:
    return "-" if row is None or not row["auc"] else f"{float(row['auc']):.2f}"


def _auc_with_interval(row: Row | None) -> str:
    if row is None or not row["auc"]:
        return "-"
    return f"{_auc(row)} [{float(row['low']):.2f}, {float(row['high']):.2f}]"


def _tests_table() -> str:
    rows = [row for row in _read(SCORES) if row["entry"] == "test"]
    lines = []
    for numbers in HEADLINES.values():
        for metric, source in numbers:
            title = _TITLES.get(metric) or _TITLES[f"{metric} {source}"]
            place = {"metric": metric, "source": source}
            line = [title, _auc_with_interval(_find(rows, **place, kind="all", level="model"))]
            line += [_auc(_find(rows, **place, kind=kind, level="model")) for kind in _KINDS]
            lines.append([*line, _auc_with_interval(_find(rows, **place, kind="all", level="text"))])
    return table(["number", "all kinds", *_KINDS, "texts, all kinds"], lines)


def _explanations_table() -> str:
    rows = [row for row in _read(SCORES) if row["entry"] == "explanation"]
    over_all = sorted((row for row in rows if row["kind"] == "all"), key=lambda row: -float(row["auc"]))
    kinds = ("faithful", "pinned", *_KINDS)
    lines = []
    for row in over_all:
        line = [row["name"].replace("_", " "), _auc_with_interval(row)]
        lines.append([*line, *(_auc(_find(rows, name=row["name"], kind=kind)) for kind in kinds)])
    return table(["explanation", "all models", *kinds], lines)


def _lines_table() -> str:
    rows = _read(LINES)
    lines = []
    for metric, source, words, used in _USED:
        row = _find(rows, metric=metric, source=source)
        if row is None:
            raise ValueError(f"expected a line of {metric} of {source} in {LINES.name}; keep the results anew")
        accuracy = f"{float(row['balanced_accuracy']):.2f} [{float(row['low']):.2f}, {float(row['high']):.2f}]"
        shown = [f"{used:g}", f"{float(row['line']):.2f}", accuracy, f"{float(row['missed']):.2f}"]
        lines.append([row["name"], words, *shown])
    head = ["test", "number", "line", "best", "balanced accuracy, on models that it was not chosen on", "missed"]
    return table(head, lines)


TABLES = {
    "tests": _tests_table,
    "explanations": _explanations_table,
    "lines": _lines_table,
    "verdicts": lambda: earlier_table("bench_verdicts"),
    "single": lambda: earlier_table("bench_single"),
}
