"""The metric table: every number that a test gives, with its range and meaning."""

from __future__ import annotations

from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.base import EVALUATORS, MetricSpec, PublishedTest


def all_tests() -> dict[str, PublishedTest]:
    """Every test by its name, in the order of the tables: that of twins, then those that run block by block."""
    tests: dict[str, PublishedTest] = {attefa.TEST.name: attefa.TEST}
    for name in EVALUATORS:
        tests[name] = EVALUATORS[name]
    return tests


def metric_table() -> list[MetricSpec]:
    """Every metric of every test, in the order of the tables."""
    metrics: list[MetricSpec] = []
    for test in all_tests().values():
        metrics += test.metrics
    return metrics
