"""F1 and its bootstrap interval as loops over texts; Wilson's interval as the roots of its equation."""

from __future__ import annotations

import math

import numpy as np


def f1_of_class(gold: list[int], said: list[int], wanted: int) -> float | None:
    """None where nothing is of the class and nothing was said to be."""
    found = sum(1 for g, s in zip(gold, said, strict=True) if g == s == wanted)
    there = sum(1 for g in gold if g == wanted)
    claimed = sum(1 for s in said if s == wanted)
    if there + claimed == 0:
        return None
    return 2 * found / (there + claimed)


def f1(gold: list[int], said: list[int], classes: int) -> float:
    """Of the second of two classes, else the mean over the classes that are there or were said."""
    if classes == 2:
        return f1_of_class(gold, said, 1) or 0.0
    each = [f1_of_class(gold, said, wanted) for wanted in range(classes)]
    defined = [value for value in each if value is not None]
    return sum(defined) / len(defined)


def bootstrap_f1(gold: list[int], said: list[int], classes: int, resamples: int, seed: int) -> tuple[float, float]:
    """The 95% percentile interval over texts drawn one by one; another stream of numbers than the package's."""
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = [int(generator.integers(len(gold))) for _ in gold]
        values.append(f1([gold[i] for i in drawn], [said[i] for i in drawn], classes))
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def bootstrap_f1_difference(
    gold: list[int], first: list[list[int]], second: list[list[int]], classes: int, resamples: int, seed: int
) -> tuple[float, float]:
    """The same of the mean F1 of some models less that of others, over texts drawn once for all of them."""
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = [int(generator.integers(len(gold))) for _ in gold]
        means = []
        for models in (first, second):
            each = [f1([gold[i] for i in drawn], [said[i] for i in drawn], classes) for said in models]
            means.append(sum(each) / len(each))
        values.append(means[0] - means[1])
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def wilson_ends(right: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Where ``(right / n - p)^2 = z^2 p (1 - p) / n``."""
    share = right / n
    a, b, c = 1 + z * z / n, -(2 * share + z * z / n), share * share
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
