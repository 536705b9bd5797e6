"""Every number of two models on the same texts, and whether they differ: paired tests, corrected for their number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_faithful.functional.summaries import Paired, Summary, holm, paired, summarize
from attn_faithful.records.scores import ALL, MetricFacts
from attn_faithful.reports.compare.texts import UNREAD, Texts
from attn_faithful.reports.tables.sources import of_model, parts

NO_LABEL = "label unknown or text not predicted"

ACCURACY = MetricFacts("accuracy", "accuracy", "1 where the decision is the gold label, else 0", low=0, high=1)
GOLD = MetricFacts(
    "gold_probability", "p of the gold label", "probability of the gold label", low=0, high=1, unit="probability"
)
ENTROPY = MetricFacts(
    "attention_entropy",
    "entropy of attention",
    "entropy of the attention over the words that both models read: 0 where one word has all",
    low=0,
    unit="nats",
)
ATTENTION_JSD = MetricFacts(
    "attention_jsd",
    "JSD of attention",
    "Jensen-Shannon divergence of both attentions over the words that both models read, nats: 0 the same, 0.693 none "
    "in common",
    low=0,
    high=math.log(2),
    unit="nats",
)
ATTENTION_TVD = MetricFacts(
    "attention_tvd",
    "TVD of attention",
    "share of the attention that lies on other words, of the words that both models read",
    low=0,
    high=1,
)
PREDICTION_TVD = MetricFacts(
    "prediction_tvd", "TVD of predictions", "how far the probabilities of the classes are apart", low=0, high=1
)
DECISIONS = MetricFacts("decisions_differ", "other decision", "1 where both decide differently, else 0", low=0, high=1)


@dataclass(frozen=True)
class Numbers:
    """One number of both models on the n texts.

    Attributes:
        metric: what it is.
        source: what was scored; "" for what is of the whole model.
        first, second: of each model (n,), NaN where undefined.
        reasons: why it is undefined in one of them, an entry a text; None where both have it.
    """

    metric: MetricFacts
    source: str
    first: np.ndarray
    second: np.ndarray
    reasons: list[str | None]


@dataclass(frozen=True)
class Difference:
    """One number of both models, and the paired test of their difference.

    Attributes:
        numbers: of every text.
        first, second: the means over the texts where both are defined.
        test: first minus second over these texts; p is 1 where no text differs.
        p_holm: p, corrected for all differences of the comparison.
        n_undefined: texts in which it is undefined in one of the models.
        reasons: why -> in how many texts.
    """

    numbers: Numbers
    first: float
    second: float
    test: Paired
    p_holm: float
    n_undefined: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class Distance:
    """How far the models are apart, over texts.

    Attributes:
        metric: what it is.
        values: of each text (n,), NaN where undefined.
        reasons: why, an entry a text; None where defined.
        summary: mean, 95% interval and counts.
    """

    metric: MetricFacts
    values: np.ndarray
    reasons: list[str | None]
    summary: Summary


def differences(texts: Texts) -> list[Difference]:
    """Every number that both models have: of predictions, of attention, and of the tests, without controls."""
    numbers = list(_numbers(texts))
    by_text = np.stack([each.first - each.second for each in numbers], axis=1)  # (n, numbers)
    tests = [_of_equal_ones(test) for test in paired(by_text)]
    corrected = holm([test.p for test in tests])
    found = []
    for each, test, p_holm in zip(numbers, tests, corrected, strict=True):
        both = np.isfinite(each.first) & np.isfinite(each.second)  # (n,)
        first, second = (_mean(values[both]) for values in (each.first, each.second))
        reasons = Counter(reason for reason in each.reasons if reason is not None)
        found.append(Difference(each, first, second, test, p_holm, int((~both).sum()), dict(reasons.most_common())))
    return found


def of_attention(found: Sequence[Difference]) -> list[Difference]:
    """Those of predictions and of attention, without those of other sources of importance."""
    return [each for each in found if not each.numbers.source or "attention" in parts(each.numbers.source)]


def _of_equal_ones(test: Paired) -> Paired:
    """The test with p = 1 where no pair differs: every choice of signs gives the same sum of ranks."""
    if test.n and math.isnan(test.p):
        return Paired(test.mean, test.low, test.high, test.effect, 1.0, test.n)
    return test


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _numbers(texts: Texts) -> Iterator[Numbers]:
    right, of_gold = texts.right(), texts.gold_probabilities()
    unlabelled = [NO_LABEL if math.isnan(one + other) else None for one, other in zip(*right, strict=True)]
    if not all(unlabelled):
        yield Numbers(ACCURACY, "", *right, unlabelled)
        yield Numbers(GOLD, "", *of_gold, unlabelled)
    yield Numbers(ENTROPY, "", *texts.entropies(), texts.attention_reasons)
    for metric, source in _places(texts):
        yield Numbers(metric, source, *texts.scores(metric.name, source), texts.reasons(metric.name, source))


def _places(texts: Texts) -> Iterator[tuple[MetricFacts, str]]:
    """The numbers that tables show of both models' tests: metric and source."""
    first, second = texts.first, texts.second
    if first.twin is not None or second.twin is not None:
        return
    seen = set()
    for record in first.run.records:
        metric = first.run.metrics.get(record.metric)
        place = record.metric, record.source
        if metric is None or not metric.shown or record.group != ALL or record.site != first.site or place in seen:
            continue
        if of_model(record.source) and record.source in second.run.sources(record.metric, second.site):
            seen.add(place)
            yield metric, record.source


def distances(texts: Texts) -> list[Distance]:
    """How far the models are apart: attention over common words, predictions, decisions."""
    unread = [UNREAD if each else None for each in texts.unread]
    columns = [
        (ATTENTION_JSD, texts.attention_jsd, texts.attention_reasons),
        (ATTENTION_TVD, texts.attention_tvd, texts.attention_reasons),
        (PREDICTION_TVD, texts.prediction_tvd, unread),
        (DECISIONS, texts.decisions_differ, unread),
    ]
    by_text = np.stack([values for _, values, _ in columns], axis=1)  # (n, columns)
    summaries = summarize(by_text, [reasons for _, _, reasons in columns])
    return [Distance(*column, summary) for column, summary in zip(columns, summaries, strict=True)]
