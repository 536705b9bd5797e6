"""The splits that a source lacks, cut out of train, and what train must hold."""

from __future__ import annotations

from attn_faithful._checks import InputError
from attn_faithful.data.label_map import LabelMap
from attn_faithful.data.split_table import SplitTable
from attn_faithful.data.stratified import stratified

_TEST_SHARE = 0.1


def make_splits(tables: dict[str, SplitTable], share: float, seed: int, notes: list[str]) -> dict[str, SplitTable]:
    """Cut the splits that are missing out of train (or out of a single file), stratified.

    Args:
        tables: by split; ``all`` for a single file.
        share: of train that becomes the validation split.
        seed: of the choice.
        notes: gets what was cut.

    Raises:
        InputError: every class has one text, so that none can be spared.
    """
    tables = dict(tables)
    if "all" in tables:
        tables = {"train": tables.pop("all"), **tables}
    total = len(tables["train"])
    for split, part in (("test", _TEST_SHARE), ("validation", share)):
        if split in tables:
            continue
        train = tables["train"]
        chosen = stratified(train.labels, max(1, round(part * total)), seed, split, spare_single=True)
        if not chosen:
            n_classes = len(set(map(str, train.labels)))
            raise InputError(
                f"Expected a class of two texts or more, of which one makes a {split} split, but the {len(train)} "
                f"texts of train have {n_classes} classes; give a {split} split or more texts, or name another "
                "label_column."
            )
        cut = set(chosen)
        rest = [i for i in range(len(train)) if i not in cut]
        tables[split] = train.take(chosen)
        tables["train"] = train.take(rest)
        notes.append(f"No {split} split was given: {len(chosen)} of {total} training texts are it (seed {seed}).")
    return tables


def check_train(train: SplitTable, label_map: LabelMap, source: str) -> None:
    """Raise where a training text has no label, or all have one."""
    if label_map.multi_label:
        return
    for example, label in zip(train.examples, train.labels, strict=True):
        if label == label_map.unknown:
            raise InputError(
                f"Expected a label for every training text, but the example {example!r} of {source!r} has -1 "
                f"(no label); drop such rows with drop=['-1'], or name what it means with label_map."
            )
    if len(set(train.labels)) < 2:
        only = label_map.names[train.labels[0]] if train.labels else "no"
        raise InputError(f"Expected at least two classes in train of {source!r}, but only {only!r} texts are there.")
