"""Tables that lie on disk once they are large: what is read of them takes memory that the system may take back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attn_faithful._mapped import mapped

HELD = 16 * 2**20  # bytes of a table that are held in memory


class Spill:
    """Takes the parts of a table one after another and lays them on disk, in the temporary folder, `HELD` at a time.

    The files have no name any more once they are written, so that nothing is left of them whatever happens to the
    process.

    Example:
        >>> spill = Spill()
        >>> for text in ("a", "b"):
        ...     spill.add(pa.table({"text": [text]}))
        >>> spill.table()["text"].to_pylist()
        ['a', 'b']
    """

    def __init__(self) -> None:
        self._laid: list[pa.Table] = []
        self._parts: list[pa.Table] = []
        self._size = 0

    def add(self, part: pa.Table) -> None:
        """Take further rows. Types may differ from part to part as far as arrow can promote one to the other."""
        self._parts.append(part)
        self._size += part.nbytes
        if self._size >= HELD:
            self._laid.append(laid(_joined(self._parts)))
            self._parts, self._size = [], 0

    @property
    def empty(self) -> bool:
        """Whether no part was taken."""
        return not self._laid and not self._parts

    def table(self) -> pa.Table:
        """All rows; columns that a part lacks are null there.

        Raises:
            pyarrow.ArrowInvalid, pyarrow.ArrowTypeError: columns of types that nothing unites.
        """
        return _joined([*self._laid, *self._parts])


def _joined(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive")


def laid(table: pa.Table) -> pa.Table:
    """The same rows as one chunk of a mapped file without a name."""
    with tempfile.TemporaryDirectory(prefix="attn-faithful.", ignore_cleanup_errors=True) as folder:
        return mapped(table, Path(folder) / "table.arrow")


def flat(chunks: list[Any]) -> np.ndarray:
    """The numbers of some arrays of arrow end to end: a view of a single one, in memory if few, else on disk."""
    arrays = [chunk.to_numpy() for chunk in chunks]
    if len(arrays) == 1:
        return arrays[0]
    size = sum(array.nbytes for array in arrays)
    if size < HELD:
        return np.concatenate(arrays)
    with tempfile.TemporaryFile(prefix="attn-faithful.") as file:
        whole = np.memmap(file, dtype=arrays[0].dtype, mode="w+", shape=(sum(map(len, arrays)),))
    at = 0
    for array in arrays:
        whole[at : at + len(array)] = array
        at += len(array)
    return whole
