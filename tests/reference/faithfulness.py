"""AtteFa, the constant twin as a linear program, and the bootstrap as loops."""

import math

import numpy as np
from scipy.optimize import linprog


def attefa(tvd, jsd):
    pairs = [(t, j) for t, j in zip(tvd, jsd, strict=True) if not (math.isnan(t) or math.isnan(j))]
    if not pairs:
        return math.nan
    mean_tvd = sum(t for t, _ in pairs) / len(pairs)
    mean_jsd = sum(j for _, j in pairs) / len(pairs)
    return math.nan if mean_jsd == 0 else min(mean_tvd / (mean_jsd / math.log(2)), 1.0)


def constant_twin_tvd(p):
    """Smallest mean TVD of a constant distribution: variables q (C), then d (n, C) with d >= |p - q|."""
    n, classes = p.shape
    cost = np.concatenate([np.zeros(classes), np.full(n * classes, 0.5 / n)])
    rows, bounds = [], []
    for i in range(n):
        for c in range(classes):
            for sign in (1, -1):
                row = np.zeros(classes + n * classes)
                row[c], row[classes + i * classes + c] = sign, -1
                rows.append(row)
                bounds.append(sign * p[i, c])
    simplex = np.concatenate([np.ones(classes), np.zeros(n * classes)])[None]
    return linprog(cost, A_ub=np.array(rows), b_ub=bounds, A_eq=simplex, b_eq=[1.0], bounds=(0, None)).fun


def bootstrap_attefa(values_by_twin, n_resamples, level, seed):
    """Twins as dictionaries from a text to its TVD and JSD; every resample draws texts once, for all twins."""
    texts = list(dict.fromkeys(text for twin in values_by_twin for text in twin))
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(n_resamples):
        drawn = [texts[i] for i in generator.integers(0, len(texts), size=len(texts))]
        ratios = []
        for twin in values_by_twin:
            answered = [twin[text] for text in drawn if text in twin]
            ratios.append(attefa([tvd for tvd, _ in answered], [jsd for _, jsd in answered]))
        ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
        values.append(sum(ratios) / len(ratios))
    ends = [100 * (1 - level) / 2, 100 * (1 + level) / 2]
    return tuple(np.percentile(values, ends))


def bootstrap_mean(values_by_model, n_resamples, level, seed):
    """Models as dictionaries from a text to its value; every resample draws texts once, for all models."""
    texts = list(dict.fromkeys(text for model in values_by_model for text in model))
    generator = np.random.default_rng(seed)
    values = []
    for _ in range(n_resamples):
        drawn = [texts[i] for i in generator.integers(0, len(texts), size=len(texts))]
        means = []
        for model in values_by_model:
            answered = [model[text] for text in drawn if text in model]
            means.append(sum(answered) / len(answered))
        values.append(sum(means) / len(means))
    ends = [100 * (1 - level) / 2, 100 * (1 + level) / 2]
    return tuple(np.percentile(values, ends))
