"""Rows that a file of JSON holds, as one list or as an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.files.mapped_tables import Spill

BATCH_ROWS = 10_000  # rows that are read at once


def read_json(path: Path, encoding: str, notes: list[str]) -> Any:
    """An arrow table of a JSON list, or of lines of JSON, which are read batch by batch where their types agree."""
    import pyarrow as pa

    if _first_character(path, encoding) == "[":
        return _as_table(_json_list(path, encoding), path, 0, notes)
    spill = Spill()
    lines = _json_lines(path, encoding)
    first_row = 0
    batch_notes: list[str] = []
    try:
        while batch := list(islice(lines, BATCH_ROWS)):
            spill.add(_as_table(batch, path, first_row, batch_notes))
            first_row += len(batch)
        table = pa.table({}) if spill.empty else spill.table()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column that mixes kinds is told apart as a whole
        return _as_table(list(_json_lines(path, encoding)), path, 0, notes)
    notes.extend(dict.fromkeys(batch_notes))
    return table


def _first_character(path: Path, encoding: str) -> str:
    with path.open(encoding=encoding, newline="\n") as lines:
        for line in lines:
            if line.strip():
                return line.lstrip()[:1]
    return ""


def _json_list(path: Path, encoding: str) -> list[Any]:
    try:
        return json.loads(path.read_text(encoding=encoding), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected a JSON list in {path}, but it cannot be read: {error}.") from error


def _json_lines(path: Path, encoding: str) -> Iterator[Any]:
    with path.open(encoding=encoding, newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield json.loads(line, object_pairs_hook=_object)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"Expected a JSON object on line {number} of {path}, but: {error}.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one that has a key twice is an error."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in an object")
    return members


def _as_table(rows: list[Any], path: Path, first_row: int, notes: list[str]) -> Any:
    """Rows as columns; numbers and texts in one column become texts, which is noted.

    Args:
        rows: JSON objects.
        path: of the file, for messages.
        first_row: the number of the first row, for messages.
        notes: gets which columns mix kinds.
    """
    import pyarrow as pa

    for number, row in enumerate(rows, start=first_row):
        if not isinstance(row, dict):
            raise InputError(f"Expected a JSON object in row {number} of {path}, but got {row!r:.60}.")
    columns = {}
    try:
        for name in dict.fromkeys(chain.from_iterable(rows)):
            values = [row.get(name) for row in rows]
            columns[name] = _as_column(values, name, path, notes)
        return pa.table(columns)
    except UnicodeEncodeError as error:  # of a value or a name
        raise InputError(unwritable(rows, path, first_row)) from error


def _as_column(values: list[Any], name: str, path: Path, notes: list[str]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        if any(isinstance(value, list | dict) for value in values):
            raise InputError(f"Expected one kind of value in column {name!r} of {path}, but it mixes kinds.") from None
    notes.append(f"{path.name}: the column {name!r} mixes texts and numbers; all are taken as texts.")
    return pa.array([None if value is None else str(value) for value in values])


def unwritable(rows: Iterable[Any], where: Any, first_row: int) -> str:
    """The message about a lone surrogate: half a character, which no encoding can write.

    Args:
        rows: texts, or mappings of columns.
        where: they come from.
        first_row: the number of the first row.
    """
    for number, row in enumerate(rows, start=first_row):
        for text in _strings(row):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                half = ascii(text[error.start])
                return (
                    f"Expected texts in Unicode, but row {number} of {where} holds {half}, half a character; mend it."
                )
    return f"Expected Unicode, but {where} holds half a character (a lone surrogate); mend that text."


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value, keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _strings(pair)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
