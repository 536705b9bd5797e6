"""Ridge regression of importance on heads' attention, from its definition: stacked rows and least squares."""

import math

import numpy as np
from scipy import stats


def rows(texts):
    """The rows of all texts, less the text's means, importance in deviations, all texts of one weight: (N, F), (N,)."""
    xs, ys = [], []
    for x, y in texts:
        deviation = np.std(y) or 1.0
        for t in range(len(y)):
            xs.append((x[t] - np.mean(x, axis=0)) / math.sqrt(len(y)))
            ys.append((y[t] - np.mean(y)) / deviation / math.sqrt(len(y)))
    return np.array(xs), np.array(ys)


def ridge(texts, strength):
    """The weights: least squares with a row of sqrt(penalty) for each weight below the data's."""
    x, y = rows(texts)
    columns = x.shape[1]
    penalty = strength * sum(float(x[:, f] @ x[:, f]) for f in range(columns)) / columns
    below = math.sqrt(penalty) * np.eye(columns)
    return np.linalg.lstsq(np.concatenate([x, below]), np.concatenate([y, np.zeros(columns)]), rcond=None)[0]


def fit(texts, strengths, folds):
    """Weights, strength, held-out R squared and held-out mean tau."""
    errors = []
    for strength in strengths:
        error = 0.0
        for fold in range(folds):
            w = ridge([text for i, text in enumerate(texts) if i % folds != fold], strength)
            x, y = rows([text for i, text in enumerate(texts) if i % folds == fold])
            error += float(np.sum((y - x @ w) ** 2))
        errors.append(error)
    best = int(np.argmin(errors))
    whole = float(np.sum(rows(texts)[1] ** 2))
    taus = []
    for i, (x, y) in enumerate(texts):
        w = ridge([text for j, text in enumerate(texts) if j % folds != i % folds], strengths[best])
        taus.append(stats.kendalltau(x @ w, y).statistic)
    return ridge(texts, strengths[best]), strengths[best], 1 - errors[best] / whole, float(np.nanmean(taus))
