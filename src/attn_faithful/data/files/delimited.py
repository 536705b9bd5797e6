"""Tables as text: files whose columns stand between commas, tabs, semicolons or bars."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.files.column_types import with_types
from attn_faithful.data.files.quoting import unclosed

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_DECLARED = re.compile(rb"sep=([,;|\t])\r?\n")  # a first line by which spreadsheets are told the delimiter
_UNREAD = re.compile(r"[^\w\s\"'.,()/&?!-]+|\s{2,}|[\x1c-\x1f]")  # what may stand between columns and is not read
_SPACED_QUOTES = r"^ +\".*\" *$"  # quotes behind a blank are part of a text


class _QuoteError(ValueError):
    """Quotes that do not close where their column ends; holds the line on which the row begins."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def read_delimited(path: Path, usual: str, encoding: str, notes: list[str]) -> Any:
    """The columns of a file as an arrow table.

    The delimiter is the one of the file's name. Where that gives one column, or rows of different lengths, the other
    delimiters are tried: the one that gives every row the same two or more columns is taken, and noted. Texts stay as
    written ("NA" is a text, "007" and dates are no numbers); a column is of numbers where all of it is.

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
    raw = _as_utf8(path, encoding)
    content = raw.removeprefix(_MARK)
    if not content.strip():
        raise InputError(f"Expected rows in {path}, but it is empty.")
    others = [delimiter for delimiter in DELIMITERS if delimiter != usual]
    declared = _DECLARED.match(content)
    if declared:
        usual, others = declared[1].decode(), []
        raw = content[declared.end() :]
    table, error = _tried(raw, usual, path)
    several = table is not None and table.num_columns > 1
    if several and not _stand_in(others, table.column_names):
        return with_types(table)
    fitting = _fitting(raw, others)
    if several and not fitting:
        return with_types(table)
    if several or len(fitting) > 1:
        listed = " and ".join(DELIMITERS[delimiter] for delimiter in fitting)
        raise InputError(f"Expected {DELIMITERS[usual]} between the columns of {path}, but {listed} fit too; use one.")
    if fitting:
        ((delimiter, table),) = fitting.items()
        notes.append(f"{path.name}: columns stand between {DELIMITERS[delimiter]}, not {DELIMITERS[usual]}.")
        return with_types(_named(table, path))
    if error is not None:
        raise _located(error, path)
    _check_single(table, usual, path)
    return with_types(table)


def _as_utf8(path: Path, encoding: str) -> bytes:
    raw = path.read_bytes()
    if encoding == "utf-8-sig":
        return raw
    return raw.decode(encoding).removeprefix("\ufeff").encode()


def _tried(raw: bytes, delimiter: str, path: Path) -> tuple[Any, Exception | None]:
    """The table that a delimiter gives, or why there is none."""
    import pyarrow as pa

    try:
        return _named(_parsed(raw, delimiter), path), None
    except (pa.ArrowException, _QuoteError) as error:
        return None, error


def _stand_in(delimiters: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a name of a column holds a delimiter."""
    all_names = "".join(names)
    return any(delimiter in all_names for delimiter in delimiters)


def _fitting(raw: bytes, delimiters: Iterable[str]) -> dict[str, Any]:
    """Delimiter -> table of those that give every row the same two or more columns."""
    import pyarrow as pa

    tables = {}
    for delimiter in delimiters:
        try:
            table = _parsed(raw, delimiter)
        except (pa.ArrowException, _QuoteError):
            continue
        if table.num_columns > 1 and table.num_rows:
            tables[delimiter] = table
    return tables


def _located(error: Exception, path: Path) -> Exception:
    """The error of quotes with its file and line; any other as it is."""
    if not isinstance(error, _QuoteError):
        return error
    return InputError(
        f"Expected texts in double quotes to end where their column ends, but the row on line {error.line} of "
        f"{path} has something behind a closing quote, or a quote that never closes; put texts that begin with a "
        f'quote in quotes, and write each quote inside them twice ("").'
    )


def _check_single(table: Any, usual: str, path: Path) -> None:
    """Raise where a table of one column seems to have several, between delimiters that do not fit or are not read."""
    (name,) = table.column_names or [""]
    inside = [title for delimiter, title in DELIMITERS.items() if delimiter in name]
    if inside:
        raise InputError(
            f"Expected {DELIMITERS[usual]} between the columns of {path}, but its first line is {name[:60]!r}, with "
            f"{inside[0]}, which not every row has as often; put texts that hold them in double quotes, or separate "
            f"the columns by {DELIMITERS[usual]}."
        )
    unread = _unread_delimiter(name, table.column(0))
    if unread:
        raise InputError(
            f"Expected columns between commas, tabs, semicolons or bars in {path}, but its first line is {name[:60]!r} "
            f"and {unread!r} stands in every row as often; separate the columns by {DELIMITERS[usual]}."
        )


def _unread_delimiter(name: str, column: Any) -> str | None:
    """What else could stand between columns: it stands in the first line, and in every row as often."""
    import pyarrow.compute as pc

    for candidate in dict.fromkeys(_UNREAD.findall(name)):
        counts = pc.count_substring(column, candidate)
        if pc.all(pc.equal(counts, name.count(candidate))).as_py() and len(column):
            return candidate
    return None


# names of columns


def _named(table: Any, path: Path) -> Any:
    """The table with names without blanks around them; columns at the end without a name or a value go.

    Raises:
        InputError: two columns of one name, or quotes behind a blank.
    """
    import pyarrow.compute as pc

    names = [name.strip().strip("\ufeff") for name in table.column_names]
    table = table.rename_columns(names)
    while table.num_columns > 1 and _is_bare(table.column_names[-1], table.column(-1)):
        table = table.remove_column(table.num_columns - 1)
    check_names(table.column_names, path)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if len(column) and pc.all(pc.match_substring_regex(column, _SPACED_QUOTES)).as_py():
            raise InputError(
                f"Expected quotes at the beginning of a column, but in column {name!r} of {path} a blank stands before "
                f"each; remove the blanks behind what separates the columns."
            )
    return table


def _is_bare(name: str, column: Any) -> bool:
    import pyarrow.compute as pc

    return not name and pc.all(pc.equal(column, "")).as_py()


def check_names(names: Sequence[str], path: Path) -> None:
    """Raise where two columns have one name."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"Expected columns of different names in {path}, but {name!r} stands twice; rename one.")


# parsing


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
    paired = all(line_of_file.count(b'"') % 2 == 0 for line_of_file in raw.splitlines())
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

    as_strings = dict.fromkeys(_names(raw, delimiter, quoted), pa.string())
    if not raw.endswith((b"\n", b"\r")):
        raw += b"\n"
    one_block = min(len(raw) + 1, 2**31 - 1)
    quote = '"' if quoted else False
    return arrow.read_csv(
        pa.BufferReader(raw),
        read_options=arrow.ReadOptions(use_threads=False, block_size=one_block),
        parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=quoted, quote_char=quote),
        convert_options=arrow.ConvertOptions(column_types=as_strings, strings_can_be_null=False),
    )


def _names(raw: bytes, delimiter: str, quoted: bool) -> list[str]:
    """The names in the first line that is not empty."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", errors="replace", newline="")
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        for row in csv.reader(lines, delimiter=delimiter, quoting=quoting):
            if row:
                return row
    except csv.Error:
        pass
    return []
