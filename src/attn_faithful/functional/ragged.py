"""Divergences of lists whose rows differ in length: what a metric module or a table of texts holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.functional.attefa import attefa, attefa_per_example
from attn_faithful.functional.distributions import SUM_TOLERANCE
from attn_faithful.functional.divergences import jsd, multilabel_tvd, tvd
from attn_faithful.functional.reasons import NAN_ATTENTION, NO_TOKEN, first_reasons

Array = NDArray[np.float64]
Rows = Sequence[Sequence[float]]

# Rows padded together: bounds the memory to 256 of the longest texts.
_CHUNK = 256


def per_example_divergences(
    predictions: Rows,
    references: Rows,
    prediction_attentions: Rows,
    reference_attentions: Rows,
    *,
    multi_label: bool = False,
) -> tuple[Array, Array, list[str | None]]:
    r"""TVD of the class probabilities and JSD of the attention of every example, from ragged lists.

    Args:
        predictions: B rows of C class probabilities, the twin's.
        references: B rows of C class probabilities, the base's.
        prediction_attentions: B rows of T weights over the content tokens, the twin's; T differs by row.
        reference_attentions: B rows of T weights, the base's.
        multi_label: the C probabilities are of independent labels; TVD is their mean absolute difference.

    Returns:
        tvd (B,), 0 to 1; jsd (B,), nats, 0 to ln 2, 0 for one token, NaN where undefined; and for each example the
        reason why it is undefined ("no content token", "nan in attention"), or None.

    Raises:
        InputError: unequal lengths (both are named, with the example); rows that are not distributions (negative,
            not finite, a sum off by more than 1e-3), of independent labels numbers outside 0 to 1.

    Reference:
        Amini and Kosseim, section 3.2, equations 1 to 3.

    Example:
        >>> tvds, jsds, reasons = per_example_divergences(
        ...     [[0.7, 0.3], [0.5, 0.5]], [[0.4, 0.6], [0.5, 0.5]], [[1.0, 0.0], []], [[0.0, 1.0], []])
        >>> tvds.round(6).tolist(), jsds.round(6).tolist(), reasons
        ([0.3, 0.0], [0.693147, nan], [None, 'no content token'])
    """
    names = ("predictions", "references", "prediction_attentions", "reference_attentions")
    columns = (predictions, references, prediction_attentions, reference_attentions)
    check_same_length(names, columns)
    for left in (0, 2):
        for i, pair in enumerate(zip(columns[left], columns[left + 1], strict=True)):
            check_same_length(names[left : left + 2], pair, example=i)
    p, q, a, b = (_Flat(name, rows) for name, rows in zip(names, columns, strict=True))
    for flat in (p, q):
        flat.check(np.ones(len(flat.lengths), dtype=bool), multi_label)
    empty = a.lengths == 0
    with_nan = a.has_nan | b.has_nan
    defined = ~(empty | with_nan)
    for flat in (a, b):
        flat.check(~empty & ~flat.has_nan)
    moved = np.where(defined, _by_chunks(partial(jsd, validate_args=False), a, b), math.nan)
    moved[defined & (a.lengths == 1)] = 0.0  # a weight of 0.9999 for the only token is rounding, not a move
    reasons = first_reasons({NO_TOKEN: empty, NAN_ATTENTION: with_nan})
    measure = partial(multilabel_tvd if multi_label else tvd, validate_args=False)
    return _by_chunks(measure, p, q), moved, reasons


def attefa_of_lists(
    predictions: Rows,
    references: Rows,
    prediction_attentions: Rows,
    reference_attentions: Rows,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""AtteFa, ``min(mean TVD / (mean JSD / ln 2), 1)``, straight from the outputs of a base model and its twin.

    Args:
        predictions: B rows of C class probabilities, the twin's.
        references: B rows of C class probabilities, the base's.
        prediction_attentions: B rows of T weights over the content tokens, the twin's; T differs by row.
        reference_attentions: B rows of T weights, the base's.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``attefa`` (0 to 1, higher is more faithful), ``tvd`` (0 to 1), ``jsd`` (nats), ``s_jsd`` (0 to
        1), ``n``, ``n_undefined`` and ``reason``; for "none" lists of ``attefa``, ``tvd``, ``jsd``, ``reason``.

    Raises:
        InputError: an unknown reduction, and what :func:`per_example_divergences` refuses.

    Reference:
        Amini and Kosseim, section 3.3, equation 7.

    Example:
        >>> result = attefa_of_lists([[0.7, 0.3]], [[0.4, 0.6]], [[1.0, 0.0]], [[0.0, 1.0]])
        >>> round(result["attefa"], 6), result["n"], result["reason"]
        (0.3, 1, None)
    """
    check_choice("reduction", reduction, ("mean", "none"))
    tvds, jsds, undefined = per_example_divergences(
        predictions, references, prediction_attentions, reference_attentions
    )
    if reduction == "mean":
        return asdict(attefa(tvds, jsds))
    values, reasons = attefa_per_example(tvds, jsds)
    return {
        "attefa": values.tolist(),
        "tvd": tvds.tolist(),
        "jsd": jsds.tolist(),
        "reason": [first or second for first, second in zip(undefined, reasons, strict=True)],
    }


