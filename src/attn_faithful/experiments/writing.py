"""Writes what an evaluation finds as it comes: each process its blocks, joined by the main one at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_faithful.evaluators.base import Found
from attn_faithful.experiments.outputs import Items
from attn_faithful.experiments.team import Team
from attn_faithful.models.inference import Row
from attn_faithful.schema import TABLES
from attn_faithful.store import RunFolder

NAMES = ("predictions", "tokens", "scores", "variants")
HELD = 1024  # examples whose results are held before they are written
CELLS = 2**17  # their tokens, at most: numbers of a token take some hundred bytes until then


class Writer:
    """The tables of one run, written in parts.

    Args:
        folder: where to.
        rows: the encoded examples.
        items: content items of an example at a site, by its place in the rows; see `outputs.item_finder`.
        queries: of pairs, the text that asks, by place.
        team: the processes that write.
        held: examples whose results are held before they are written.
    """

    def __init__(
        self, folder: RunFolder, rows: Any, items: Items, queries: Sequence[str] | None, team: Team,
        held: int | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.rows, self.items, self.team = folder, rows, items, team
        self.queries = queries
        self.held = held or HELD
        self.shards: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self.parts: dict[str, dict[str, list[Any]]] = {name: {column: [] for column in TABLES[name]} for name in NAMES}
        self.attended: dict[tuple[int, str], dict[str, Any]] = {}
        self.waiting = self.cells = 0

    def add(self, site: str, outputs: Sequence[Row]) -> None:
        """Take the predictions of one block, and its attention to the tokens."""
        for i, chances, weights in outputs:
            label = self.rows["labels"][i] if "labels" in self.rows.column_names else -1
            asked = None if self.queries is None else self.queries[i]
            self._put("predictions", i, label=np.asarray(label).tolist(), probabilities=chances.tolist(), query=asked)
            self._attended(site, i, weights)

    def add_tests(
        self, site: str, outputs: Sequence[Row], importance: Mapping[int, Mapping[str, list[float]]], found: Found
    ) -> None:
        """Take what one block gave at one site that was tested."""
        for i, _, weights in outputs:
            self._attended(site, i, weights).update(importance[i])
        self.extend(found.scores, found.variants)

    def _attended(self, site: str, i: int, weights: np.ndarray) -> dict[str, Any]:
        """The entry of an example's items at a site, in which its importance is filled in."""
        if (i, site) not in self.attended:
            words, offsets = self.items(site, i)
            planted = self.rows["informative"][i] if "informative" in self.rows.column_names else None
            if planted is not None:
                planted = np.asarray(planted).tolist() if len(planted) == len(words) else None
            self.attended[i, site] = {
                "site": site, "slot": 0, "tokens": words, "offsets": offsets, "attention": weights.tolist(),
                "informative": planted,
            }  # fmt: skip
        return self.attended[i, site]

    def written(self, n: int) -> None:
        """A block of n examples is complete."""
        for (i, _), entry in self.attended.items():
            self._put("tokens", i, **entry)
            self.cells += len(entry["tokens"])
        self.attended = {}
        self.waiting += n
        if self.waiting >= self.held or self.cells >= CELLS:
            self.flush()

    def extend(self, scores: Mapping[str, Sequence[Any]], variants: Mapping[str, Sequence[Any]]) -> None:
        """Take further rows of the long tables; columns that they lack are null."""
        for name, columns in (("scores", scores), ("variants", variants)):
            n = len(next(iter(columns.values()), []))
            for column, values in self.parts[name].items():
                values.extend(columns.get(column, [None] * n))

    def _put(self, table: str, i: int, **values: Any) -> None:
        values["example"] = self.rows["example"][i]
        for column, held in self.parts[table].items():
            held.append(values.get(column))

    def flush(self) -> None:
        """Write what is held as a part of its own."""
        shard = f"{self.team.rank}-{len(self.shards)}"
        for name, columns in self.parts.items():
            self.folder.write_table(name, columns, shard=shard)
        self.shards.append(shard)
        self._clear()

    def close(self) -> None:
        """Write the rest; the main process joins all parts. Columns that nobody filled are left out."""
        self.flush()
        shards = sorted(self.team.together(self.shards), key=lambda shard: [int(part) for part in shard.split("-")])
        self.team.wait("parts")
        if self.team.main:
            for name in NAMES:
                self.folder.merge_shards(name, self.rows["example"], shards)
        self.team.wait("tables")
