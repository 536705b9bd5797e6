"""Means over examples with what stands beside a mean: how many were defined, spread, interval, reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._checks import InputError

Array = NDArray[np.float64]

_CELLS = 4_000_000  # resampled counts held at once: 32 MB, whatever the number of examples


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
        reasons: M rows of n: why a value is undefined, else None; none at all where nobody asks.
        n_resamples: draws of n examples with replacement; all columns share them.
        level: of the interval.
        seed: of the draws.

    Returns:
        one :class:`Summary` a column. An interval needs two defined examples, else it is NaN.

    Raises:
        InputError: other shapes, or a level outside 0 to 1.

    Example:
        >>> found = summarize(np.array([[1.0], [np.nan], [0.0]]), [[None, "n<2", None]])[0]
        >>> found.mean, found.std, found.n, found.n_undefined, found.reasons
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
    counts = defined.sum(0)
    filled = np.where(defined, values, 0.0)
    low, high = _intervals(filled, defined.astype(np.float64), n_resamples, level, seed)
    found = []
    for column in range(values.shape[1]):
        kept = values[defined[:, column], column]
        why = Counter(reason for reason in rows[column] if reason is not None)
        found.append(
            Summary(
                float(kept.mean()) if len(kept) else math.nan,
                float(kept.std()) if len(kept) else math.nan,
                float(low[column]) if len(kept) > 1 else math.nan,
                float(high[column]) if len(kept) > 1 else math.nan,
                int(counts[column]),
                int(len(values) - counts[column]),
                dict(sorted(why.items())),
            )
        )
    return found


def _intervals(filled: Array, defined: Array, n_resamples: int, level: float, seed: int) -> tuple[Array, Array]:
    n, columns = filled.shape
    if n == 0 or columns == 0:
        return np.full(columns, math.nan), np.full(columns, math.nan)
    generator = np.random.default_rng(seed)
    means = np.empty((n_resamples, columns))
    step = max(1, _CELLS // n)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        drawn = generator.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)  # (size, n)
        with np.errstate(invalid="ignore"):
            means[start : start + size] = (drawn @ filled) / (drawn @ defined)
    tail = (1 - level) / 2
    empty = np.isnan(means).all(0)
    means[:, empty] = 0.0
    low, high = np.nanquantile(means, [tail, 1 - tail], axis=0)
    return np.where(empty, math.nan, low), np.where(empty, math.nan, high)
