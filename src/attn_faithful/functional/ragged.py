"""Rows that differ in length: what a list or an array of each text holds, and the divergences of two such columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.distributions import SUM_TOLERANCE
from attn_faithful.functional.divergences import jsd, multilabel_tvd, tvd
from attn_faithful.functional.reasons import NAN_ATTENTION, NO_TOKEN, Reasons, first_reasons

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = Sequence[Sequence[float]]

CHUNK = 256  # rows padded together: bounds the memory to that of so many of the longest texts


def per_example_divergences(
    predictions: Rows,
    references: Rows,
    prediction_attentions: Rows,
    reference_attentions: Rows,
    *,
    multi_label: bool = False,
) -> tuple[Array, Array, Reasons]:
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
    check_same_length(names, (predictions, references, prediction_attentions, reference_attentions))
    check_rows_alike(names[:2], (predictions, references))
    check_rows_alike(names[2:], (prediction_attentions, reference_attentions))

    p = RaggedRows("predictions", predictions)
    q = RaggedRows("references", references)
    a = RaggedRows("prediction_attentions", prediction_attentions)
    b = RaggedRows("reference_attentions", reference_attentions)
    for probabilities in (p, q):
        if multi_label:
            probabilities.check_probabilities()
        else:
            probabilities.check_distributions(np.ones(len(probabilities), dtype=bool))
    empty = a.lengths == 0
    with_nan = a.has_nan | b.has_nan
    for attention in (a, b):
        attention.check_distributions(~empty & ~attention.has_nan)

    defined = ~(empty | with_nan)
    moved = over_chunks(partial(jsd, validate_args=False), a, b)
    moved = np.where(defined, moved, math.nan)
    moved[defined & (a.lengths == 1)] = 0.0  # a weight of 0.9999 for the only token is rounding, not a move
    distance = multilabel_tvd if multi_label else tvd
    changed = over_chunks(partial(distance, validate_args=False), p, q)
    return changed, moved, first_reasons({NO_TOKEN: empty, NAN_ATTENTION: with_nan})


def numbers(name: str, example: object, row: Sequence[float]) -> Array:
    """A row of numbers (T,).

    Raises:
        InputError: it is no list of numbers.

    Example:
        >>> numbers("predictions", 0, [0.5, 0.5]).tolist()
        [0.5, 0.5]
    """
    try:
        values = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(())
    if values.ndim != 1:
        place = name if example is None else f"{name}[{example}]"
        raise InputError(f"Expected `{place}` to be a list of numbers, but got {repr(row)[:60]}.")
    return values


def check_rows_alike(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    """Raise unless the rows of an example have one length in all columns, which have one length themselves.

    Example:
        >>> check_rows_alike(("predictions", "references"), ([[0.5, 0.5]], [[1.0, 2.0]]))
    """
    for example, rows in enumerate(zip(*columns, strict=True)):
        check_same_length(names, rows, example=example)


class RaggedRows:
    """Rows of numbers laid end to end.

    Args:
        name: of the column, for errors.
        rows: B lists of numbers.

    Attributes:
        values: (N,), the numbers of all rows.
        lengths: (B,).
        ends: (B,), where each row ends among the values.
        row: (N,), which row each value belongs to.
        has_nan: (B,), bool.

    Example:
        >>> RaggedRows("predictions", [[0.5, 0.5], [], [1.0]]).lengths.tolist()
        [2, 0, 1]
    """

    def __init__(self, name: str, rows: Rows) -> None:
        self.name = name
        parts = [numbers(name, i, row) for i, row in enumerate(rows)]
        lengths = [len(row) for row in parts]
        self.lengths = np.array(lengths, dtype=np.int64)
        self.values: Array = np.concatenate(parts) if parts else np.zeros(0)
        self.ends = np.cumsum(self.lengths)
        self.row = np.repeat(np.arange(len(rows)), self.lengths)
        self.has_nan = self._any(np.isnan(self.values))

    def __len__(self) -> int:
        return len(self.lengths)

    def _sums(self, values: NDArray[Any]) -> Array:
        """The sum of ``values`` (N,) over each row, (B,)."""
        sums = np.bincount(self.row, weights=values, minlength=len(self))
        return sums.astype(np.float64)

    def _any(self, flags: Mask) -> Mask:
        """Which rows (B,) have a value that is flagged."""
        return self._sums(flags) > 0

    def check_distributions(self, checked: Mask) -> None:
        """Raise unless each of the ``checked`` rows (B,) is a distribution."""
        finite = np.isfinite(self.values)
        legal = (self.values >= 0) & finite
        outside = self._any(~legal)
        sums = self._sums(np.where(finite, self.values, 0.0))
        off = np.abs(sums - 1) > SUM_TOLERANCE
        wrong_rows = np.flatnonzero(checked & (outside | off))
        if wrong_rows.size:
            i = int(wrong_rows[0])
            came = "holds a negative or non-finite value" if outside[i] else f"sums to {sums[i]:.6g}"
            raise InputError(
                f"Expected rows of `{self.name}` that are distributions (at least 0, sum 1), "
                f"but row {i} {came}; pass probabilities, not logits, over the same items as the other column."
            )

    def check_probabilities(self) -> None:
        """Raise unless each value is the probability of an independent label."""
        legal = (self.values >= 0) & (self.values <= 1 + SUM_TOLERANCE)
        wrong_rows = np.flatnonzero(self._any(~legal))
        if wrong_rows.size:
            i = int(wrong_rows[0])
            came = self.values[self.row == i].tolist()
            raise InputError(
                f"Expected rows of `{self.name}` of probabilities, 0 to 1, one a label, but row {i} holds {came}; pass "
                "probabilities, not logits."
            )

    def chunks(self) -> Iterator[slice]:
        """Slices of rows, as many at once as bound the memory of their padded block."""
        for start in range(0, len(self), CHUNK):
            yield slice(start, min(start + CHUNK, len(self)))

    def padded(self, chunk: slice) -> Tensor:
        """The rows of a chunk with zeros behind, (rows, longest)."""
        lengths = self.lengths[chunk]
        inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
        block = np.zeros(inside.shape)
        first = self.ends[chunk.start] - self.lengths[chunk.start]
        block[inside] = self.values[first : first + lengths.sum()]
        return torch.from_numpy(block)

    def inside(self, chunk: slice) -> Tensor:
        """Where the padded rows of a chunk have values, (rows, longest)."""
        lengths = torch.from_numpy(self.lengths[chunk])
        longest = int(lengths.max())
        return torch.arange(longest) < lengths[:, None]


def over_chunks(measure: Callable[[Tensor, Tensor], Tensor], left: RaggedRows, right: RaggedRows) -> Array:
    """A measure of each row (B,) of two columns, which get zeros behind for it.

    Example:
        >>> over_chunks(tvd, RaggedRows("p", [[1.0], [0.5, 0.5]]), RaggedRows("q", [[1.0], [1.0, 0.0]])).tolist()
        [0.0, 0.5]
    """
    values = np.zeros(len(left))
    for chunk in left.chunks():
        measured = measure(left.padded(chunk), right.padded(chunk))
        values[chunk] = measured.numpy()
    return values
