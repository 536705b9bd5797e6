"""Numbers both ways over the same texts of the same models: means over texts and seeds, and their paired difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from attn_faithful.functional.resampling import percentiles, resampled_means
from evidence.published_faults.effects import Comparison, Estimate

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # means of columns (columns, R) -> one number a resample (R,)

_LEVEL, _RESAMPLES = 0.95, 1000


def compared_means(published: Sequence[Array], printed: Sequence[Array]) -> Comparison:
    """Means over texts, averaged over models.

    Args:
        published, printed: for each model a value a text (n,), of the same texts in the same order; a text that is NaN
            in either is left out of both.

    Example:
        >>> ones, steps = np.ones(4), np.arange(4.0)
        >>> found = compared_means([steps + 1], [steps])
        >>> found.as_published.value, found.difference
        (2.5, Estimate(value=1.0, low=1.0, high=1.0, n=4))
    """
    seeds = [np.stack([values, others]) for values, others in zip(published, printed, strict=True)]
    return compared(seeds, lambda means: means[0], lambda means: means[1])


def compared(seeds: Sequence[Array], published: Statistic, printed: Statistic) -> Comparison:
    """Two statistics of the means of some columns, averaged over models; texts are resampled for both at once.

    Args:
        seeds: for each model (columns, n); a text that is NaN in one column is left out of all of that model.
        published, printed: of the means (columns, R).
    """
    resampled = resampled_means(list(seeds), None, _RESAMPLES, _LEVEL, seed=0)
    defined = [~np.isnan(columns).any(0) for columns in seeds]
    n = int(np.any(defined, axis=0).sum())
    means = []
    for columns, known in zip(seeds, defined, strict=True):
        if known.any():
            means.append(columns[:, known].mean(1, keepdims=True))

    def estimate(statistic: Statistic) -> Estimate:
        if not n:
            return Estimate(math.nan, math.nan, math.nan, 0)
        value = float(np.mean([statistic(of_seed) for of_seed in means]))
        if n == 1:
            return Estimate(value, math.nan, math.nan, n)
        low, high = percentiles([statistic(of_seed) for of_seed in resampled], _LEVEL)
        return Estimate(value, low, high, n)

    return Comparison(
        as_published=estimate(published),
        as_printed=estimate(printed),
        difference=estimate(lambda of_seed: published(of_seed) - printed(of_seed)),
    )
