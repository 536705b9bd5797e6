"""The sha256 of files, and how a folder differs from the digests that were written down of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attn_faithful._checks import InputError

MISSING, CHANGED, EXTRA = "missing", "changed", "extra"

_CHUNK = 2**20  # bytes that are read at once


def digest_of_file(path: str | Path) -> str:
    """The sha256 of a file's content, in hexadecimal digits.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> _ = path.write_bytes(b"abc")
        >>> digest_of_file(path)[:16]
        'ba7816bf8f01cfea'
    """
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True)
class DigestFault:
    """A file that is not as it was written down.

    Attributes:
        file: its path below the folder, with "/".
        fault: "missing", "changed" (its sha256 is another), or "extra" (it is in the folder and not written down).
    """

    file: str
    fault: str

    def __str__(self) -> str:
        return f"{self.file} is {self.fault}"


def check_digests(folder: str | Path, sha256: Mapping[str, str]) -> list[DigestFault]:
    """How the files in a folder and below it differ from those that were written down.

    Args:
        folder: looked through with all folders in it.
        sha256: file, as its path below the folder with "/" -> digest. A path that leads out of the folder is missing.

    Returns:
        the faults, sorted by file; [] where all is as it was. Hidden files are never extra.

    Raises:
        OSError: a file cannot be read.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_bytes(b"abc")
        >>> print(*check_digests(folder, {"a.txt": "0" * 64, "b.txt": "0" * 64}), sep=", ")
        a.txt is changed, b.txt is missing
    """
    root = Path(folder)
    present = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    faults = []
    for file in sorted(present | sha256.keys()):
        if file not in present:
            faults.append(DigestFault(file, MISSING))
        elif file in sha256:
            if digest_of_file(root / file) != sha256[file]:
                faults.append(DigestFault(file, CHANGED))
        elif not _is_hidden(file):
            faults.append(DigestFault(file, EXTRA))
    return faults


def _is_hidden(file: str) -> bool:
    return any(part.startswith(".") for part in file.split("/"))


def refuse_faults(folder: str | Path, faults: Sequence[DigestFault], do: str) -> None:
    """Raise if there are faults, with the first of them and how many there are.

    Args:
        folder: in which they were found.
        faults: of `check_digests`.
        do: what to do about them, as the end of a sentence.

    Raises:
        InputError: there are faults.
    """
    if not faults:
        return
    others = len(faults) - 1
    more = f", and {others} more" if others else ""
    raise InputError(f"{folder} is not what its manifest says ({faults[0]}{more}); {do}.")
