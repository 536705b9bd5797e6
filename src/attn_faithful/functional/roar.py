"""ROAR: which tokens are masked at a share of a text, and the area between two curves of performance (RACU)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError

Array = NDArray[np.float64]


def mask_top(
    importance: Array,
    masked: NDArray[np.bool_],
    bounds: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.bool_]:
    r"""The most important tokens of each text beside those that are masked already, as many in all as a count says.

    Tokens that tie are taken from the first position on; NaN comes last.

    Args:
        importance: (N,), of the tokens of all texts end to end, any unit; higher is more important.
        masked: (N,), the tokens that stay masked.
        bounds: (B + 1,), where each text begins, and the end.
        counts: (B,), how many tokens of each text are masked in all; fewer than are masked already change nothing.

    Returns:
        (N,), bool, the masked tokens.

    Raises:
        InputError: lengths that do not fit together.

    Reference:
        Madsen et al. (2022), section 3.

    Example:
        >>> importance = np.array([0.1, 0.9, 0.5, 0.3, 0.3])
        >>> nothing = np.zeros(5, dtype=bool)
        >>> first = mask_top(importance, nothing, np.array([0, 3, 5]), np.array([1, 1]))
        >>> first.astype(int).tolist()
        [0, 1, 0, 1, 0]
        >>> mask_top(-importance, first, np.array([0, 3, 5]), np.array([2, 1])).astype(int).tolist()
        [1, 1, 0, 1, 0]
    """
    n_tokens = int(bounds[-1])
    if len(importance) != n_tokens or len(masked) != n_tokens or len(counts) != len(bounds) - 1:
        raise InputError(
            f"Expected `importance` and `masked` of the {n_tokens} tokens that `bounds` ends with and a count a text, "
            f"but got {len(importance)}, {len(masked)} and {len(counts)} for {len(bounds) - 1} texts."
        )
    lengths = np.diff(bounds)
    text = np.repeat(np.arange(len(counts)), lengths)  # (N,)
    falling = np.where(np.isnan(importance), math.inf, -importance)
    order = np.lexsort((falling, ~masked, text))  # texts in order, of each those that are masked, then the top
    rank = np.empty(n_tokens, dtype=np.int64)  # (N,)
    rank[order] = np.arange(n_tokens) - np.repeat(bounds[:-1], lengths)
    return masked | (rank < np.repeat(counts, lengths))


def racu(shares: Sequence[float], random: Sequence[float], source: Sequence[float]) -> float:
    r"""Relative area between the curves of performance that two orders of masking give (RACU).

    .. math::
        \mathrm{RACU} = \frac{\int (b(x) - p(x))\,dx}{\int (b(x) - b(1))\,dx}

    with b and p the performance of models trained and tested on texts of which a share x is masked at random, and along
    the source; trapezoids between the shares, clipped to -1 to 1. 1: the first share that is masked holds all that the
    model needs; 0: no better than random; below 0: worse.

    The sums begin at the first share that is masked. Beginning them at 0, where both curves are the same by
    construction, would leave less than 1 for an order that cannot be better.

    Args:
        shares: (K,), of a text that are masked, rising, the last one 1.
        random: (K,), b, a performance of which more is better.
        source: (K,), p.

    Returns:
        -1 to 1, higher is more faithful; NaN where random masks cost no performance, or a performance is NaN.

    Raises:
        InputError: fewer than two shares, shares that do not rise to 1, other lengths.

    Reference:
        Madsen et al. (2022), section 4.3.

    Example:
        >>> racu([0.2, 0.6, 1.0], [0.9, 0.7, 0.5], [0.5, 0.5, 0.5])
        1.0
        >>> round(racu([0.2, 0.6, 1.0], [0.9, 0.7, 0.5], [0.9, 0.6, 0.5]), 3)
        0.25
    """
    check_shares(shares)
    if len(random) != len(shares) or len(source) != len(shares):
        raise InputError(
            f"Expected a performance for each of the {len(shares)} shares, but got {len(random)} of random masks and "
            f"{len(source)} of the source."
        )
    baseline = np.asarray(random, dtype=np.float64)  # (K,)
    gained = baseline - np.asarray(source, dtype=np.float64)  # (K,)
    above_end = baseline - baseline[-1]  # (K,)
    largest = float(np.trapezoid(above_end, shares))
    if not largest > 0:
        return math.nan
    ratio = float(np.trapezoid(gained, shares)) / largest
    if math.isnan(ratio):
        return math.nan
    return min(1.0, max(-1.0, ratio))


def check_shares(shares: Sequence[float]) -> None:
    """Raise unless shares rise from above 0 to 1."""
    rises = all(before < after for before, after in zip([0.0, *shares], shares, strict=False))
    if len(shares) < 2 or not rises or shares[-1] != 1:
        raise InputError(
            f"Expected `shares` of a text that rise from above 0 to 1, two at least, but got {list(shares)}; 0.1 is "
            "10% of the tokens, and 1, where all are masked, ends the area."
        )


def seed_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    r"""The interval of a mean over seeds by Student's t: ``mean -+ t_{n-1} s / sqrt(n)``.

    Args:
        values: one a seed; NaN are left out.
        level: of confidence.

    Returns:
        low and high, in the unit of the values; NaN for fewer than two.

    Reference:
        Madsen et al. (2022), figure 3.

    Example:
        >>> [round(end, 3) for end in seed_interval([0.1, 0.2, 0.3])]
        [-0.048, 0.448]
    """
    from scipy.special import stdtrit  # takes longer to load than a command that only says what is wrong

    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return math.nan, math.nan
    mean = float(known.mean())
    reach = float(stdtrit(len(known) - 1, 0.5 + level / 2)) * float(known.std(ddof=1)) / math.sqrt(len(known))
    return mean - reach, mean + reach
