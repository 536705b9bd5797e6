"""What reports compute from stored columns: divergences, intervals over seeds, paired tests. numpy and scipy only.

The definitions are those of `functional`, which needs torch; a report of stored columns does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LN2 = math.log(2)
_STILL_JSD = 1e-12  # below it a twin's attention never moved, see functional.faithfulness
_HELD = 2_000_000  # resampled indices held at once: 16 MB
_EXACT = 50  # pairs up to which every choice of signs is counted
_TAILS = ((1 - 0.95) / 2, (1 + 0.95) / 2)


def tvd(p: np.ndarray, q: np.ndarray, multi_label: bool = False) -> np.ndarray:
    """Half the L1 distance of each row's probabilities, 0 to 1; of multi-label data the mean over labels of ``|dp|``.

    Example:
        >>> tvd(np.array([[0.7, 0.3]]), np.array([[0.4, 0.6]])).round(6).tolist()
        [0.3]
    """
    distance = np.abs(np.asarray(p) - np.asarray(q))
    return distance.mean(-1) if multi_label else distance.sum(-1) / 2


def jsd_of_lists(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> np.ndarray:
    """JSD in nats of each pair of lists, 0 to ln 2; NaN where they are empty or hold NaN, 0 for one item.

    Example:
        >>> jsd_of_lists([[1.0, 0.0], [], [1.0]], [[0.0, 1.0], [], [1.0]]).round(6).tolist()
        [0.693147, nan, 0.0]
    """
    lengths = np.array([len(row) for row in a])
    flat = [np.asarray([x for row in rows for x in row], dtype=float) for rows in (a, b)]
    middle = (flat[0] + flat[1]) / 2
    row = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros(len(lengths))
    for values in flat:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(values > 0, values * np.log(values / middle), values * 0)
        found += np.bincount(row, weights=terms, minlength=len(lengths)) / 2
    found = np.clip(found, 0, LN2)
    return np.where(lengths == 0, np.nan, np.where((lengths == 1) & ~np.isnan(found), 0.0, found))


def attefa_interval(
    tvd_by_seed: Sequence[np.ndarray], jsd_by_seed: Sequence[np.ndarray], n_resamples: int = 1000
) -> tuple[float, float]:
    """95% percentile interval of AtteFa averaged over twins; each draws its examples anew, the same for TVD and JSD.

    Example:
        >>> low, high = attefa_interval([np.array([0.1, 0.2, 0.3])], [np.full(3, 0.6)])
        >>> 0.1 < low < 0.2 / 0.6 * LN2 < high < 0.4
        True
    """
    generator = np.random.default_rng(0)
    ratios = []
    for found in zip(tvd_by_seed, jsd_by_seed, strict=True):
        columns = np.stack([np.asarray(column, dtype=float) for column in found])
        columns = columns[:, ~np.isnan(columns).any(0)]
        means = np.full((2, n_resamples), np.nan)
        n = columns.shape[1]
        step = max(1, _HELD // max(n, 1))
        for start in range(0, n_resamples if n else 0, step):
            picks = generator.integers(0, n, size=(min(step, n_resamples - start), n))
            means[:, start : start + step] = [column[picks].mean(-1) for column in columns]
        moved = means[1] > _STILL_JSD
        shares = np.where(moved, means[1], 1.0) / LN2
        ratios.append(np.where(moved, np.minimum(np.maximum(means[0], 0) / shares, 1.0), np.nan))
    values = np.stack(ratios) if ratios else np.full((1, 1), np.nan)
    counts = np.isfinite(values).sum(0)
    if not counts.any():
        return math.nan, math.nan
    means = np.where(np.isfinite(values), values, 0).sum(0)[counts > 0] / counts[counts > 0]
    low, high = np.quantile(means, _TAILS)
    return float(low), float(high)


@dataclass(frozen=True)
class Paired:
    """Two models on the same examples.

    Attributes:
        mean: of first minus second.
        low, high: its 95% bootstrap interval.
        effect: matched-pairs rank-biserial correlation, -1 to 1: the share of the ranks of the differences that are
            above 0 minus that of those below.
        p: Wilcoxon's signed-rank test, two-sided; NaN where no pair differs.
        n: pairs in which both are defined.
    """

    mean: float
    low: float
    high: float
    effect: float
    p: float
    n: int


def paired(differences: np.ndarray, n_resamples: int = 1000) -> list[Paired]:
    """Comparisons of two models each, from their differences on the same examples.

    Args:
        differences: (B, M), first minus second; an example that is NaN is left out of its column. Differences of 0 keep
            their ranks.
        n_resamples: of the interval; all columns share the draws.

    Returns:
        one a column.

    Reference:
        Wilcoxon (1945), with Pratt's (1959) treatment of zeros; Kerby (2014) for the effect size.

    Example:
        >>> (found,) = paired(np.array([[1.0], [2.0], [-1.0], [np.nan]]))
        >>> found.n, round(found.mean, 6), found.effect, found.p
        (3, 0.666667, 0.5, 0.75)
    """
    differences = np.asarray(differences, dtype=float)
    known = np.isfinite(differences)
    low, high = _intervals(np.where(known, differences, 0.0), known, n_resamples)
    return [
        _paired(column[own], float(low[i]), float(high[i]))
        for i, (column, own) in enumerate(zip(differences.T, known.T, strict=True))
    ]


def _intervals(filled: np.ndarray, known: np.ndarray, n_resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """Percentile intervals of each column's mean; to draw examples is to weigh them by multinomial counts."""
    n, columns = filled.shape
    means = np.full((n_resamples, columns), np.nan)
    generator = np.random.default_rng(0)
    step = max(1, _HELD // max(n, 1))
    for start in range(0, n_resamples if n else 0, step):
        counts = generator.multinomial(n, np.full(n, 1 / n), size=min(step, n_resamples - start)).astype(float)
        with np.errstate(invalid="ignore"):
            means[start : start + step] = (counts @ filled) / (counts @ known)
    few = known.sum(0) < 2
    means[:, few] = 0.0
    low, high = np.nanquantile(means, _TAILS, axis=0) if columns else np.zeros((2, 0))
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def _paired(difference: np.ndarray, low: float, high: float) -> Paired:
    from scipy.stats import rankdata

    n = len(difference)
    if not n:
        return Paired(math.nan, math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(difference.mean())
    ranks = rankdata(np.abs(difference))
    above, below = ranks[difference > 0].sum(), ranks[difference < 0].sum()
    if above + below == 0:
        return Paired(mean, low, high, 0.0, math.nan, n)
    effect = float((above - below) / (above + below))
    signed = ranks[difference != 0]
    p = _exact(signed, above) if n <= _EXACT else _approximate(signed, above, n)
    return Paired(mean, low, high, effect, p, n)


def _exact(ranks: np.ndarray, above: float) -> float:
    """Two-sided p of a sum of ranks whose signs are all as likely: the sums of all choices of signs are counted."""
    halves = np.rint(2 * ranks).astype(int)  # tied ranks end in .5
    counts = np.zeros(halves.sum() + 1)
    counts[0] = 1
    for rank in halves:
        counts[rank:] = counts[rank:] + counts[: len(counts) - rank]
    place = round(2 * above)
    return float(min(1.0, 2 * min(counts[: place + 1].sum(), counts[place:].sum()) / counts.sum()))


def _approximate(ranks: np.ndarray, above: float, n: int) -> float:
    """The same by the normal distribution, whose variance counts the ties and the n - len(ranks) zeros."""
    zeros = n - len(ranks)
    _, ties = np.unique(ranks, return_counts=True)
    expected = (n * (n + 1) - zeros * (zeros + 1)) / 4
    variance = (n * (n + 1) * (2 * n + 1) - zeros * (zeros + 1) * (2 * zeros + 1)) / 24 - (ties**3 - ties).sum() / 48
    return math.erfc(abs(above - expected) / math.sqrt(2 * variance))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction; NaN stays NaN and does not count as a test.

    Example:
        >>> holm([0.01, float("nan"), 0.04, 0.03])
        [0.03, nan, 0.06, 0.06]
    """
    tested = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    found, least = [math.nan] * len(p_values), 0.0
    for rank, (p, i) in enumerate(tested):
        least = max(least, min(1.0, p * (len(tested) - rank)))
        found[i] = least
    return found
