"""F1 from how often each class was found, wrongly said and missed, for any number of resamples at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

F1 = Callable[[np.ndarray], np.ndarray]


def f1_of(classes: int, multi_label: bool) -> F1:
    """The F1 that is told of so many classes: of the second of two, of several the mean.

    Args:
        classes: C.
        multi_label: whether a text may have several: the mean is then over all C, else over those that are there or
            were said.

    Returns:
        ``f1(totals)``: F1 (..., ) in 0 to 1 from totals (..., 3, C), how often, or in which share of the texts, each
        class was found, wrongly said, and missed; 0 for a class of which there is nothing.

    Example:
        >>> f1_of(2, False)(np.array([[6, 3], [1, 1], [1, 1]])).item()
        0.75
    """
    if multi_label:
        return _of_all
    if classes == 2:
        return _of_second
    return _of_present


def _each(totals: np.ndarray) -> np.ndarray:
    """F1 of each class (..., C)."""
    right, wrong, missed = totals[..., 0, :], totals[..., 1, :], totals[..., 2, :]
    total = 2 * right + wrong + missed
    return np.divide(2 * right, total, out=np.zeros(total.shape), where=total > 0)


def _of_second(totals: np.ndarray) -> np.ndarray:
    return _each(totals)[..., 1]


def _of_all(totals: np.ndarray) -> np.ndarray:
    return _each(totals).mean(-1)


def _of_present(totals: np.ndarray) -> np.ndarray:
    there = totals.sum(-2) > 0  # (..., C)
    sums = (_each(totals) * there).sum(-1)
    return sums / np.maximum(there.sum(-1), 1)
