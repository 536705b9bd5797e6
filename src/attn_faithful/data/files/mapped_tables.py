"""Memory-mapped arrow tables: pages of large tables are reclaimed by the system under pressure."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attn_faithful._mapped import mapped

IN_MEMORY = 16 * 2**20  # bytes; larger parts of a table are mapped from disk
_PREFIX = "attn-faithful."  # of files in the temporary folder


class Spill:
    """Collects a table part by part; every `IN_MEMORY` bytes become a mapped file in the temporary folder.

    The files are unlinked once they are mapped, so nothing is left of them, however the process ends.

    Example:
        >>> spill = Spill()
        >>> for text in ("a", "b"):
        ...     spill.add(pa.table({"text": [text]}))
        >>> spill.table()["text"].to_pylist()
        ['a', 'b']
    """

    def __init__(self) -> None:
        self._on_disk: list[pa.Table] = []
        self._in_memory: list[pa.Table] = []
        self._size = 0

    def add(self, part: pa.Table) -> None:
        """Take further rows. Types may differ from part to part as far as arrow can promote one to the other."""
        self._in_memory.append(part)
        self._size += part.nbytes
        if self._size >= IN_MEMORY:
            self._on_disk.append(mapped_copy(_joined(self._in_memory)))
            self._in_memory = []
            self._size = 0

    @property
    def empty(self) -> bool:
        """Whether no part was taken."""
        return not self._on_disk and not self._in_memory

    def table(self) -> pa.Table:
        """All rows; columns that a part lacks are null there.

        Raises:
            pyarrow.ArrowInvalid, pyarrow.ArrowTypeError: columns of types that nothing unites.
        """
        return _joined([*self._on_disk, *self._in_memory])


def _joined(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive")


def mapped_copy(table: pa.Table) -> pa.Table:
    """The same rows as one chunk of a mapped file without a name."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
        return mapped(table, Path(folder) / "table.arrow")


def concatenated(chunks: list[Any]) -> np.ndarray:
    """The numbers of arrow arrays as one array: a view of a single chunk, else in memory if small, else on disk."""
    arrays = [chunk.to_numpy() for chunk in chunks]
    if len(arrays) == 1:
        return arrays[0]
    if sum(array.nbytes for array in arrays) < IN_MEMORY:
        return np.concatenate(arrays)
    length = sum(map(len, arrays))
    with tempfile.TemporaryFile(prefix=_PREFIX) as file:
        numbers = np.memmap(file, dtype=arrays[0].dtype, mode="w+", shape=(length,))
    start = 0
    for array in arrays:
        numbers[start : start + len(array)] = array
        start += len(array)
    return numbers
