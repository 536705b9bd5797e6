"""Double quotes in tables as text: whether each that opens a text closes it, so that no row is read as another."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 2**31 - 1  # characters of a text; the module csv stops at 131,072


def unclosed(raw: bytes, delimiter: str) -> int | None:
    """The line on which the first row begins that has something behind a closing quote, or a quote that never closes.

    Such a row was written in another way (``\\"`` for a quote inside a text, or quotes that are part of it), and where
    one is read all the same, quotes are lost or whole rows become part of a text.

    Args:
        raw: UTF-8.
        delimiter: between the columns.

    Returns:
        The line, from 1; None where all rows are well quoted.

    Example:
        >>> unclosed(b'text,label\\n"so ""good"" a film",pos\\n"Bad" film,neg\\n', ",")
        3
        >>> unclosed(b'text,label\\na 5" screen,pos\\n', ",") is None
        True
    """
    if b'"' not in raw:
        return None
    without_null = io.BytesIO(raw.replace(b"\0", b" "))
    lines = io.TextIOWrapper(without_null, encoding="utf-8-sig", errors="replace", newline="")
    first_line = 1
    with _any_length():
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            for _ in reader:
                first_line = reader.line_num + 1
        except csv.Error:
            return first_line
    return None


@contextmanager
def _any_length() -> Iterator[None]:
    limit = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
