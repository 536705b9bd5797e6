"""What two models say of the texts that both were tested on: aligned attention, predictions, and how far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_faithful.reports.compare.matching import Matched, items_of
from attn_faithful.reports.compare.side import Side
from attn_faithful.reports.compare.words import Common, common_words
from attn_faithful.reports.divergences import jsd_of_lists, tvd

NO_ATTENTION = "no attention stored"
NO_WORD = "no word that both read has weight"
UNREAD = "not predicted"


@dataclass(frozen=True)
class Shares:
    """The attention of both models on one text, as shares of what each gives to the words that both read.

    Attributes:
        first, second: they sum to 1 each; empty where undefined.
        reason: why they are undefined; None where they are not.
    """

    first: np.ndarray
    second: np.ndarray
    reason: str | None = None


class Texts:
    """The texts that both models were tested on.

    Args:
        first, second: the models.
        matched: their texts, n of them.

    Attributes:
        common: the words of each text that both models' items lie in.
    """

    def __init__(self, first: Side, second: Side, matched: Matched) -> None:
        self.first, self.second, self.matched = first, second, matched
        pairs = zip(matched.first, matched.second, strict=True)
        self.common: list[Common] = [common_words(items_of(first, i), items_of(second, j)) for i, j in pairs]

    def __len__(self) -> int:
        return len(self.matched)

    # attention

    @cached_property
    def shares(self) -> list[Shares]:
        """The attention of both models on each text."""
        return [self._shares(place) for place in range(len(self))]

    def _shares(self, place: int) -> Shares:
        nothing = np.zeros(0)
        one = self.first.weights(self.first.attention, self.matched.first[place])
        other = self.second.weights(self.second.attention, self.matched.second[place])
        if one is None or other is None:
            return Shares(nothing, nothing, NO_ATTENTION)
        common = self.common[place]
        over_both = [common.laid(which, weights)[common.both] for which, weights in enumerate((one, other))]
        totals = [float(weights.sum()) for weights in over_both]
        if not all(total > 0 for total in totals):  # NaN neither
            return Shares(nothing, nothing, NO_WORD)
        return Shares(over_both[0] / totals[0], over_both[1] / totals[1])

    @cached_property
    def attention_jsd(self) -> np.ndarray:
        """JSD of both attentions over common words (n,), nats, 0 to ln 2; NaN where undefined."""
        return jsd_of_lists(
            [each.first.tolist() for each in self.shares], [each.second.tolist() for each in self.shares]
        )

    @cached_property
    def attention_tvd(self) -> np.ndarray:
        """TVD of both attentions over common words (n,), 0 to 1; NaN where undefined."""
        distances = []
        for each in self.shares:
            distance = math.nan if each.reason else float(np.abs(each.first - each.second).sum()) / 2
            distances.append(distance)
        return np.array(distances)

    @property
    def attention_reasons(self) -> list[str | None]:
        """Why the distances of attention are undefined, an entry a text; None where defined."""
        return [each.reason for each in self.shares]

    def entropies(self) -> tuple[np.ndarray, np.ndarray]:
        """Entropy of both attentions over common words (n,), nats; NaN where undefined."""
        firsts = [_entropy(each.first) for each in self.shares]
        seconds = [_entropy(each.second) for each in self.shares]
        return np.array(firsts), np.array(seconds)

    # predictions

    @cached_property
    def probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """Of both models (n, C), in the order of the first one's classes."""
        first = self.first.probabilities[self.matched.first]
        second = self.second.probabilities[self.matched.second]
        return first, second[:, self.matched.order]

    @property
    def multi_label(self) -> bool:
        """Whether a text has several labels."""
        return self.first.multi_label

    @cached_property
    def decided(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether each class is decided for, of both models (n, C); none where it could not read the text."""
        first, second = self.probabilities
        return self._decided(first), self._decided(second)

    def _decided(self, probabilities: np.ndarray) -> np.ndarray:
        known = np.isfinite(probabilities).all(1, keepdims=True)  # (n, 1)
        if self.multi_label:
            return (probabilities >= 0.5) & known
        largest = np.nan_to_num(probabilities).argmax(1)  # (n,)
        one_hot = np.arange(probabilities.shape[1]) == largest[:, None]
        return np.asarray(one_hot & known)

    @cached_property
    def unread(self) -> np.ndarray:
        """Whether one of the models could not read a text (n,)."""
        first, second = self.probabilities
        return ~(np.isfinite(first).all(1) & np.isfinite(second).all(1))

    @cached_property
    def prediction_tvd(self) -> np.ndarray:
        """TVD of both predictions (n,), 0 to 1; of multi-label data the mean over labels of ``|dp|``."""
        first, second = self.probabilities
        return tvd(first, second, self.multi_label)

    @cached_property
    def decisions_differ(self) -> np.ndarray:
        """1 where both decide differently, 0 where they agree (n,); NaN where one could not read the text."""
        first, second = self.decided
        differ = (first != second).any(1).astype(float)
        return np.where(self.unread, np.nan, differ)

    @cached_property
    def gold(self) -> np.ndarray:
        """Whether each class is a gold label (n, C); NaN in a text whose label is unknown."""
        n_classes = len(self.first.run.label_names)
        rows = [_gold(label, n_classes) for label in self.matched.labels]
        return np.stack(rows)

    def right(self) -> tuple[np.ndarray, np.ndarray]:
        """1 where a model is right, 0 where it is wrong (n,); NaN where that is unknown."""
        unknown = np.isnan(self.gold).any(1)
        found = []
        for decided, probabilities in zip(self.decided, self.probabilities, strict=True):
            right = (decided == self.gold).all(1).astype(float)
            undefined = unknown | ~np.isfinite(probabilities).all(1)
            found.append(np.where(undefined, np.nan, right))
        return found[0], found[1]

    def gold_probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """Probability of the gold class (n,), of multi-label data the mean over labels; NaN where that is unknown."""
        first, second = self.probabilities
        return self._of_gold(first), self._of_gold(second)

    def _of_gold(self, probabilities: np.ndarray) -> np.ndarray:
        if self.multi_label:
            of_label = np.where(self.gold > 0, probabilities, 1 - probabilities)  # (n, C)
            return np.asarray(np.where(np.isnan(self.gold), np.nan, of_label).mean(1))
        return np.asarray((probabilities * self.gold).sum(1))

    # any number of the tests

    def scores(self, metric: str, source: str) -> tuple[np.ndarray, np.ndarray]:
        """A number of both models' tests (n,), NaN where undefined."""
        first = self.first.run.scores(metric, source, self.first.site).to_numpy()
        second = self.second.run.scores(metric, source, self.second.site).to_numpy()
        return first[self.matched.first], second[self.matched.second]

    def reasons(self, metric: str, source: str) -> list[str | None]:
        """Why a number is undefined in one of the models, an entry a text; None where both have it."""
        first = self.first.run.reasons(metric, source, self.first.site)
        second = self.second.run.reasons(metric, source, self.second.site)
        found = []
        for i, j in zip(self.matched.first, self.matched.second, strict=True):
            found.append(first[i] or second[j])
        return found


def _entropy(shares: np.ndarray) -> float:
    r"""``-sum a ln a`` of a distribution, nats; NaN of an empty one."""
    if not len(shares):
        return math.nan
    positive = shares[shares > 0]
    return max(0.0, float(-(positive * np.log(positive)).sum()))


def _gold(label: object, n_classes: int) -> np.ndarray:
    """A label as (C,): 1 for a gold class, else 0; NaN where it is unknown."""
    row = np.zeros(n_classes)
    if isinstance(label, Sequence) and len(label) == n_classes and min(label) >= 0:
        return np.asarray(label, dtype=float)
    if isinstance(label, int) and 0 <= label < n_classes:
        row[label] = 1.0
        return row
    row[:] = np.nan
    return row
