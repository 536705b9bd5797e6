"""Stored scores as columns over the examples of a data set: one array a number, read part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attn_faithful._checks import InputError


class Key(NamedTuple):
    """What tells the numbers of an example apart."""

    site: str
    source: str
    metric: str


Parts = Iterable[Any]  # tables or batches with the columns in COLUMNS

COLUMNS = ("example", "site", "source", "metric", "value", "reason")
NOT_COMPUTED = "not computed"


_CODE_OF_DEFINED = 0
_CODE_OF_NOT_COMPUTED = 1


class _Column:
    """One number of every example: sums and counts of its slots, and codes of reasons."""

    def __init__(self, n: int) -> None:
        self.sums = np.zeros(n)
        self.counts = np.zeros(n, np.uint16)
        self.reasons = np.full(n, _CODE_OF_NOT_COMPUTED, np.uint16)

    def add(
        self,
        positions: np.ndarray,
        values: np.ndarray,
        codes: np.ndarray,
    ) -> None:
        """Add values at the positions of their examples, with the codes of their reasons."""
        defined = ~np.isnan(values)
        np.add.at(self.sums, positions[defined], values[defined])
        np.add.at(self.counts, positions[defined], np.uint16(1))
        self.reasons[positions[defined]] = _CODE_OF_DEFINED
        self._add_reasons(positions[~defined], codes[~defined])

    def _add_reasons(self, positions: np.ndarray, codes: np.ndarray) -> None:
        """The reason of an example without a value and without a reason; the first one stays."""
        is_new = self.reasons[positions] == _CODE_OF_NOT_COMPUTED
        # backwards: of several rows of an example the first is written last
        backwards = positions[is_new][::-1]
        self.reasons[backwards] = codes[is_new][::-1]


class ScoreColumns:
    """The columns of some keys.

    Slots of an example are averaged; a value is undefined where all of them are, for the first one's reason.

    Args:
        keys: whose rows are collected.
        examples: every example of the data set.
    """

    def __init__(self, keys: Iterable[Key], examples: Sequence[str]) -> None:
        self._examples = pa.array(examples, pa.string())
        self._columns = {key: _Column(len(examples)) for key in keys}
        self._codes: dict[str | None, int] = {None: _CODE_OF_DEFINED, NOT_COMPUTED: _CODE_OF_NOT_COMPUTED}

    def add(self, part: Any) -> None:
        """Take the rows of the keys, and no others."""
        places = pc.index_in(_strings(part, "example"), value_set=self._examples)
        reasons = _encoded(part, "reason")
        codes = self._codes_of(reasons.names)
        for key, rows in _by_key(part):
            column = self._columns.get(key)
            if column is None:
                continue
            positions = places.take(rows)
            if positions.null_count:
                _refuse_strangers(part.column("example").take(rows), positions)
            values = part.column("value").take(rows).to_numpy(zero_copy_only=False)
            column.add(positions.to_numpy(), values, codes[reasons.indices[rows]])

    def _codes_of(self, reasons: list[str | None]) -> np.ndarray:
        codes = [self._codes.setdefault(reason, len(self._codes)) for reason in reasons]
        return np.array(codes or [_CODE_OF_DEFINED], np.uint16)

    def values(self, key: Key) -> np.ndarray:
        """The column (n,) of a key, NaN where undefined."""
        column = self._columns[key]
        with np.errstate(invalid="ignore"):
            return column.sums / np.where(column.counts > 0, column.counts, np.nan)

    def reason_counts(self, key: Key, places: np.ndarray) -> dict[str, int]:
        """Why values are undefined -> how many of the examples at some places, sorted by reason."""
        names = list(self._codes)
        counts = np.bincount(self._columns[key].reasons[places], minlength=len(names))
        by_reason = {}
        for code in counts.nonzero()[0]:
            if code != _CODE_OF_DEFINED:
                by_reason[str(names[code])] = int(counts[code])
        return dict(sorted(by_reason.items()))

    def reasons(self, key: Key) -> list[str | None]:
        """Why the value of each example is undefined; None where it is defined."""
        names = list(self._codes)
        return [names[code] for code in self._columns[key].reasons]


def _refuse_strangers(examples: Any, positions: Any) -> None:
    stranger = examples.filter(pc.is_null(positions))[0].as_py()
    raise InputError(f"The scores hold an example {stranger!r} that the data set does not have.")


def keys_of(parts: Parts) -> list[Key]:
    """Every key, in the order in which they come."""
    keys: dict[Key, None] = {}
    for part in parts:
        for key, _ in _by_key(part):
            keys[key] = None
    return list(keys)


def as_table(scores: Mapping[str, Sequence[Any]]) -> Any:
    """Columns in memory as one part."""
    arrays = {}
    for name in COLUMNS:
        kind = pa.float64() if name == "value" else pa.string()
        arrays[name] = pa.array(scores[name], kind, from_pandas=False)
    return pa.table(arrays)


def _by_key(part: Any) -> Iterator[tuple[Key, np.ndarray]]:
    """Each key of a part with its rows, in the order in which they come."""
    if not part.num_rows:
        return
    sites, sources, metrics = (_encoded(part, name) for name in Key._fields)
    codes = sites.indices.astype(np.int64) * len(sources.names) + sources.indices
    codes = codes * len(metrics.names) + metrics.indices
    order = codes.argsort(kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    groups = np.split(order, starts[1:])
    for rows in sorted(groups, key=lambda rows: int(rows[0])):
        first = rows[0]
        yield Key(sites.at(first), sources.at(first), metrics.at(first)), rows


@dataclass(frozen=True)
class _Encoded:
    """A column of strings as numbers.

    Attributes:
        indices: a number a row.
        names: what each number stands for; null is one of them.
    """

    indices: np.ndarray
    names: list[Any]

    def at(self, row: int) -> Any:
        return self.names[self.indices[row]]


def _encoded(part: Any, name: str) -> _Encoded:
    column = _strings(part, name).dictionary_encode(null_encoding="encode")
    return _Encoded(column.indices.to_numpy(), column.dictionary.to_pylist())


def _strings(part: Any, name: str) -> Any:
    column = part.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.cast(pa.string())
