"""Files that are something else than their names say: archives, pages, pointers, tables of another program."""

from __future__ import annotations

from pathlib import Path

from attn_faithful._checks import InputError

_HEAD = 1024  # bytes that are looked at
_BEGINNINGS = {
    b"\x1f\x8b": "a gzip archive; unpack it first (gunzip)",
    b"BZh": "a bzip2 archive; unpack it first (bunzip2)",
    b"\xfd7zXZ": "an xz archive; unpack it first (unxz)",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it first (unzstd)",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save the sheet as csv",
    b"\xd0\xcf\x11\xe0": "a spreadsheet of an old program; save the sheet as csv",
    b"SQLite format 3": "a database; write its table as csv or parquet",
    b"version https://git-lfs": "a pointer of Git LFS in place of the data; fetch them first (git lfs pull)",
    b"<!doctype html": "a web page; download the file itself",
    b"<html": "a web page; download the file itself",
    b"<?xml": "XML; write its table as csv, jsonl or parquet",
    b"PAR1": "a parquet file; name it .parquet",
    b'[{"': "JSON; name it .json",
    b'{"': "lines of JSON; name it .jsonl",
}
_OWN = {  # suffix -> what such a file begins with
    "parquet": (b"PAR1",),
    "json": (b'[{"', b'{"'),
    "jsonl": (b'[{"', b'{"'),
}
_INSTEAD = {
    "gz": "unpack it first (gunzip)",
    "zip": "unpack it first",
    "txt": "give the texts a first line 'text' and save them as csv, with double quotes around texts that hold commas",
    "ndjson": "name it .jsonl",
    "tab": "name it .tsv",
    "xls": "save the sheet as csv",
    "xlsx": "save the sheet as csv",
    "arrow": "write it as parquet, or give the folder of save_to_disk",
}


def check_holds(path: Path, suffix: str) -> None:
    """Raise where the first bytes of a file say that it is something else than its name says.

    Args:
        path: of the file.
        suffix: of its name, in small letters without the dot.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    plain = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    usual = _OWN.get(suffix, ())
    for beginning, what in _BEGINNINGS.items():
        if beginning in usual:
            continue
        if head.startswith(beginning) or plain.startswith(beginning.lower()):
            raise InputError(f"Expected a {suffix} file, but {path} holds {what}.")


def what_instead(suffix: str) -> str:
    """What to do with a file of another kind than are read; nothing where that is not known."""
    return f"; {_INSTEAD[suffix]}" if suffix in _INSTEAD else ""
