"""What the metrics share that take lists: checks of what comes in, and how a mean is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attn_faithful._checks import check_choice
from attn_faithful.functional.ragged import Array, Rows
from attn_faithful.functional.reasons import NO_EXAMPLE
from attn_faithful.functional.summaries import Summary

Nested = Sequence[Rows]  # B lists of rows


def check_reduction(reduction: str) -> None:
    """Raise unless the reduction is "mean" or "none"."""
    check_choice("reduction", reduction, ("mean", "none"))


def mean_of(name: str, column: Summary) -> dict[str, Any]:
    """A column's mean under its name, and what every metric says beside it."""
    return {
        name: column.mean,
        "std": column.std,
        "low": column.low,
        "high": column.high,
        "n": column.n,
        "n_undefined": column.n_undefined,
        "reasons": column.reasons,
        "reason": None if column.n else NO_EXAMPLE,
    }


def means_of(names: Iterable[str], columns: Iterable[Summary]) -> dict[str, float]:
    """The means of further columns by name."""
    return {name: column.mean for name, column in zip(names, columns, strict=True)}


def lists_of(names: Sequence[str], values: Array) -> dict[str, list[float]]:
    """The columns of ``values`` (B, M) as lists by name."""
    return dict(zip(names, values.T.tolist(), strict=True))
