"""Divergences of stored columns in numpy: the definitions of `functional.divergences`, which needs torch.

Intervals and tests are those of `functional.summaries` and `functional.attefa`, which do not.
"""

from __future__ import annotations

import itertools
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
    distance = np.abs(np.asarray(p) - np.asarray(q))  # (B, C)
    if multi_label:
        return distance.mean(-1)
    return distance.sum(-1) / 2


def jsd_of_lists(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> np.ndarray:
    """JSD in nats of each pair of lists, 0 to ln 2; NaN where they are empty or hold NaN, 0 for one item.

    Example:
        >>> jsd_of_lists([[1.0, 0.0], [], [1.0]], [[0.0, 1.0], [], [1.0]]).round(6).tolist()
        [0.693147, nan, 0.0]
    """
    lengths = np.array([len(row) for row in a])  # (B,)
    rows = np.repeat(np.arange(len(lengths)), lengths)  # the list of each number
    first = _flat(a)  # the numbers of all lists in a row, as `rows`
    second = _flat(b)
    middle = (first + second) / 2
    divergence = np.zeros(len(lengths))  # (B,)
    for values in (first, second):
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(values / middle)
            # the product with 0 keeps NaN, where 0 would not
            terms = np.where(values > 0, values * logarithms, values * 0)
        divergence += np.bincount(rows, weights=terms, minlength=len(lengths)) / 2
    divergence = np.clip(divergence, 0, LN2)
    divergence[(lengths == 1) & ~np.isnan(divergence)] = 0.0
    divergence[lengths == 0] = np.nan
    return divergence


def _flat(lists: Sequence[Sequence[float]]) -> np.ndarray:
    """The numbers of all lists in a row, 0 for those below the normal ones: half of a smaller one may be 0."""
    in_a_row = list(itertools.chain.from_iterable(lists))
    values = np.asarray(in_a_row, dtype=float)
    subnormal = np.abs(values) < np.finfo(float).tiny
    return np.where(subnormal, 0.0, values)
