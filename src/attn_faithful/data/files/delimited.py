"""Tables as text: files whose columns stand between commas, tabs, semicolons or bars."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.files.quoting import unclosed

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]{0,14})([.][0-9]+)?([eE][+-]?[0-9]+)?$"
_TRUTH = ["true", "false", "True", "False", "TRUE", "FALSE"]
_SAID = re.compile(rb"sep=([,;|\t])\r?\n")  # a first line by which spreadsheets are told what stands between columns
_APART = re.compile(r"[^\w\s\"'.,()/&?!-]+|\s{2,}|[\x1c-\x1f]")  # what may stand there too, and is not read
_SPACED = r"^ +\".*\" *$"  # quotes behind a blank are part of a text
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
        InputError: several delimiters fit, or none though the first line holds one; a quote that does not close where
            its column ends; two columns of one name.
        pyarrow.ArrowException: rows of different lengths.
    """
    import pyarrow as pa

    raw = path.read_bytes()
    if encoding != "utf-8-sig":
        raw = raw.decode(encoding).removeprefix("\ufeff").encode()
    if not raw.removeprefix(b"\xef\xbb\xbf").strip():
        raise InputError(f"Expected rows in {path}, but it is empty.")
    others = [delimiter for delimiter in DELIMITERS if delimiter != usual]
    if said := _SAID.match(raw.removeprefix(b"\xef\xbb\xbf")):
        usual, others, raw = said[1].decode(), [], raw.removeprefix(b"\xef\xbb\xbf")[said.end() :]
    table, error = None, None
    try:
        table = _named(_parsed(raw, usual), path)
    except (pa.ArrowException, _QuoteError) as failed:
        error = failed
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
        return _typed(_named(found, path))
    if isinstance(error, _QuoteError):
        raise InputError(
            f"Expected texts in double quotes to end where their column ends, but the row on line {error.line} of "
            f"{path} has something behind a closing quote, or a quote that never closes; put texts that begin with a "
            f'quote in quotes, and write each quote inside them twice ("").'
        )
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
    if strange := _strange(name, table.column(0)):
        raise InputError(
            f"Expected columns between commas, tabs, semicolons or bars in {path}, but its first line is {name[:60]!r} "
            f"and {strange!r} stands in every row as often; separate the columns by {DELIMITERS[usual]}."
        )
    return _typed(table)


class _QuoteError(ValueError):
    """Quotes that do not close where their column ends."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _strange(name: str, column: Any) -> str | None:
    """What else could stand between columns: it stands in the first line, and in every row as often."""
    import pyarrow.compute as pc

    for found in dict.fromkeys(_APART.findall(name)):
        if pc.all(pc.equal(pc.count_substring(column, found), name.count(found))).as_py() and len(column):
            return found
    return None


def _named(table: Any, path: Path) -> Any:
    """The table with names without blanks around them; columns at the end without a name or a value go.

    Raises:
        InputError: two columns of one name, or quotes behind a blank.
    """
    import pyarrow.compute as pc

    table = table.rename_columns([name.strip().strip("\ufeff") for name in table.column_names])
    while table.num_columns > 1 and not table.column_names[-1] and pc.all(pc.equal(table.column(-1), "")).as_py():
        table = table.remove_column(table.num_columns - 1)
    check_names(table.column_names, path)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if len(column) and pc.all(pc.match_substring_regex(column, _SPACED)).as_py():
            raise InputError(
                f"Expected quotes at the beginning of a column, but in column {name!r} of {path} a blank stands before "
                f"each; remove the blanks behind what separates the columns."
            )
    return table


def check_names(names: Sequence[str], path: Path) -> None:
    """Raise where two columns have one name."""
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise InputError(f"Expected columns of different names in {path}, but {twice[0]!r} stands twice; rename one.")


def _fitting(raw: bytes, delimiters: list[str]) -> dict[str, Any]:
    """Delimiter -> table of those that give every row the same two or more columns."""
    import pyarrow as pa

    found = {}
    for delimiter in delimiters:
        try:
            table = _parsed(raw, delimiter)
        except (pa.ArrowException, _QuoteError):
            continue
        if table.num_columns > 1 and table.num_rows:
            found[delimiter] = table
    return found


def _parsed(raw: bytes, delimiter: str) -> Any:
    """All columns as strings.

    A tab-separated file counts quotes where they pair up in every line, or where it has rows of one length only so.

    Raises:
        _QuoteError: quotes that do not close where their column ends.
    """
    import pyarrow as pa

    line = unclosed(raw, delimiter)
    if delimiter != "\t":
        if line is not None:
            raise _QuoteError(line)
        return _read(raw, delimiter, quoted=True)
    paired = all(line.count(b'"') % 2 == 0 for line in raw.splitlines())
    if paired and line is None:
        return _read(raw, delimiter, quoted=True)
    try:
        return _read(raw, delimiter, quoted=False)
    except pa.ArrowException:
        if line is not None:
            raise
        return _read(raw, delimiter, quoted=True)


def _read(raw: bytes, delimiter: str, quoted: bool) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow

    ended = raw if raw.endswith((b"\n", b"\r")) else raw + b"\n"
    return arrow.read_csv(
        pa.BufferReader(ended),
        read_options=arrow.ReadOptions(use_threads=False, block_size=min(len(ended) + 1, 2**31 - 1)),
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
