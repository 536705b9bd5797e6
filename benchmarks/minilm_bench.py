"""Which stages of a fine-tuned MiniLM are measured, on which texts; and its growth with length, layers and tests."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import floor
import minilm
from measure import (
    AbsentError,
    Case,
    Record,
    TooLongError,
    forget_peak,
    in_child,
    limited,
    measured,
    peak,
    resident,
    spent,
)
from minilm_stages import STAGES
from tables import line

import attn_faithful as af

TEXTS = {"SST": 16, "Yelp": 1, "IMDB": 1}
ENOUGH = {"SST": 4.0, "Yelp": 12.0, "IMDB": 5.0}  # seconds of repeats
LIMIT = 90.0  # seconds of one run
# stages of the longest texts, which take half a minute a run
OF_IMDB = ("leave-one-out", "input x gradient")

FORWARDS = ((24, 32), (24, 128), (190, 8), (190, 32))  # pieces, texts
GROWN = ("entropy", "correlation", "permutation", "adversarial", "flips", "erasure")
PIECES = (20, 50, 100, 200, 500)
GROWTH_LIMIT = 20.0  # seconds of one text


@functools.cache
def loaded() -> tuple[Any, Any]:
    """The model, once for all children."""
    return af.load(minilm.minilm_folder())


def records(quick: bool) -> list[Record]:
    """All stages at all lengths."""
    return rows(list(STAGES), ["SST"] if quick else list(TEXTS), quick)


def chosen(stages: Sequence[str], lengths: Sequence[str] | None) -> list[Record]:
    """Some stages."""
    return rows(stages, [length for length in lengths or TEXTS if length in TEXTS], quick=False)


def rows(stages: Sequence[str], lengths: Sequence[str], quick: bool) -> list[Record]:
    """All combinations, each in a child."""
    found = []
    for stage in stages:
        for length in lengths:
            if length == "IMDB" and stage not in OF_IMDB:
                continue
            record = row(stage, length, quick)
            found.append(record)
            print(line(record), file=sys.stderr, flush=True)
    return found


def row(stage: str, length: str, quick: bool) -> Record:
    """One stage at one length."""
    record: Record = {"stage": stage, "model": "MiniLM", "length": length}
    try:
        setup = minilm.setup_of(*loaded(), minilm.strings(length, 2 if quick else TEXTS[length]))
    except AbsentError as reason:
        return {**record, "skipped": str(reason)}
    record["pieces"] = setup.pieces
    enough = 0.1 if quick else ENOUGH[length]
    work = partial(measured, partial(_make, stage, setup), enough=enough, limit=LIMIT)
    return in_child(work, record, wall=900.0)


def _make(stage: str, setup: minilm.StockSetup, small: bool) -> Case:
    if small:
        setup = minilm.setup_of(setup.model, setup.tokenizer, ["a rather short text"])
    return STAGES[stage](setup)


def forward_records(quick: bool) -> list[Record]:
    """How near the model's own forward, all layers and rows of it, comes to the rate that floors are counted in."""
    try:
        model, _ = loaded()
    except AbsentError as reason:
        return [{"skipped": str(reason)}]
    found = []
    for pieces, texts in FORWARDS:
        share = floor.forward_share(model.model, pieces, texts)
        found.append({"pieces": pieces, "texts": texts, "share": share})
    return found


def growth_records(quick: bool) -> list[Record]:
    """Seconds, rows and memory of one text: a test, a length, the last layer or all of them."""
    found = []
    for test in GROWN:
        for layers in ("last",) if quick else ("last", "all"):
            shorter: Record = {}
            for pieces in PIECES[:1] if quick else PIECES:
                shorter = grown(test, layers, pieces, shorter)
                found.append(shorter)
                print(line(shorter), file=sys.stderr, flush=True)
    return found


def grown(test: str, layers: str, pieces: int, shorter: Record) -> Record:
    """One test at one length, unless a shorter one says that it would take too long."""
    record: Record = {"stage": test, "model": "MiniLM", "length": pieces, "layers": layers}
    foreseen = shorter.get("seconds", 0) * pieces / shorter.get("length", 1)
    if foreseen > GROWTH_LIMIT or "skipped" in shorter:
        return {**record, "skipped": f"> {GROWTH_LIMIT:.0f} s"}
    try:
        loaded()
    except AbsentError as reason:
        return {**record, "skipped": str(reason)}
    return in_child(partial(_grow, test, layers, pieces), record)


def _grow(test: str, layers: str, pieces: int, record: Record) -> None:
    """Fill in one text's seconds, and how many rows the classifier was given."""
    model, tokenizer = loaded()
    text = minilm.made_text(pieces - 2, random.Random(pieces))
    settings = {"tests": [test], "sites": ["all"] if layers == "all" else []}
    minilm.setup_of(model, tokenizer, ["a rather short text"]).ours(**settings)()
    run = minilm.setup_of(model, tokenizer, [text]).ours(**settings)
    counted = 0

    def count(module: Any, inputs: tuple[Any, ...]) -> None:
        nonlocal counted
        counted += inputs[0].numel() // inputs[0].shape[-1]

    forget_peak()
    before = resident()
    handle = model.model.classifier.register_forward_pre_hook(count)
    try:
        with limited(GROWTH_LIMIT):
            record["seconds"], _ = spent(run)
        record["rows"] = counted
    except TooLongError:
        record["skipped"] = f"> {GROWTH_LIMIT:.0f} s"
    finally:
        handle.remove()
        record["bytes"] = max(0, peak() - before)
