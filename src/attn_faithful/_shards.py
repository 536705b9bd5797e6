"""Joins the shards of a table in the order of the examples, in memory that does not grow with their number."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attn_faithful._checks import InputError
from attn_faithful._mapped import mapped

HELD = 64 * 2**20  # bytes of a table that are held at once
TOGETHER = 8 * 2**20  # bytes of small shards that are laid on disk as one: each takes a file that stays open

Laid = tuple[np.ndarray, pa.Table]  # places of the rows' examples, rising, and the rows


def join_shards(shards: Iterator[pa.Table], target: Path, examples: Sequence[str], name: str, whole: bool) -> int:
    """Write the rows of all shards as one parquet file.

    Each shard is laid on disk once more, sorted and as it stands in memory, so that a window of examples reads of each
    only its own rows. Rows of one example stay in the order of the shards. Columns without any value are left out, but
    for "reason".

    Args:
        shards: tables with a column "example".
        target: the file.
        examples: every example, in order.
        name: of the table, for messages.
        whole: whether every example must be in one shard and no other.

    Returns:
        how many rows were written; without any there is no file.

    Raises:
        InputError: an example is missing, unknown, or stands in two shards.
    """
    known = pa.array(examples, pa.string())
    with tempfile.TemporaryDirectory(prefix=".joining.", dir=target.parent) as beside:
        laid: list[Laid] = []
        waiting: list[tuple[np.ndarray, pa.Table]] = []
        seen = np.zeros(len(examples), dtype=bool)
        for table in shards:
            ranks = pc.index_in(table.column("example").cast(pa.string()), value_set=known)
            if ranks.null_count:
                strange = table.column("example").filter(pc.is_null(ranks))[0].as_py()
                raise InputError(f"The example {strange!r} of a shard of {name!r} is not in the data set.")
            places = ranks.to_numpy()
            if whole:
                _check_alone(np.unique(places), seen, examples, name)
            waiting.append((places, table))
            if sum(held.nbytes for _, held in waiting) >= TOGETHER:
                laid.append(_laid(waiting, Path(beside) / f"{len(laid)}.arrow"))
                waiting = []
        if waiting:
            laid.append(_laid(waiting, Path(beside) / f"{len(laid)}.arrow"))
        if whole and not seen.all():
            raise InputError(
                f"{int((~seen).sum())} examples are in no shard of {name!r}, first {examples[int(seen.argmin())]!r}."
            )
        return _write(laid, target, len(examples))


def _laid(shards: Sequence[tuple[np.ndarray, pa.Table]], path: Path) -> Laid:
    """Some shards as one, sorted and on disk."""
    places = np.concatenate([places for places, _ in shards])
    order = places.argsort(kind="stable")
    table = pa.concat_tables([table for _, table in shards], promote_options="permissive")
    return places[order], mapped(table.take(order), path)


def _check_alone(places: np.ndarray, seen: np.ndarray, examples: Sequence[str], name: str) -> None:
    if seen[places].any():
        twice = examples[int(places[seen[places]][0])]
        raise InputError(f"The example {twice!r} stands in two shards of {name!r}; the run is inconsistent.")
    seen[places] = True


def _write(laid: Sequence[Laid], target: Path, n: int) -> int:
    rows = sum(len(places) for places, _ in laid)
    if not rows:
        return 0
    schema = _typed(pa.unify_schemas([table.schema for _, table in laid], promote_options="permissive"))
    window = max(1, min(n, HELD * n // max(1, sum(table.nbytes for _, table in laid))))
    with pq.ParquetWriter(target, schema) as writer:
        for start in range(0, n, window):
            cuts = [np.searchsorted(places, (start, start + window)) for places, _ in laid]
            parts = [table.slice(a, b - a) for (_, table), (a, b) in zip(laid, cuts, strict=True) if b > a]
            if parts:
                places = np.concatenate([p[a:b] for (p, _), (a, b) in zip(laid, cuts, strict=True)])
                joined = pa.concat_tables(parts, promote_options="permissive")
                writer.write_table(_as(joined.take(places.argsort(kind="stable")), schema))
    return rows


def _typed(schema: pa.Schema) -> pa.Schema:
    """Without the columns that hold nothing but nulls, which have no type; reasons are text."""
    fields = [f.with_type(pa.string()) if f.name == "reason" else f for f in schema]
    return pa.schema([f for f in fields if not pa.types.is_null(f.type)])


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the schema; those that this part lacks are null."""
    columns = [
        table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(len(table), f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)
