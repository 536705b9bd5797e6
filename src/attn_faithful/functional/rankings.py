"""Rank correlation of attention with importance, one example at a time and over lists of texts.

Values that differ only by rounding count as tied, so one unit in the last place never decides a ranking. Undefined is
NaN with a reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from attn_faithful._checks import InputError, check_choice, check_same_length, check_shape
from attn_faithful.functional.attefa import bootstrap_mean
from attn_faithful.functional.kendall import tau_b
from attn_faithful.functional.ragged import Rows, numbers
from attn_faithful.functional.reasons import NAN_SCORES, NO_EXAMPLE, NO_EXAMPLE_OF_5, NO_TOKEN, TOO_SHORT

Array = NDArray[np.float64]
Ranks = NDArray[np.int64]

TIE_TOLERANCE = 1e-6
SIGNIFICANT = 0.05

# No ranking of fewer tokens can be significant: 4 reach p = 2 / 4! = .083, and .056 under ties by the approximation.
LONG = 5

# From 8 tokens on Student's t is off by at most .013 where p < .1; for 4 in the same order it would give 0, not .083.
_ENUMERATED = 7


@dataclass(frozen=True)
class Correlation:
    """A rank correlation of one example.

    Attributes:
        value: -1 to 1, or NaN.
        p_value: two-sided, 0 to 1, or NaN.
        reason: why the value is NaN; None where it is defined.
        ties_x, ties_y: share of tied pairs, 0 to 1; NaN where there is no pair or a NaN in the scores.
        n: number of tokens.
    """

    value: float
    p_value: float
    reason: str | None
    ties_x: float
    ties_y: float
    n: int


def merge_ties(values: ArrayLike, tie_tolerance: float = TIE_TOLERANCE) -> Ranks:
    r"""Ranks of ``values`` from 0, the smallest, without gaps; equal up to rounding is equal.

    In sorted order a value joins the one before it if their gap is at most ``tie_tolerance * max(|a|, |b|)``. Such
    steps chain: a long run of close neighbours is one rank.

    Args:
        values: (T,), any unit; infinite ones are ranked and never merged with finite ones.
        tie_tolerance: 0 to below 1; 0 merges equal values only.

    Returns:
        ranks (T,), 0 to the number of different values minus 1.

    Raises:
        InputError: another shape, a NaN, a tolerance out of range.

    Example:
        >>> merge_ties([0.3, 0.1, 0.3 + 1e-9, 0.6]).tolist(), merge_ties([0.3, 0.1, 0.3 + 1e-9, 0.6], 0).tolist()
        ([1, 0, 1, 2], [1, 0, 2, 3])
    """
    values = _vector("values", values)
    if not 0 <= tie_tolerance < 1:
        raise InputError(f"Expected `tie_tolerance` of at least 0 and below 1, but got {tie_tolerance}.")
    if np.isnan(values).any():
        raise InputError("Expected `values` without NaN, which has no rank; leave such examples out and count them.")
    return _merged(values.tobytes(), tie_tolerance).copy()


@lru_cache(maxsize=256)
def _merged(held: bytes, tie_tolerance: float) -> Ranks:
    """Kept, since several measures ask for the ranks of the same scores; never written to."""
    values = np.frombuffer(held)
    order = np.argsort(values, kind="stable")
    low, high = values[order[:-1]], values[order[1:]]
    with np.errstate(invalid="ignore", over="ignore"):
        gap = high - low
        close = gap <= tie_tolerance * np.maximum(np.abs(low), np.abs(high))
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[order[1:]] = np.cumsum((low != high) & ~(close & np.isfinite(gap)))
    return ranks


def paired_ranks(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> tuple[Ranks, Ranks, str | None]:
    """Ranks of both vectors by :func:`merge_ties`, and why nothing can be said about their order, or None.

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        ranks of ``x`` (T,), ranks of ``y`` (T,), both empty where a score is NaN; and the first reason that holds of
        "no content token", "n<2", "nan in scores", "constant attention", "constant gradient" (after ``names``).

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Example:
        >>> x_ranks, y_ranks, reason = paired_ranks([0.25, 0.25], [3.0, 1.0])
        >>> x_ranks.tolist(), y_ranks.tolist(), reason
        ([0, 0], [1, 0], 'constant attention')
    """
    x, y = _vector(names[0], x), _vector(names[1], y)
    check_same_length(names, (x, y), example)
    if np.isnan(x).any() or np.isnan(y).any():
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, TOO_SHORT if len(x) < 2 else NAN_SCORES
    ranks = merge_ties(x, tie_tolerance), merge_ties(y, tie_tolerance)
    if len(x) < 2:
        return *ranks, TOO_SHORT if len(x) else NO_TOKEN
    constant = next((f"constant {name}" for name, r in zip(names, ranks, strict=True) if not r.any()), None)
    return *ranks, constant


def kendall_tau_b(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> Correlation:
    r"""Kendall's tau-b: do two score vectors order the tokens alike?

    ``(P - Q) / sqrt((P + Q + X) (P + Q + Y))`` with P concordant, Q discordant pairs, X and Y the pairs tied in ``x``
    alone and in ``y`` alone, after :func:`merge_ties`. The p-value is scipy's: exact without ties for up to 33
    tokens, otherwise from the normal approximation, which is rough for few tokens.

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`; 0 repeats the papers.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`Correlation`: -1 (opposite order) to 1 (same order); NaN with a reason of :func:`paired_ranks`.

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Reference:
        Jain and Wallace, section 4.1, algorithm 1; Kendall (1945) for tau-b.

    Example:
        >>> result = kendall_tau_b([0.6, 0.4, 0, 0, 0, 0], [5, 6, 1, 2, 3, 4])
        >>> print(f"{result.value:.6f} {result.p_value:.6f} {result.ties_x:.1f} {result.ties_y:.1f} {result.n}")
        0.602464 0.114461 0.4 0.0 6
        >>> kendall_tau_b([1.0], [0.3]).reason
        'n<2'
    """
    return _correlation(tau_b, x, y, tie_tolerance, names, example)


def spearman(
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float = TIE_TOLERANCE,
    names: tuple[str, str] = ("attention", "gradient"),
    example: object = None,
) -> Correlation:
    r"""Spearman's rho: the Pearson correlation of the average ranks, after :func:`merge_ties`.

    The two-sided p-value is the exact share of permutations with at least this ``|rho|`` for up to 7 tokens, ties or
    not, and Student's t with ``n - 2`` degrees of freedom beyond (which would give 0 for 3 tokens in the same order).

    Args:
        x, y: (T,), any unit, over the same content tokens.
        tie_tolerance: see :func:`merge_ties`.
        names: of ``x`` and ``y`` in reasons and errors.
        example: its id, for errors.

    Returns:
        :class:`Correlation`: -1 (opposite order) to 1 (same order); NaN with a reason of :func:`paired_ranks`.

    Raises:
        InputError: unequal lengths (both are named, with the example), another shape.

    Reference:
        Spearman (1904); beside Kendall's tau in Jain and Wallace, section 4.1.

    Example:
        >>> result = spearman([0.5, 0.3, 0.2], [0.2, 0.5, 0.3])
        >>> round(result.value, 6), round(result.p_value, 6)
        (-0.5, 1.0)
    """
    return _correlation(_rho, x, y, tie_tolerance, names, example)


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
        tie_tolerance: see :func:`merge_ties`; 0 repeats the papers.
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
    check_choice("reduction", reduction, ("mean", "none"))
    check_same_length(("predictions", "references"), (predictions, references))
    names = (predictions_name, references_name)
    taus, rhos = [], []
    for i, (attention, importance) in enumerate(zip(predictions, references, strict=True)):
        check_same_length(("predictions", "references"), (attention, importance), example=i)
        x, y = numbers("predictions", i, attention), numbers("references", i, importance)
        y = np.abs(y) if magnitude else y
        taus.append(kendall_tau_b(x, y, tie_tolerance, names, i))
        rhos.append(spearman(x, y, tie_tolerance, names, i))
    columns: dict[str, list[Any]] = {
        "kendall_tau_b": [tau.value for tau in taus],
        "p_value": [tau.p_value for tau in taus],
        "spearman": [rho.value for rho in rhos],
        "prediction_ties": [tau.ties_x for tau in taus],
        "reference_ties": [tau.ties_y for tau in taus],
        "n_tokens": [tau.n for tau in taus],
        "reason": [tau.reason for tau in taus],
    }
    return columns if reduction == "none" else _summary(columns)


def _summary(columns: dict[str, list[Any]]) -> dict[str, Any]:
    tau = np.array(columns["kendall_tau_b"], dtype=np.float64)
    defined = tau[~np.isnan(tau)]
    significant = np.array(columns["p_value"], dtype=np.float64) <= SIGNIFICANT
    long = (np.array(columns["n_tokens"], dtype=np.int64) >= LONG) & ~np.isnan(tau)
    return {
        "kendall_tau_b": _mean(defined),
        "std": float(defined.std()) if defined.size else math.nan,
        "interval": bootstrap_mean([tau]),
        "spearman": _mean(columns["spearman"]),
        "significant": _mean(significant),
        "significant_n5": _mean(significant[long]),
        "prediction_ties": _mean(columns["prediction_ties"]),
        "reference_ties": _mean(columns["reference_ties"]),
        "n": len(defined),
        "n5": int(long.sum()),
        "n_undefined": len(tau) - len(defined),
        "reasons": dict(Counter(reason for reason in columns["reason"] if reason)),
        "reason": None if defined.size else NO_EXAMPLE,
        "reason_n5": None if long.any() else NO_EXAMPLE_OF_5,
    }


def _mean(values: ArrayLike) -> float:
    """Over what is not NaN."""
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    return float(array.mean()) if array.size else math.nan


def _vector(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    check_shape(name, array, "T", "pass one example at a time, its content tokens only")
    return array


def _tied_share(ranks: Ranks) -> float:
    pairs = len(ranks) * (len(ranks) - 1)
    counts = np.bincount(ranks)
    return float((counts * (counts - 1)).sum() / pairs) if pairs else math.nan


def _correlation(
    measure: Callable[[Ranks, Ranks], tuple[float, float]],
    x: ArrayLike,
    y: ArrayLike,
    tie_tolerance: float,
    names: tuple[str, str],
    example: object,
) -> Correlation:
    x_ranks, y_ranks, reason = paired_ranks(x, y, tie_tolerance, names, example)
    value = p_value = math.nan
    if reason is None:
        value, p_value = measure(x_ranks, y_ranks)
        value, p_value = min(max(value, -1.0), 1.0), min(max(p_value, 0.0), 1.0)
    return Correlation(value, p_value, reason, _tied_share(x_ranks), _tied_share(y_ranks), len(np.asarray(x)))


def _rho(x_ranks: Ranks, y_ranks: Ranks) -> tuple[float, float]:
    n = len(x_ranks)
    a, b = _average_ranks(x_ranks) - (n + 1) / 2, _average_ranks(y_ranks) - (n + 1) / 2
    value = float(a @ b / math.sqrt((a @ a) * (b @ b)))
    if n <= _ENUMERATED:
        return value, float((np.abs(b[_permutations(n)] @ a) >= abs(a @ b) - 1e-9).mean())
    # the two tails of Student's t at rho sqrt((n - 2) / (1 - rho^2)), without its division by 0
    return value, float(special.betainc(n / 2 - 1, 0.5, max(1 - value**2, 0.0)))


def _average_ranks(ranks: Ranks) -> Array:
    """From 1; tied tokens share the mean of their places."""
    counts = np.bincount(ranks)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[ranks], dtype=np.float64)


@cache
def _permutations(n: int) -> NDArray[np.int64]:
    """Every order of n items, (n!, n)."""
    return np.array(list(permutations(range(n))), dtype=np.int64)
