"""The numbers of a run at one site, as sentences and cards take them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.reports.answer.verdict import few
from attn_faithful.reports.examples import evaluation_of, noun_of
from attn_faithful.reports.run import ALL, Run
from attn_faithful.reports.tables.table import number


class Scores:
    """The numbers of a run at one site, or of several runs of a model over seeds, one after the other.

    Args:
        runs: one, or one a seed.
        site: where in the model.
    """

    def __init__(self, runs: Sequence[Run], site: str | None) -> None:
        self.runs, self.run, self.site = runs, runs[0], site
        self.noun = noun_of(self.run, site)
        self._records = [
            {(r["metric"], r["source"]): r for r in run.records if r["class"] == ALL and r["site"] == site}
            for run in runs
        ]

    def record(self, metric: str, source: str = "attention") -> Mapping[str, Any] | None:
        """The summary's record, of the first run; None where the metric was not computed."""
        return self._records[0].get((metric, source))

    def mean(self, metric: str, source: str = "attention") -> float:
        """Its mean, of the first run; NaN where there is none."""
        record = self.record(metric, source)
        return math.nan if record is None or record["mean"] is None else float(record["mean"])

    def values(self, metric: str, source: str = "attention") -> np.ndarray:
        """Of every example (B,), of several runs (runs x B,)."""
        found = [np.asarray(run.scores(metric, source, self.site), dtype=float) for run in self.runs]
        return np.concatenate(found)

    def asked(self, metric: str, source: str = "attention") -> np.ndarray:
        """Of every question: of each example, or of each label and example (L x B,) where every label was asked."""
        found = []
        for run in self.runs:
            by_label = run.scores_by_label(metric, source, self.site)
            own = np.asarray(run.scores(metric, source, self.site), dtype=float)
            found.append(own if by_label is None else by_label.ravel())
        return np.concatenate(found)

    def by_label(self, metric: str) -> bool:
        """Whether every label was asked by itself."""
        return self.run.scores_by_label(metric, "attention", self.site) is not None

    def over(self, n: int, metric: str | None = None) -> str:
        """A number of texts in words; of several seeds it is said that each text counts once a seed.

        Args:
            n: how many.
            metric: what they were asked for; where every label was asked, each is a text with a label.

        Example: "60 texts", "1 text", "120 texts (of 2 seeds)", "180 pairs of text and label".
        """
        several = f" (of {len(self.runs)} seeds)" if len(self.runs) > 1 else ""
        if metric is not None and self.by_label(metric):
            return f"{n:,} pair{'' if n == 1 else 's'} of text and label{several}"
        return f"{n:,} text{'' if n == 1 else 's'}{several}"

    @property
    def tests(self) -> Mapping[str, Mapping[str, Any]]:
        """The tests that ran -> what was set for them."""
        evaluation = evaluation_of(self.run)
        settings = evaluation.get("settings", {})
        return {test: settings.get(test, {}) for test in evaluation.get("tests", [])}

    @property
    def single(self) -> bool:
        """Whether there is one text, of which nothing is typical."""
        return len(self.runs) == 1 and len(self.run.examples) == 1


@dataclass(frozen=True)
class Pair:
    """Two numbers as means over the same texts.

    Attributes:
        first, second: the means, NaN without texts.
        n: the texts where both are defined.
    """

    first: float
    second: float
    n: int


def same_texts(first: np.ndarray, second: np.ndarray) -> Pair:
    """The means of two numbers over the texts where both are defined.

    Example:
        >>> same_texts(np.array([1.0, 3.0, np.nan]), np.array([np.nan, 5.0, 7.0]))
        Pair(first=3.0, second=5.0, n=1)
    """
    both = np.isfinite(first) & np.isfinite(second)
    if not both.any():
        return Pair(math.nan, math.nan, 0)
    return Pair(float(first[both].mean()), float(second[both].mean()), int(both.sum()))


def interval_of(record: Mapping[str, Any]) -> str:
    """The 95% interval in words; empty where there is none."""
    low, high = record["low"], record["high"]
    if record["n"] < 2 or low is None or high is None or low != low:
        return ""
    digits = 2 if round(low, 2) != round(high, 2) else 3
    return f"{number(low, digits)} to {number(high, digits)}"


def counts_of(record: Mapping[str, Any]) -> str:
    """n, with a mark where it is small, and n_undefined, with the reasons."""
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in record.get("reasons", {}).items())
    mark = f", {few(record['n'])}" if few(record["n"]) else ""
    undefined = f"undefined {record['n_undefined']:,}" + (f" ({reasons})" if reasons else "")
    return f"n {record['n']:,}{mark}, {undefined}"


def small(value: float | None) -> str:
    """Two digits, and not 0 for what is above it.

    Example:
        >>> small(0.104), small(0.002), small(0.0)
        ('0.10', 'less than 0.01', '0.00')
    """
    return "less than 0.01" if value is not None and 0 < value < 0.005 else number(value, 2)


def percent(share: float) -> str:
    """A share in percent; 100% and 0% only where it is all or none.

    Example:
        >>> percent(0.614), percent(0.9999), percent(1.0), percent(0.001)
        ('61%', 'over 99%', '100%', 'under 1%')
    """
    if 0 < share < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 <= share < 1 else f"{100 * share:.0f}%"
