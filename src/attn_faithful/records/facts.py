"""What tests say of a whole data set beside means and shares."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from attn_faithful.records.json_values import Json, known_fields, number_or_nan, numbers_defined


@dataclass(frozen=True)
class Fact:
    """What a test says of a whole data set beside means and shares: an entry of "facts" in summary.json.

    Attributes:
        site: where in the model the attention is.
        source: the ranking, or two of them (a~b).
    """

    KIND: ClassVar[str] = ""

    site: str
    source: str

    def as_json(self) -> dict[str, Any]:
        """The entry of summary.json: the kind under "fact", then the fields."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {"fact": self.KIND, **values}


@dataclass(frozen=True)
class FlipFractions(Fact):
    """How much a ranking removes until the decision flips (Serrano and Smith 2019, figures 10 and 11).

    Attributes:
        fraction, mass: quartiles of the fraction of items and of the attention mass removed.
        n: texts that flip.
        at_last, optimal, never: shares of texts that flip only at the last item, with as few items as possible, never.
    """

    KIND: ClassVar[str] = "flip_fractions"

    fraction: list[float]
    n: int
    mass: list[float]
    at_last: float
    optimal: float
    never: float


@dataclass(frozen=True)
class FlipContingency(Fact):
    """Shares of the four outcomes of removing the top item and a random other one (Serrano and Smith 2019, table 2)."""

    KIND: ClassVar[str] = "flip_contingency"

    flip_both: float
    flip_top_only: float
    flip_random_only: float
    flip_neither: float
    n: int


@dataclass(frozen=True)
class NegativeJS(Fact):
    """How often a random item mattered more than the top one, by bins of the difference in attention (figures 4, 8).

    Attributes:
        low, high: the bins' edges.
        negative, of: texts of each bin where the random item mattered more, and all of them.
        n: texts.
    """

    KIND: ClassVar[str] = "negative_js"

    low: list[float]
    high: list[float]
    negative: list[int]
    of: list[int]
    n: int


@dataclass(frozen=True)
class PairedRankings(Fact):
    """Two rankings on the same texts: which needs fewer items until the decision flips.

    Attributes:
        sooner, later: shares of texts where the first needs fewer, and more.
        mean, low, high: the mean difference of the fractions removed, with its 95% interval.
        n, n_undefined: texts with and without both.
        p: Wilcoxon's signed-rank test, two-sided.
        p_holm: corrected for the number of pairs.
    """

    KIND: ClassVar[str] = "paired_rankings"

    sooner: float
    later: float
    mean: float
    low: float
    high: float
    n: int
    n_undefined: int
    p: float
    p_holm: float


_KINDS = (FlipFractions, FlipContingency, NegativeJS, PairedRankings)
FACTS: dict[str, type[Fact]] = {kind.KIND: kind for kind in _KINDS}


def fact_from_json(values: Json) -> Fact | None:
    """The fact of an entry of "facts"; None for a kind that this version does not know."""
    kind = FACTS.get(values["fact"])
    if kind is None:
        return None
    known = numbers_defined(kind, known_fields(kind, values))
    for name, value in known.items():
        if isinstance(value, list):
            known[name] = [number_or_nan(entry) for entry in value]
    return kind(**known)
