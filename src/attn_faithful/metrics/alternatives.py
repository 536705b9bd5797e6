"""What alternative attention does to predictions, from lists: random permutations, adversarial alternatives.

An example has any number of alternatives; what each gives is held against the example's own row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.functional.divergences import jsd, largest_jsd, tvd
from attn_faithful.functional.ragged import Array, Rows, _by_chunks, _Flat, numbers
from attn_faithful.functional.reasons import (
    NAN_ATTENTION,
    NO_ALTERNATIVE,
    NO_EXAMPLE,
    NO_EXAMPLE_OF_2,
    NO_PERMUTATION,
    NO_TOKEN,
    TOO_SHORT,
)
from attn_faithful.functional.summaries import Summary, summarize

Nested = Sequence[Rows]

ROUNDING = 1e-6  # of float32 probabilities, in "within eps"
_TIE = 1e-12  # nats; no common token is ln 2 up to the order of the sum


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
    check_choice("reduction", reduction, ("mean", "none"))
    outputs = _Beside("predictions", predictions, "references", references)
    outputs.check_rows(np.ones(len(references), dtype=bool))
    changes = outputs.by_example(outputs.compared(partial(tvd, validate_args=False)))
    flipped = outputs.by_example(outputs.compared(_flipped))
    medians = [float(np.median(values)) if len(values) else math.nan for values in changes]
    flips = [float(values.mean()) if len(values) else math.nan for values in flipped]
    reasons = [None if len(values) else NO_PERMUTATION for values in changes]
    if reduction == "none":
        return {"attention_permutation": medians, "flips": flips, "reason": reasons}
    whole, share = summarize(np.array([medians, flips]).T, [reasons, reasons])
    return {"attention_permutation": whole.mean, **_around(whole), "flips": share.mean}


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
    check_choice("reduction", reduction, ("mean", "none"))
    if not 0 <= eps < 1:
        raise InputError(f"Expected `eps`, a TVD, of at least 0 and below 1, but got {eps}.")
    names = ("predictions", "references", "prediction_attentions", "reference_attentions")
    check_same_length(names, (predictions, references, prediction_attentions, reference_attentions))
    for i, pair in enumerate(zip(predictions, prediction_attentions, strict=True)):
        check_same_length((names[0], names[2]), pair, example=i)
    outputs = _Beside(names[0], predictions, names[1], references)
    outputs.check_rows(np.ones(len(references), dtype=bool))
    attention = _Beside(names[2], prediction_attentions, names[3], reference_attentions)
    tokens, with_nan = attention.own.lengths, attention.has_nan()
    attention.check_rows((tokens > 0) & ~with_nan)

    reach = np.where(tokens > 1, _reach(attention.own), 0.0)
    changes = outputs.by_example(outputs.compared(partial(tvd, validate_args=False)))
    several = np.repeat(tokens > 1, attention.counts)  # a weight of 0.9999 for the only token is rounding, not a move
    moves = attention.by_example(np.where(several, attention.compared(partial(jsd, validate_args=False)), 0.0))
    values = np.full((4, len(references)), math.nan)
    within = [int((change <= eps + ROUNDING).sum()) for change in changes]
    reasons: list[str | None] = []
    for i, (change, moved) in enumerate(zip(changes, moves, strict=True)):
        reason = NO_TOKEN if tokens[i] == 0 else NAN_ATTENTION if with_nan[i] else None
        reasons.append(reason or (None if len(change) else NO_ALTERNATIVE))
        if reasons[i] is None:
            best, cost = _farthest(moved, change, eps)
            # weights that sum to 1 within 1e-3 only can seem to reach too far
            share = min(best / reach[i], 1.0) if tokens[i] > 1 else math.nan
            values[:, i] = best, reach[i], share, cost
    of_ratio = [reason or (None if n > 1 else TOO_SHORT) for reason, n in zip(reasons, tokens, strict=True)]
    columns = ("adversarial_attention", "jsd_reachable", "ratio", "tvd")
    if reduction == "none":
        lists = dict(zip(columns, values.tolist(), strict=True))
        return {**lists, "n_within": within, "reason": reasons, "reason_ratio": of_ratio}
    whole, reachable, ratio, cost_of_best = summarize(values.T, [reasons, reasons, of_ratio, reasons])
    return {
        "adversarial_attention": whole.mean,
        **_around(whole),
        "n_none": sum(reason is None and n == 0 for reason, n in zip(reasons, within, strict=True)),
        "jsd_reachable": reachable.mean,
        "ratio": ratio.mean,
        "n_ratio": ratio.n,
        "reason_ratio": None if ratio.n else NO_EXAMPLE_OF_2 if whole.n else NO_EXAMPLE,
        "tvd": cost_of_best.mean,
    }


class _Beside:
    """Rows of all alternatives laid end to end, each beside its example's own row."""

    def __init__(self, name: str, alternatives: Nested, own_name: str, own: Rows) -> None:
        check_same_length((name, own_name), (alternatives, own))
        beside: list[Any] = [numbers(own_name, i, row) for i, row in enumerate(own)]
        for i, (rows, row) in enumerate(zip(alternatives, beside, strict=True)):
            check_same_length((f"{name}[{i}]",), (rows,))
            if any(not hasattr(other, "__len__") for other in rows):
                raise InputError(
                    f"Expected `{name}[{i}]` to be a list of rows, one an alternative, but got one row of numbers; "
                    f"pass a list for every example, [row] where there is one alternative."
                )
            for k, other in enumerate(rows):
                if len(other) != len(row):
                    check_same_length((f"{name}[{i}][{k}]", f"{own_name}[{i}]"), (other, row))
        self.counts = np.array([len(rows) for rows in alternatives], dtype=np.int64)
        # a whole example at a time: far faster than reading each row
        self.blocks: list[Any] = [_block(f"{name}[{i}]", rows) for i, rows in enumerate(alternatives)]
        self.rows = _Flat(name, [row for block in self.blocks for row in block])
        self.own = _Flat(own_name, beside)
        self.repeated = _Flat(own_name, [row for row, n in zip(beside, self.counts, strict=True) for _ in range(n)])

    def compared(self, measure: Callable[[Tensor, Tensor], Tensor]) -> Array:
        return _by_chunks(measure, self.rows, self.repeated)

    def by_example(self, values: Array) -> list[Array]:
        ends = np.cumsum(self.counts)
        return [values[end - count : end] for count, end in zip(self.counts, ends, strict=True)]

    def has_nan(self) -> NDArray[np.bool_]:
        example = np.repeat(np.arange(len(self.counts)), self.counts)
        found = self.own.has_nan.copy()
        found[example[self.rows.has_nan]] = True
        return found

    def check_rows(self, examples: NDArray[np.bool_]) -> None:
        """Raise unless all rows of ``examples`` are distributions."""
        self.own.check(examples)
        try:
            self.rows.check(np.repeat(examples, self.counts))
        except InputError:
            for i in np.flatnonzero(examples).tolist():  # one by one: the message then names example and row
                _Flat(f"{self.rows.name}[{i}]", self.blocks[i]).check(np.ones(len(self.blocks[i]), dtype=bool))
            raise


