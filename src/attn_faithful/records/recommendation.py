"""What may be shown as an explanation: an entry of "recommendation" in summary.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from attn_faithful.records.json_values import Json, known_fields, number_or_nan

# what a source can fail by
ORDER, CHANCE, POLARITY, STABILITY, UNMEASURED = "order", "chance", "polarity", "stability", "unmeasured"

CONTROLS = ("random_ranking", "random", "uniform")  # sources that nobody shows, random orders first


@dataclass(frozen=True)
class Criterion:
    """One number of a source over texts.

    Attributes:
        mean: NaN without texts.
        low, high: its 95% interval.
        n: texts in which it is defined.
    """

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0

    @classmethod
    def from_json(cls, values: Json) -> Criterion:
        numbers = {name: number_or_nan(values.get(name)) for name in ("mean", "low", "high")}
        return cls(**numbers, n=int(values.get("n", 0)))


@dataclass(frozen=True)
class RankedSource:
    """A source of importance, and what speaks for showing it.

    Attributes:
        source: its name.
        naopc: how near its order is to the best one: 1 is the best, 0 the worst.
        optimal: share of the texts, of those that it flips, in which no set that flips the decision is smaller.
        polarity: share of the texts in which its first item does not speak for the decision.
        stability: tau-b of its ranking with that of the text with another word of no effect.
        above_random: mean difference of its NAOPC from that of random orders; NaN for a control.
        p_random, p_best: of paired tests of its NAOPC against random orders and against the first source of the list,
            two-sided (Wilcoxon), corrected for all of them (Holm); NaN where there is none.
        fails: what forbids to show it: "order", "chance", "polarity", "stability", "unmeasured" (it lacks a
            number that other sources have); empty where nothing does.
    """

    source: str
    naopc: Criterion
    optimal: Criterion
    polarity: Criterion
    stability: Criterion
    above_random: float = math.nan
    p_random: float = math.nan
    p_best: float = math.nan
    fails: Sequence[str] = ()

    @property
    def is_control(self) -> bool:
        """Whether it is ranked for comparison alone."""
        return self.source in CONTROLS

    @classmethod
    def from_json(cls, values: Json) -> RankedSource:
        return cls(
            source=values["source"],
            naopc=Criterion.from_json(values["naopc"]),
            optimal=Criterion.from_json(values["optimal"]),
            polarity=Criterion.from_json(values["polarity"]),
            stability=Criterion.from_json(values["stability"]),
            above_random=number_or_nan(values.get("above_random")),
            p_random=number_or_nan(values.get("p_random")),
            p_best=number_or_nan(values.get("p_best")),
            fails=tuple(map(str, values.get("fails", ()))),
        )


@dataclass(frozen=True)
class Recommendation:
    """What may be shown as an explanation of a model's decisions at one site.

    Attributes:
        site: where in the model the attention is.
        measure: the metric that orders were compared by, "naopc_removal", "naopc" or "naopc_mask".
        source: what may be shown; None where nothing may, or too few texts stand behind it.
        n: texts in which the first source of the list has a number.
        sources: all that were compared, the best first; random orders are the last.
        lines: "order", "polarity", "stability", "texts" -> the line that a source had to pass; "outside" -> the share
            of erased texts up to which they are in distribution.
        outside: "delete" and "mask" -> share of the erased texts that are unusual to the model, where it is known.
    """

    site: str
    measure: str
    source: str | None
    n: int
    sources: Sequence[RankedSource] = ()
    lines: Mapping[str, float] = field(default_factory=dict)
    outside: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Json) -> Recommendation:
        known = known_fields(cls, values)
        sources = [RankedSource.from_json(entry) for entry in values.get("sources", ())]
        by_name = {name: dict(values.get(name, {})) for name in ("lines", "outside")}
        return cls(**{**known, "sources": sources, **by_name})

    def as_json(self) -> dict[str, Any]:
        """The entry of "recommendation" in summary.json."""
        entry = asdict(self)
        entry["sources"] = [dict(source, fails=list(source["fails"])) for source in entry["sources"]]
        return entry
