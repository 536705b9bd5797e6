"""Which stages of own models are measured, on how many texts of which lengths."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import storing  # noqa: F401 -- registers its stages
from measure import TOO_LONG, Case, Record, in_child, measured
from setups import MODELS, setup
from stages import STAGES
from tables import line

import training

OWN = tuple(model for model in MODELS if model != "MiniLM")
MEANS = (19, 180)
# stage -> models; what is measured of a fine-tuned MiniLM stands in minilm_bench.py
MODELS_OF = {
    "training step": OWN,
    "twin training step": (*OWN, "MiniLM"),
    "gradients": OWN,
    "leave-one-out": OWN,
    "permutations": OWN,
    "adversary": OWN,
    "flips": OWN,
    "erasure": OWN,
    "hidden-state importance": OWN,
    "encode to disk": (*OWN, "MiniLM"),
    "report": ("MLP",),  # what it is made of does not depend on the encoder
}
EXAMPLES = {19: 32, 180: 16}
SLOW = ("leave-one-out", "hidden-state importance", "erasure")
FEW = {19: 32, 180: 4}  # texts that will do for these
WRITTEN = {19: 1000, 180: 200}  # what writes has costs that do not grow with the examples


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes:
        models, means: of the stages.
        enough: seconds of repeats of a stage.
        lengths, recurrent_enough: of the recurrent encoder's benchmark.
        trainer_texts: texts that the Trainer's benchmark trains on.
    """

    models: tuple[str, ...] = tuple(MODELS)
    means: tuple[int, ...] = MEANS
    enough: float = 0.3
    lengths: tuple[int, ...] = (19, 180)
    recurrent_enough: float = 1.0
    trainer_texts: int = 3200


QUICK = Extent(("MLP", "BiLSTM"), (19,), 0.1, (19,), 0.1, 640)


def extent(quick: bool) -> Extent:
    return QUICK if quick else Extent()


def records(quick: bool) -> list[Record]:
    """All stages."""
    wanted = extent(quick)
    return rows(list(MODELS_OF), wanted.models, wanted.means, wanted.enough)


def chosen(stages: Sequence[str], models: Sequence[str], means: Sequence[int]) -> list[Record]:
    """Some stages."""
    return rows(stages, models, means or MEANS, Extent().enough)


def rows(stages: Sequence[str], models: Sequence[str], means: Sequence[int], enough: float) -> list[Record]:
    """All combinations, each in a child; what a shorter length says would take too long is not begun."""
    found = []
    for stage, model in _pairs(stages, models):
        shorter: Record = {}
        for mean in means:
            shorter = row(stage, model, mean, shorter, enough)
            found.append(shorter)
            print(line(shorter), file=sys.stderr, flush=True)
    return found


def _pairs(stages: Sequence[str], models: Sequence[str]) -> Iterator[tuple[str, str]]:
    for stage, model in itertools.product(stages, models):
        if model in MODELS_OF[stage]:
            yield stage, model


def row(stage: str, model: str, mean: int, shorter: Record, enough: float) -> Record:
    """One combination, unless the record of a shorter length says that it would take too long."""
    record: Record = {"stage": stage, "model": model, "length": mean}
    count = examples_of(stage, model, mean)
    # at least in proportion to the tokens
    foreseen = shorter.get("seconds", 0) * mean / shorter.get("length", 1) * count
    skipped = shorter.get("skipped", "")
    if foreseen > TOO_LONG or skipped.startswith(">"):
        return {**record, "skipped": f"> {max(foreseen, TOO_LONG):.0f} s"}
    return in_child(partial(measured, partial(make, stage, model, mean), enough=enough), record)


def examples_of(stage: str, model: str, mean: int) -> int:
    """How many texts one run does."""
    if stage in ("encode to disk", "report"):
        texts, share = WRITTEN[mean], 5 if stage == "report" else 1
        if model == "MiniLM":
            share = 20
    else:
        texts, share = (FEW if stage in SLOW else EXAMPLES)[mean], 8 if model == "MiniLM" else 1
    return max(1, texts // share)


def make(stage: str, model: str, mean: int, small: bool) -> Case:
    """One stage on one model and some texts; small for a first run."""
    if small:
        return STAGES[stage](setup(model, 6, 2))
    return STAGES[stage](setup(model, mean, examples_of(stage, model, mean)))


def recurrent_records(quick: bool) -> list[Record]:
    """The BiLSTM's encoder, a length each."""
    wanted = extent(quick)
    found = []
    for length in wanted.lengths:
        work = partial(training.recurrent, length, enough=wanted.recurrent_enough)
        found.append(in_child(work, {"length": length}))
    return found


def trainer_record(quick: bool) -> Record:
    """What Trainer adds to a step."""
    return in_child(partial(training.overhead, count=extent(quick).trainer_texts), {})
