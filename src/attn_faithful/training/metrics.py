"""How well a classifier predicts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np


def classification_metrics(
    probabilities: np.ndarray, labels: np.ndarray, multi_label: bool = False
) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC; NaN where undefined.

    F1 is that of the positive class for two classes, the macro mean otherwise; ROC-AUC is one against the rest,
    macro. Unknown labels (negative) are left out, and so are examples that the model could not read (NaN).

    Example:
        >>> import numpy as np
        >>> classification_metrics(np.array([[.8, .2], [.3, .7]]), np.array([0, 1]))
        {'accuracy': 1.0, 'f1': 1.0, 'roc_auc': 1.0}
    """
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    labels = np.asarray(labels)
    known = (labels >= 0).all(1) if labels.ndim > 1 else labels >= 0
    known = known & ~np.isnan(probabilities).any(axis=1)
    probabilities, labels = np.asarray(probabilities)[known], labels[known]
    if not len(labels):
        return {"accuracy": math.nan, "f1": math.nan, "roc_auc": math.nan}
    classes = probabilities.shape[1]
    predicted = (probabilities > 0.5).astype(int) if multi_label else probabilities.argmax(1)
    binary = classes == 2 and not multi_label
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sklearn only warns where a class is missing
            area = float(
                roc_auc_score(labels, probabilities[:, 1])
                if binary
                else roc_auc_score(
                    labels,
                    probabilities,
                    multi_class="ovr",
                    average="macro",
                    labels=None if multi_label else range(classes),
                )
            )
    except (ValueError, UserWarning):
        area = math.nan
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "f1": float(f1_score(labels, predicted, average="binary" if binary else "macro", zero_division=0)),
        "roc_auc": area,
    }


def balanced_weights(labels: Sequence[int], classes: int) -> list[float]:
    """``N / (C n_c)`` for each class; a class without examples weighs 1."""
    counts = np.bincount(np.asarray(labels), minlength=classes)
    return [float(len(labels) / (classes * n)) if n else 1.0 for n in counts]
