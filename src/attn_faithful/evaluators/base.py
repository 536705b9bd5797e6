"""The metric table: every number that a test reports, with its range, direction and meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful._registry import Registry


@dataclass(frozen=True)
class MetricSpec:
    """One number of a test, as data.

    Attributes:
        name: in columns, tables and on the command line.
        title: in a table's head.
        meaning: one sentence for a person.
        low, high: its range.
        direction: "lower" or "higher" for which of two values speaks for faithful attention; None where neither does.
        unit: "nats", "probability", "" ...
    """

    name: str
    title: str
    meaning: str
    low: float
    high: float
    direction: str | None = None
    unit: str = ""


@dataclass(frozen=True)
class Evaluator:
    """One faithfulness test.

    Attributes:
        name: for ``--tests`` and the column "test".
        paper: where it comes from, with the section.
        metrics: its rows of the metric table.
        run: from what models did to per-example columns of the table "variants".
        score: from stored columns to one record a metric: value, low, high, std, n, n_undefined, reason.
    """

    name: str
    paper: str
    metrics: Sequence[MetricSpec]
    run: Callable[..., dict[str, list[Any]]]
    score: Callable[..., dict[str, dict[str, Any]]]


EVALUATORS: Registry[Evaluator] = Registry("test")


def metric_table() -> list[MetricSpec]:
    """Every registered metric, in order of registration."""
    return [metric for name in EVALUATORS for metric in EVALUATORS[name].metrics]
