"""Rank correlation of attention with importance over a data set, from lists."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attn_faithful._checks import check_same_length
from attn_faithful.functional.ragged import Rows, numbers
from attn_faithful.functional.rankings import LONG, SIGNIFICANT, TIE_TOLERANCE, Correlation, kendall_tau_b, spearman
from attn_faithful.functional.reasons import NO_EXAMPLE, NO_EXAMPLE_OF_5
from attn_faithful.functional.resampling import bootstrap_mean
from attn_faithful.metrics.lists import check_reduction


def correlation_of_lists(
    predictions: Rows,
    references: Rows,
    *,
    predictions_name: str = "attention",
    references_name: str = "importance",
    magnitude: bool = True,
    tie_tolerance: float = TIE_TOLERANCE,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""Rank correlation of attention with importance over a data set, straight from ragged lists.

    Args:
        predictions: B rows of T attention weights over the content tokens; T differs by row.
        references: B rows of T importance scores of the same tokens: gradients, leave-one-out, any other.
        predictions_name, references_name: what the two are called in reasons.
        magnitude: compare with absolute importance, since attention has no sign.
        tie_tolerance: see `rankings.merge_ties`; 0 repeats the papers.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" the mean ``kendall_tau_b`` (-1 to 1, higher is more alike), its ``std`` over examples (ddof 0) and
        95% bootstrap ``interval``, the mean ``spearman``, all over the ``n`` defined examples; ``n_undefined``, their
        number by reason (``reasons``), and why the means are NaN (``reason``, else None); ``significant``, the share
        of all examples with p <= .05, where an undefined one counts as not significant; ``significant_n5``, that
        share among the ``n5`` defined examples of at least 5 tokens, which could be significant (NaN with
        ``reason_n5`` if there is none); ``prediction_ties`` and ``reference_ties``, the mean share of tied pairs.
        For "none" lists of ``kendall_tau_b``, ``p_value``, ``spearman``, ``prediction_ties``, ``reference_ties``,
        ``n_tokens``, ``reason``.

    Raises:
        InputError: unequal lengths (both are named, with the example), an unknown reduction.

    Reference:
        Jain and Wallace, section 4.1, table 2.

    Example:
        >>> result = correlation_of_lists([[0.6, 0.3, 0.1], [1.0]], [[-0.5, 0.3, 0.1], [0.2]])
        >>> round(result["kendall_tau_b"], 6), result["n"], result["n_undefined"], result["reasons"]
        (1.0, 1, 1, {'n<2': 1})
    """
    check_reduction(reduction)
    check_same_length(("predictions", "references"), (predictions, references))
    names = (predictions_name, references_name)
    taus, rhos = [], []
    for i, (attention, importance) in enumerate(zip(predictions, references, strict=True)):
        check_same_length(("predictions", "references"), (attention, importance), example=i)
        x = numbers("predictions", i, attention)
        y = numbers("references", i, importance)
        if magnitude:
            y = np.abs(y)
        taus.append(kendall_tau_b(x, y, tie_tolerance, names, i))
        rhos.append(spearman(x, y, tie_tolerance, names, i))
    if reduction == "none":
        return _columns(taus, rhos)
    return _means(taus, rhos)


def _columns(taus: list[Correlation], rhos: list[Correlation]) -> dict[str, Any]:
    return {
        "kendall_tau_b": [tau.value for tau in taus],
        "p_value": [tau.p_value for tau in taus],
        "spearman": [rho.value for rho in rhos],
        "prediction_ties": [tau.ties_x for tau in taus],
        "reference_ties": [tau.ties_y for tau in taus],
        "n_tokens": [tau.n for tau in taus],
        "reason": [tau.reason for tau in taus],
    }


def _means(taus: list[Correlation], rhos: list[Correlation]) -> dict[str, Any]:
    values = np.array([tau.value for tau in taus], dtype=np.float64)
    p_values = np.array([tau.p_value for tau in taus], dtype=np.float64)
    n_tokens = np.array([tau.n for tau in taus], dtype=np.int64)
    is_defined = ~np.isnan(values)
    defined = values[is_defined]
    significant = p_values <= SIGNIFICANT
    long = (n_tokens >= LONG) & is_defined
    return {
        "kendall_tau_b": _mean(defined),
        "std": float(defined.std()) if defined.size else math.nan,
        "interval": bootstrap_mean([values]),
        "spearman": _mean([rho.value for rho in rhos]),
        "significant": _mean(significant),
        "significant_n5": _mean(significant[long]),
        "prediction_ties": _mean([tau.ties_x for tau in taus]),
        "reference_ties": _mean([tau.ties_y for tau in taus]),
        "n": len(defined),
        "n5": int(long.sum()),
        "n_undefined": len(values) - len(defined),
        "reasons": dict(Counter(tau.reason for tau in taus if tau.reason)),
        "reason": None if defined.size else NO_EXAMPLE,
        "reason_n5": None if long.any() else NO_EXAMPLE_OF_5,
    }


def _mean(values: ArrayLike) -> float:
    """Over what is not NaN."""
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    return float(array.mean()) if array.size else math.nan
