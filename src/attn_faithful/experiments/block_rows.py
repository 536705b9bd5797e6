"""Rows of a run's tables: what a block gives, example by example, in the columns of the schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_faithful.data.rows import Rows
from attn_faithful.data.text_column import Texts
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.columns import Columns
from attn_faithful.experiments.shown_items import ShownItems
from attn_faithful.models.inference import Row

NAMES = ("predictions", "tokens", "scores", "variants")

Importance = dict[int, dict[str, list[float]]]  # place in the data -> source -> a number a content token


@dataclass
class SiteResults:
    """What one block gave at one site, by the places of its examples in the data.

    Attributes:
        site: where in the model.
        outputs: predictions, and attention there.
        importance: by source.
        scores: what the tests found.
    """

    site: str
    outputs: list[Row]
    importance: Importance = field(default_factory=dict)
    scores: ScoreRows = field(default_factory=ScoreRows)


@dataclass
class BlockResults:
    """What one block gave.

    Attributes:
        site: the one whose attention is kept beside the predictions.
        outputs: predictions, and attention there.
        tested: the sites that were tested.
    """

    site: str
    outputs: list[Row]
    tested: list[SiteResults] = field(default_factory=list)


class TableRows:
    """Rows of the tables that an evaluation writes."""

    def __init__(self) -> None:
        self.predictions = Columns("predictions")
        self.tokens = Columns("tokens")
        self.scores = Columns("scores")
        self.variants = Columns("variants")

    @property
    def by_table(self) -> dict[str, Columns]:
        """The columns by the name of their table."""
        return {name: getattr(self, name) for name in NAMES}

    def extend(self, other: TableRows) -> None:
        """Add the rows of another."""
        for name, columns in self.by_table.items():
            columns.extend(getattr(other, name))


class RowBuilder:
    """Makes rows of what blocks give.

    Args:
        rows: the encoded examples.
        items: how their items are shown.
        queries: of pairs, the text that asks, by place.
    """

    def __init__(
        self,
        rows: Rows,
        items: ShownItems,
        queries: Sequence[str] | None,
    ) -> None:
        self.rows = rows
        self.items = items
        self.queries = queries

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        texts: Any,
        rows: Rows,
        joined: bool = False,
    ) -> RowBuilder:
        """Rows of the texts of a split.

        Args:
            tokenizer: that encoded them.
            texts: as they were read.
            rows: encoded.
            joined: whether the model reads pairs as one text.
        """
        queries = Texts.of(texts, "query") if "query" in texts.column_names else None
        joined_queries = queries if joined else None
        items = ShownItems(tokenizer, Texts.of(texts, "text"), rows, joined_queries)
        return cls(rows, items, queries)

    def tables(self, results: BlockResults) -> TableRows:
        """What one block gave as rows of the tables."""
        tables = TableRows()
        tokens: dict[tuple[int, str], dict[str, Any]] = {}  # place and site -> a row of "tokens"
        for place, probabilities, attention in results.outputs:
            tables.predictions.append(self._prediction(place, probabilities.tolist()))
            tokens[place, results.site] = self._tokens(place, results.site, attention)
        for tested in results.tested:
            for place, _, attention in tested.outputs:
                row = tokens.get((place, tested.site))
                if row is None:
                    row = tokens[place, tested.site] = self._tokens(place, tested.site, attention)
                row.update(tested.importance.get(place, {}))
            tables.scores.extend(tested.scores.scores)
            tables.variants.extend(tested.scores.variants)
        for row in tokens.values():
            tables.tokens.append(row)
        return tables

    def add_unread(
        self,
        tables: TableRows,
        place: int,
        site: str,
        classes: int,
    ) -> None:
        """Add the rows of an example that the model could not read: all its numbers are NaN."""
        try:
            words = self.items.at(site, place).strings
        except Exception:  # what could not be read may not be shown either
            words = []
        tables.predictions.append(self._prediction(place, [math.nan] * classes))
        tables.tokens.append(
            {
                "example": self.rows.examples[place],
                "site": site,
                "slot": 0,
                "tokens": words,
                "attention": [math.nan] * len(words),
            }
        )

    def _prediction(self, place: int, probabilities: list[float]) -> dict[str, Any]:
        label = -1
        if "labels" in self.rows.column_names:
            label = np.asarray(self.rows.labels[place]).tolist()
        return {
            "example": self.rows.examples[place],
            "label": label,
            "probabilities": probabilities,
            "query": None if self.queries is None else self.queries[place],
        }

    def _tokens(self, place: int, site: str, attention: np.ndarray) -> dict[str, Any]:
        """An example's items at a site; its importance is filled in later."""
        items = self.items.at(site, place)
        return {
            "example": self.rows.examples[place],
            "site": site,
            "slot": 0,
            "tokens": items.strings,
            "offsets": items.offsets,
            "attention": attention.tolist(),
            "informative": self._informative(place, len(items.strings)),
        }

    def _informative(self, place: int, n_items: int) -> list[Any] | None:
        """Which items were planted; None where that is not known, or known of other items."""
        if "informative" not in self.rows.column_names:
            return None
        planted = self.rows["informative"][place]
        if planted is None or len(planted) != n_items:
            return None
        values: list[Any] = np.asarray(planted).tolist()
        return values
