"""The table "scores" by site, source and metric: each number as an array over the texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

COLUMNS = ("example", "site", "slot", "source", "metric", "value", "reason", "label")
_NOT_COMPUTED = "not computed"

Key = tuple[str, str, str]  # site, source, metric


class ScoreColumns:
    """The scores of a run.

    Args:
        table: of pyarrow, with those of `COLUMNS` that the run has; None for a run without scores.
        ids: of the texts, in the order of the data.

    Attributes:
        rows: (site, source, metric) -> its rows, in the order of the file.
    """

    def __init__(self, table: Any, ids: Sequence[str]) -> None:
        self._ids = ids
        self.rows: dict[Key, np.ndarray] = {}
        if table is None or not table.num_rows:
            return
        stored = [column.name for column in table.schema if str(column.type) != "null"]
        few_values = [name for name in stored if name != "value"]  # names that stand in very many rows
        self._frame = table.select(stored).to_pandas(categories=few_values)
        grouped = self._frame.groupby(["site", "source", "metric"], sort=False, observed=True)
        by_first_row = sorted(grouped.indices.items(), key=lambda group: group[1][0])
        self.rows = dict(by_first_row)

    @property
    def first_site(self) -> str | None:
        """The site of the first row."""
        if not self.rows:
            return None
        site, _, _ = next(iter(self.rows))
        return site

    def sources(self, metric: str, site: str | None) -> list[str]:
        """The sources that a metric was computed for at a site, in the order of the file."""
        return [source for where, source, name in self.rows if name == metric and where == site]

    def values(self, key: Key) -> np.ndarray:
        """A number of every text (B,), the mean over slots; NaN where undefined or not computed."""
        return self._means(self._rows_of(key))

    def by_label(self, key: Key) -> np.ndarray | None:
        """A number of every label and text (L, B); None where labels were not asked by themselves."""
        if key not in self.rows or "label" not in self._frame:
            return None
        rows = self.rows[key]
        labels = self._frame["label"].cat.codes.to_numpy()[rows]
        means = []
        for label in np.unique(labels):
            if label >= 0:  # the code of null is -1
                means.append(self._means(rows[labels == label]))  # (B,)
        if not means:
            return None
        return np.stack(means)  # (L, B)

    def by_slot(self, key: Key) -> np.ndarray:
        """A number of every text and slot (B, S), NaN where undefined or not computed; S is 1 without slots."""
        rows = self._rows_of(key)
        if not len(rows) or "slot" not in self._frame:
            return self._means(rows)[:, None]
        slots = np.asarray(self._frame["slot"].iloc[rows], dtype=int)
        means = []
        for slot in range(slots.max() + 1):
            means.append(self._means(rows[slots == slot]))  # (B,)
        return np.stack(means, axis=1)

    def reasons(self, key: Key) -> list[str | None]:
        """Why the values of a number are undefined, an entry a text; None where defined."""
        rows = self._rows_of(key)
        undefined = ~np.isfinite(self._means(rows))  # (B,)
        reasons: list[str | None] = [None] * len(undefined)
        for place in np.flatnonzero(undefined):
            reasons[place] = _NOT_COMPUTED
        if not len(rows) or "reason" not in self._frame:
            return reasons
        stored = self._frame["reason"].iloc[rows].dropna()
        for place, reason in zip(self._places[stored.index], stored, strict=True):
            if place >= 0 and undefined[place]:
                reasons[place] = reason
        return reasons

    def _rows_of(self, key: Key) -> np.ndarray:
        return self.rows.get(key, np.zeros(0, dtype=int))

    def _means(self, rows: np.ndarray) -> np.ndarray:
        """The mean of some rows of each text (B,), NaN without a defined one.

        The sums run in the order of the rows; the mean of pandas adds otherwise and differs in the last bit.
        """
        n = len(self._ids)
        if not len(rows):
            return np.full(n, np.nan)
        places, values = self._places[rows], self._values[rows]
        defined = np.isfinite(values) & (places >= 0)
        texts = places[defined]  # the text of each value that counts
        counts = np.bincount(texts, minlength=n)  # (B,)
        sums = np.bincount(texts, weights=values[defined], minlength=n)  # (B,)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    @cached_property
    def _values(self) -> np.ndarray:
        return np.asarray(self._frame["value"], dtype=float)

    @cached_property
    def _places(self) -> np.ndarray:
        """The text of each row by its place in the data; -1 for values of the whole split."""
        places = {example: place for place, example in enumerate(self._ids)}
        stored = self._frame["example"].cat
        by_code = [places.get(str(example), -1) for example in stored.categories]
        by_code.append(-1)  # the code of null is -1: the last entry
        return np.array(by_code)[stored.codes]
