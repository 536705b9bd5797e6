"""One file of a table (parquet, csv, tsv, json or jsonl) as a data set; errors name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.files.decoding import decoded, encoding_of
from attn_faithful.data.files.delimited import check_names, read_delimited
from attn_faithful.data.files.foreign import check_holds, what_instead
from attn_faithful.data.files.json_rows import BATCH_ROWS, read_json
from attn_faithful.data.files.mapped_tables import Spill
from attn_faithful.data.files.paths import SUFFIXES, suffix_of

_MOST_VALUES = 2**31  # of a parquet file: packed, billions of equal values are a few bytes


def read_file(path: Path, encoding: str | None = None, notes: list[str] | None = None) -> Any:
    """The rows of a parquet, csv, tsv, json or jsonl file as a datasets.Dataset.

    Args:
        path: of the file.
        encoding: of a file of text; None for UTF-8, or what its byte order mark says.
        notes: gets what was guessed.

    Raises:
        InputError: another kind of file, one that cannot be read, or one without rows.
    """
    import datasets
    import pyarrow as pa

    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise InputError(
            f"Expected a parquet, csv, tsv, json or jsonl file, but got {str(path)!r}{what_instead(suffix)}."
        )
    notes = [] if notes is None else notes
    try:
        check_holds(path, suffix)
        table = _read_parquet(path) if suffix == "parquet" else _read_text(path, suffix, encoding, notes)
        if table.num_columns == 0 or table.num_rows == 0:
            raise InputError(f"Expected rows in {path}, but it has none.")
        return decoded(datasets.Dataset(table), str(path))
    except InputError:
        raise
    # datasets has no error of its own for columns that it cannot hold
    except (pa.ArrowException, ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(f"Expected a readable {suffix} file, but {path} is not: {error}") from error


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    check_names(metadata.schema.to_arrow_schema().names, path)
    if metadata.num_rows * metadata.num_columns > _MOST_VALUES:
        raise InputError(f"Expected at most {_MOST_VALUES} values in {path}, but it declares more; split it.")
    spill = Spill()
    with pq.ParquetFile(path) as file:
        spill.add(file.schema_arrow.empty_table())
        for batch in file.iter_batches(BATCH_ROWS):
            spill.add(pa.Table.from_batches([batch]))
    return spill.table()


def _read_text(path: Path, suffix: str, encoding: str | None, notes: list[str]) -> Any:
    name = encoding_of(path, encoding)
    if encoding is None and name != "utf-8-sig":
        notes.append(f"{path.name}: read as {name.upper()}, as its byte order mark says.")
    if suffix in ("json", "jsonl"):
        return read_json(path, name, notes)
    delimiter = "," if suffix == "csv" else "\t"
    spill = Spill()
    spill.add(read_delimited(path, delimiter, name, notes))
    return spill.table()
