"""The numbers of a model's card: how well it predicts, what the tests say, and its twins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.answer.verdict import constant_base, few
from attn_faithful.reports.numbers import number
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.tables.sources import arrow, is_control

_OF_CLASSIFIER = {
    "accuracy": ("accuracy", "share of the texts that are classified right"),
    "f1": ("F1", "of the classification"),
    "roc_auc": ("ROC AUC", "how well the probabilities rank the classes; 0.5 is chance"),
}
_OF_TWIN = {
    "attefa": ("AtteFa", "0: a second model predicts the same with other attention, 1: it cannot", "higher"),
    "tvd": ("TVD of the twin", "how far the second model's predictions are from the model's, 0 to 1", None),
    "jsd": ("JSD of the twin", "how far its attention is from the model's, nats, 0 to 0.693", None),
}
_NO_EXAMPLE = "no defined example"


class Dataset(NamedTuple):
    """The data set of a number; the type is a Hub id where the data are from the Hub."""

    type: str
    name: str
    split: str


@dataclass(frozen=True)
class CardRow:
    """One number of the card.

    Attributes:
        key: of the metric in the metadata.
        title: of the metric.
        name: the title with what was scored, and where.
        meaning: a sentence without its stop.
        dataset: None where the data set has no name.
        value, low, high: mean and interval, NaN where there is none.
        n: examples that it is over.
        direction: which way speaks for faithful attention.
        reason: why the value is undefined.
    """

    key: str
    title: str
    name: str
    meaning: str
    dataset: Dataset | None
    value: float
    low: float = math.nan
    high: float = math.nan
    n: int | None = None
    direction: str | None = None
    reason: str = _NO_EXAMPLE

    @property
    def is_defined(self) -> bool:
        return math.isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def shown(self) -> str:
        return number(self.value)

    @property
    def interval(self) -> str:
        if not self.has_interval:
            return ""
        return f"{number(self.low)} to {number(self.high)}"

    @property
    def count(self) -> str:
        if self.n is None:
            return ""
        if few(self.n):
            return f"{self.n:,} ({few(self.n)})"
        return f"{self.n:,}"

    @property
    def arrow(self) -> str:
        """Which direction speaks for faithful attention; rows of controls and other importance are not in the card."""
        return arrow(self.direction)

    @property
    def arguments(self) -> dict[str, float]:
        """What the metadata say beside the value."""
        arguments: dict[str, float] = {}
        if math.isfinite(self.low):
            arguments["low"] = self.low
        if math.isfinite(self.high):
            arguments["high"] = self.high
        if self.n is not None:
            arguments["n"] = self.n
        return arguments


def of_classifier(key: str) -> bool:
    """Whether a metric says how well the model predicts."""
    return key in _OF_CLASSIFIER


def card_rows(run: Run) -> Iterator[CardRow]:
    """The numbers of a run that its model's card shows."""
    dataset = _dataset(run)
    for key, (title, meaning) in _OF_CLASSIFIER.items():
        value = run.summary.base.get(key)
        if value is not None:
            yield CardRow(key, title, title, meaning, dataset, value)
    for record in run.records:
        metric = run.metrics.get(record.metric)
        if metric is not None and metric.shown and _is_of_attention(record):
            yield _row_of_test(run, record, metric, dataset)
    for name, twin in run.summary.twins.items():
        yield from _rows_of_twin(name, twin, dataset)


def _dataset(run: Run) -> Dataset | None:
    settings = run.recipe.get("data") or {}
    name = settings.get("name") or run.axes.get("data")
    if not name:
        return None
    source = settings.get("source") or name
    if Path(source).is_absolute():
        source = Path(source).name
    return Dataset(source, name, run.split)


def _is_of_attention(record: ScoreRecord) -> bool:
    """Whether a record is over all texts and of attention itself, or of attention and an importance."""
    return record.group == ALL and not is_control(record.source) and ATTENTION in record.source.split("~")


def _row_of_test(run: Run, record: ScoreRecord, metric: MetricFacts, dataset: Dataset | None) -> CardRow:
    details = [f"with {part}" for part in record.source.split("~") if part != ATTENTION]
    if len(run.sites) > 1:
        details.append(record.site)
    name = metric.title
    if details:
        name = f"{metric.title} ({', '.join(details)})"
    reasons = ", ".join(f"{reason} ({n})" for reason, n in record.reasons.items())
    return CardRow(
        record.metric,
        metric.title,
        name,
        metric.meaning,
        dataset,
        record.mean,
        record.low,
        record.high,
        record.n,
        metric.direction,
        reasons or _NO_EXAMPLE,
    )


def _rows_of_twin(name: str, twin: TwinRecord, dataset: Dataset | None) -> Iterator[CardRow]:
    failure = ""
    if constant_base(twin):
        failure = ", of a base that is nearly constant"
    elif twin.collapsed:
        failure = ", gave up predicting"
    for key, (title, meaning, direction) in _OF_TWIN.items():
        measured = twin.numbers.get(key)
        if measured is None:
            continue
        yield CardRow(
            key,
            title,
            f"{title} ({name}{failure})",
            meaning,
            dataset,
            measured.value,
            math.nan if measured.low is None else measured.low,
            math.nan if measured.high is None else measured.high,
            measured.n,
            None if failure else direction,
            measured.reason or _NO_EXAMPLE,
        )
