"""Records of tests: one number over the examples of a group, and what its metric is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from attn_faithful.records.json_values import Json, known_fields, numbers_defined

ALL = "all"  # the group of records over all examples


@dataclass(frozen=True)
class ScoreRecord:
    """One number of a test over the examples of a group: a row of the tables of tests.

    Attributes:
        test: name of the test; None for a metric that no test of this version has.
        metric: name from the metric table.
        site: where in the model the attention is.
        source: what was scored: attention, a control in its place, two sources (a~b), a twin's variant and seed.
        group: "all", or the class whose examples these are by prediction; the key "class" of the file.
        mean, std: over the examples, the standard deviation of the population; NaN without a defined one.
        low, high: the 95% interval of the mean; NaN where there is none.
        n: examples with a defined value.
        n_undefined: the others.
        reasons: why they are undefined -> how many.
        std_seeds, n_seeds: standard deviation of the mean over seeds, and how many have one; None for the record of one
            run.
    """

    test: str | None
    metric: str
    site: str
    source: str
    group: str
    mean: float
    std: float
    low: float
    high: float
    n: int
    n_undefined: int
    reasons: dict[str, int] = field(default_factory=dict)
    std_seeds: float | None = None
    n_seeds: int | None = None

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What tells the records of a run apart: metric, site, source and group."""
        return (self.metric, self.site, self.source, self.group)

    @classmethod
    def from_json(cls, values: Json) -> ScoreRecord:
        """The record of an entry of "tests" in summary.json."""
        known = known_fields(cls, {"group": values["class"], **values})
        return cls(**numbers_defined(cls, known))

    def as_json(self) -> dict[str, Any]:
        """The entry of "tests" in summary.json; those over seeds only where they are there."""
        entry: dict[str, Any] = {
            "test": self.test,
            "metric": self.metric,
            "site": self.site,
            "source": self.source,
            "class": self.group,
            "mean": self.mean,
            "std": self.std,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "n_undefined": self.n_undefined,
            "reasons": dict(self.reasons),
        }
        if self.n_seeds is not None:
            entry["std_seeds"] = self.std_seeds
            entry["n_seeds"] = self.n_seeds
        return entry


_NOTHING = ScoreRecord(None, "", "", "", ALL, math.nan, math.nan, math.nan, math.nan, 0, 0)
COLUMNS = list(_NOTHING.as_json())  # of a table of records of one run


@dataclass(frozen=True)
class MetricFacts:
    """What a metric is: an entry of "metrics" in summary.json.

    Attributes:
        name, title, meaning: in columns, in a table's head, in a sentence.
        low, high: its range; None where it has no bound.
        direction: "lower" or "higher" for which of two values speaks for faithful attention; None where neither does.
        unit: "nats", "probability" or "".
        shown: whether its mean stands in tables.
        test: the test that it belongs to.
        paper: where the test comes from.
    """

    name: str
    title: str
    meaning: str = ""
    low: float | None = None
    high: float | None = None
    direction: str | None = None
    unit: str = ""
    shown: bool = True
    test: str = ""
    paper: str = ""

    @classmethod
    def from_json(cls, values: Json) -> MetricFacts:
        return cls(**known_fields(cls, values))

    def as_json(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}
