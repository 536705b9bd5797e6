"""Which texts a model was trained on: fingerprints beside its weights, and how they are found in other data."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.data.splits import take
from attn_faithful.data.text_column import Texts

FILE = "training_texts.parquet"  # beside the weights
SEEN = "\x1fseen"  # of a table: whether a model was trained on the text
CAUTION = "CAUTION"  # begins what is told of texts that a model was trained on
PARTS = ("test", "train", "validation")


@dataclass(frozen=True)
class TrainingTexts:
    """Fingerprints of the texts of a data set, and what a run used each for.

    No text can be read from them, though whoever has a text can find out whether it is there.

    Attributes:
        prints: (n,) uint64, 64 bits of BLAKE2b of a text and, of pairs, its query, in the order of the source.
        parts: (n,) uint8, places in `PARTS`; a validation text is used too, as epochs are chosen by it.
        single: all splits were cut out of one table.
    """

    prints: np.ndarray
    parts: np.ndarray
    single: bool

    @classmethod
    def of(cls, splits: Mapping[str, Any], rows: Mapping[str, Sequence[int]], single: bool) -> TrainingTexts:
        """Those of a data set.

        Args:
            splits: data sets with ``text`` and perhaps ``query``.
            rows: split -> the place of each of its texts in the source.
            single: the source is one table.
        """
        prints, parts, places = [], [], []
        for split, data in splits.items():
            queries = Texts.of(data, "query") if "query" in data.column_names else None
            prints.append(fingerprints(Texts.of(data, "text"), queries))
            parts.append(np.full(len(data), PARTS.index(split), dtype=np.uint8))
            places.append(np.asarray(rows[split], dtype=np.int64))
        order = np.argsort(np.concatenate(places), kind="stable")
        return cls(np.concatenate(prints)[order], np.concatenate(parts)[order], single)

    def save(self, folder: Path) -> None:
        """Write them beside a model."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"print": self.prints, "part": self.parts})
        pq.write_table(table.replace_schema_metadata({"single": json.dumps(self.single)}), folder / FILE)

    @classmethod
    def read(cls, path: Path) -> TrainingTexts:
        """Those of a file.

        Raises:
            InputError: a file of something else.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        damaged = f"{path} is damaged; remove it, and no text counts as trained on"
        try:
            table = pq.read_table(path)
            prints, parts = (table.column(name).to_numpy() for name in ("print", "part"))
            single = bool(json.loads(table.schema.metadata[b"single"]))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise InputError(f"{damaged} ({error}).") from error
        if prints.dtype != np.uint64 or parts.dtype != np.uint8 or (parts >= len(PARTS)).any():
            raise InputError(f"{damaged}.")
        return cls(prints, parts, single)

    def used(self, texts: Iterable[str], queries: Iterable[str] | None = None) -> np.ndarray:
        """Which of the texts of a table the model was trained on, or its epoch chosen by: (n,) bool.

        A text that stands there several times is told apart by the order of its copies, so that the table that a run
        was cut from falls into the same parts again. Of another source, a text is used where any copy was.
        """
        parts: dict[int, list[int]] = defaultdict(list)
        for fingerprint, part in zip(self.prints.tolist(), self.parts.tolist(), strict=True):
            parts[fingerprint].append(part)
        copies: Counter[int] = Counter()
        marks = []
        for fingerprint in fingerprints(texts, queries).tolist():
            known = parts.get(fingerprint, [])
            copy = copies[fingerprint]
            copies[fingerprint] += 1
            same = self.single and copy < len(known)
            marks.append(known[copy] > 0 if same else any(known))
        return np.asarray(marks, dtype=bool)


def fingerprints(texts: Iterable[str], queries: Iterable[str] | None = None) -> np.ndarray:
    """Of each text, or text and query: (n,) uint64; the same whatever its capitals, blanks and form of Unicode."""
    said = zip(texts) if queries is None else zip(texts, queries, strict=True)
    digests = [hashlib.blake2b("\x1f".join(map(_plain, parts)).encode(), digest_size=8).digest() for parts in said]
    return np.asarray([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def _plain(text: str) -> str:
    return " ".join(normalize("NFC", text).casefold().split())


def without_seen(
    tables: dict[str, dict[str, Sequence[Any]]], tested: Sequence[str], leave_out: bool, notes: list[str]
) -> dict[str, dict[str, Sequence[Any]]]:
    """Tables without the texts that a model was trained on, or all of them; which it is, is told.

    Args:
        tables: a split each; their column `SEEN` says which texts those are, and is gone afterwards.
        tested: the splits that this is asked of.
        leave_out: leave them out.
        notes: gets what was done.

    Raises:
        InputError: no text is left.
    """
    kept = {}
    for split, given in tables.items():
        table = {name: values for name, values in given.items() if name != SEEN}
        marks = np.asarray(given[SEEN], dtype=bool) & (split in tested)
        count, total = int(marks.sum()), len(marks)
        kept[split] = table
        if count and leave_out:
            if count == total:
                raise InputError(
                    f"Expected texts that the model was not trained on, but it was trained on all {total} of "
                    f"{split!r}; give other texts, or keep these with data.seen=keep (--set data.seen=keep)."
                )
            kept[split] = take(table, np.flatnonzero(~marks).tolist())
            notes.append(
                f"{split}: {count} of {total} texts left out, as the model was trained on them or its epoch chosen by "
                f"them (data.seen=keep keeps them)."
            )
        elif count and total == 1:
            notes.append(f"{CAUTION}: the model was trained on this text, or its epoch chosen by it.")
        elif count:
            notes.append(
                f"{CAUTION}: the model was trained on {count} of these {total} texts ({split}), or its epoch chosen by "
                f"them; on such texts it looks better than it is (data.seen=leave_out leaves them out)."
            )
    return kept
