"""Run folders as of a transformers model, whose heads were proved and attacked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from attn_faithful.reports.run import Run
from tests.reports.made import _records, made

SITE = "layer.5"
PROVED, FLIPPED, OPEN, EMPTY = "p", "f", "?", "-"  # what is known of a head; it may have no item
TOGETHER = ("joint_flip", "certified_radius", "attack_radius")


def with_heads(  # noqa: PLR0913 -- what a run can have
    path: str | Path,
    texts: list[str],
    known: list[str],
    *,
    together: list[tuple[float, float, float]] | None = None,
    site: str = SITE,
    attention: dict | None = None,
    reason: str | None = None,
    unproved: str | None = None,
    exact: bool = False,
    **further,
) -> Run:
    """A run whose heads are known.

    Args:
        path: of the folder.
        texts: of the run.
        known: of each text a letter a head: p proved, f flipped, ? open, - without an item.
        together: of each text whether all heads together flip it, the proved radius and the one found.
        site: where the heads are.
        attention: entries of meta.json that differ.
        reason: why all of it is undefined; None where it is not.
        exact: whether the exact answers of an affine read-out stand beside.
        unproved: why nothing is proved; None where something is.
        further: see `made`.
    """
    run = made(path, texts, sites=(site,), **further)
    together = together or [(1.0, 0.181, 0.385)] * len(texts)
    heads = len(known[0])
    scores = run.read("scores").to_pydict()
    if not exact:
        scores = _without_exact(scores)
    for example, letters, numbers in zip(run.ids, known, together, strict=True):
        for metric, letter in (("head_certified", PROVED), ("head_flipped", FLIPPED), ("head_open", OPEN)):
            for slot, found in enumerate(letters):
                why = unproved if metric == "head_certified" and unproved else reason
                why = "no content token" if found == EMPTY else why
                _put(scores, example, site, slot, metric, float(found == letter), why)
        for metric, value in zip(TOGETHER, numbers, strict=True):
            why = unproved if metric == "certified_radius" and unproved else reason
            _put(scores, example, site, 0, metric, value, why)
    run.folder.write_table("scores", scores)
    run.folder.write_table("variants", _variants(run, known, together, site))
    records = _records(scores)
    for record in records:
        why = reason or unproved
        if why is not None and not record["n"]:
            record["reasons"] = {why: len(texts)}
    run.folder.write_summary({**run.folder.read_summary(), "tests": records})
    read = {"rows": {site: "token"}, "heads": None, "heads_in_all": heads, "layers": 6, "max_tokens": 512}
    run.folder.write_meta({**run.meta, "attention": {**read, **(attention or {})}})
    return Run(path)


def _without_exact(scores: dict) -> dict:
    """The scores without those that say that the read-out is affine."""
    kept = [row for row, metric in enumerate(scores["metric"]) if metric != "attention_proof"]
    return {name: [values[row] for row in kept] for name, values in scores.items()}


def _put(scores, example, site, slot, metric, value, reason) -> None:
    row = {"example": example, "site": site, "slot": slot, "source": "attention", "metric": metric}
    row |= {"value": value if reason is None else math.nan, "reason": reason}
    for name, column in scores.items():
        column.append(row.get(name))


def _variants(run: Run, known, together, site) -> dict:
    """The variants with the attention of one head, and of all, that changes the decision: the first word's of it."""
    variants = run.read("variants").to_pydict()
    sizes = [len(words) for words in run.read("tokens").column("tokens").to_pylist()]
    for example, letters, (joint, _, _), size in zip(run.ids, known, together, sizes, strict=True):
        even = np.full((len(letters), size), 1 / size)
        on_first = np.zeros(size)
        on_first[0] = 1
        if FLIPPED in letters:
            slot = letters.index(FLIPPED)
            one = even.copy()
            one[slot] = on_first
            _put_variant(variants, example, site, slot, "head-flip", one)
        if joint:
            _put_variant(variants, example, site, 0, "joint-flip", np.tile(on_first, (len(letters), 1)))
    return variants


def _put_variant(variants, example, site, slot, name, attention) -> None:
    row = {"example": example, "site": site, "slot": slot, "test": "adversarial", "variant": name}
    row |= {"attention_jsd": 0.1, "output_tvd": 0.43, "attention": attention.ravel().tolist(), "exact": False}
    for column, values in variants.items():
        values.append(row.get(column))
