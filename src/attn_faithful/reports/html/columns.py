"""The columns of numbers in a page's list of examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attn_faithful.reports.answer.head_statements import searched
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.scores import CORE, SETS, Scores


@dataclass(frozen=True)
class Column:
    """One number of the list of examples.

    Attributes:
        title: its head.
        help: what it is.
        metric, source: of the scores that it shows.
        digits: after the point.
        bar: entry of the palette of a bar beside the number; None without.
        high: where the bar is full.
    """

    title: str
    help: str
    metric: str
    source: str
    digits: int = 2
    bar: str | None = None
    high: float = 1.0

    @property
    def head(self) -> dict[str, Any]:
        """The description of the column for the page's script."""
        return {
            "title": self.title,
            "help": self.help,
            "digits": self.digits,
            "bar": self.bar,
            "high": round(self.high, 4),
        }


_CAN_MOVE = Column(
    "can move",
    "largest JSD from the model's attention that moves the prediction by eps at most, nats",
    "adversarial_attention",
    "attention",
    bar="adversarial",
    high=math.log(2),
)
_PROVED = Column(
    "heads proved",
    "share of the heads of which no attention could change the decision, the others keeping theirs",
    "head_certified",
    "attention",
)
_FOUND = Column(
    "flips mixed in",
    "share of another attention of all heads that was found to be enough to change the decision; 1 where none was",
    "attack_radius",
    "attention",
)
_SHUFFLED = Column(
    "shuffled", "median change of p when the weights go to other words", "attention_permutation", "attention"
)
_FLIPS_AT = Column("flips at", "fraction removed, by attention, until the decision flips", "decision_flip", "attention")
_OF_SETS = (("smallest set", "fewest"), ("small set", "few"))  # title and meaning of the columns of `SETS`


def columns(examples: Examples) -> list[Column]:
    """The numbers of the list, of the tests that ran."""
    sources = examples.run.sources
    return [column for column in _possible(examples) if column.source in sources(column.metric, examples.site)]


def _possible(examples: Examples) -> Iterator[Column]:
    source = examples.first_source
    agreement = f"Kendall's tau-b of attention and {title_of(source or '')}"
    yield Column("tau", agreement, "attention_correlation", f"attention~{source}")
    yield _CAN_MOVE
    if searched(Scores([examples.run], examples.site)):
        yield _PROVED
        yield _FOUND
    yield _SHUFFLED
    yield _FLIPS_AT
    for name, (title, amount) in zip(SETS, _OF_SETS, strict=True):
        meaning = f"{amount} {examples.noun}s without which the decision flips"
        yield Column(title, meaning, "flip_size", name, digits=0)
    meaning = f"fewest {examples.noun}s whose attention must be believed for the decision, whatever the rest is"
    yield Column("core", meaning, "core_size", CORE, digits=0)
    twins = [kind.key.removeprefix("twin ") for kind in examples.kinds if kind.key.startswith("twin ")]
    for twin in twins[:1]:
        yield Column("twin TVD", f"change of p by the twin {twin}", "tvd", twin)
        yield Column("twin JSD", f"JSD of the attention of {twin}", "jsd", twin, bar="adversarial", high=math.log(2))


class ColumnCells:
    """The cells of one column: a rounded number, or the reason why it is undefined."""

    def __init__(self, examples: Examples, column: Column) -> None:
        run, site = examples.run, examples.site
        self.values = run.scores(column.metric, column.source, site).tolist()
        self.reasons = run.reasons(column.metric, column.source, site)

    def __getitem__(self, i: int) -> float | str:
        value = self.values[i]
        if math.isfinite(value):
            return round(value, 4)
        return self.reasons[i] or "undefined"
