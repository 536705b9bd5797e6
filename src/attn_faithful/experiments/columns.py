"""Rows of a table of the schema, as columns that grow together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful import schema


class Columns(dict[str, list[Any]]):
    """The columns of a table by name; what a row lacks is null.

    Args:
        table: name in the schema.

    Example:
        >>> history = Columns("history")
        >>> history.append({"run": "base", "epoch": 1})
        >>> history["run"], history["value"]
        (['base'], [None])
    """

    def __init__(self, table: str) -> None:
        super().__init__()
        for name in schema.columns(table):
            self[name] = []

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        for name, values in self.items():
            values.append(row.get(name))

    def extend(self, rows: Mapping[str, Sequence[Any]]) -> None:
        """Add rows, given as columns."""
        n = len(next(iter(rows.values()), []))
        for name, values in self.items():
            values.extend(rows.get(name) or [None] * n)
