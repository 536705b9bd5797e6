"""How the bytes of a source become text: the encoding of a file, and columns that hold bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError

_MARKS = (  # byte order marks; those of UTF-32 begin with those of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PART = 2**20  # bytes that are checked at once
_HOW = (
    "say how it is written with data.encoding (--set data.encoding=cp1252, or encoding='cp1252' in Python; cp1252 and "
    "latin-1 are usual in the West, cp1251, gb18030, shift_jis and euc-kr elsewhere), or save it as UTF-8"
)


def check_encoding(name: str | None) -> str | None:
    """The name, unless there is no such encoding of text."""
    if name is None:
        return None
    try:
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(
            f"Expected data.encoding to be an encoding such as utf-8, cp1252 or utf-16, but got {name!r}."
        ) from None
    return name


def encoding_of(path: Path, asked: str | None) -> str:
    """The encoding of a text file: the one that was asked for, that of its byte order mark, or UTF-8.

    Raises:
        InputError: the file is not in it, with the line and the byte where it is not.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    found = check_encoding(asked)
    if found is None:
        found = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8-sig")
    if codecs.lookup(found).name == "utf-8":
        found = "utf-8-sig"
    if asked is None and found == "utf-8-sig" and head.count(0) > len(head) / 4:
        raise InputError(f"Expected UTF-8 in {path}, but every other byte is 0, as in UTF-16; {_HOW}.")
    _check_bytes(path, found, asked)
    return found


def _check_bytes(path: Path, encoding: str, asked: str | None) -> None:
    """Raise at the first byte that the encoding does not know."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, done = 1, 0
    for part in (*_parts(path), b""):
        waiting = len(decoder.getstate()[0])
        try:
            line += decoder.decode(part, final=not part).count("\n")
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, errors="ignore")
            byte = error.object[error.start]
            raise InputError(
                f"Expected {asked or 'UTF-8'} in {path}, but line {line + before.count(chr(10))} has the byte "
                f"0x{byte:02x} (byte {done - waiting + error.start} of the file, from 0) behind "
                f"{before.splitlines()[-1][-20:] if before.strip() else ''!r}; {_HOW}."
            ) from None
        done += len(part)


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield part


def decoded(rows: Any, where: str) -> Any:
    """A data set whose columns of bytes are texts, and whose texts are UTF-8.

    Args:
        rows: a datasets.Dataset.
        where: for messages.

    Raises:
        InputError: bytes that are no UTF-8, with the column and the row.
    """
    import datasets
    import pyarrow as pa

    texts = {name: _as_text(feature) for name, feature in rows.features.items()}
    told = {name: feature for name, feature in texts.items() if feature is not None}
    for name, feature in rows.features.items():
        if isinstance(feature, datasets.Value) and "string" in feature.dtype:
            try:
                rows.data.column(name).validate(full=True)
            except pa.ArrowInvalid as error:
                raise _bad_column(rows, name, where) from error
    if not told:
        return rows
    features = datasets.Features({**rows.features, **told})
    table = rows.with_format("arrow")[:]
    for name in told:
        place, kind = table.column_names.index(name), features.arrow_schema.field(name).type
        try:
            table = table.set_column(place, name, table.column(name).cast(kind))
        except pa.ArrowInvalid as error:
            raise _bad_column(rows, name, where) from error
    return datasets.Dataset(table, info=datasets.DatasetInfo(features=features))


def _as_text(feature: Any) -> Any:
    """The feature of texts in place of one of bytes, also in lists; None for any other."""
    import datasets

    if isinstance(feature, datasets.Value) and feature.dtype in ("binary", "large_binary"):
        return datasets.Value(feature.dtype.replace("binary", "string"))
    if isinstance(feature, datasets.List | datasets.LargeList):
        inner = _as_text(feature.feature)
        return None if inner is None else type(feature)(inner)
    return None


def _bad_row(rows: Any, name: str) -> tuple[int, bytes] | None:
    """The first row of a column that is no UTF-8, and its bytes."""
    import pyarrow as pa

    column = rows.with_format("arrow").select_columns([name])[:].column(name)
    kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    if not pa.types.is_nested(column.type):
        column = column.cast(kind)
    for row, value in enumerate(column.to_pylist()):
        for item in value if isinstance(value, list) else [value]:
            try:
                (item or b"").decode("utf-8")
            except UnicodeDecodeError:
                return row, item
    return None


def _bad_column(rows: Any, name: str, where: str) -> InputError:
    found = _bad_row(rows, name)
    row, value = found if found is not None else (0, b"")
    return InputError(
        f"Expected UTF-8 in column {name!r} of {where}, but row {row} holds the bytes {value[:40]!r} (rows count from "
        f"0); decode the column and write the data again."
    )
