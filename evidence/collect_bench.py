"""Keeps of an evaluation of AttentionBench what docs/bench.md shows: summaries/bench.csv and bench_lines.csv.

    python -m evidence.collect_bench runs/bench/SET/results

RESULTS is the folder that ``attn-faithful bench`` writes, a file a test or explanation.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.cells import SUMMARIES

SCORES, LINES = SUMMARIES / "bench.csv", SUMMARIES / "bench_lines.csv"
SCORE_COLUMNS = ("name", "entry", "metric", "source", "kind", "level", "auc", "low", "high", "n_explains", "n_other")
LINE_COLUMNS = ("name", "metric", "source", "line", "faithful", "balanced_accuracy", "low", "high", "missed")
HEADLINES = {  # test -> its numbers that are shown, and their sources
    "permutation": (("attention_permutation", "attention"),),
    "correlation": (
        ("attention_correlation", "attention~leave_one_out"),
        ("attention_correlation", "attention~input_x_gradient"),
    ),
    "flips": (
        ("decision_flip", "attention"),
        ("flip_optimal", "attention"),
        ("naopc_removal", "attention"),
        ("core_is_top", "attention"),
    ),
    "polarity": (("polarity_violation_removal", "attention"), ("polarity_violation", "attention")),
    "erasure": (("comprehensiveness", "attention"), ("sufficiency", "attention"), ("naopc", "attention")),
    "adversarial": (
        ("adversarial_attention", "attention"),
        ("attention_proof", "attention"),
        ("certified_radius", "attention"),
    ),
    "attefa": (("attefa", "attefa"), ("jsd", "attefa")),
    "entropy": (("importance_entropy", "attention"), ("conicity", "attention")),
    "stability": (("stability_tau", "attention"),),
    "verdict": (("verdict", "attention"),),
}
_DIGITS = 6


def scores_of(result: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The scores of a result that are kept: of all lengths, of a test its headlines."""
    explanation = result["entry"] == "explanation"
    for score in result["scores"]:
        known = (score["metric"], score["source"]) in HEADLINES.get(result["name"], ())
        if score["length"] == "all" and (explanation or known):
            yield _row({"name": result["name"], "entry": result["entry"], **score}, SCORE_COLUMNS)


def lines_of(result: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The lines of a test's headlines."""
    for line in result["lines"]:
        if (line["metric"], line["source"]) in HEADLINES.get(result["name"], ()):
            yield _row({"name": result["name"], **line}, LINE_COLUMNS)


def _row(values: Mapping[str, Any], columns: Sequence[str]) -> dict[str, str]:
    """Values as text, numbers with as many digits as are kept; "" for none."""
    row = {}
    for column in columns:
        value = values[column]
        shown = f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)
        row[column] = "" if value is None else shown
    return row


def write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """A CSV file with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="RESULTS", help="folder of the results of a set")
    folder = parser.parse_args().folder
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    write(SCORES, SCORE_COLUMNS, [row for result in results for row in scores_of(result)])
    write(LINES, LINE_COLUMNS, [row for result in results for row in lines_of(result)])
    print(SCORES, LINES)


if __name__ == "__main__":
    main()
