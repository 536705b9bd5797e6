"""Sources of numbers as tables show them: controls in attention's place, and which direction speaks for attention."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.reports.numbers import number

CONTROLS = ("random", "uniform")


def parts(source: str) -> list[str]:
    """The sources that stand in the name of a comparison, such as "a-b~c"."""
    return source.replace("~", "-").split("-")


def shown(source: str) -> str:
    """A source as a cell of a table.

    Example:
        >>> shown("attention~saliency")
        'attention ~ saliency'
    """
    return source.replace("~", " ~ ")


def is_control(source: str) -> bool:
    """Whether a control stands in the source."""
    return any(control in parts(source) for control in CONTROLS)


def controls_in(sources: Sequence[str]) -> list[str]:
    """The controls that stand in any of some sources."""
    all_parts = set(itertools.chain.from_iterable(map(parts, sources)))
    return [control for control in CONTROLS if control in all_parts]


def with_control(source: str, control: str) -> str:
    """The source with a control in attention's place."""
    return source.replace("attention", control)


def speaks(source: str, metric: MetricFacts) -> str:
    """Which direction of a number speaks for faithful attention; a dash where neither does.

    Only numbers of the model's own attention, or of a twin, have a direction: those of a control, of a random ranking,
    of another importance or of the smallest set say nothing of attention.

    Example:
        >>> fraction = MetricFacts("decision_flip", "fraction removed", direction="lower", test="flips")
        >>> speaks("attention", fraction), speaks("random_ranking", fraction)
        ('down', '-')
    """
    random = any(part.startswith(CONTROLS) for part in parts(source))
    of_attention = "attention" in parts(source) and not random
    if of_attention or metric.test == "attefa":
        return arrow(metric.direction)
    return "-"


def arrow(direction: str | None) -> str:
    """Which direction speaks for faithful attention."""
    return {"higher": "up", "lower": "down"}.get(direction or "", "-")


def mean_of(record: ScoreRecord | None) -> str:
    """The mean; a dash without a text."""
    if record is None or not record.n:
        return "-"
    return number(record.mean)


def mean_beside(record: ScoreRecord | None, n: int) -> str:
    """A mean that stands beside one over n texts, with its own n where that is another; a dash without a text."""
    mean = mean_of(record)
    if record is None or mean == "-" or record.n == n:
        return mean
    return f"{mean} ({record.n})"


class UndefinedReasons:
    """The reasons why numbers of a table are undefined, each with the largest count among its rows."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, reasons: Mapping[str, int]) -> None:
        for reason, n in reasons.items():
            self._counts[reason] = max(n, self._counts.get(reason, 0))

    @property
    def notes(self) -> list[str]:
        """The note below the table; none where all is defined."""
        if not self._counts:
            return []
        counts = ", ".join(f"{reason} ({n})" for reason, n in self._counts.items())
        return [f"Undefined, left out of the means: {counts}."]


def shown_means(records: Iterable[ScoreRecord], metrics: Mapping[str, MetricFacts]) -> dict[tuple[str, str], float]:
    """The means over all texts that tables show, by metric and source; of controls none."""
    means = {}
    for record in records:
        metric = metrics.get(record.metric)
        if metric is not None and metric.shown and record.group == ALL and of_model(record.source):
            means[record.metric, record.source] = record.mean
    return means


def of_model(source: str) -> bool:
    """Whether a source is no control, and of two sources one is attention."""
    if any(control in source for control in CONTROLS):
        return False
    return "~" not in source or source.startswith("attention~")
