"""A source as it was read: its splits by their usual names, and what it states of its labels and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.files.decoding import decoded

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}


@dataclass
class Raw:
    """A source as it was read.

    Attributes:
        name: a short name for folders.
        splits: data sets by split; ``all`` for a single table.
        names: of the labels, where the source states them.
        tokenized: the texts are tokens joined by spaces.
        notes: what was guessed or left out.
    """

    name: str
    splits: dict[str, Any]
    names: list[str] | None = None
    tokenized: bool = False
    notes: list[str] = field(default_factory=list)


def slug(text: str) -> str:
    """A short name for folders.

    Example:
        >>> slug("Owner/My set:a")
        'owner-my-set-a'
    """
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.") or "data"


def from_datasets(loaded: Any, name: str) -> Raw:
    """The splits of a `datasets` object; splits with other names than train, validation and test are left out.

    What is left out is noted. Of two names that mean the same (dev and validation) the exact one is taken.

    Raises:
        InputError: no split of a usual name, or two that mean the same.
    """
    if not hasattr(loaded, "items"):
        return Raw(name, {"all": decoded(loaded, name)})
    taken = _usual_splits(loaded, name)
    if not taken:
        if len(loaded) != 1:
            raise InputError(
                f"Expected splits train, validation and test, but {name} has {', '.join(map(str, loaded))}."
            )
        (only,) = loaded.values()
        return Raw(name, {"all": decoded(only, name)})
    splits = {}
    for usual, split in taken.items():
        splits[usual] = decoded(loaded[split], f"the split {split!r} of {name}")
    others = [str(split) for split in loaded if split not in taken.values()]
    notes = [f"Splits left out: {', '.join(others)}."] if others else []
    return Raw(name, splits, notes=notes)


def _usual_splits(loaded: Any, name: str) -> dict[str, str]:
    """Usual name -> the split that is meant by it."""
    candidates: dict[str, list[str]] = {}
    for split in loaded:
        usual = SPLIT_NAMES.get(str(split).lower())
        if usual is not None:
            candidates.setdefault(usual, []).append(split)
    taken = {}
    for usual, splits in candidates.items():
        if usual in splits:
            taken[usual] = usual
        elif len(splits) == 1:
            taken[usual] = splits[0]
        else:
            raise InputError(
                f"Expected one split for {usual!r}, but {name} has {' and '.join(map(str, splits))}; rename one."
            )
    return taken
