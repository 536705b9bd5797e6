"""How far alternative attention moves while the prediction stays, from lists."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.divergences import jsd, largest_jsd, tvd
from attn_faithful.functional.ragged import Array, RaggedRows, Rows, check_rows_alike, over_chunks
from attn_faithful.functional.reasons import (
    NAN_ATTENTION,
    NO_ALTERNATIVE,
    NO_EXAMPLE,
    NO_EXAMPLE_OF_2,
    NO_TOKEN,
    TOO_SHORT,
    Reasons,
    first_reasons,
    or_else,
)
from attn_faithful.functional.summaries import Summary, summarize
from attn_faithful.metrics.alternatives import Alternatives
from attn_faithful.metrics.lists import Nested, check_reduction, lists_of, mean_of

ROUNDING = 1e-6  # of float32 probabilities, in "within eps"
_TIE = 1e-12  # nats; no common token is ln 2 up to the order of the sum

_COLUMNS = ("adversarial_attention", "jsd_reachable", "ratio", "tvd")


def adversarial_of_lists(
    predictions: Nested,
    references: Rows,
    prediction_attentions: Nested,
    reference_attentions: Rows,
    eps: float = 0.01,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""How far attention can move while the prediction stays: ``max_k 1[TVD(p_k, p) <= eps] JSD(a_k, a)``, from lists.

    The model's own attention keeps every limit, so the value is 0 where alternatives exist and none is within eps:
    the paper's formula gives the same. A search that failed looks like attention that cannot move, hence ``n_none``.
    Rows within ``eps + 1e-6`` count: rounding of float32 probabilities.

    Args:
        predictions: B lists of K rows of C class probabilities, one row an alternative; K may differ by example. An
            empty list says that there is no alternative.
        references: B rows of C class probabilities under the model's own attention.
        prediction_attentions: B lists of K rows of T weights over the content tokens, the alternatives; T differs by
            example.
        reference_attentions: B rows of T weights, the model's own. Every item counts as a token that attention may
            move to: leave padding out.
        eps: largest change of the prediction, TVD; the paper has 0.01, and 0.05 for question answering.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``adversarial_attention``, the mean eps-max JSD (nats, 0 to ln 2, lower is more faithful), its
        ``std`` over examples (ddof 0) and 95% bootstrap interval ``low`` to ``high`` (NaN for fewer than two
        examples), ``n`` defined examples and ``n_undefined``, their number by reason (``reasons``), why the mean is
        NaN (``reason``, else None); ``n_none``, how many of the n are 0 because no alternative was within eps;
        ``jsd_reachable``, the mean of the largest JSD that any attention on the same tokens has (nats); ``ratio``, the
        mean share of it (0 to 1) over the ``n_ratio`` defined examples of at least 2 tokens, NaN with
        ``reason_ratio`` if there is none; ``tvd``, the mean change of the prediction under the alternative that was
        taken (the least on ties, 0 where none was). For "none" lists of ``adversarial_attention``, ``jsd_reachable``,
        ``ratio``, ``tvd``, ``n_within`` (alternatives within eps), ``reason`` ("no content token", "nan in
        attention", "no alternative", else None) and ``reason_ratio`` (these, or "n<2").

    Raises:
        InputError: an unknown reduction, eps outside 0 to 1, unequal lengths, rows that are not distributions; the
            example is named.

    Reference:
        Jain and Wallace, section 4.2.2, equation 1 and algorithm 3.

    Example:
        >>> result = adversarial_of_lists(
        ...     predictions=[[[0.895, 0.105], [0.6, 0.4]], [[0.7, 0.3]]], references=[[0.9, 0.1], [0.5, 0.5]],
        ...     prediction_attentions=[[[0.1, 0.9], [0.0, 1.0]], [[0.0, 1.0]]],
        ...     reference_attentions=[[0.9, 0.1], [1.0, 0.0]])
        >>> round(result["adversarial_attention"], 6), result["n"], result["n_none"], round(result["tvd"], 6)
        (0.184032, 2, 1, 0.0025)
    """
    check_reduction(reduction)
    if not 0 <= eps < 1:
        raise InputError(f"Expected `eps`, a TVD, of at least 0 and below 1, but got {eps}.")
    names = ("predictions", "references", "prediction_attentions", "reference_attentions")
    check_same_length(names, (predictions, references, prediction_attentions, reference_attentions))
    check_rows_alike((names[0], names[2]), (predictions, prediction_attentions))
    outputs = Alternatives(names[0], predictions, names[1], references)
    outputs.check_distributions(np.ones(len(references), dtype=bool))
    attention = Alternatives(names[2], prediction_attentions, names[3], reference_attentions)
    tokens = attention.observed.lengths
    with_nan = attention.has_nan()
    attention.check_distributions((tokens > 0) & ~with_nan)

    reasons = first_reasons({NO_TOKEN: tokens == 0, NAN_ATTENTION: with_nan, NO_ALTERNATIVE: outputs.counts == 0})
    too_short = first_reasons({TOO_SHORT: tokens <= 1})
    reasons_ratio = or_else(reasons, too_short)
    tvds = outputs.compared(partial(tvd, validate_args=False))  # of all alternatives end to end
    changes = outputs.by_example(tvds)
    values = _columns(changes, attention, reasons, eps)
    within = [int((change <= eps + ROUNDING).sum()) for change in changes]
    if reduction == "none":
        lists = lists_of(_COLUMNS, values.T)
        return {**lists, "n_within": within, "reason": reasons, "reason_ratio": reasons_ratio}
    return _means(values, reasons, reasons_ratio, within)


