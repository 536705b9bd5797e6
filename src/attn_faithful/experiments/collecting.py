"""Stored scores as columns over the examples of a data set: one array a number, read part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attn_faithful._checks import InputError

Key = tuple[str, str, str]  # site, source, metric
Parts = Iterable[Any]  # tables or batches with the columns in COLUMNS

COLUMNS = ("example", "site", "source", "metric", "value", "reason")
NOT_COMPUTED = "not computed"


class Collected:
    """The columns of some keys.

    Slots of an example are averaged; a value is undefined where all of them are, for the first one's reason.

    Args:
        keys: what to collect.
        examples: every example of the data set.
    """

    def __init__(self, keys: Iterable[Key], examples: Sequence[str]) -> None:
        self._examples = pa.array(examples, pa.string())
        self._codes: dict[str | None, int] = {None: 0, NOT_COMPUTED: 1}
        n = len(examples)
        self._sums = {key: np.zeros(n) for key in keys}
        self._counts = {key: np.zeros(n, np.uint16) for key in self._sums}
        self._reasons = {key: np.ones(n, np.uint16) for key in self._sums}

    def add(self, part: Any) -> None:
        """Take the rows of the keys, and no others."""
        places = pc.index_in(_text(part, "example"), value_set=self._examples)
        reasons = _encoded(part, "reason")
        codes = np.array([self._codes.setdefault(name, len(self._codes)) for name in reasons[1]] or [0], np.uint16)
        for key, rows in _by_key(part):
            if key not in self._sums:
                continue
            where = places.take(rows)
            if where.null_count:
                strange = part.column("example").take(rows).filter(pc.is_null(where))[0].as_py()
                raise InputError(f"The scores hold an example {strange!r} that the data set does not have.")
            at, values = where.to_numpy(), part.column("value").take(rows).to_numpy(zero_copy_only=False)
            known = ~np.isnan(values)
            np.add.at(self._sums[key], at[known], values[known])
            np.add.at(self._counts[key], at[known], np.uint16(1))
            held, said = self._reasons[key], codes[reasons[0][rows]]
            held[at[known]] = 0
            unknown, first = at[~known], said[~known]
            fresh = held[unknown] == 1
            held[unknown[fresh][::-1]] = first[fresh][::-1]  # the first of several is written last

    def values(self, key: Key) -> np.ndarray:
        """The column (n,) of a key, NaN where undefined."""
        counts = self._counts[key]
        with np.errstate(invalid="ignore"):
            return self._sums[key] / np.where(counts > 0, counts, np.nan)

    def why(self, key: Key, index: np.ndarray) -> dict[str, int]:
        """Why values are undefined, and how many of the examples at ``index``."""
        names = list(self._codes)
        counts = np.bincount(self._reasons[key][index], minlength=len(names))
        return {str(names[code]): int(counts[code]) for code in counts.nonzero()[0] if code}

    def reasons(self, key: Key) -> list[str | None]:
        """The same, one an example; None where the value is defined."""
        names = list(self._codes)
        return [names[code] for code in self._reasons[key]]


def keys_of(parts: Parts) -> list[Key]:
    """Every key, in the order in which they come."""
    found: dict[Key, None] = {}
    for part in parts:
        found |= dict.fromkeys(key for key, _ in _by_key(part))
    return list(found)


def as_table(scores: Mapping[str, Sequence[Any]]) -> Any:
    """Columns in memory as one part."""
    types = {name: pa.float64() if name == "value" else pa.string() for name in COLUMNS}
    return pa.table({name: pa.array(scores[name], types[name], from_pandas=False) for name in COLUMNS})


def _by_key(part: Any) -> list[tuple[Key, np.ndarray]]:
    """Each key of a part with its rows, in the order in which they come."""
    if not part.num_rows:
        return []
    columns = [_encoded(part, name) for name in ("site", "source", "metric")]
    (sites, site_names), (sources, source_names), (metrics, metric_names) = columns
    codes = (sites.astype(np.int64) * len(source_names) + sources) * len(metric_names) + metrics
    order = codes.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    found = []
    for rows in sorted(np.split(order, starts[1:]), key=lambda rows: int(rows[0])):
        first = rows[0]
        found.append(((site_names[sites[first]], source_names[sources[first]], metric_names[metrics[first]]), rows))
    return found


def _encoded(part: Any, name: str) -> tuple[np.ndarray, list[Any]]:
    """A column of texts as numbers, and what they stand for; null is one of them."""
    column = _text(part, name).dictionary_encode(null_encoding="encode")
    return column.indices.to_numpy(), column.dictionary.to_pylist()


def _text(part: Any, name: str) -> Any:
    column = part.column(name)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.cast(pa.string())
