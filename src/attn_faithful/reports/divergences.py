"""Divergences of stored columns in numpy: the definitions of `functional.divergences`, which needs torch.

Intervals and tests are those of `functional.summaries` and `functional.attefa`, which do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LN2 = math.log(2)


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
    smallest = np.finfo(float).tiny  # normal numbers end here: half of a smaller one may be 0
    flat = [np.where(np.abs(values) < smallest, 0.0, values) for values in flat]
    middle = (flat[0] + flat[1]) / 2
    row = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros(len(lengths))
    for values in flat:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(values > 0, values * np.log(values / middle), values * 0)
        found += np.bincount(row, weights=terms, minlength=len(lengths)) / 2
    found = np.clip(found, 0, LN2)
    return np.where(lengths == 0, np.nan, np.where((lengths == 1) & ~np.isnan(found), 0.0, found))