def numbers(name: str, example: object, row: Sequence[float]) -> Array:
    """A row of numbers (T,).

    Raises:
        InputError: it is no list of numbers.
    """
    try:
        found = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(())
    if found.ndim != 1:
        name = name if example is None else f"{name}[{example}]"
        raise InputError(f"Expected `{name}` to be a list of numbers, but got {repr(row)[:60]}.")
    return found


class _Flat:
    """Ragged rows laid end to end."""

    def __init__(self, name: str, rows: Rows) -> None:
        self.name = name
        parts = [numbers(name, i, row) for i, row in enumerate(rows)]
        self.lengths = np.array([len(row) for row in parts], dtype=np.int64)
        self.values: Array = np.concatenate(parts) if parts else np.zeros(0)
        self.ends = np.cumsum(self.lengths)
        self.row = np.repeat(np.arange(len(rows)), self.lengths)
        self.has_nan = self.per_row(np.isnan(self.values)) > 0

    def per_row(self, values: NDArray[Any]) -> Array:
        return np.bincount(self.row, weights=values, minlength=len(self.lengths)).astype(np.float64)

    def check(self, rows: NDArray[np.bool_], multi_label: bool = False) -> None:
        """Raise unless each of ``rows`` is a distribution, or holds a probability a label."""
        if multi_label:
            self._check_range(rows)
            return
        outside = self.per_row(~((self.values >= 0) & np.isfinite(self.values))) > 0
        sums = self.per_row(np.where(np.isfinite(self.values), self.values, 0.0))
        wrong = np.flatnonzero(rows & (outside | (np.abs(sums - 1) > SUM_TOLERANCE)))
        if wrong.size:
            i = int(wrong[0])
            came = "holds a negative or non-finite value" if outside[i] else f"sums to {sums[i]:.6g}"
            raise InputError(
                f"Expected rows of `{self.name}` that are distributions (at least 0, sum 1), "
                f"but row {i} {came}; pass probabilities, not logits, over the same items as the other column."
            )

    def _check_range(self, rows: NDArray[np.bool_]) -> None:
        outside = self.per_row(~((self.values >= 0) & (self.values <= 1 + SUM_TOLERANCE))) > 0
        wrong = np.flatnonzero(rows & outside)
        if wrong.size:
            i = int(wrong[0])
            came = self.values[self.row == i].tolist()
            raise InputError(
                f"Expected rows of `{self.name}` of probabilities, 0 to 1, one a label, but row {i} holds {came}; pass "
                "probabilities, not logits."
            )

    def padded(self, start: int, stop: int) -> Tensor:
        """Rows ``start`` to ``stop`` with zeros behind, (rows, longest)."""
        lengths = self.lengths[start:stop]
        inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
        block = np.zeros(inside.shape)
        first = self.ends[start] - self.lengths[start]
        block[inside] = self.values[first : first + lengths.sum()]
        return torch.from_numpy(block)


def _by_chunks(divergence: Callable[[Tensor, Tensor], Tensor], left: _Flat, right: _Flat) -> Array:
    n = len(left.lengths)
    values = np.zeros(n)
    for start in range(0, n, _CHUNK):
        stop = min(start + _CHUNK, n)
        values[start:stop] = divergence(left.padded(start, stop), right.padded(start, stop)).numpy()
    return values
