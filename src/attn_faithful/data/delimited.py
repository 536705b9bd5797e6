"""Tables as text: files whose columns stand between commas, tabs, semicolons or bars."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from .._checks import InputError

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]{0,14})([.][0-9]+)?([eE][+-]?[0-9]+)?$"
_TRUTH = ["true", "false", "True", "False", "TRUE", "FALSE"]
_NOTHING = ["", "NA", "N/A", "#N/A", "n/a", "NaN", "-NaN", "nan", "-nan", "NULL", "null"]  # among numbers only


def read_delimited(path: Path, usual: str, encoding: str, notes: list[str]) -> Any:
    """The columns of a file as an arrow table.

    What stands between columns is what the file's name says. Where that gives one column, or rows of different lengths,
    the other delimiters are tried: the one that gives every row the same two or more columns is taken, and told. Texts
    stay as written ("NA" is a text, "007" and dates are no numbers); a column is of numbers where all of it is.

    Args:
        path: of the file.
        usual: the delimiter that goes with its name.
        encoding: of the file, see `decoding.encoding_of`.
        notes: gets what was guessed.

    Raises:
        InputError: several delimiters fit, or none though the first line holds one.
        pyarrow.ArrowException: rows of different lengths.
    """
    import pyarrow as pa

    raw = path.read_bytes()
    if encoding != "utf-8-sig":
        raw = raw.decode(encoding).removeprefix("\ufeff").encode()
    table, error = None, None
    try:
        table = _parsed(raw, usual)
    except pa.ArrowException as failed:
        error = failed
    others = [delimiter for delimiter in DELIMITERS if delimiter != usual]
    several = table is not None and table.num_columns > 1
    if several and not any(delimiter in name for name in table.column_names for delimiter in others):
        return _typed(table)
    fitting = _fitting(raw, others)
    if several and not fitting:
        return _typed(table)
    if several or len(fitting) > 1:
        named = " and ".join(DELIMITERS[delimiter] for delimiter in fitting)
        raise InputError(f"Expected {DELIMITERS[usual]} between the columns of {path}, but {named} fit too; use one.")
    for delimiter, found in fitting.items():
        notes.append(f"{path.name}: columns stand between {DELIMITERS[delimiter]}, not {DELIMITERS[usual]}.")
        return _typed(found)
    if error is not None:
        raise error
    (name,) = table.column_names or [""]
    held = [word for delimiter, word in DELIMITERS.items() if delimiter in name]
    if held:
        raise InputError(
            f"Expected {DELIMITERS[usual]} between the columns of {path}, but its first line is {name[:60]!r}, with "
            f"{held[0]}, which not every row has as often; put texts that hold them in double quotes, or separate the "
            f"columns by {DELIMITERS[usual]}."
        )
    return _typed(table)


def _fitting(raw: bytes, delimiters: list[str]) -> dict[str, Any]:
    """Delimiter -> table of those that give every row the same two or more columns."""
    import pyarrow as pa

    found = {}
    for delimiter in delimiters:
        try:
            table = _parsed(raw, delimiter)
        except pa.ArrowException:
            continue
        if table.num_columns > 1 and table.num_rows:
            found[delimiter] = table
    return found


def _parsed(raw: bytes, delimiter: str) -> Any:
    """All columns as strings; a tab-separated file counts quotes only where they pair up."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    quoted = delimiter != "\t" or all(line.count(b'"') % 2 == 0 for line in raw.splitlines())
    return arrow.read_csv(
        pa.BufferReader(raw),
        read_options=arrow.ReadOptions(use_threads=False, block_size=min(len(raw) + 1, 2**31 - 1)),
        parse_options=arrow.ParseOptions(
            delimiter=delimiter, newlines_in_values=quoted, quote_char='"' if quoted else False
        ),
        convert_options=arrow.ConvertOptions(
            column_types=dict.fromkeys(_names(raw, delimiter, quoted), pa.string()), strings_can_be_null=False
        ),
    )


def _names(raw: bytes, delimiter: str, quoted: bool) -> list[str]:
    """The names in the first line that is not empty."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", errors="replace", newline="")
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        return next((row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting) if row), [])
    except csv.Error:
        return []


def _typed(table: Any) -> Any:
    """The table with numbers in the columns that hold nothing else."""
    for place, name in enumerate(table.column_names):
        table = table.set_column(place, name, _column(table.column(place)))
    return table


def _column(column: Any) -> Any:
    """Strings as whole numbers, numbers or truth values where every one of them is written so."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return column
    given = pc.if_else(pc.is_in(column, pa.array(_NOTHING)), None, column)
    there = given.drop_null()
    if not len(there):
        return column
    for pattern, kind in ((_INTEGER, pa.int64()), (_NUMBER, pa.float64())):
        if pc.all(pc.match_substring_regex(there, pattern)).as_py():
            return given.cast(kind)
    truth = pc.all(pc.is_in(there, pa.array(_TRUTH))).as_py()
    return given.cast(pa.bool_()) if truth else column
