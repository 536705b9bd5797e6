"""Comprehensiveness and sufficiency over a data set, from lists of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.functional.erasure import _ROUNDING, aopc, comprehensiveness, sufficiency
from attn_faithful.functional.ragged import Array, Rows, _Flat, numbers
from attn_faithful.functional.reasons import NAN_PROBABILITIES, NO_TOKEN, first_reasons
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.alternatives import _around


def erasure_of_lists(
    predictions: Rows, references: Sequence[float], sufficient: Rows, reduction: str = "mean"
) -> dict[str, Any]:
    r"""Comprehensiveness and sufficiency, each a mean over bins (AOPC), from lists.

    Comprehensiveness is ``mean_k p_y(x) - p_y(x without the top k)``, sufficiency ``mean_k p_y(x) - p_y(only the top
    k)``, over the K shares of tokens that were taken: 1%, 5%, 10%, 20% and 50% in the paper.

    Args:
        predictions: B rows of K probabilities of the target class without the top tokens of each share. An empty row
            says that there is no content token to remove.
        references: B probabilities of the same class for the whole text.
        sufficient: B rows of K probabilities of the same class with only the top tokens of each share.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``comprehensiveness``, its mean over examples (-1 to 1, higher is more faithful), its ``std`` over
        examples (ddof 0) and 95% bootstrap interval ``low`` to ``high`` (NaN for fewer than two examples), ``n``
        defined examples and ``n_undefined``, their number by reason (``reasons``), why the means are NaN (``reason``,
        else None); over the same examples ``sufficiency`` (-1 to 1, lower is more faithful), ``sufficiency_std``,
        ``sufficiency_low``, ``sufficiency_high``; and lists of K means, ``comprehensiveness_by_share`` and
        ``sufficiency_by_share`` (empty without a defined example). For "none" lists of ``comprehensiveness``,
        ``sufficiency`` and ``reason`` ("no content token", "nan in probabilities", else None).

    Raises:
        InputError: unequal lengths, rows of other lengths than the first, numbers outside 0 to 1; the example is
            named. An unknown reduction.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> result = erasure_of_lists([[0.75, 0.25], []], [1.0, 0.5], [[0.5, 1.0], []])
        >>> result["comprehensiveness"], result["sufficiency"], result["n"], result["reasons"]
        (0.5, 0.25, 1, {'no content token': 1})
        >>> result["comprehensiveness_by_share"], result["sufficiency_by_share"]
        ([0.25, 0.75], [0.5, 0.0])
    """
    check_choice("reduction", reduction, ("mean", "none"))
    check_same_length(("predictions", "references", "sufficient"), (predictions, references, sufficient))
    for i, pair in enumerate(zip(predictions, sufficient, strict=True)):
        check_same_length(("predictions", "sufficient"), pair, example=i)
    without, only = _Flat("predictions", predictions), _Flat("sufficient", sufficient)
    full = _Flat("references", [[p] for p in numbers("references", None, references)])
    for flat in (without, full, only):
        _check_range(flat)
    some = without.lengths > 0
    bins = int(without.lengths[some][0]) if some.any() else 0
    for i in np.flatnonzero(some & (without.lengths != bins)).tolist():
        raise InputError(
            f"Expected rows of {bins} shares as in the first example, but row {i} of `predictions` has "
            f"{without.lengths[i]}; remove tokens at the same shares everywhere."
        )
    with_nan = without.has_nan | only.has_nan | full.has_nan
    reasons = first_reasons({NO_TOKEN: ~some, NAN_PROBABILITIES: with_nan})
    defined = some & ~with_nan
    # (B, K + 1): the mean over shares, then each share
    curves = [np.full((len(some), bins + 1), math.nan) for _ in range(2)]
    if defined.any():
        p = torch.from_numpy(full.values[defined])
        for curve, flat, lost in zip(curves, (without, only), (comprehensiveness, sufficiency), strict=True):
            values = lost(p, torch.from_numpy(_rectangle(flat, defined, bins)))
            curve[defined] = torch.cat([aopc(values)[:, None], values], 1).numpy()
    if reduction == "none":
        return {
            "comprehensiveness": curves[0][:, 0].tolist(),
            "sufficiency": curves[1][:, 0].tolist(),
            "reason": reasons,
        }
    (whole, *by_share), (other, *others) = (summarize(curve, [reasons] * (bins + 1)) for curve in curves)
    return {
        "comprehensiveness": whole.mean,
        **_around(whole),
        "sufficiency": other.mean,
        "sufficiency_std": other.std,
        "sufficiency_low": other.low,
        "sufficiency_high": other.high,
        "comprehensiveness_by_share": [column.mean for column in by_share] if whole.n else [],
        "sufficiency_by_share": [column.mean for column in others] if whole.n else [],
    }


def _check_range(flat: _Flat) -> None:
    wrong = np.flatnonzero((flat.values < -_ROUNDING) | (flat.values > 1 + _ROUNDING))
    if wrong.size:
        raise InputError(
            f"Expected `{flat.name}` of probabilities, 0 to 1, but row {flat.row[wrong[0]]} holds "
            f"{flat.values[wrong[0]]:.6g}; pass those of the target class, not logits."
        )


def _rectangle(flat: _Flat, rows: np.ndarray[Any, np.dtype[np.bool_]], width: int) -> Array:
    """The chosen rows, (rows, width), all of one length."""
    return flat.values[rows[flat.row]].reshape(-1, width)
