"""The schedule of the evidence: which cells of which recipes run, in which order, and what they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SCHEDULE = Path(__file__).with_name("schedule.yaml")


@dataclass(frozen=True)
class Entry:
    """Cells of a recipe that differ in nothing but their seed.

    Attributes:
        paper: name of the recipe below recipes/papers.
        only: axis of the recipe's grid -> label.
        vary: one axis -> its labels, a cell each.
        seeds: a cell each.
        later: further seeds, which are left out for want of time.
        minutes: that a cell is expected to take on one core.
        limit: split -> at most how many of its texts.
        vectors: whether the embeddings begin with word vectors.
        set: further keys of the recipe, dotted.
        left_out: why it is not run; None where it is.
    """

    paper: str
    only: Mapping[str, str]
    seeds: Sequence[int]
    minutes: float
    later: Sequence[int] = ()
    limit: Mapping[str, int] = field(default_factory=dict)
    vary: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vectors: bool = True
    set: Mapping[str, Any] = field(default_factory=dict)
    left_out: str | None = None

    def settings(self) -> dict[str, Any]:
        """The dotted keys that differ from the recipe's."""
        settings = dict(self.set)
        if self.limit:
            settings["data.limit"] = dict(self.limit)
        return settings


@dataclass(frozen=True)
class Task:
    """One cell: an entry, the labels of its axes, and one of its seeds."""

    entry: Entry
    axes: Mapping[str, str]
    seed: int

    @property
    def name(self) -> str:
        """Such as "jain_wallace_2019 20News lstm additive, seed 2"."""
        return f"{self.entry.paper} {' '.join(self.axes.values())}, seed {self.seed}"

    def command(self, data_dir: str, vectors: str) -> list[str]:
        """The words after ``attn-faithful``."""
        words = ["run", f"recipes/papers/{self.entry.paper}.yaml", "--seeds", str(self.seed), "--data-dir", data_dir]
        for axis, label in self.axes.items():
            words += ["--only", f"{axis}={label}"]
        if self.entry.vectors:
            words += ["--vectors", vectors]
        for key, value in self.entry.settings().items():
            words += ["--set", f"{key}={written(value)}"]
        return words


@cache
def read_schedule(path: Path = SCHEDULE) -> list[Entry]:
    """The entries of the schedule, in the order in which they run."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    entries = []
    for given in content["cells"]:
        defaults = content["defaults"].get(given["paper"], {})
        only = {**given.get("only", {}), **defaults.get("only", {})}
        settings = {**defaults.get("set", {}), **given.get("set", {})}
        entries.append(Entry(**{**defaults, **given, "only": only, "set": settings}))
    return entries


def tasks(entries: Sequence[Entry]) -> list[Task]:
    """The cells that are to run, in order."""
    return list(_tasks([entry for entry in entries if entry.left_out is None], later=False))


def all_tasks(entries: Sequence[Entry]) -> list[Task]:
    """The cells of entries, those that are left out too."""
    return list(_tasks(entries, later=True))


def _tasks(entries: Sequence[Entry], later: bool) -> Iterator[Task]:
    for entry in entries:
        seeds = [*entry.seeds, *entry.later] if later else entry.seeds
        for seed in seeds:
            for axes in cells_of(entry):
                yield Task(entry, axes, seed)


def cells_of(entry: Entry) -> Iterator[dict[str, str]]:
    """The labels of an entry's axes, of each cell."""
    if not entry.vary:
        yield dict(entry.only)
    for axis, labels in entry.vary.items():
        for label in labels:
            yield {**entry.only, axis: label}


def written(value: Any) -> str:
    """A value as a flag takes it: YAML in one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n").removesuffix("\n...")
