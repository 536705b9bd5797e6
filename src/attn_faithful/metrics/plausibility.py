"""Agreement of importance with human rationales over a data set, from lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.erasure import erasure_counts
from attn_faithful.functional.plausibility import auprc, iou_f1, random_auprc, select_top, token_f1
from attn_faithful.functional.ragged import RaggedRows, Rows, check_rows_alike
from attn_faithful.functional.reasons import Reasons
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.lists import check_reduction, lists_of, mean_of, means_of

COLUMNS = (
    "auprc",
    "random_auprc",
    "token_f1",
    "token_precision",
    "token_recall",
    "iou_f1",
    "iou_precision",
    "iou_recall",
)


def plausibility_of_lists(
    predictions: Rows,
    references: Sequence[Sequence[int]],
    share: float | None = None,
    threshold: float = 0.5,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""AUPRC, token F1 and IOU F1 of importance against human rationales, from lists.

    The F1 scores need a selection: the most important tokens, as many as the rationale has or a ``share`` of the text,
    the first position on ties. They are means over texts of each text's own F1; ERASER's macro F1 is the harmonic
    mean of the mean precision and the mean recall, which stand beside them.

    Args:
        predictions: B rows of T importance scores over the content tokens, higher first: pass magnitudes of signed
            scores; T differs by row.
        references: B rows of T of 0 and 1, 1 for the tokens that people marked as the reason.
        share: of the tokens that is selected, above 0 and at most 1; None for as many as the rationale has.
        threshold: 0.5 to 1, the overlap (intersection over union) from which a selected span is a hit.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``auprc``, the mean average precision (above 0 to 1, higher is more plausible), its ``std`` over
        examples (ddof 0) and 95% bootstrap interval ``low`` to ``high`` (NaN for fewer than two examples), ``n``
        defined examples and ``n_undefined``, their number by reason (``reasons``), why the means are NaN (``reason``,
        else None); over the same examples the means of ``random_auprc``, what chance gives, and of ``token_f1``,
        ``token_precision``, ``token_recall``, ``iou_f1``, ``iou_precision``, ``iou_recall`` (0 to 1). For "none" lists
        of these eight and ``reason`` ("no content token", "nan in scores", "no rationale token", else None).

    Raises:
        InputError: unequal lengths (both are named, with the example), references other than 0 and 1, an unknown
            reduction, a share or threshold out of range.

    Reference:
        DeYoung et al. (2020), section 4.1.

    Example:
        >>> result = plausibility_of_lists([[0.9, 0.8, 0.1], [0.3, 0.2]], [[1, 0, 1], [0, 0]])
        >>> round(result["auprc"], 6), round(result["random_auprc"], 6), result["token_f1"], result["reasons"]
        (0.833333, 0.805556, 0.5, {'no rationale token': 1})
    """
    check_reduction(reduction)
    check_same_length(("predictions", "references"), (predictions, references))
    check_rows_alike(("predictions", "references"), (predictions, references))
    importance = RaggedRows("predictions", predictions)
    marks = RaggedRows("references", references)
    _check_marks(marks)
    if share is not None:
        erasure_counts(torch.zeros(1), (share,))  # refuses a wrong share, also of no example

    values = np.full((len(importance), len(COLUMNS)), math.nan)
    reasons: Reasons = []
    for chunk in importance.chunks():
        scores = importance.padded(chunk)
        content = importance.inside(chunk)
        rationale = marks.padded(chunk) > 0
        area, area_reasons = auprc(scores, rationale, content)
        chance, _ = random_auprc(rationale, content)
        chance = torch.where(area.isnan(), math.nan, chance)
        counts = _counts(rationale, content, share)
        selected, _ = select_top(scores, content, counts)  # (B, T)
        token = token_f1(selected, rationale)
        span = iou_f1(selected, rationale, threshold)
        agreement = (token.f1, token.precision, token.recall, span.f1, span.precision, span.recall)
        values[chunk] = torch.stack((area, chance, *agreement), 1).numpy()
        reasons += area_reasons
    if reduction == "none":
        return {**lists_of(COLUMNS, values), "reason": reasons}
    area_mean, *others = summarize(values, [reasons] * len(COLUMNS))
    return {**mean_of(COLUMNS[0], area_mean), **means_of(COLUMNS[1:], others)}


def _check_marks(marks: RaggedRows) -> None:
    wrong = np.flatnonzero(~np.isin(marks.values, (0, 1)))
    if wrong.size:
        raise InputError(
            f"Expected `references` of 0 and 1, but row {marks.row[wrong[0]]} holds {marks.values[wrong[0]]:g}; "
            "importance goes into `predictions`."
        )


def _counts(rationale: Tensor, content: Tensor, share: float | None) -> Tensor:
    """How many tokens of each text (B,) are selected."""
    if share is None:
        return rationale.sum(-1)
    return erasure_counts(content.sum(-1), (share,))[:, 0]
