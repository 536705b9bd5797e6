"""The line on a number with the best balanced accuracy, and what it is worth for values that it was not chosen on.

numpy only, so that reports of stored numbers need no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_faithful._checks import InputError
from attn_faithful.functional.auc import check_resamples, draw_groups, finite_values
from attn_faithful.functional.summaries import wilson

Array = NDArray[np.float64]

ABOVE, BELOW = "above", "below"  # on which side of a line the positive values are
_EQUAL = 1e-12  # accuracies nearer to each other differ by rounding


@dataclass(frozen=True)
class BestLine:
    """A line on a number.

    Attributes:
        line: its value; NaN where there is none.
        side: "above" or "below": where positive values should be; "" where there is no line.
        balanced_accuracy: mean of the shares of positive and of negative values on their own side of lines that were
            chosen without them, 0 to 1; NaN where that is not known.
        low, high: its 95% interval.
        right_positive: (m,), how often each finite positive value was on its own side of a line chosen without it, 0
            to 1, in the order given; NaN where that is not known.
        right_negative: (n,), likewise.
    """

    line: float
    side: str
    balanced_accuracy: float
    low: float
    high: float
    right_positive: Array
    right_negative: Array


def best_line(
    positive: ArrayLike,
    negative: ArrayLike,
    side: str | None = None,
    n_resamples: int = 500,
    seed: int = 0,
) -> BestLine:
    r"""The line that tells positive from negative values best, with its error on values it was not chosen on.

    The line lies midway between two neighbours among all values. Its balanced accuracy is the mean of the share of
    positive values on one side and of negative ones on the other. Of several that are best it is the one between the
    neighbours farthest apart, of those the lowest.

    What a line reaches on the values that it was chosen on is too good. So lines are chosen in the same way, their side
    too where it is not given, on resamples: as many values of either side as there are, drawn with replacement. Each
    value is judged by the lines of the resamples that it is not in (out of bag), half right where it is on the line or
    there is none, and the accuracy is the mean of these judgements. It is somewhat too low, as a resample holds two
    thirds of the values.

    Its interval is that of the mean of two shares: from Wilson's ends ``l_1, u_1`` and ``l_2, u_2`` of the shares
    ``p_1`` and ``p_2`` its low end is ``(p_1 + p_2) / 2 - sqrt((p_1 - l_1)^2 + (p_2 - l_2)^2) / 2``, and likewise the
    high one. In simulations of 6 to 60 values a side it held what the line reached on further values in 82 to 99%, and
    began above that in at most 3%.

    Args:
        positive: (m,); what is not finite is left out.
        negative: (n,); what is not finite is left out.
        side: "above" or "below", where positive values should be; None for whichever is better.
        n_resamples: at least 1.
        seed: of the draws.

    Returns:
        the line, its accuracy for other values, and how each value was judged. There is no line without two different
        values or without a value on a side; and with a single value on a side no accuracy, as it is in every resample.

    Raises:
        InputError: other shapes, another side, no resamples.

    Reference:
        Efron and Tibshirani (1997) for the estimate out of bag; Newcombe (1998) and Zou and Donner (2008) for the
        interval.

    Example:
        >>> found = best_line([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0])
        >>> found.line, found.side, round(found.balanced_accuracy, 2)
        (4.5, 'above', 0.89)
    """
    if side not in (ABOVE, BELOW, None):
        raise InputError(f"Expected `side` {ABOVE!r}, {BELOW!r} or None, but got {side!r}.")
    check_resamples(n_resamples)
    ours, others = finite_values("positive", positive), finite_values("negative", negative)
    unknown_ours, unknown_others = np.full(len(ours), math.nan), np.full(len(others), math.nan)
    nothing = BestLine(math.nan, "", math.nan, math.nan, math.nan, unknown_ours, unknown_others)
    if not len(ours) or not len(others):
        return nothing
    values, place = np.unique(np.concatenate([ours, others]), return_inverse=True)  # (k,), (m + n,)
    place_ours, place_others = place[: len(ours)], place[len(ours) :]
    all_ours = _counts(np.ones((1, len(ours))), place_ours, len(values))  # (1, k)
    all_others = _counts(np.ones((1, len(others))), place_others, len(values))
    lines, above = _chosen(values, all_ours, all_others, side)
    if math.isnan(lines[0]):
        return nothing
    generator = np.random.default_rng(seed)
    drawn_ours = draw_groups(generator, len(ours), n_resamples)  # (R, m)
    drawn_others = draw_groups(generator, len(others), n_resamples)  # (R, n)
    counts_ours = _counts(drawn_ours, place_ours, len(values))  # (R, k)
    counts_others = _counts(drawn_others, place_others, len(values))
    others_lines, others_above = _chosen(values, counts_ours, counts_others, side)  # (R,)
    taken = _taken_as_positive(values, others_lines, others_above)  # (R, k)
    right_ours = _mean_out_of_bag(taken[:, place_ours], drawn_ours)
    right_others = _mean_out_of_bag(1 - taken[:, place_others], drawn_others)
    hits, rejected = float(right_ours.mean()), float(right_others.mean())
    low, high = _interval_of_mean(hits, len(ours), rejected, len(others))
    return BestLine(
        line=float(lines[0]),
        side=ABOVE if above[0] else BELOW,
        balanced_accuracy=(hits + rejected) / 2,
        low=low,
        high=high,
        right_positive=right_ours,
        right_negative=right_others,
    )


def _counts(drawn: Array, place: NDArray[np.intp], n_values: int) -> Array:
    """How often each distinct value is in each resample (R, k), from how often each of n values is (R, n)."""
    is_at = place[:, None] == np.arange(n_values)  # (n, k)
    counts: Array = drawn @ is_at
    return counts


def _chosen(values: Array, positive: Array, negative: Array, side: str | None) -> tuple[Array, NDArray[np.bool_]]:
    """The best line of each resample (R,) and whether positive values are above it; NaN where there is none.

    Args:
        values: (k,) distinct, in ascending order.
        positive, negative: how often each is in each resample (R, k).
        side: of the positive values; None for whichever is better.
    """
    present = (positive + negative) > 0  # (R, k)
    following = _next_present(values, present)  # (R, k)
    has_line = present & np.isfinite(following)  # between a value and the one that follows
    hits = 1 - np.cumsum(positive, 1) / positive.sum(1, keepdims=True)  # share of the positive ones above
    passed = 1 - np.cumsum(negative, 1) / negative.sum(1, keepdims=True)
    accuracy_above = (1 + hits - passed) / 2  # (R, k)
    best_above = np.where(has_line, accuracy_above, -np.inf).max(1)  # (R,)
    best_below = np.where(has_line, 1 - accuracy_above, -np.inf).max(1)
    above = best_above >= best_below - _EQUAL if side is None else np.full(len(present), side == ABOVE)
    accuracy = np.where(above[:, None], accuracy_above, 1 - accuracy_above)
    best = np.where(above, best_above, best_below)
    is_best = has_line & (accuracy >= best[:, None] - _EQUAL)
    gaps = np.where(is_best, following - values, -np.inf)
    widest = gaps.argmax(1)  # (R,)
    lines = (values[widest] + following[np.arange(len(present)), widest]) / 2
    return np.where(has_line.any(1), lines, math.nan), above


def _next_present(values: Array, present: NDArray[np.bool_]) -> Array:
    """The lowest value of each resample above each value (R, k); inf where there is none."""
    known = np.where(present, values, np.inf)  # (R, k)
    from_here = np.minimum.accumulate(known[:, ::-1], axis=1)[:, ::-1]
    return np.pad(from_here[:, 1:], ((0, 0), (0, 1)), constant_values=np.inf)


def _taken_as_positive(values: Array, lines: Array, above: NDArray[np.bool_]) -> Array:
    """1 where a line takes a value for a positive one, 0 where not, 0.5 on the line or where there is none (R, k)."""
    distance = np.where(above[:, None], values - lines[:, None], lines[:, None] - values)
    return (1 + np.nan_to_num(np.sign(distance))) / 2


def _mean_out_of_bag(right: Array, drawn: Array) -> Array:
    """The mean over the resamples that a value is not in (n,); NaN where there is none."""
    outside = drawn == 0  # (R, n)
    count = outside.sum(0)
    sums = (right * outside).sum(0)
    return np.where(count > 0, sums / np.maximum(count, 1), math.nan)


def _interval_of_mean(share: float, n: int, other_share: float, n_other: int) -> tuple[float, float]:
    """The ends of the interval of the mean of two shares; NaN where one is not known."""
    mean = (share + other_share) / 2
    if math.isnan(mean):
        return math.nan, math.nan
    low, high = wilson(share, n)
    other_low, other_high = wilson(other_share, n_other)
    down = math.hypot(share - low, other_share - other_low) / 2
    up = math.hypot(high - share, other_high - other_share) / 2
    return mean - down, mean + up
