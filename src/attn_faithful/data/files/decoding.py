"""How the bytes of a source become text: the encoding of a file, and columns that hold bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError

_BYTE_ORDER_MARKS = (  # those of UTF-32 begin with those of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEAD = 4096  # bytes that are looked at for a mark
_CHUNK = 2**20  # bytes that are checked at once
_HOW = (
    "say how it is written with data.encoding (--set data.encoding=cp1252, or encoding='cp1252' in Python; cp1252 and "
    "latin-1 are usual in the West, cp1251, gb18030, shift_jis and euc-kr elsewhere), or save it as UTF-8"
)


# the encoding of a file


def check_encoding(name: str) -> None:
    """Raise where there is no text encoding of that name."""
    try:
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(
            f"Expected data.encoding to be an encoding such as utf-8, cp1252 or utf-16, but got {name!r}."
        ) from None


def encoding_of(path: Path, encoding: str | None) -> str:
    """The encoding of a text file: the one in the settings, that of its byte order mark, or UTF-8.

    Raises:
        InputError: the file is not in it, with the line and the byte where it is not.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if encoding is None:
        name = _marked(head)
    else:
        check_encoding(encoding)
        name = encoding
    if codecs.lookup(name).name == "utf-8":
        name = "utf-8-sig"
    if encoding is None and name == "utf-8-sig" and head.count(0) > len(head) / 4:
        raise InputError(f"Expected UTF-8 in {path}, but every other byte is 0, as in UTF-16; {_HOW}.")
    _check_bytes(path, name, encoding or "UTF-8")
    return name


def _marked(head: bytes) -> str:
    """The encoding that a byte order mark says; UTF-8 without one."""
    for mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name
    return "utf-8-sig"


def _check_bytes(path: Path, encoding: str, title: str) -> None:
    """Raise at the first byte that the encoding does not know."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, offset = 1, 0
    for chunk in _chunks(path):
        pending = len(decoder.getstate()[0])  # bytes of a character that the chunk before cut off
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, errors="ignore")
            tail = before.splitlines()[-1][-20:] if before.strip() else ""
            line += before.count("\n")
            place = offset - pending + error.start
            byte = error.object[error.start]
            raise InputError(
                f"Expected {title} in {path}, but line {line} has the byte 0x{byte:02x} (byte {place} of the file, "
                f"from 0) behind {tail!r}; {_HOW}."
            ) from None
        line += text.count("\n")
        offset += len(chunk)


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file chunk by chunk, and an empty chunk at its end."""
    with path.open("rb") as file:
        while True:
            chunk = file.read(_CHUNK)
            yield chunk
            if not chunk:
                return


# columns that hold bytes


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

    text_features = {}
    for name, feature in rows.features.items():
        as_text = _as_text(feature)
        if as_text is not None:
            text_features[name] = as_text
        if isinstance(feature, datasets.Value) and "string" in feature.dtype:
            try:
                rows.data.column(name).validate(full=True)
            except pa.ArrowInvalid as error:
                raise _bad_column(rows, name, where) from error
    if not text_features:
        return rows
    features = datasets.Features({**rows.features, **text_features})
    table = rows.with_format("arrow")[:]
    for name in text_features:
        kind = features.arrow_schema.field(name).type
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowInvalid as error:
            raise _bad_column(rows, name, where) from error
        table = table.set_column(table.column_names.index(name), name, column)
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


def _bad_column(rows: Any, name: str, where: str) -> InputError:
    row, value = _bad_row(rows, name)
    return InputError(
        f"Expected UTF-8 in column {name!r} of {where}, but row {row} holds the bytes {value[:40]!r} (rows count from "
        f"0); decode the column and write the data again."
    )


def _bad_row(rows: Any, name: str) -> tuple[int, bytes]:
    """The first row of a column that is no UTF-8, and its bytes; row 0 where none is found."""
    import pyarrow as pa

    column = rows.with_format("arrow").select_columns([name])[:].column(name)
    if not pa.types.is_nested(column.type):
        kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        column = column.cast(kind)
    for row, value in enumerate(column.to_pylist()):
        items = value if isinstance(value, list) else [value]
        for item in items:
            try:
                (item or b"").decode("utf-8")
            except UnicodeDecodeError:
                return row, item
    return 0, b""
