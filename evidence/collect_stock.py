"""Makes the small files of summaries/stock/ from the run folders of evidence.stock.

    python -m evidence.collect_stock runs/stock

What was collected before stays; what is there again is written over.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from attn_faithful.records.recommendation import Recommendation
from attn_faithful.records.scores import ScoreRecord
from attn_faithful.reports.run import Run
from evidence.cells import ALL, CellSummary, Number, write_cell
from evidence.collect import data_facts, machine, number_of, performance, run_folders
from evidence.stock_plan import MODELS, Plan, read_plan

PAPER = "stock"
MODEL = "model"  # the part that is a fine-tuning
SHOWN = "may_be_shown"
SECONDS = "source_seconds"
_AGAINST = ("leave_one_out", "input_x_gradient")  # what every source is compared with
_CORRELATION = "attention_correlation"
_KEPT = (
    _CORRELATION,
    "attention_permutation",
    "permutation_flips",
    "importance_entropy",
    "adversarial_attention",
    "head_certified",
    "head_flipped",
    "head_open",
    "joint_flip",
    "decision_flip",
    "flip_never",
    "naopc_removal",
    "naopc",
    "comprehensiveness",
    "sufficiency",
    "polarity_violation",
    "stability_tau",
    "plausibility",
    "randomisation_tau",
    "randomisation_cascading",
)


def summary_of(path: Path, plan: Plan) -> CellSummary:
    """What is kept of a run folder of `evidence.stock`.

    Raises:
        InputError: no finished run, or a damaged one.
        ValueError: its data set is none of the plan.
    """
    run = Run(path)
    part = path.parent.name
    settings = run.recipe["train"] if part == MODELS else run.evaluation["settings"]
    numbers = [*performance(run), *_tests(run), *_seconds(run), *_shown(run)]
    return CellSummary(
        paper=PAPER,
        axes={"data": _label(run, plan), "part": MODEL if part == MODELS else part},
        seed=run.seed,
        label_names=run.label_names,
        data=data_facts(run),
        settings=settings,
        minutes=(run.info.seconds or math.nan) / 60,
        versions=run.info.versions,
        machine=machine(run),
        numbers=numbers,
    )


def _label(run: Run, plan: Plan) -> str:
    """What tables call the data set of a run."""
    for model in plan.models:
        if model.folder == run.axes["data"]:
            return model.data
    known = ", ".join(model.folder for model in plan.models)
    raise ValueError(f"expected a run on one of {known}, but got one on {run.axes['data']}: {run.path}")


def _tests(run: Run) -> Iterator[Number]:
    for record in run.records:
        if is_kept(record):
            yield number_of(record)


def is_kept(record: ScoreRecord) -> bool:
    """Whether a record is over all texts and of a number that tables show; of pairs those with one of `_AGAINST`."""
    if record.group != ALL or record.metric not in _KEPT:
        return False
    if record.metric != _CORRELATION:
        return True
    return any(source in _AGAINST for source in record.source.split("~"))


def _seconds(run: Run) -> Iterator[Number]:
    """Seconds a text of each source."""
    for source, seconds in run.source_seconds.items():
        yield Number(SECONDS, source, value=seconds, n=len(run.labels))


def _shown(run: Run) -> Iterator[Number]:
    for found in run.summary.recommendation:
        yield from numbers_of_site(found)


def numbers_of_site(found: Recommendation) -> Iterator[Number]:
    """Of each source whether it passes every line (1) or not (0), and by what it fails; NaN of too few texts."""
    few = found.n < found.lines["texts"]
    for each in found.sources:
        if each.is_control:
            continue
        value = math.nan if few else float(not each.fails)
        reasons = dict.fromkeys(each.fails, 1)
        yield Number(SHOWN, each.source, site=found.measure, value=value, n=found.n, reasons=reasons)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of run folders")
    folder = parser.parse_args().folder
    plan = read_plan()
    for path in run_folders(folder):
        print(write_cell(summary_of(path, plan)))


if __name__ == "__main__":
    main()
