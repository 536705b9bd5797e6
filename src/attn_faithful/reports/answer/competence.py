"""How well does the model predict? The first question: the attention of a model that guesses explains nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.functional.summaries import wilson
from attn_faithful.reports.f1 import F1, f1_of
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.run import Run

RESAMPLES = 1000
_TAILS = (0.025, 0.975)
_CHUNK = 2**24  # numbers in memory at once


@dataclass(frozen=True)
class Competence:
    """How well a model predicts the texts it was tested on, beside the best constant prediction.

    Of one label a text the accuracy is the share of the texts that are right, and the majority is the largest class's
    share of them. Of several labels a text the accuracy is the share of the labels that are right, a mean over labels
    and texts, and the majority is what saying each label's commoner side gives.

    Attributes:
        accuracy, low, high: with its 95% interval: Wilson's, of several labels a text a bootstrap over texts.
        majority: accuracy of the best constant prediction on the same texts.
        constant: that prediction in words.
        f1, f1_low, f1_high: with its 95% bootstrap interval over texts: of the second class of two, else the mean over
            classes, as in `training.metrics`. Where all texts are right (or wrong) a bootstrap has no width, and
            Wilson's interval of the accuracy stands in its place.
        n: texts with a known label that the model could read.
        n_texts: all texts.
        multi_label: whether a text has several labels.
        seed: of the run.
        n_unread: texts that the model could not read.
    """

    n: int
    n_texts: int
    accuracy: float = math.nan
    low: float = math.nan
    high: float = math.nan
    majority: float = math.nan
    constant: str = ""
    f1: float = math.nan
    f1_low: float = math.nan
    f1_high: float = math.nan
    multi_label: bool = False
    seed: int = 0
    n_unread: int = 0

    @property
    def known(self) -> bool:
        """Whether any text has a known label."""
        return self.n > 0

    @property
    def competent(self) -> bool:
        """Whether the lower end of the accuracy's interval lies above the majority."""
        return self.known and self.low > self.majority

    @property
    def why_not(self) -> str | None:
        """Why the tests give no verdict; None where the model is competent or that is unknown."""
        if not self.known or self.competent:
            return None
        if self.majority == 1:
            return f"all {counted(self.n, 'text')} are of one class, so that no accuracy shows that the model predicts"
        return (
            f"the model is not shown to predict better than {self.constant} (accuracy {self.accuracy:.2f}, "
            f"{self.low:.2f} to {self.high:.2f}, against {self.majority:.2f})"
        )

    @property
    def sentence(self) -> str:
        """In words, with n."""
        if not self.known:
            return f"How well the model predicts is unknown: {self._why_unknown} known label."
        what = "accuracy over labels" if self.multi_label else "accuracy"
        f1 = "undefined"
        if not math.isnan(self.f1):
            f1 = f"{self.f1:.2f} ({self.f1_low:.2f} to {self.f1_high:.2f})"
        return (
            f"On {self._which} the model has {what} {self.accuracy:.2f} ({self.low:.2f} to {self.high:.2f}) and F1 "
            f"{f1}; {self.constant} has {what} {self.majority:.2f}."
        )

    @property
    def _why_unknown(self) -> str:
        texts = counted(self.n_texts, "text")
        if self.n_unread:
            return f"of {texts} the model could not read {self.n_unread:,}, and no other has a"
        if self.n_texts == 1:
            return "the text has no"
        return f"none of {texts} has a"

    @property
    def _which(self) -> str:
        """The texts that the numbers are over."""
        if self.n == self.n_texts:
            return counted(self.n, "text")
        texts = f"the {self.n:,} of {counted(self.n_texts, 'text')}"
        if not self.n_unread:
            return f"{texts} with a known label"
        if self.n + self.n_unread < self.n_texts:
            return f"{texts} that it could read and whose label is known"
        return f"{texts} that it could read"


def competence_of(run: Run) -> Competence:
    """The competence of a run's model, from its stored predictions and labels."""
    return competence(run.probabilities, run.labels, run.label_names, run.seed)


def competence(
    probabilities: np.ndarray, labels: Sequence[Any], label_names: Sequence[str], seed: int = 0
) -> Competence:
    """How well probabilities predict labels.

    Args:
        probabilities: (B, C); NaN of a text that the model could not read, which counts nowhere.
        labels: a class index a text, or a list of 0 and 1; negative where unknown.
        label_names: of the classes.
        seed: of the run.

    Example:
        >>> found = competence(np.array([[0.9, 0.1]] * 60 + [[0.2, 0.8]] * 40), [0] * 50 + [1] * 50, ["no", "yes"])
        >>> found.accuracy, found.majority, found.constant, found.competent
        (0.9, 0.5, 'always "no"', True)
    """
    if any(np.ndim(label) for label in labels):
        return _of_several(np.asarray(probabilities), labels, seed)
    gold = np.asarray(labels, dtype=int)  # (B,)
    chances = np.asarray(probabilities)  # (B, C)
    unread = np.isnan(chances).any(1)
    known = (gold >= 0) & ~unread
    counts = _counts(known, unread)
    if not known.any():
        return Competence(**counts, seed=seed)
    gold, predicted = gold[known], chances[known].argmax(1)
    n_by_class = Counter(gold.tolist())
    largest = min(n_by_class, key=lambda label: (-n_by_class[label], label))
    name = str(largest)
    if largest < len(label_names):
        name = label_names[largest]
    accuracy = float((gold == predicted).mean())
    low, high = wilson(accuracy, len(gold))
    outcomes, weights = _outcomes(gold, predicted, len(label_names))
    f1, f1_low, f1_high = _f1_with_interval(outcomes, weights, f1_of(len(label_names), False))
    return Competence(
        accuracy=accuracy,
        low=low,
        high=high,
        majority=n_by_class[largest] / len(gold),
        constant=f'always "{name}"',
        f1=f1,
        f1_low=f1_low,
        f1_high=f1_high,
        seed=seed,
        **counts,
    )


