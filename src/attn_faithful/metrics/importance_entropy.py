"""How concentrated importance is, from lists: the entropy test of Meister et al. over a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful.functional.concentration import distribution, entropy, gini, normalized_entropy, support_size
from attn_faithful.functional.ragged import _CHUNK, Rows, _Flat
from attn_faithful.functional.reasons import NO_EXAMPLE
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.alternatives import _around

Reasons = list[str | None]


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
    check_choice("reduction", reduction, ("mean", "none"))
    flat = _Flat("predictions", predictions)
    values = np.full((len(flat.lengths), 4), math.nan)
    reasons: Reasons = []
    of_mass: Reasons = []
    for rows, scores, content in _blocks(flat):
        shares, without = distribution(scores, content)
        normal, short = normalized_entropy(shares, content)
        columns = (normal, entropy(shares), support_size(shares), gini(shares, content))
        values[rows] = torch.stack(columns, 1).numpy()
        of_mass += without
        reasons += [first or second for first, second in zip(without, short, strict=True)]
    names = ("importance_entropy", "entropy", "support_size", "gini")
    if reduction == "none":
        lists = dict(zip(names, values.T.tolist(), strict=True))
        return {**lists, "reason": reasons, "reason_mass": of_mass}
    whole, *beside = summarize(values, [reasons, of_mass, of_mass, of_mass])
    n_mass = beside[0].n
    return {
        names[0]: whole.mean,
        **_around(whole),
        **{name: column.mean for name, column in zip(names[1:], beside, strict=True)},
        "n_mass": n_mass,
        "reason_mass": None if n_mass else NO_EXAMPLE,
    }


def _blocks(flat: _Flat) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Which rows, their scores and their content (rows, longest), as many at once as bound the memory."""
    for start in range(0, len(flat.lengths), _CHUNK):
        rows = slice(start, min(start + _CHUNK, len(flat.lengths)))
        scores = flat.padded(rows.start, rows.stop)
        yield rows, scores, torch.arange(scores.shape[1]) < torch.from_numpy(flat.lengths[rows])[:, None]
