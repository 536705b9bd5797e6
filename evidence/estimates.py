"""Means over seeds with intervals that hold both kinds of chance: other seeds and other texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from attn_faithful.evaluators.metric_table import metric_table
from evidence.cells import Number

LEVEL = 0.95
_PREDICTING = ("accuracy", "f1", "roc_auc")  # of base, twin and control: what is in front of the name
_SHARES = ("core_none", "core_few")  # that are derived, see derived.py
_Z = float(stats.norm.ppf((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Estimate:
    r"""A mean over seeds.

    The variance of the mean is ``s^2 / k + v``: ``s`` is the standard deviation between the k seeds (ddof 1), ``v`` the
    mean over seeds of the squared standard error over texts. The seeds share their test texts, so `v` is not divided by
    k. Degrees of freedom are those of Satterthwaite. Of one seed the interval is that over texts.

    Attributes:
        value: the mean over seeds; NaN where no seed has one.
        low, high: its 95% interval; NaN where neither seeds nor texts tell one.
        seeds: that have a value.
        n, n_undefined: texts with and without a value, of all seeds together.
        variance: of the value; NaN as the interval.
        freedom: degrees of freedom of the variance.

    Reference:
        Satterthwaite (1946), An approximate distribution of estimates of variance components.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seeds: int = 0
    n: int = 0
    n_undefined: int = 0
    variance: float = math.nan
    freedom: float = math.inf


def over_seeds(numbers: Sequence[Number]) -> Estimate:
    """The mean of a number over seeds; its interval is cut to the range of its metric.

    Args:
        numbers: one a seed, of one metric.

    Example:
        >>> a, b = Number("tau", value=0.4, low=0.38, high=0.42), Number("tau", value=0.5, low=0.48, high=0.52)
        >>> estimate = over_seeds([a, b])
        >>> round(estimate.value, 2), round(estimate.low, 2), round(estimate.high, 2)
        (0.45, -0.09, 0.99)
    """
    defined = [number for number in numbers if math.isfinite(number.value)]
    n = sum(number.n for number in numbers)
    n_undefined = sum(number.n_undefined for number in numbers)
    if not defined:
        return Estimate(n=n, n_undefined=n_undefined)
    values = np.array([number.value for number in defined])
    value, k = float(values.mean()), len(values)
    errors = np.array([(number.high - number.low) / (2 * _Z) for number in defined])
    of_texts = float(np.mean(errors**2)) if np.isfinite(errors).all() else math.nan
    if k == 1:
        (only,) = defined
        return Estimate(value, only.low, only.high, 1, n, n_undefined, of_texts)
    of_seeds = float(values.var(ddof=1)) / k
    known = 0.0 if math.isnan(of_texts) else of_texts
    ends = range_of(numbers[0].metric)
    return _with_interval(
        value, of_seeds + known, _freedom([(of_seeds, k - 1)], of_seeds + known), k, n, n_undefined, ends
    )


@cache
def range_of(metric: str) -> tuple[float, float]:
    """The smallest and the largest value of a metric: of the metric table, and 0 to 1 of how well models predict.

    Example:
        >>> range_of("attention_correlation"), range_of("base_f1"), range_of("control_f1_difference")
        ((-1.0, 1.0), (0.0, 1.0), (-inf, inf))
    """
    _, _, predicting = metric.partition("_")
    if predicting in _PREDICTING or metric in _SHARES:
        return 0.0, 1.0
    for known in metric_table():
        if known.name == metric:
            return known.low, known.high
    return -math.inf, math.inf


def difference(first: Estimate, second: Estimate) -> Estimate:
    """First minus second, as of independent models; the interval of models that share their texts is narrower.

    Example:
        >>> a = Estimate(0.6, 0.58, 0.62, 1, 200, variance=0.0001)
        >>> b = Estimate(0.2, 0.18, 0.22, 1, 200, variance=0.0001)
        >>> gap = difference(a, b)
        >>> round(gap.value, 2), round(gap.low, 2), round(gap.high, 2)
        (0.4, 0.37, 0.43)
    """
    variance = first.variance + second.variance
    parts = [(first.variance, first.freedom), (second.variance, second.freedom)]
    value = first.value - second.value
    seeds = min(first.seeds, second.seeds)
    n, n_undefined = first.n + second.n, first.n_undefined + second.n_undefined
    whole = (-math.inf, math.inf)
    return _with_interval(value, variance, _freedom(parts, variance), seeds, n, n_undefined, whole)


def rank_correlation(settings: Sequence[float], values: Sequence[Sequence[float]]) -> Estimate:
    r"""Kendall's tau-b of a setting with a number, over seeds.

    Of one seed the interval is Fieller's: ``atanh(tau)`` has the standard error ``sqrt(0.437 / (m - 4))`` for m
    settings. Of several it is Student's over the seeds' tau.

    Args:
        settings: m of them.
        values: of each seed the m numbers.

    Returns:
        tau, -1 to 1, with its interval; n is the number of settings.

    Reference:
        Fieller, Hartley and Pearson (1957), Tests for rank correlation coefficients.

    Example:
        >>> estimate = rank_correlation([1, 2, 3, 4, 5, 6, 7, 8], [[8, 7, 6, 5, 4, 3, 1, 2]])
        >>> round(estimate.value, 3), round(estimate.low, 3), round(estimate.high, 3)
        (-0.929, -0.98, -0.762)
    """
    m = len(settings)
    taus = [float(stats.kendalltau(settings, row).statistic) for row in values]
    value, k = float(np.mean(taus)), len(taus)
    if k == 1:
        error = math.sqrt(0.437 / (m - 4)) if m > 4 else math.nan
        middle = math.atanh(min(max(value, -1 + 1e-9), 1 - 1e-9))
        low, high = math.tanh(middle - _Z * error), math.tanh(middle + _Z * error)
        return Estimate(value, low, high, 1, m, variance=((high - low) / (2 * _Z)) ** 2)
    variance = float(np.var(taus, ddof=1)) / k
    return _with_interval(value, variance, k - 1, k, m, 0, (-1.0, 1.0))


def _freedom(parts: Sequence[tuple[float, float]], variance: float) -> float:
    """Satterthwaite's degrees of freedom of a sum of variances; what is left of the sum has infinitely many."""
    below = sum(part**2 / freedom for part, freedom in parts)
    if below == 0:
        return math.inf
    return variance**2 / below


def _with_interval(
    value: float,
    variance: float,
    freedom: float,
    seeds: int,
    n: int,
    n_undefined: int,
    ends: tuple[float, float],
) -> Estimate:
    """An estimate with Student's interval, cut to a range."""
    reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(variance)
    low, high = max(ends[0], value - reach), min(ends[1], value + reach)
    return Estimate(value, low, high, seeds, n, n_undefined, variance, freedom)
