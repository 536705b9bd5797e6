"""Comprehensiveness and sufficiency over a data set, from lists of probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.erasure import ROUNDING, aopc, comprehensiveness, sufficiency
from attn_faithful.functional.ragged import Array, Mask, RaggedRows, Rows, check_rows_alike, numbers
from attn_faithful.functional.reasons import NAN_PROBABILITIES, NO_TOKEN, first_reasons
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.erasure_limits import naopc_of_lists
from attn_faithful.metrics.lists import check_reduction, mean_of


def erasure_of_lists(
    predictions: Rows,
    references: Sequence[float],
    sufficient: Rows,
    reduction: str = "mean",
    removals: tuple[Rows, Rows, Rows] | None = None,
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
        removals: three lists of B rows of n - 1 probabilities of the same class without the first 1, 2, ... n - 1
            tokens: along the ranking, along the best order and along the worst; None for no NAOPC.

    Returns:
        for "mean" ``comprehensiveness``, its mean over examples (-1 to 1, higher is more faithful), its ``std`` over
        examples (ddof 0) and 95% bootstrap interval ``low`` to ``high`` (NaN for fewer than two examples), ``n``
        defined examples and ``n_undefined``, their number by reason (``reasons``), why the means are NaN (``reason``,
        else None); over the same examples ``sufficiency`` (-1 to 1, lower is more faithful), ``sufficiency_std``,
        ``sufficiency_low``, ``sufficiency_high``; and lists of K means, ``comprehensiveness_by_share`` and
        ``sufficiency_by_share`` (empty without a defined example). For "none" lists of ``comprehensiveness``,
        ``sufficiency`` and ``reason`` ("no content token", "nan in probabilities", else None). With ``removals`` also
        what :func:`~attn_faithful.metrics.erasure_limits.naopc_of_lists` gives.

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
    check_reduction(reduction)
    check_same_length(("predictions", "references", "sufficient"), (predictions, references, sufficient))
    check_rows_alike(("predictions", "sufficient"), (predictions, sufficient))
    without = RaggedRows("predictions", predictions)
    only = RaggedRows("sufficient", sufficient)
    one_a_row = [[p] for p in numbers("references", None, references)]
    full = RaggedRows("references", one_a_row)
    for rows in (without, full, only):
        _check_range(rows)
    shares = _number_of_shares(without)

    some = without.lengths > 0
    with_nan = without.has_nan | only.has_nan | full.has_nan
    defined = some & ~with_nan
    reasons = first_reasons({NO_TOKEN: ~some, NAN_PROBABILITIES: with_nan})
    comprehensive = _curve(comprehensiveness, full, without, defined, shares)
    enough = _curve(sufficiency, full, only, defined, shares)
    normalized = {}
    if removals is not None:
        normalized = naopc_of_lists(removals, first_reasons({NO_TOKEN: ~some}), reduction)
    if reduction == "none":
        return {
            "comprehensiveness": comprehensive[:, 0].tolist(),
            "sufficiency": enough[:, 0].tolist(),
            "reason": reasons,
            **normalized,
        }
    column_reasons = [reasons] * (shares + 1)
    comprehensive_mean, *comprehensive_by_share = summarize(comprehensive, column_reasons)
    enough_mean, *enough_by_share = summarize(enough, column_reasons)
    return {
        **mean_of("comprehensiveness", comprehensive_mean),
        "sufficiency": enough_mean.mean,
        "sufficiency_std": enough_mean.std,
        "sufficiency_low": enough_mean.low,
        "sufficiency_high": enough_mean.high,
        "comprehensiveness_by_share": [column.mean for column in comprehensive_by_share if column.n],
        "sufficiency_by_share": [column.mean for column in enough_by_share if column.n],
        **normalized,
    }


def _check_range(rows: RaggedRows) -> None:
    wrong = np.flatnonzero((rows.values < -ROUNDING) | (rows.values > 1 + ROUNDING))
    if wrong.size:
        raise InputError(
            f"Expected `{rows.name}` of probabilities, 0 to 1, but row {rows.row[wrong[0]]} holds "
            f"{rows.values[wrong[0]]:.6g}; pass those of the target class, not logits."
        )


def _number_of_shares(without: RaggedRows) -> int:
    """How many shares each row with tokens has, 0 without such a row.

    Raises:
        InputError: rows of several lengths.
    """
    with_tokens = np.flatnonzero(without.lengths > 0)
    if not with_tokens.size:
        return 0
    shares = int(without.lengths[with_tokens[0]])
    for i in with_tokens.tolist():
        if without.lengths[i] != shares:
            raise InputError(
                f"Expected rows of {shares} shares as in the first example, but row {i} of `predictions` has "
                f"{without.lengths[i]}; remove tokens at the same shares everywhere."
            )
    return shares


def _curve(
    lost: Callable[[Tensor, Tensor], Tensor],
    full: RaggedRows,
    parts: RaggedRows,
    defined: Mask,
    shares: int,
) -> Array:
    """What the prediction loses (B, 1 + shares): the mean over shares, then at each share; NaN where undefined."""
    curve = np.full((len(defined), shares + 1), math.nan)
    if not defined.any():
        return curve
    p_full = torch.from_numpy(full.values[defined])  # (B,)
    in_defined = defined[parts.row]
    p_parts = torch.from_numpy(parts.values[in_defined].reshape(-1, shares))  # (B, shares)
    values = lost(p_full, p_parts)
    mean = aopc(values)
    curve[defined] = torch.cat([mean[:, None], values], 1).numpy()
    return curve
