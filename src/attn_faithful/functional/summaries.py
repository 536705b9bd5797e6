"""Statistics over examples: means with interval and reasons, shares, paired comparisons of two columns.

numpy and scipy only, so that reports of stored columns need no torch. There is one implementation of each statistic in
the package, and it is here: bootstrap intervals of means, Wilson's interval, Wilcoxon's signed-rank test, Holm's
correction. The bootstrap over several seeds is in `resampling`, the interval of AtteFa, a ratio of means, in `attefa`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError

Array = NDArray[np.float64]

_CELLS = 4_000_000  # resampled counts in memory at once: 32 MB, whatever the number of examples

EXACT_PAIRS = 50  # pairs that differ, up to which every choice of signs is counted
_EXACT_RANK = 10_000  # pairs in all, up to which it is: the table of sums grows with the ranks
_ROUNDING = 1e-12  # of the largest difference: differences nearer to each other than that are tied


@dataclass(frozen=True)
class Summary:
    """One column over examples.

    Attributes:
        mean, std: over the defined examples (ddof 0); NaN without any.
        low, high: bootstrap interval of the mean.
        n, n_undefined: examples with a value, and without one.
        reasons: why values are undefined -> how many.
    """

    mean: float
    std: float
    low: float
    high: float
    n: int
    n_undefined: int
    reasons: dict[str, int]


def summarize(
    values: Array,
    reasons: Sequence[Sequence[str | None]] | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Summary]:
    r"""Mean, spread and percentile-bootstrap interval of several columns over the same examples.

    Args:
        values: (n, M), NaN where undefined.
        reasons: M rows of n: why a value is undefined, else None. Without, no reasons are counted.
        n_resamples: draws of n examples with replacement; all columns share them.
        level: of the interval.
        seed: of the draws.

    Returns:
        one :class:`Summary` a column. An interval needs two defined examples, else it is NaN.

    Raises:
        InputError: other shapes, or a level outside 0 to 1.

    Example:
        >>> (summary,) = summarize(np.array([[1.0], [np.nan], [0.0]]), [[None, "n<2", None]])
        >>> summary.mean, summary.std, summary.n, summary.n_undefined, summary.reasons
        (0.5, 0.5, 2, 1, {'n<2': 1})
    """
    rows: Sequence[Sequence[str | None]] = [()] * values.shape[-1] if reasons is None else reasons
    short = reasons is not None and any(len(row) != len(values) for row in rows)
    if values.ndim != 2 or len(rows) != values.shape[1] or short:
        raise InputError(
            f"Expected `values` (n, M) and M rows of n reasons, but got {values.shape} and {len(rows)} rows."
        )
    if not 0 < level < 1:
        raise InputError(f"Expected `level` between 0 and 1, but got {level}.")
    defined = np.isfinite(values)
    filled = np.where(defined, values, 0.0)
    low, high = _intervals(filled, defined.astype(np.float64), n_resamples, level, seed)
    summaries = []
    for column in range(values.shape[1]):
        defined_values = values[defined[:, column], column]
        interval = float(low[column]), float(high[column])
        summaries.append(_summary(defined_values, interval, len(values), rows[column]))
    return summaries


def _summary(defined: Array, interval: tuple[float, float], n_examples: int, reasons: Sequence[str | None]) -> Summary:
    """The summary of one column from its defined values (n,)."""
    n = len(defined)
    low, high = interval if n > 1 else (math.nan, math.nan)
    counted = Counter(reason for reason in reasons if reason is not None)
    return Summary(
        mean=float(defined.mean()) if n else math.nan,
        std=float(defined.std()) if n else math.nan,
        low=low,
        high=high,
        n=n,
        n_undefined=n_examples - n,
        reasons=dict(sorted(counted.items())),
    )


def _intervals(
    filled: Array,
    defined: Array,
    n_resamples: int,
    level: float,
    seed: int,
) -> tuple[Array, Array]:
    """Lower and upper ends (M,) of the columns' intervals; NaN for a column without a value."""
    n, columns = filled.shape
    if n == 0 or columns == 0:
        return np.full(columns, math.nan), np.full(columns, math.nan)
    generator = np.random.default_rng(seed)
    evenly = np.full(n, 1 / n)
    means = np.empty((n_resamples, columns))
    step = max(1, _CELLS // n)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        counts = generator.multinomial(n, evenly, size=size)
        drawn = counts.astype(np.float64)  # (size, n), how often each example was drawn
        with np.errstate(invalid="ignore"):
            means[start : start + size] = (drawn @ filled) / (drawn @ defined)
    tail = (1 - level) / 2
    empty = np.isnan(means).all(0)
    means[:, empty] = 0.0  # nanquantile warns of a column of NaN
    low, high = np.nanquantile(means, [tail, 1 - tail], axis=0)
    return np.where(empty, math.nan, low), np.where(empty, math.nan, high)


def wilson(share: float, n: float, z: float = 1.959964) -> tuple[float, float]:
    r"""Wilson's interval of a share of n examples, by default at 95%.

    ``(p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``, cut to 0 to 1.

    Args:
        share: 0 to 1.
        n: examples that it is a share of; dependent ones may be worth a number that is not whole.
        z: quantile of the normal distribution.

    Returns:
        (low, high), 0 to 1; NaN where n is 0.

    Reference:
        Wilson (1927).

    Example:
        >>> [round(end, 3) for end in wilson(0.5, 100)], wilson(0.0, 0)
        ([0.404, 0.596], (nan, nan))
    """
    if not n:
        return math.nan, math.nan
    scale = 1 + z * z / n
    variance = share * (1 - share) / n + z * z / (4 * n * n)
    middle = (share + z * z / (2 * n)) / scale
    reach = z / scale * math.sqrt(variance)
    return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True)
