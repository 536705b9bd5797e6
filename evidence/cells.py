"""What is kept of a finished cell: its settings and its numbers, in a small file of summaries/."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

SUMMARIES = Path(__file__).with_name("summaries")
ALL = "all"
_DIGITS = 6  # significant ones: more than any table shows


@dataclass(frozen=True)
class Number:
    """One number of a cell over its texts.

    Attributes:
        metric: name of the metric table; base_f1, twin_f1, ... of how well models predict.
        source: what was measured: attention, a ranking, two sources (a~b), a twin, a control; "" of the base.
        group: "all", or the predicted class.
        site: where in the model the attention is; "" where that is no question.
        value: the mean; NaN where undefined.
        low, high: its 95% interval over texts; NaN where there is none.
        n, n_undefined: texts with and without a value.
        reasons: why values are undefined -> how many.
    """

    metric: str
    source: str = ""
    group: str = ALL
    site: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    n_undefined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CellSummary:
    """A finished cell.

    Attributes:
        paper: name of its recipe.
        axes: axis of the recipe's grid -> label.
        seed: of the base.
        label_names: the classes, by index.
        data: vocabulary, vector_coverage, and of each split n, classes, tokens_mean, tokens_std.
        settings: what the recipe's parts train, twin and data.limit were.
        minutes: that it took.
        versions: of the libraries.
        machine: device, architecture and threads.
        numbers: everything that was kept.
    """

    paper: str
    axes: Mapping[str, str]
    seed: int
    label_names: Sequence[str]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    minutes: float
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    numbers: Sequence[Number]

    @property
    def file(self) -> str:
        """Its name below summaries/, such as jain_wallace_2019/20news-lstm-additive-2.json."""
        labels = "-".join(self.axes.values()).lower().replace(" ", "-")
        return f"{self.paper}/{labels}-{self.seed}.json"

    def find(self, metric: str, source: str = "", group: str = ALL) -> list[Number]:
        """The numbers of a metric; several where a model has several sites."""
        place = (metric, source, group)
        return [number for number in self.numbers if (number.metric, number.source, number.group) == place]

    def of_twins(self, metric: str, variant: str) -> list[Number]:
        """The numbers of the twins of one kind, a seed each."""
        twins = []
        for number in self.numbers:
            kind, _, seed = number.source.rpartition(" ")
            if number.metric == metric and kind == variant and seed.isdigit():
                twins.append(number)
        return twins


def write_cell(cell: CellSummary, folder: Path = SUMMARIES) -> Path:
    """Write a cell; the file is the same whenever the cell is. Numbers stand one a line."""
    content = {entry.name: getattr(cell, entry.name) for entry in fields(cell) if entry.name != "numbers"}
    head = json.dumps(rounded(content), indent=1, ensure_ascii=False)
    lines = [json.dumps(rounded(_short(number)), ensure_ascii=False) for number in cell.numbers]
    text = head.removesuffix("\n}") + ',\n "numbers": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
    path = folder / cell.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read_cells(folder: Path = SUMMARIES) -> list[CellSummary]:
    """All cells that are there, by file name."""
    return list(_read(folder))


@cache
def all_cells() -> tuple[CellSummary, ...]:
    """The cells behind the documentation, read once a process."""
    return tuple(read_cells())


def _read(folder: Path) -> Iterator[CellSummary]:
    for path in sorted(folder.glob("*/*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        numbers = [Number(**{name: _defined(value) for name, value in entry.items()}) for entry in content["numbers"]]
        yield CellSummary(**{**content, "numbers": numbers})


def _short(number: Number) -> dict[str, Any]:
    """Its fields, without those that hold what is always there."""
    usual = asdict(Number(metric=""))
    kept = {}
    for name, value in asdict(number).items():
        if name in ("metric", "value") or value != usual[name]:
            kept[name] = value
    return kept


def rounded(value: Any) -> Any:
    """Numbers with as many digits as are kept; NaN as null."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def _defined(value: Any) -> Any:
    return math.nan if value is None else value
