"""Rows that a file of JSON holds, as one list or as an object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.mapped_tables import Spill

TOGETHER = 10_000  # rows that are read at once


def read_json(path: Path, encoding: str, notes: list[str]) -> Any:
    """A JSON list, or lines of JSON, which are read some at a time where their types agree."""
    import pyarrow as pa

    with path.open(encoding=encoding, newline="\n") as lines:
        first = next((line.lstrip()[:1] for line in lines if line.strip()), "")
    if first == "[":
        try:
            rows = json.loads(path.read_text(encoding=encoding), object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise InputError(f"Expected a JSON list in {path}, but it cannot be read: {error}.") from error
        return _as_table(rows, path, 0, notes)
    spill, lines_read, read = Spill(), _json_lines(path, encoding), 0
    told: list[str] = []
    try:
        while some := list(islice(lines_read, TOGETHER)):
            spill.add(_as_table(some, path, read, told))
            read += len(some)
        table = pa.table({}) if spill.empty else spill.table()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column that mixes kinds is told apart as a whole
        return _as_table(list(_json_lines(path, encoding)), path, 0, notes)
    notes.extend(dict.fromkeys(told))
    return table


def _json_lines(path: Path, encoding: str) -> Iterator[Any]:
    with path.open(encoding=encoding, newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield json.loads(line, object_pairs_hook=_object)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"Expected a JSON object on line {number} of {path}, but: {error}.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one that says something twice is an error."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return found


def _as_table(rows: list[Any], path: Path, first: int, notes: list[str]) -> Any:
    """Rows as columns; numbers and texts in one column are texts, which is told.

    Args:
        first: the number of the first row, for messages.
    """
    import pyarrow as pa

    for number, row in enumerate(rows, start=first):
        if not isinstance(row, dict):
            raise InputError(f"Expected a JSON object in row {number} of {path}, but got {row!r:.60}.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except UnicodeEncodeError as error:
            raise InputError(unwritable(rows, path, first)) from error
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            if any(isinstance(value, (list, dict)) for value in values):
                raise InputError(
                    f"Expected one kind of value in column {name!r} of {path}, but it mixes kinds."
                ) from None
            columns[name] = pa.array([None if value is None else str(value) for value in values])
            notes.append(f"{path.name}: the column {name!r} mixes texts and numbers; all are taken as texts.")
    try:
        return pa.table(columns)
    except UnicodeEncodeError as error:  # of a name
        raise InputError(unwritable(rows, path, first)) from error


def unwritable(rows: Iterable[Any], where: Any, first: int) -> str:
    """Which row holds a lone surrogate: half a character, which no encoding can write.

    Args:
        rows: texts, or mappings of columns.
        where: they come from.
        first: the number of the first row.
    """
    for number, row in enumerate(rows, start=first):
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
