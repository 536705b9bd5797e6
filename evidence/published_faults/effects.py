"""A fault of published code and its measured effects, and the file that holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from evidence.cells import rounded

SUMMARY = Path(__file__).parents[1] / "summaries" / "published_faults.json"


@dataclass(frozen=True)
class Fault:
    """Where published code does something else than its paper says, or is said to.

    Attributes:
        name: of its module and in the file of effects.
        title: for a heading.
        paper: name of the paper's recipe, or of the paper where it has none.
        where: repository, file and function.
        published: what the code does.
        printed: what the paper says, or what is right where it says nothing.
        remark: what else a reader must know; "" for nothing.
        against: what numbers as published are compared with.
    """

    name: str
    title: str
    paper: str
    where: str
    published: str
    printed: str
    remark: str = ""
    against: str = "as printed"


@dataclass(frozen=True)
class Estimate:
    """A number over n texts with its 95% interval, texts resampled; NaN where there is none."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """A number both ways on the same texts.

    Attributes:
        as_published: by the published code's way.
        as_printed: by the paper's, or by what the fault's `against` says.
        difference: the first minus the second, the same texts drawn for both.
    """

    as_published: Estimate
    as_printed: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Effect:
    """What a fault changes in one number.

    Attributes:
        fault: its name.
        metric: what the number is.
        unit: "percent", "nats", "probability" or "tau"; "" for a ratio.
        texts: which texts of the test split.
        data, model: what it was measured on.
        seeds: of the models; numbers are means over them.
        comparison: the numbers.
        command: that measured it.
        versions: of the libraries.
    """

    fault: str
    metric: str
    unit: str
    texts: str
    data: str
    model: str
    seeds: Sequence[int]
    comparison: Comparison
    command: str
    versions: Mapping[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        """What tells it from other effects: one measured again takes its place."""
        return (self.fault, self.data, self.model, self.metric, self.texts)

    def as_json(self, fault: Fault) -> dict[str, Any]:
        """Its record in the file, with what it is an effect of."""
        entries = {"fault": fault.name, "paper": fault.paper, "where": fault.where}
        for field in fields(self):
            if field.name not in ("fault", "comparison"):
                entries[field.name] = getattr(self, field.name)
        entries |= asdict(self.comparison)
        record: dict[str, Any] = rounded(entries)
        return record

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Effect:
        """The effect of a record."""
        estimates = {}
        for field in fields(Comparison):
            numbers = {name: math.nan if value is None else value for name, value in record[field.name].items()}
            estimates[field.name] = Estimate(**numbers)
        known = {field.name: record[field.name] for field in fields(cls) if field.name != "comparison"}
        return cls(**known, comparison=Comparison(**estimates))


def read_effects(path: Path = SUMMARY) -> list[Effect]:
    """All effects that were measured; none without the file."""
    if not path.is_file():
        return []
    return [Effect.of_json(record) for record in json.loads(path.read_text(encoding="utf-8"))]


def write_effects(effects: Sequence[Effect], faults: Mapping[str, Fault], path: Path = SUMMARY) -> None:
    """Put effects into the file, in place of those of the same number; the same effects give the same file."""
    by_place = {effect.place: effect for effect in [*read_effects(path), *effects]}
    order = list(faults)
    kept = sorted(by_place.values(), key=lambda effect: (order.index(effect.fault), *effect.place))
    records = [json.dumps(effect.as_json(faults[effect.fault]), ensure_ascii=False) for effect in kept]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n " + ",\n ".join(records) + "\n]\n", encoding="utf-8")