def _block(name: str, rows: Any) -> Any:
    """Rows of one length, (K, T)."""
    try:
        found: Any = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(())
    return found if found.ndim == 2 or not len(rows) else [numbers(name, k, row) for k, row in enumerate(rows)]


def _flipped(p: Tensor, q: Tensor) -> Tensor:
    # numpy's argmax promises the lowest index on ties
    return torch.from_numpy(p.numpy().argmax(-1) != q.numpy().argmax(-1))


def _reach(own: _Flat) -> Array:
    items = _Flat(own.name, [[1.0] * n for n in own.lengths.tolist()])
    return _by_chunks(lambda attention, inside: largest_jsd(attention, inside > 0), own, items)


def _farthest(moved: Array, change: Array, eps: float) -> tuple[float, float]:
    """JSD and TVD of the farthest alternative within eps, of the model's own attention if there is none."""
    kept = change <= eps + ROUNDING
    if not kept.any():
        return 0.0, 0.0
    best = moved[kept].max()
    return float(best), float(change[kept & (moved >= best - _TIE)].min())


def _around(column: Summary) -> dict[str, Any]:
    """What stands beside a mean."""
    return {
        "std": column.std,
        "low": column.low,
        "high": column.high,
        "n": column.n,
        "n_undefined": column.n_undefined,
        "reasons": column.reasons,
        "reason": None if column.n else NO_EXAMPLE,
    }