class Paired:
    """Two columns on the same examples.

    Attributes:
        mean: of first minus second.
        low, high: its 95% bootstrap interval; NaN for fewer than two pairs.
        effect: matched-pairs rank-biserial correlation, -1 to 1: the share of the ranks of the differences that are
            above 0 minus that of those below.
        p: of :func:`signed_rank`.
        n: pairs in which both are defined.
    """

    mean: float
    low: float
    high: float
    effect: float
    p: float
    n: int


def paired(differences: Array, n_resamples: int = 1000, seed: int = 0) -> list[Paired]:
    """Comparisons of two columns each, from their differences on the same examples.

    Args:
        differences: (B, M), first minus second; an example that is NaN is left out of its column.
        n_resamples: of the interval; all columns share the draws.
        seed: of the draws.

    Returns:
        one a column.

    Raises:
        InputError: another shape.

    Reference:
        Wilcoxon (1945), with Pratt's (1959) treatment of zeros; Kerby (2014) for the effect size.

    Example:
        >>> (comparison,) = paired(np.array([[1.0], [2.0], [-1.0], [np.nan]]))
        >>> comparison.n, round(comparison.mean, 6), comparison.effect, comparison.p
        (3, 0.666667, 0.5, 0.75)
    """
    differences = np.asarray(differences, dtype=np.float64)
    summaries = summarize(differences, None, n_resamples, seed=seed)
    comparisons = []
    for column, summary in zip(differences.T, summaries, strict=True):
        effect, p = signed_rank(column[np.isfinite(column)])
        comparisons.append(Paired(summary.mean, summary.low, summary.high, effect, p, summary.n))
    return comparisons