def _counts(known: np.ndarray, unread: np.ndarray) -> dict[str, int]:
    """Texts with a known label that the model could read, all texts, and those that it could not read."""
    return {"n": int(known.sum()), "n_texts": len(known), "n_unread": int(unread.sum())}


def _of_several(probabilities: np.ndarray, labels: Sequence[Any], seed: int) -> Competence:
    gold = np.asarray([np.asarray(label, dtype=int) for label in labels])  # (B, C), 0 and 1
    unread = np.isnan(probabilities).any(1)  # (B,)
    known = (gold >= 0).all(1) & ~unread
    counts = _counts(known, unread)
    if not known.any():
        return Competence(multi_label=True, seed=seed, **counts)
    gold, predicted = gold[known], (probabilities[known] > 0.5).astype(int)
    right = (gold == predicted).mean(1)  # (B,)
    low, high = _mean_interval(right)
    share = gold.mean(0)  # (C,)
    found, wrong, missed = gold & predicted, (1 - gold) & predicted, gold & (1 - predicted)  # (B, C) each
    kinds = np.concatenate([found, wrong, missed], axis=1)  # (B, 3 C)
    patterns, weights = np.unique(kinds, axis=0, return_counts=True)
    outcomes = patterns.reshape(len(patterns), 3, -1)  # (P, 3, C)
    f1, f1_low, f1_high = _f1_with_interval(outcomes, weights, f1_of(len(share), True))
    return Competence(
        accuracy=float(right.mean()),
        low=low,
        high=high,
        majority=float(np.maximum(share, 1 - share).mean()),
        constant="always each label's commoner side",
        f1=f1,
        f1_low=f1_low,
        f1_high=f1_high,
        multi_label=True,
        seed=seed,
        **counts,
    )


def _outcomes(gold: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs of gold and predicted class as (P, 3, C), and how often each occurs.

    The second axis is 1 for the class that was predicted rightly, that was predicted wrongly, and that was missed.
    """
    by_text = np.stack([gold, predicted], axis=1)  # (B, 2)
    pairs, counts = np.unique(by_text, axis=0, return_counts=True)  # (P, 2), (P,)
    classes = max(classes, int(pairs.max()) + 1)  # a label may lie beyond the classes that have a name
    outcomes = np.zeros((len(pairs), 3, classes), dtype=int)
    for row, (gold_class, predicted_class) in enumerate(pairs):
        if gold_class == predicted_class:
            outcomes[row, 0, predicted_class] = 1
        else:
            outcomes[row, 1, predicted_class] = 1
            outcomes[row, 2, gold_class] = 1
    return outcomes, counts


def _f1_with_interval(outcomes: np.ndarray, counts: np.ndarray, mean: F1) -> tuple[float, float, float]:
    """F1 and its 95% percentile interval; to draw texts is to draw how often each outcome occurs."""
    n = int(counts.sum())
    shape = outcomes.shape[1:]
    flat = outcomes.reshape(len(outcomes), -1)  # (P, 3 C)
    totals = (counts @ flat).reshape(1, *shape)  # (1, 3, C)
    value = float(mean(totals)[0])
    generator = np.random.default_rng(0)
    step = max(1, _CHUNK // max(len(counts), flat.shape[1]))
    parts = []
    for start in range(0, RESAMPLES, step):
        drawn = generator.multinomial(n, counts / n, size=min(step, RESAMPLES - start))  # (R, P)
        totals = (drawn @ flat).reshape(len(drawn), *shape)  # (R, 3, C)
        parts.append(mean(totals))  # (R,)
    low, high = np.quantile(np.concatenate(parts), _TAILS)
    return value, *_wide(value, float(low), float(high), n)


def _mean_interval(values: np.ndarray) -> tuple[float, float]:
    """95% bootstrap interval of a mean over texts."""
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)  # (P,) each
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(n, counts / n, size=RESAMPLES)  # (R, P)
    means = drawn @ distinct / n  # (R,)
    low, high = np.quantile(means, _TAILS)
    return _wide(float(values.mean()), float(low), float(high), n)


def _wide(value: float, low: float, high: float, n: int) -> tuple[float, float]:
    """An interval, Wilson's where all of n texts are right or all are wrong and resampling shows no spread."""
    if low == high and value in (0.0, 1.0):
        return wilson(value, n)
    return low, high
