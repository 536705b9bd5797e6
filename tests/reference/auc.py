"""AUC, the worth of grouped values, Newcombe's interval and the best line, by loops over pairs, values and lines."""

import itertools
import math

import numpy as np
from scipy.optimize import brentq

Z = 1.959964


def auc_by_pairs(positive, negative):
    """The share of pairs that are in order, ties half; nan without a pair."""
    points = []
    for x in positive:
        for y in negative:
            if math.isfinite(x) and math.isfinite(y):
                points.append(1.0 if x > y else 0.5 if x == y else 0.0)
    return sum(points) / len(points) if points else math.nan


def variance(theta, m, n):
    """Newcombe's (2006) V: Hanley and McNeil's with (m + n) / 2 - 1 for both m - 1 and n - 1."""
    q_1, q_2 = theta / (2 - theta), 2 * theta**2 / (1 + theta)
    others = (m + n) / 2 - 1
    return (theta * (1 - theta) + others * (q_1 - theta**2) + others * (q_2 - theta**2)) / (m * n)


def newcombe(theta, m, n):
    """Both roots of |auc - theta| = z sqrt(V(theta))."""

    def too_far(t):
        return (theta - t) ** 2 - Z**2 * variance(t, m, n)

    # close to a bound the variance is above the distance: the root lies further in
    low = brentq(too_far, 0.0, theta - 1e-9, xtol=1e-15) if theta > 0 else 0.0
    high = brentq(too_far, theta + 1e-9, 1.0, xtol=1e-15) if theta < 1 else 1.0
    return low, high


def worth(groups):
    """N / (1 + (k - 1) r) with r the intraclass correlation of the analysis of variance, from sums of squares."""
    everything = [value for group in groups for value in group]
    n = len(everything)
    squares = sum(len(group) ** 2 for group in groups)
    grand = sum(everything) / n
    between = within = 0.0
    for group in groups:
        mean = sum(group) / len(group)
        between += len(group) * (mean - grand) ** 2
        within += sum((value - mean) ** 2 for value in group)
    between /= len(groups) - 1
    within /= n - len(groups)
    size = (n - squares / n) / (len(groups) - 1)
    r = max(0.0, (between - within) / (between + (size - 1) * within))
    return n / (1 + (squares / n - 1) * r)


def accuracy(line, side, positive, negative):
    """Balanced accuracy of a line on values that are not on it."""
    hits = [(x > line) == (side == "above") for x in positive]
    rejected = [(y > line) != (side == "above") for y in negative]
    return (np.mean(hits) + np.mean(rejected)) / 2


def line_by_trial(positive, negative, sides):
    """Every line between two neighbours on every side: the best; then above, the widest gap, the lowest."""
    values = sorted({*positive, *negative})
    tried = []
    for lower, upper in itertools.pairwise(values):
        for side in sides:
            line = (lower + upper) / 2
            reached = round(accuracy(line, side, positive, negative), 10)
            tried.append((-reached, side != "above", -(upper - lower), line, side))
    if not tried:
        return math.nan, ""
    *_, line, side = min(tried)
    return line, side


def out_of_bag(positive, negative, sides, drawn_positive, drawn_negative):
    """How often each value is on its side of the lines of the resamples that it is not in."""
    right_positive = [[] for _ in positive]
    right_negative = [[] for _ in negative]
    for counts, other_counts in zip(drawn_positive, drawn_negative, strict=True):
        inside = np.repeat(positive, counts)
        other_inside = np.repeat(negative, other_counts)
        line, side = line_by_trial(inside, other_inside, sides)
        for i, x in enumerate(positive):
            if not counts[i]:
                right_positive[i].append(judged(x, line, side))
        for j, y in enumerate(negative):
            if not other_counts[j]:
                right_negative[j].append(1 - judged(y, line, side))
    mean = [np.mean(points) if points else math.nan for points in right_positive]
    other_mean = [np.mean(points) if points else math.nan for points in right_negative]
    return np.array(mean), np.array(other_mean)


def judged(value, line, side):
    if not side or value == line:
        return 0.5
    return float((value > line) == (side == "above"))