def signed_rank(differences: Array) -> tuple[float, float]:
    r"""Wilcoxon's signed-rank test of paired differences, two-sided, and the effect size that goes with it.

    Zeros and ties are handled in one way whatever n is: absolute differences are ranked, those of 0 included (Pratt),
    tied ones get the mean of their ranks, and the ranks of zeros are then dropped. Under the null hypothesis each of
    the m ranks left has either sign with probability 1/2. Up to m = 50 p is exact: ``2 min(P(W <= w), P(W >= w))``, at
    most 1, over all 2^m choices of signs, with w the sum of the ranks of positive differences. Above (or where there
    are more than 10,000 pairs) it is the normal approximation with the mean ``sum r / 2`` and the variance
    ``sum r^2 / 4`` of that same distribution, which corrects for zeros and ties, without a continuity correction.
    Differences within 1e-12 of the largest one of each other are tied, so that 0.3 - 0.2 and 0.2 - 0.1 are.

    Args:
        differences: (n,), finite.

    Returns:
        effect, the matched-pairs rank-biserial correlation, -1 to 1: positive ranks minus negative ones as a share of
        both, 0 where no pair differs and NaN without a pair; and p, 0 to 1, NaN where no pair differs.

    Raises:
        InputError: another shape, a value that is not finite.

    Reference:
        Wilcoxon (1945); Pratt (1959) for zeros; Kerby (2014) for the effect size.

    Example:
        >>> signed_rank(np.array([3.0, 2.0, 2.0, 0.0, -1.0]))  # ranks 5, 3.5, 3.5 and, below 0, 2
        (0.7142857142857143, 0.25)
    """
    differences = np.asarray(differences, dtype=np.float64)
    if differences.ndim != 1 or not np.isfinite(differences).all():
        raise InputError(
            f"Expected finite `differences` (n,), but got shape {differences.shape}; leave undefined pairs out."
        )
    n = len(differences)
    if n == 0:
        return math.nan, math.nan
    all_ranks = _midranks(np.abs(differences))
    differs = all_ranks > 0
    ranks = all_ranks[differs]
    if len(ranks) == 0:
        return 0.0, math.nan
    sum_above = float(ranks[differences[differs] > 0].sum())
    sum_all = float(ranks.sum())
    effect = (2 * sum_above - sum_all) / sum_all
    exact = len(ranks) <= EXACT_PAIRS and n <= _EXACT_RANK
    p = _exact_p(ranks, sum_above) if exact else _normal_p(ranks, sum_above)
    return effect, p


def _midranks(sizes: Array) -> Array:
    """Ranks from 1 of absolute differences (n,), the mean of their ranks for tied ones, 0 for those that are zero."""
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    width = _ROUNDING * ordered[-1]
    starts = np.concatenate([[True], np.diff(ordered) > width])  # where a group of tied ones begins
    first = np.flatnonzero(starts)
    last = np.concatenate([first[1:], [len(sizes)]])
    means = (first + 1 + last) / 2
    means[ordered[first] <= width] = 0.0
    ranks = np.empty(len(sizes))
    ranks[order] = means[np.cumsum(starts) - 1]
    return ranks


def _exact_p(ranks: Array, sum_above: float) -> float:
    """Two-sided p of a sum of ranks whose signs are all as likely: the sums of all choices of signs are counted."""
    doubled = np.rint(2 * ranks).astype(int)  # tied ranks end in .5
    # choices of signs by the sum of the ranks that they make positive, one rank more each time
    counts = np.zeros(int(doubled.sum()) + 1)
    counts[0] = 1.0
    for rank in doubled:
        counts[rank:] = counts[rank:] + counts[: len(counts) - rank]
    place = round(2 * sum_above)
    at_most = counts[: place + 1].sum()
    at_least = counts[place:].sum()
    tail = min(at_most, at_least)
    return float(min(1.0, 2 * tail / counts.sum()))


def _normal_p(ranks: Array, sum_above: float) -> float:
    """Two-sided p of the same sum by the normal approximation."""
    expected = float(ranks.sum()) / 2
    variance = float((ranks**2).sum()) / 4
    return math.erfc(abs(sum_above - expected) / math.sqrt(2 * variance))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of several tests; NaN stays NaN and does not count as a test.

    The i-th smallest of m becomes ``max over j <= i of min(1, (m - j + 1) p_j)``.

    Reference:
        Holm (1979).

    Example:
        >>> holm([0.01, float("nan"), 0.04, 0.03])
        [0.03, nan, 0.06, 0.06]
    """
    ascending = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    corrected = [math.nan] * len(p_values)
    largest_before = 0.0
    for rank, (p, i) in enumerate(ascending):
        remaining = len(ascending) - rank
        largest_before = max(largest_before, min(1.0, p * remaining))
        corrected[i] = largest_before
    return corrected
