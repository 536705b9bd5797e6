"""How much the prediction changes under random permutations of the attention weights, from lists."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.functional.divergences import tvd
from attn_faithful.functional.ragged import Rows
from attn_faithful.functional.reasons import NO_PERMUTATION, Reasons
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.alternatives import Alternatives
from attn_faithful.metrics.lists import Nested, check_reduction, mean_of


def permutation_of_lists(predictions: Nested, references: Rows, reduction: str = "mean") -> dict[str, Any]:
    r"""Median change of the prediction under permuted attention, ``median_k TVD(p_k, p)``, from lists.

    Args:
        predictions: B lists of K rows of C class probabilities, one row a permutation of the attention weights
            other than the identity (see `permutations.permuted_indices`); K may differ by example. An empty list says
            that no permutation could change the attention.
        references: B rows of C class probabilities under the model's own attention.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``attention_permutation``, the mean of the medians (0 to 1, the mean of the middle two where K is
        even; lower says that attention matters less), its ``std`` over examples (ddof 0) and 95% bootstrap interval
        ``low`` to ``high`` (NaN for fewer than two examples), ``n`` defined examples and ``n_undefined``, their number
        by reason (``reasons``), why the mean is NaN (``reason``, else None), and ``flips``: the share of permutations
        with another decision (the lowest index on ties), averaged over examples. For "none" lists of
        ``attention_permutation``, ``flips`` and ``reason`` ("no permutation", else None).

    Raises:
        InputError: an unknown reduction, unequal lengths, rows that are not distributions; the example is named.

    Reference:
        Jain and Wallace, section 4.2.1, algorithm 2.

    Example:
        >>> permuted = [[[0.8, 0.2], [0.7, 0.3], [0.4, 0.6]], []]
        >>> result = permutation_of_lists(permuted, [[0.9, 0.1], [0.5, 0.5]])
        >>> round(result["attention_permutation"], 6), round(result["flips"], 6), result["n"], result["reasons"]
        (0.2, 0.333333, 1, {'no permutation': 1})
    """
    check_reduction(reduction)
    outputs = Alternatives("predictions", predictions, "references", references)
    outputs.check_distributions(np.ones(len(references), dtype=bool))
    tvds = outputs.compared(partial(tvd, validate_args=False))  # of all permutations end to end
    other_decisions = outputs.compared(_other_decision)
    changes = outputs.by_example(tvds)
    decision_changes = outputs.by_example(other_decisions)

    values = np.full((2, len(references)), math.nan)  # median change and share of flips
    reasons: Reasons = [NO_PERMUTATION] * len(references)
    for i, (change, flipped) in enumerate(zip(changes, decision_changes, strict=True)):
        if len(change):
            values[:, i] = np.median(change), flipped.mean()
            reasons[i] = None
    if reduction == "none":
        medians, flips = values.tolist()
        return {"attention_permutation": medians, "flips": flips, "reason": reasons}
    median, share = summarize(values.T, [reasons, reasons])
    return {**mean_of("attention_permutation", median), "flips": share.mean}


def _other_decision(p: Tensor, q: Tensor) -> Tensor:
    """Whether the decisions of two rows differ."""
    # numpy's argmax promises the lowest index on ties
    decision = p.numpy().argmax(-1)
    observed_decision = q.numpy().argmax(-1)
    return torch.from_numpy(decision != observed_decision)
