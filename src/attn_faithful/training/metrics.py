"""How well a classifier predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def classification_metrics(
    probabilities: np.ndarray,
    labels: np.ndarray,
    multi_label: bool = False,
) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; NaN where undefined.

    F1 is that of the positive class for two classes, the macro mean otherwise; ROC-AUC is one against the rest,
    macro. Unknown labels (negative) are left out, and so are examples that the model could not read (NaN).

    Example:
        >>> import numpy as np
        >>> classification_metrics(np.array([[.8, .2], [.3, .7]]), np.array([0, 1]))
        {'accuracy': 1.0, 'f1': 1.0, 'roc_auc': 1.0}
    """
    known = ~np.isnan(probabilities).any(axis=1) & known_labels(labels)
    probabilities = np.asarray(probabilities)[known]
    labels = np.asarray(labels)[known]
    if not len(labels):
        return {"accuracy": math.nan, "f1": math.nan, "roc_auc": math.nan}
    predicted = probabilities.argmax(1)  # (n,)
    if multi_label:
        predicted = (probabilities > 0.5).astype(int)  # (n, C)
    is_binary = probabilities.shape[1] == 2 and not multi_label
    right = predicted == labels
    if multi_label:
        right = right.all(1)  # every label of a text
    return {
        "accuracy": float(right.mean()),
        "f1": _f1(predicted, labels, is_binary),
        "roc_auc": _roc_auc(probabilities, labels, is_binary),
    }


def known_labels(labels: Any) -> np.ndarray:
    """(n,) bool: the examples whose labels are all known, that is not negative."""
    labels = np.asarray(labels)
    if labels.ndim > 1:
        return (labels >= 0).all(1)
    return labels >= 0


def _f1(predicted: np.ndarray, labels: np.ndarray, is_binary: bool) -> float:
    """``2 TP / (2 TP + FP + FN)``, of the second of two classes or the mean over those that occur; 0 where it is 0 / 0.

    Args:
        predicted, labels: classes (n,), or of several labels a text 0 and 1 (n, C); a single label is two classes.
        is_binary: there are two classes, and one each text.
    """
    if labels.ndim == 2 and labels.shape[1] > 1:
        chosen, has_class = predicted > 0, labels > 0  # (n, C)
    else:
        classes = np.array([1]) if is_binary else np.union1d(predicted, labels)
        chosen, has_class = predicted.reshape(-1, 1) == classes, labels.reshape(-1, 1) == classes  # (n, C)
    hits = (chosen & has_class).sum(0)  # (C,)
    in_all = chosen.sum(0) + has_class.sum(0)  # (C,)
    f1 = 2 * hits / np.maximum(in_all, 1)
    return float(f1.mean())


def _roc_auc(probabilities: np.ndarray, labels: np.ndarray, is_binary: bool) -> float:
    """The area under the ROC curve; NaN where a class is missing, or is that of every text."""
    if is_binary:
        return _area(probabilities[:, 1], labels == 1)
    has_class = labels > 0  # (n, C)
    if labels.ndim == 1:
        has_class = labels[:, None] == np.arange(probabilities.shape[1])
    areas = list(map(_area, probabilities.T, has_class.T))
    return float(np.mean(areas))


def _area(scores: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs of a positive and a negative text in which the positive one scores higher; ties count half."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return math.nan
    _, level, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = counts.cumsum() - (counts - 1) / 2  # from 1, of each level
    rank_sum = mean_ranks[level[positive]].sum()
    higher = rank_sum - positives * (positives + 1) / 2
    return float(higher / (positives * negatives))


def balanced_weights(labels: Sequence[int], classes: int) -> list[float]:
    """``N / (C n_c)`` for each class; a class without examples weighs 1."""
    counts = np.bincount(np.asarray(labels), minlength=classes)
    weights = []
    for count in counts:
        weights.append(float(len(labels) / (classes * count)) if count else 1.0)
    return weights
