"""Joins the shards of a table in the order of the examples, in memory that does not grow with their number."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attn_faithful._checks import InputError
from attn_faithful._mapped import mapped

WINDOW = 64 * 2**20  # bytes of a table that are in memory at once
PLACES = "(places)"  # column of a mapped shard
MERGED = 8 * 2**20  # bytes of small shards that are mapped as one: each takes a file that stays open


@dataclass(frozen=True)
class Shard:
    """Some rows of a table.

    Attributes:
        places: (n,) of each row's example among all examples.
        table: the rows.
    """

    places: np.ndarray
    table: pa.Table

    def in_order(self) -> Shard:
        """The rows in the order of their examples; rows of one example stay in order."""
        order = self.places.argsort(kind="stable")
        return Shard(self.places[order], self.table.take(order))

    def window(self, start: int, end: int) -> Shard:
        """The rows of examples from ``start`` to before ``end``; of a sorted shard."""
        first, last = np.searchsorted(self.places, (start, end))
        return Shard(self.places[first:last], self.table.slice(first, last - first))


def join_shards(tables: Iterator[pa.Table], target: Path, examples: Sequence[str], name: str, one_shard: bool) -> int:
    """Write the rows of all shards as one parquet file.

    Each shard is mapped from disk once more, sorted, so that a window of examples reads of each only its own rows.
    Rows of one example stay in the order of the shards. Columns without any value are left out, but for "reason".

    Args:
        tables: of the shards, with a column "example".
        target: the file.
        examples: every example, in order.
        name: of the table, for messages.
        one_shard: whether every example must be in one shard and no other.

    Returns:
        how many rows were written; without any there is no file.

    Raises:
        InputError: an example is missing, unknown, or stands in two shards.
    """
    known = pa.array(examples, pa.string())
    seen = np.zeros(len(examples), dtype=bool)
    with tempfile.TemporaryDirectory(prefix=".joining.", dir=target.parent) as folder:
        on_disk: list[Shard] = []
        in_memory: list[Shard] = []
        for table in tables:
            shard = Shard(_places(table, known, name), table)
            if one_shard:
                _check_alone(shard.places, seen, examples, name)
            in_memory.append(shard)
            if sum(waiting.table.nbytes for waiting in in_memory) >= MERGED:
                on_disk.append(_mapped(in_memory, Path(folder) / f"{len(on_disk)}.arrow"))
                in_memory = []
        if in_memory:
            on_disk.append(_mapped(in_memory, Path(folder) / f"{len(on_disk)}.arrow"))
        if one_shard and not seen.all():
            n_missing = int((~seen).sum())
            first = examples[int(seen.argmin())]
            raise InputError(f"{n_missing} examples are in no shard of {name!r}, first {first!r}.")
        return _write(on_disk, target, len(examples))


def _places(table: pa.Table, known: pa.Array, name: str) -> np.ndarray:
    """(n,) the place of each row's example."""
    places = pc.index_in(table.column("example").cast(pa.string()), value_set=known)
    if places.null_count:
        unknown = table.column("example").filter(pc.is_null(places))
        first = unknown[0].as_py()
        raise InputError(f"The example {first!r} of a shard of {name!r} is not in the data set.")
    return places.to_numpy()


def _check_alone(places: np.ndarray, seen: np.ndarray, examples: Sequence[str], name: str) -> None:
    """Raise for an example of an earlier shard; marks those of this one as seen."""
    places = np.unique(places)
    seen_before = places[seen[places]]
    if len(seen_before):
        example = examples[int(seen_before[0])]
        raise InputError(f"The example {example!r} stands in two shards of {name!r}; the run is inconsistent.")
    seen[places] = True


def _joined(shards: Sequence[Shard]) -> Shard:
    """The rows of all shards, sorted."""
    places = np.concatenate([shard.places for shard in shards])
    table = pa.concat_tables([shard.table for shard in shards], promote_options="permissive")
    return Shard(places, table).in_order()


def _mapped(shards: Sequence[Shard], path: Path) -> Shard:
    """Some shards as one, sorted and on disk, with the place of each row."""
    joined = _joined(shards)
    if not len(joined.places):
        return joined
    table = mapped(joined.table.append_column(PLACES, pa.array(joined.places)), path)
    places = table.column(PLACES).chunk(0).to_numpy()  # one chunk, and no copy of it
    return Shard(places, table.drop_columns([PLACES]))


def _write(shards: Sequence[Shard], target: Path, n_examples: int) -> int:
    n_rows = sum(len(shard.places) for shard in shards)
    if not n_rows:
        return 0
    schema = _schema(shards)
    n_bytes = sum(shard.table.nbytes for shard in shards)
    fitting = WINDOW * n_examples // max(1, n_bytes)
    size = max(1, min(n_examples, fitting))  # examples of a window
    with pq.ParquetWriter(target, schema) as writer:
        for start in range(0, n_examples, size):
            windows = [shard.window(start, start + size) for shard in shards]
            filled = [window for window in windows if len(window.places)]
            if filled:
                rows = _joined(filled).table
                writer.write_table(_with_schema(rows, schema))
    return n_rows


def _schema(shards: Sequence[Shard]) -> pa.Schema:
    """Without the columns that hold nothing but nulls, which have no type; reasons are text."""
    schema = pa.unify_schemas([shard.table.schema for shard in shards], promote_options="permissive")
    fields = []
    for field in schema:
        if field.name == "reason":
            fields.append(field.with_type(pa.string()))
        elif not pa.types.is_null(field.type):
            fields.append(field)
    return pa.schema(fields)


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the schema; those that this part lacks are null."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(len(table), field.type))
    return pa.table(columns, schema=schema)
