"""The numbers of a model at one site, as sentences and cards take them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.records.scores import ALL, ScoreRecord
from attn_faithful.records.twins import Measured, TwinRecord
from attn_faithful.reports.answer.verdict import few
from attn_faithful.reports.numbers import counted, number
from attn_faithful.reports.run import ATTENTION, Run

SETS = ("smallest_set", "greedy_set")  # sources that name the items whose removal flips the decision: exact, found
CORE = "certified_core"  # the source that names the items whose attention proves the decision


class Scores:
    """The numbers of a run at one site, or of several runs of a model over seeds, one after the other.

    Args:
        runs: one, or one a seed.
        site: where in the model.

    Attributes:
        run: the first one.
        noun: what an item is.
    """

    def __init__(self, runs: Sequence[Run], site: str | None) -> None:
        self.runs, self.run, self.site = runs, runs[0], site
        self.noun = self.run.noun(site)
        self._records: dict[tuple[str, str], ScoreRecord] = {}
        for record in self.run.records:
            if record.group == ALL and record.site == site:
                self._records[record.metric, record.source] = record

    @property
    def tests(self) -> Mapping[str, Mapping[str, Any]]:
        """The tests that ran -> what was set for them."""
        settings = self.run.evaluation.get("settings", {})
        return {test: settings.get(test, {}) for test in self.run.evaluation.get("tests", [])}

    @property
    def twins(self) -> Mapping[str, TwinRecord]:
        """Those of the first run that have an AtteFa; none at a site where twins were not compared."""
        if not self.run.sources("tvd", self.site):
            return {}
        return self.run.twins

    @property
    def best_set(self) -> str | None:
        """The source that names the smallest set that flips the decision; None where none was sought."""
        for name in SETS:
            if self.record("decision_flip", name) is not None:
                return name
        return None

    def record(self, metric: str, source: str = ATTENTION) -> ScoreRecord | None:
        """The summary's record, of the first run; None where the metric was not computed."""
        return self._records.get((metric, source))

    def mean(self, metric: str, source: str = ATTENTION) -> float:
        """Its mean, of the first run; NaN where there is none."""
        record = self.record(metric, source)
        if record is None:
            return math.nan
        return record.mean

    def values(self, metric: str, source: str = ATTENTION) -> np.ndarray:
        """Of every text (B,), of several runs (runs x B,)."""
        return np.concatenate([run.scores(metric, source, self.site).to_numpy() for run in self.runs])

    def of_questions(self, metric: str, source: str = ATTENTION) -> np.ndarray:
        """Of every question: of each text, or of each label and text (L x B,) where every label was asked."""
        parts = []
        for run in self.runs:
            by_label = run.scores_by_label(metric, source, self.site)
            if by_label is None:
                parts.append(run.scores(metric, source, self.site).to_numpy())
            else:
                parts.append(by_label.ravel())
        return np.concatenate(parts)

    def by_label(self, metric: str) -> bool:
        """Whether every label was asked by itself."""
        return self.run.scores_by_label(metric, ATTENTION, self.site) is not None

    def over(self, n: int, metric: str | None = None) -> str:
        """A number of texts in words; of several seeds it is said that each text counts once a seed.

        Args:
            n: how many.
            metric: what they were asked for; where every label was asked, each is a text with a label.

        Example: "60 texts", "1 text", "120 texts (of 2 seeds)", "180 pairs of text and label".
        """
        words = counted(n, "text")
        if metric is not None and self.by_label(metric):
            words = f"{counted(n, 'pair')} of text and label"
        if len(self.runs) > 1:
            words += f" (of {len(self.runs)} seeds)"
        return words

    @property
    def single(self) -> bool:
        """Whether there is one text, of which nothing is typical."""
        return len(self.runs) == 1 and len(self.run.ids) == 1


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
    both = np.isfinite(first) & np.isfinite(second)  # (B,)
    n = int(both.sum())
    if not n:
        return Pair(math.nan, math.nan, 0)
    return Pair(float(first[both].mean()), float(second[both].mean()), n)


def interval_of(record: ScoreRecord | Measured) -> str:
    """The 95% interval in words; empty where there is none."""
    if record.n < 2 or math.isnan(record.low):
        return ""
    digits = 2 if round(record.low, 2) != round(record.high, 2) else 3
    return f"{number(record.low, digits)} to {number(record.high, digits)}"


def counts_of(record: ScoreRecord | Measured) -> str:
    """n, with a mark where it is small, and n_undefined, with the reasons."""
    n = f"n {record.n:,}"
    if few(record.n):
        n += f", {few(record.n)}"
    counts = f"{n}, undefined {record.n_undefined:,}"
    if not isinstance(record, ScoreRecord) or not record.reasons:
        return counts
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in record.reasons.items())
    return f"{counts} ({reasons})"
