"""Makes the small files of summaries/ from the run folders of the schedule.

    python -m evidence.collect runs/evidence

What was collected before stays; a cell that is there again is written over. Of the tests' records those of the metrics
in `KEPT` are kept, for each paper those that its tables and claims need.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.functional.summaries import wilson
from attn_faithful.records.scores import ScoreRecord
from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.control_differences import f1_differences
from attn_faithful.reports.f1 import f1_of
from attn_faithful.reports.run import Run
from attn_faithful.store import SUMMARY
from evidence.base_pairs import pairs_of, write_pairs
from evidence.cells import ALL, CellSummary, Number, write_cell
from evidence.comparisons import comparisons

KEPT = {
    "jain_wallace_2019": (
        "attention_correlation",
        "significant",
        "tau_difference",
        "attention_permutation",
        "permutation_flips",
        "largest_attention",
        "adversarial_attention",
        "jsd_reachable",
        "flip_distance",
        "attention_proof",
    ),
    "serrano_smith_2019": (
        "decision_flip",
        "flip_optimal",
        "flip_at_last",
        "flip_never",
        "flip_both",
        "flip_top_only",
        "flip_random_only",
        "flip_neither",
    ),
    "wiegreffe_pinter_2019": (),
    "meister_2021": (
        "attention_correlation",
        "importance_entropy",
        "hidden_entropy",
        "zero_attention",
        "adversarial_attention",
        "flip_distance",
    ),
}
BY_CLASS = ("attention_correlation", "significant")  # printed by predicted class too
_PERFORMANCE = ("accuracy", "f1", "roc_auc")
_RESAMPLES = 1000


def summary_of(path: Path) -> CellSummary:
    """What is kept of a run folder of a recipe.

    Raises:
        InputError: no finished run, or a damaged one.
    """
    run = Run(path)
    recipe = run.recipe
    paper = recipe["name"]
    settings = {part: recipe[part] for part in ("train", "twin")}
    settings["limit"] = recipe["data"]["limit"]
    trained = [*performance(run), *_controls(run), *twin_numbers(run)]
    tested = [*_tests(run, KEPT.get(paper)), *comparisons(run)]
    return CellSummary(
        paper=paper,
        axes=run.info.axes,
        seed=run.seed,
        label_names=run.label_names,
        data=data_facts(run),
        settings=settings,
        minutes=(run.info.seconds or math.nan) / 60,
        versions=run.info.versions,
        machine=machine(run),
        numbers=[*trained, *tested],
    )


def machine(run: Run) -> dict[str, Any]:
    """Device, architecture and threads."""
    hardware = run.info.hardware
    return {name: hardware[name] for name in ("device", "machine", "threads") if name in hardware}


def data_facts(run: Run) -> dict[str, Any]:
    """Vocabulary, vector coverage, and of each split how many texts and words there are."""
    data = run.info.data
    splits = {}
    for name, entry in data.splits.items():
        splits[name] = {key: entry[key] for key in ("n", "classes", "tokens_mean", "tokens_std")}
    return {"vocabulary": data.vocabulary, "vector_coverage": data.vector_coverage, **splits}


def performance(run: Run) -> Iterator[Number]:
    """How well the base predicts; intervals are over test texts: Wilson's of the accuracy, a bootstrap of F1."""
    labels = np.array(run.labels)
    n = len(labels)
    for name in _PERFORMANCE:
        value = run.summary.base.get(name)
        if value is None:
            continue
        low, high = math.nan, math.nan
        if name == "accuracy":
            low, high = wilson(value, n)
        if name == "f1" and len(run.label_names) == 2:
            low, high = f1_interval(run.predicted == 1, labels == 1)
        yield Number(f"base_{name}", value=value, low=low, high=high, n=n)


def f1_interval(predicted: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """95% percentile bootstrap interval over texts of the F1 of the positive class.

    Args:
        predicted: whether positive (n,).
        labels: whether positive (n,).
    """
    n = len(labels)
    generator = np.random.default_rng(0)
    counts = generator.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)  # (R, n)
    positive = np.stack([predicted & labels, predicted & ~labels, ~predicted & labels], axis=1)  # (n, 3)
    totals = counts @ positive  # (R, 3)
    values = f1_of(1, True)(totals[:, :, None])  # (R,), the mean over the one class that counts
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _controls(run: Run) -> Iterator[Number]:
    """The controls of Wiegreffe and Pinter, and how much the F1 of each kind differs from what it is compared with.

    The source of a control under a twin's attention names the twin behind it.
    """
    n = len(run.labels)
    for record in run.summary.controls.values():
        source = record.kind if record.seed is None else f"{record.kind} {record.seed}"
        for name in _PERFORMANCE:
            value = record.metrics.get(name)
            if value is None:
                continue
            low, high = wilson(value, n) if name == "accuracy" else (math.nan, math.nan)
            yield Number(f"control_{name}", source, value=value, low=low, high=high, n=n)
    for kind, found in f1_differences([run]).items():
        compared = f"{kind}~{found.reference}"
        yield Number("control_f1_difference", compared, value=found.value, low=found.low, high=found.high, n=found.n)


def twin_numbers(run: Run) -> Iterator[Number]:
    """How well twins predict and how far they are from their base."""
    for twin in run.summary.twins.values():
        yield from _twin(twin, len(run.labels))


def _twin(twin: TwinRecord, n: int) -> Iterator[Number]:
    """The numbers of one twin; its source is its variant and seed."""
    source = f"{twin.variant} {twin.seed}"
    for name in _PERFORMANCE:
        value = twin.metrics.get(name)
        if value is not None:
            yield Number(f"twin_{name}", source, value=value, n=n)
    yield Number("twin_epoch", source, value=float(twin.epoch or math.nan), n=n)
    for name, measured in twin.numbers.items():
        low = math.nan if measured.low is None else measured.low
        high = math.nan if measured.high is None else measured.high
        reasons = {measured.reason: 1} if measured.reason else {}
        n_undefined = measured.n_undefined or 0
        yield Number(
            name,
            source,
            value=float(measured.value),
            low=low,
            high=high,
            n=measured.n or n,
            n_undefined=n_undefined,
            reasons=reasons,
        )


def _tests(run: Run, kept: Sequence[str] | None) -> Iterator[Number]:
    """The records of the tests, without those of controls in attention's place by class."""
    for record in run.records:
        if kept is not None and record.metric not in kept:
            continue
        if record.group != ALL and record.metric not in BY_CLASS:
            continue
        yield number_of(record)


def number_of(record: ScoreRecord) -> Number:
    """What is kept of a record."""
    return Number(
        record.metric,
        record.source,
        record.group,
        record.site,
        record.mean,
        record.low,
        record.high,
        record.n,
        record.n_undefined,
        record.reasons,
    )


def run_folders(folder: Path) -> list[Path]:
    """Finished run folders below a folder, by name."""
    return sorted(path.parent for path in folder.rglob(SUMMARY))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of run folders")
    folder = parser.parse_args().folder
    folders = run_folders(folder)
    for path in folders:
        print(write_cell(summary_of(path)))
    write_pairs(list(pairs_of(folders)))


if __name__ == "__main__":
    main()
