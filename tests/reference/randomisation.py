"""Kendall's tau-b of an importance with itself after draws of weights (Adebayo et al. 2018, section 3), by scipy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats


def tau_with_itself(before: Sequence[float], after: Sequence[Sequence[float]]) -> float:
    """The mean over draws of tau-b between the importance of a text's items before and after.

    Args:
        before: (T,), without the positions that are no items.
        after: (draws, T).

    Returns:
        NaN where tau is defined in no draw: for fewer than two items, and where either importance is constant.
    """
    taus = []
    for values in after:
        if len(before) < 2:
            continue
        tau = stats.kendalltau(before, values).statistic
        if not math.isnan(tau):
            taus.append(tau)
    if not taus:
        return math.nan
    return sum(taus) / len(taus)
