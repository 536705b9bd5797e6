"""How concentrated importance is, from lists: the entropy test of Meister et al. over a data set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from attn_faithful.functional.concentration import distribution, entropy, gini, normalized_entropy, support_size
from attn_faithful.functional.ragged import RaggedRows, Rows
from attn_faithful.functional.reasons import NO_EXAMPLE, Reasons, or_else
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.lists import check_reduction, lists_of, mean_of, means_of

_COLUMNS = ("importance_entropy", "entropy", "support_size", "gini")


def importance_entropy_of_lists(predictions: Rows, reduction: str = "mean") -> dict[str, Any]:
    r"""Normalized entropy of importance, ``-sum_t p_t ln p_t / ln n`` with ``p_t = |s_t| / sum |s|``, from lists.

    Args:
        predictions: B rows of T importance scores over the content tokens, of which magnitudes are taken; T differs by
            row.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``importance_entropy``, the mean normalized entropy (0: one token has all, to 1: all alike), its
        ``std`` over examples (ddof 0) and 95% bootstrap interval ``low`` to ``high`` (NaN for fewer than two
        examples), ``n`` defined examples and ``n_undefined``, their number by reason (``reasons``), why the mean is
        NaN (``reason``, else None); and over the ``n_mass`` examples that have importance at all, texts of one token
        included, the means of ``entropy`` (nats), ``support_size`` (tokens of importance above 0) and ``gini`` (0: all
        alike, to 1 - 1/n: one token), NaN with ``reason_mass`` if there is none. For "none" lists of
        ``importance_entropy``, ``entropy``, ``support_size``, ``gini``, ``reason`` ("no content token", "nan in
        scores", "no mass", "n<2", else None) and ``reason_mass`` (these but the last).

    Raises:
        InputError: an unknown reduction.

    Reference:
        Meister et al. (2021), section 4, table 1 and figure 2.

    Example:
        >>> result = importance_entropy_of_lists([[0.7, 0.2, 0.1], [0.5, -0.5, 0.0], [1.0], [0.0, 0.0]])
        >>> round(result["importance_entropy"], 6), result["n"], result["reasons"]
        (0.680388, 2, {'n<2': 1, 'no mass': 1})
        >>> result["support_size"], result["n_mass"]
        (2.0, 3)
    """
    check_reduction(reduction)
    rows = RaggedRows("predictions", predictions)
    values = np.full((len(rows), len(_COLUMNS)), math.nan)
    reasons: Reasons = []
    reasons_mass: Reasons = []
    for chunk in rows.chunks():
        content = rows.inside(chunk)
        shares, without_mass = distribution(rows.padded(chunk), content)  # (B, T)
        normalized, too_short = normalized_entropy(shares, content)
        columns = (normalized, entropy(shares), support_size(shares), gini(shares, content))
        values[chunk] = torch.stack(columns, 1).numpy()
        reasons += or_else(without_mass, too_short)
        reasons_mass += without_mass
    if reduction == "none":
        return {**lists_of(_COLUMNS, values), "reason": reasons, "reason_mass": reasons_mass}
    normalized_mean, *others = summarize(values, [reasons, reasons_mass, reasons_mass, reasons_mass])
    n_mass = others[0].n
    return {
        **mean_of(_COLUMNS[0], normalized_mean),
        **means_of(_COLUMNS[1:], others),
        "n_mass": n_mass,
        "reason_mass": None if n_mass else NO_EXAMPLE,
    }
