"""How well a classifier predicts."""

from __future__ import annotations

import math
import warnings
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
    from sklearn.metrics import accuracy_score, f1_score

    known = ~np.isnan(probabilities).any(axis=1) & known_labels(labels)
    probabilities = np.asarray(probabilities)[known]
    labels = np.asarray(labels)[known]
    if not len(labels):
        return {"accuracy": math.nan, "f1": math.nan, "roc_auc": math.nan}
    predicted = probabilities.argmax(1)  # (n,)
    if multi_label:
        predicted = (probabilities > 0.5).astype(int)  # (n, C)
    is_binary = probabilities.shape[1] == 2 and not multi_label
    average = "binary" if is_binary else "macro"
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "f1": float(f1_score(labels, predicted, average=average, zero_division=0)),
        "roc_auc": _roc_auc(probabilities, labels, multi_label),
    }


def known_labels(labels: Any) -> np.ndarray:
    """(n,) bool: the examples whose labels are all known, that is not negative."""
    labels = np.asarray(labels)
    if labels.ndim > 1:
        return (labels >= 0).all(1)
    return labels >= 0


def _roc_auc(
    probabilities: np.ndarray,
    labels: np.ndarray,
    multi_label: bool,
) -> float:
    """The area under the ROC curve; NaN where a class is missing."""
    from sklearn.metrics import roc_auc_score

    classes = probabilities.shape[1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sklearn only warns where a class is missing
            if classes == 2 and not multi_label:
                return float(roc_auc_score(labels, probabilities[:, 1]))
            every = None if multi_label else range(classes)
            return float(roc_auc_score(labels, probabilities, multi_class="ovr", average="macro", labels=every))
    except (ValueError, UserWarning):
        return math.nan


def balanced_weights(labels: Sequence[int], classes: int) -> list[float]:
    """``N / (C n_c)`` for each class; a class without examples weighs 1."""
    counts = np.bincount(np.asarray(labels), minlength=classes)
    weights = []
    for count in counts:
        weights.append(float(len(labels) / (classes * count)) if count else 1.0)
    return weights
