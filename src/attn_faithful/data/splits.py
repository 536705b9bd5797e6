"""Rows of tables by their place, and the splits that a source lacks, cut out of train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.labels import LabelMap, stratified
from attn_faithful.data.text_column import values_at


def take(table: dict[str, Sequence[Any]], indices: Sequence[int]) -> dict[str, Sequence[Any]]:
    """The rows of a table at `indices`, in that order."""
    return {name: values_at(values, indices) for name, values in table.items()}


def make_splits(
    tables: dict[str, dict[str, Sequence[Any]]], share: float, seed: int, notes: list[str]
) -> dict[str, dict[str, Sequence[Any]]]:
    """Cut the splits that are missing out of train (or out of a single file), stratified.

    Raises:
        InputError: every class has one text, so that none can be spared.
    """
    tables = dict(tables)
    if "all" in tables:
        tables = {"train": tables.pop("all"), **tables}
    total = len(tables["train"]["label"])
    for split in ("test", "validation"):
        if split in tables:
            continue
        part = 0.1 if split == "test" else share
        n = max(1, round(part * total))
        table = tables["train"]
        chosen = stratified(table["label"], n, seed, split, spare_single=True)
        if not chosen:
            texts, classes = len(table["text"]), len(set(map(str, table["label"])))
            raise InputError(
                f"Expected a class of two texts or more, of which one makes a {split} split, but the {texts} texts "
                f"of train have {classes} classes; give a {split} split or more texts, or name another label_column."
            )
        inside = set(chosen)
        tables[split] = take(table, chosen)
        tables["train"] = take(table, [i for i in range(len(table["label"])) if i not in inside])
        notes.append(f"No {split} split was given: {len(chosen)} of {total} training texts are it (seed {seed}).")
    return tables


def check_train(table: dict[str, Sequence[Any]], mapping: LabelMap, source: str) -> None:
    """Raise where a training text has no label, or all have one."""
    labels = table["label"]
    if mapping.multi_label:
        return
    for example, label in zip(table["example"], labels, strict=True):
        if label == mapping.unknown:
            raise InputError(
                f"Expected a label for every training text, but the example {example!r} of {source!r} has -1 "
                f"(no label); drop such rows with drop=['-1'], or name what it means with label_map."
            )
    if len(set(labels)) < 2:
        only = mapping.names[labels[0]] if labels else "no"
        raise InputError(f"Expected at least two classes in train of {source!r}, but only {only!r} texts are there.")
