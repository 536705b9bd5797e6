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
from attn_faithful.data.split_table import SplitTable
from attn_faithful.data.text_column import Texts

FILE = "training_texts.parquet"  # beside the weights
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
            split_prints = fingerprints(Texts.of(data, "text"), queries)
            prints.append(split_prints)
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
            prints = table.column("print").to_numpy()
            parts = table.column("part").to_numpy()
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
        parts_of: dict[int, list[int]] = defaultdict(list)
        for fingerprint, part in zip(self.prints.tolist(), self.parts.tolist(), strict=True):
            parts_of[fingerprint].append(part)
        copies: Counter[int] = Counter()
        used = []
        for fingerprint in fingerprints(texts, queries).tolist():
            parts = parts_of.get(fingerprint, [])
            copy = copies[fingerprint]
            copies[fingerprint] += 1
            if self.single and copy < len(parts):
                used.append(parts[copy] != PARTS.index("test"))
            else:
                used.append(any(parts))
        return np.asarray(used, dtype=bool)


def fingerprints(texts: Iterable[str], queries: Iterable[str] | None = None) -> np.ndarray:
    """Of each text, or text and query: (n,) uint64; the same whatever its capitals, blanks and form of Unicode."""
    contents = zip(texts) if queries is None else zip(texts, queries, strict=True)
    prints = []
    for content in contents:
        plain = "\x1f".join(map(_plain, content))
        digest = hashlib.blake2b(plain.encode(), digest_size=8).digest()
        prints.append(int.from_bytes(digest, "little"))
    return np.asarray(prints, dtype=np.uint64)


def _plain(text: str) -> str:
    return " ".join(normalize("NFC", text).casefold().split())


def without_seen(
    tables: Mapping[str, SplitTable], tested: Sequence[str], leave_out: bool, notes: list[str]
) -> dict[str, SplitTable]:
    """Tables without the texts that a model was trained on, or all of them; which it is, is noted.

    Args:
        tables: a split each; their column ``seen`` says which texts those are.
        tested: the splits that this is asked of.
        leave_out: leave them out.
        notes: gets what was done.

    Raises:
        InputError: no text is left.
    """
    without = dict(tables)
    for split, table in tables.items():
        seen = np.asarray(table.seen, dtype=bool)
        n_seen, total = int(seen.sum()), len(seen)
        if split not in tested or not n_seen:
            continue
        if leave_out:
            if n_seen == total:
                raise InputError(
                    f"Expected texts that the model was not trained on, but it was trained on all {total} of "
                    f"{split!r}; give other texts, or keep these with data.seen=keep (--set data.seen=keep)."
                )
            without[split] = table.take(np.flatnonzero(~seen).tolist())
            notes.append(
                f"{split}: {n_seen} of {total} texts left out, as the model was trained on them or its epoch chosen by "
                f"them (data.seen=keep keeps them)."
            )
        elif total == 1:
            notes.append(f"{CAUTION}: the model was trained on this text, or its epoch chosen by it.")
        else:
            notes.append(
                f"{CAUTION}: the model was trained on {n_seen} of these {total} texts ({split}), or its epoch chosen "
                f"by them; on such texts it looks better than it is (data.seen=leave_out leaves them out)."
            )
    return without