def _means(values: Array, reasons: Reasons, reasons_ratio: Reasons, within: list[int]) -> dict[str, Any]:
    """What is reported of the columns (4, B); ``within`` counts the alternatives of each example within eps."""
    defined = np.array([reason is None for reason in reasons], dtype=bool)
    none_within = defined & (np.array(within) == 0)
    farthest, reachable, ratio, cost = summarize(values.T, [reasons, reasons, reasons_ratio, reasons])
    return {
        **mean_of("adversarial_attention", farthest),
        "n_none": int(none_within.sum()),
        "jsd_reachable": reachable.mean,
        "ratio": ratio.mean,
        "n_ratio": ratio.n,
        "reason_ratio": _reason_of_ratio(farthest, ratio),
        "tvd": cost.mean,
    }


def _columns(changes: list[Array], attention: Alternatives, reasons: Reasons, eps: float) -> Array:
    """The columns (4, B); NaN where an example is undefined, the ratio also for a single token."""
    tokens = attention.observed.lengths
    reachable = np.where(tokens > 1, _reachable(attention.observed), 0.0)
    distances = attention.compared(partial(jsd, validate_args=False))
    several = np.repeat(tokens > 1, attention.counts)
    distances = np.where(several, distances, 0.0)  # a weight of 0.9999 for the only token is rounding, not a move
    moves = attention.by_example(distances)
    values = np.full((len(_COLUMNS), len(tokens)), math.nan)
    for i, reason in enumerate(reasons):
        if reason is not None:
            continue
        farthest, cost = _farthest(moves[i], changes[i], eps)
        ratio = math.nan
        if tokens[i] > 1:
            # weights that sum to 1 within 1e-3 only can seem to reach too far
            ratio = min(farthest / reachable[i], 1.0)
        values[:, i] = farthest, reachable[i], ratio, cost
    return values


def _reachable(observed: RaggedRows) -> Array:
    """The largest JSD (B,) that any attention on the same tokens has from the observed one."""
    ones = [[1.0] * n for n in observed.lengths.tolist()]
    every_token = RaggedRows(observed.name, ones)

    def reach(attention: Tensor, inside: Tensor) -> Tensor:
        return largest_jsd(attention, inside > 0)

    return over_chunks(reach, observed, every_token)


def _farthest(moves: NDArray[np.float64], changes: NDArray[np.float64], eps: float) -> tuple[float, float]:
    """JSD and TVD of the farthest alternative within eps, of the model's own attention if there is none."""
    within = changes <= eps + ROUNDING
    if not within.any():
        return 0.0, 0.0
    farthest = moves[within].max()
    as_far = within & (moves >= farthest - _TIE)
    return float(farthest), float(changes[as_far].min())


def _reason_of_ratio(farthest: Summary, ratio: Summary) -> str | None:
    """Why the mean ratio is NaN, or None."""
    if ratio.n:
        return None
    return NO_EXAMPLE_OF_2 if farthest.n else NO_EXAMPLE
