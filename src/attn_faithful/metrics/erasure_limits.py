"""Where AOPC of rankings lies between that of the worst and of the best order of the same tokens, from lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import check_same_length
from attn_faithful.functional.erasure import ROUNDING
from attn_faithful.functional.naopc import AopcLimits, normalized_aopc
from attn_faithful.functional.ragged import Mask, RaggedRows, Rows, check_rows_alike
from attn_faithful.functional.reasons import NAN_PROBABILITIES, ONE_ITEM, Reasons, first_reasons, or_else
from attn_faithful.functional.summaries import summarize

NAMES = ("removals", "best_removals", "worst_removals")


def naopc_of_lists(removals: tuple[Rows, Rows, Rows], undefined: Reasons, reduction: str) -> dict[str, Any]:
    r"""NAOPC, ``(AOPC - worst) / (best - worst)``, from probabilities along three orders of the same tokens.

    What the whole text has falls out of the ratio, so AOPC is taken as minus the mean of a row.

    Args:
        removals: B rows of n - 1 probabilities of the target class without the first 1, 2, ... n - 1 tokens: along the
            ranking, the best order and the worst.
        undefined: why an example is undefined whatever these say; None where it is not.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``naopc``, its mean over examples (0 to 1, higher is more faithful), ``naopc_low`` and
        ``naopc_high``, ``naopc_n`` and ``naopc_reasons``; for "none" lists of ``naopc`` and ``naopc_reason``.

    Raises:
        InputError: unequal lengths, a ranking that is better than the best order or worse than the worst.

    Example:
        >>> along, best, worst = [[0.5, 0.25]], [[0.25, 0.25]], [[0.75, 0.5]]
        >>> naopc_of_lists((along, best, worst), [None], "none")
        {'naopc': [0.6666666666666666], 'naopc_reason': [None]}
    """
    check_same_length((*NAMES, "predictions"), (*removals, undefined))
    check_rows_alike(NAMES, removals)
    along, best, worst = (RaggedRows(name, rows) for name, rows in zip(NAMES, removals, strict=True))
    single = along.lengths == 0
    with_nan = along.has_nan | best.has_nan | worst.has_nan
    reasons = or_else(undefined, first_reasons({ONE_ITEM: single, NAN_PROBABILITIES: with_nan}))
    defined = np.array([reason is None for reason in reasons], dtype=bool)
    limits = AopcLimits.reached(_aopc(best, defined), _aopc(worst, defined), reasons)
    found = normalized_aopc(_aopc(along, defined), limits, alike=ROUNDING)
    values = found.value.numpy()
    if reduction == "none":
        return {"naopc": values.tolist(), "naopc_reason": found.reason}
    (mean,) = summarize(values[:, None], [found.reason])
    return {
        "naopc": mean.mean,
        "naopc_low": mean.low,
        "naopc_high": mean.high,
        "naopc_n": mean.n,
        "naopc_reasons": mean.reasons,
    }


def _aopc(rows: RaggedRows, defined: Mask) -> torch.Tensor:
    """AOPC (B,) but for what the whole text has; NaN where undefined."""
    sums = np.bincount(rows.row, weights=rows.values, minlength=len(rows))
    mean = sums / np.maximum(rows.lengths, 1)
    return torch.from_numpy(np.where(defined, -mean, math.nan))
