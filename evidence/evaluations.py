"""Makes the small files of summaries/ for the pages of docs/results, from run folders.

    python -m evidence.evaluations leverage --label weight=0.3 --seed 2 runs/evaluate/sst2-lstm-...
    python -m evidence.evaluations mohankumar_2020 runs/mohankumar_2020/*

With labels, the folders are evaluations of one model by other tests (``attn-faithful evaluate``), and what they have in
common is kept once; without, each is a run of a recipe with labels and a seed of its own. The topics are those of
`evidence.topics`; the page of a topic says which commands made its runs. Where importance is compared with sources that
another run over the same texts holds, ``--beside`` names that run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.reports.run import Run
from evidence.cells import ALL, CellSummary, Number, write_cell
from evidence.collect import data_facts, machine, number_of, performance, twin_numbers
from evidence.derived import agreement_numbers, core_numbers, shown_numbers
from evidence.topics import TOPICS, Topic


def evaluation_cell(
    topic: str, labels: Mapping[str, str], seed: int, folders: Sequence[Path], beside: Path | None = None
) -> CellSummary:
    """What is kept of the evaluations of one model.

    Args:
        topic: a name of `TOPICS`.
        labels: what tells the model from others of the topic.
        seed: that the model was trained with.
        folders: finished runs.
        beside: a run over the same texts that holds the sources that others are compared with; None for the run itself.

    Raises:
        InputError: no finished run, or a damaged one.
    """
    runs = [Run(folder) for folder in folders]
    first = runs[0]
    kept = TOPICS[topic]
    tests: list[str] = []
    numbers = list(performance(first))
    for run in runs:
        tests += run.evaluation["tests"]
        numbers += _numbers(run, kept)
        if kept.agreement:
            numbers += agreement_numbers(run, kept.agreement, Run(beside) if beside else run)
    return CellSummary(
        paper=topic,
        axes=dict(labels),
        seed=seed,
        label_names=first.label_names,
        data=data_facts(first),
        settings={"tests": tests, **_of_recipe(first)},
        minutes=sum(run.info.seconds or 0.0 for run in runs) / 60,
        versions=first.info.versions,
        machine=machine(first),
        numbers=_once(numbers),
    )


def _of_recipe(run: Run) -> dict[str, Any]:
    """Settings of a run that trained its model."""
    return {part: run.recipe[part] for part in ("train", "twin") if part in run.recipe}


def _numbers(run: Run, topic: Topic) -> Iterator[Number]:
    """What a topic keeps of one run; what is derived stands before the records."""
    if topic.cores:
        yield from core_numbers(run)
    if topic.shown:
        yield from shown_numbers(run)
    if topic.twins:
        yield from twin_numbers(run)
    for record in run.records:
        if record.group == ALL and topic.keeps(record.metric, record.source):
            yield number_of(record)


def _once(numbers: Sequence[Number]) -> list[Number]:
    """Of numbers of the same metric, source, group and site the first."""
    found: dict[tuple[str, str, str, str], Number] = {}
    for number in numbers:
        found.setdefault((number.metric, number.source, number.group, number.site), number)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", choices=sorted(TOPICS))
    parser.add_argument("folders", type=Path, nargs="+", help="run folders")
    parser.add_argument("--label", action="append", metavar="NAME=TEXT", help="what the one model of all folders is")
    parser.add_argument("--seed", type=int, help="that it was trained with")
    parser.add_argument("--beside", type=Path, metavar="RUN", help="run over the same texts that holds the references")
    given = parser.parse_args()
    if (given.label is None) != (given.seed is None):
        parser.error("expected --label and --seed together, of the one model that the folders are evaluations of")
    try:
        for cell in _cells(given):
            print(write_cell(cell))
    except InputError as error:
        parser.error(str(error))


def _cells(given: argparse.Namespace) -> Iterator[CellSummary]:
    """The one cell of all folders, or one of each."""
    if given.label is not None:
        labels = dict(label.split("=", 1) for label in given.label)
        yield evaluation_cell(given.topic, labels, given.seed, given.folders, given.beside)
        return
    for folder in given.folders:
        run = Run(folder)
        yield evaluation_cell(given.topic, run.info.axes, run.seed, [folder])


if __name__ == "__main__":
    main()
