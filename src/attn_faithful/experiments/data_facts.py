"""Facts of the texts of a run: classes, lengths and what was left out, for meta.json and for ``check``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData
from attn_faithful.records.meta import DataFacts

_READ = ("input_ids", "query_input_ids")  # what a model reads of a text or a pair


def data_facts(texts: TextData, rows: Mapping[str, Rows], tokenizer: Any, **facts: Any) -> DataFacts:
    """The facts of a data set and of some of its splits.

    Args:
        texts: the data set.
        rows: split -> its texts, encoded.
        tokenizer: that encoded them.
        facts: further fields of `DataFacts`.
    """
    return DataFacts(
        fingerprint=texts.fingerprint,
        notes=list(texts.notes),
        splits={split: split_facts(texts, split, encoded) for split, encoded in rows.items()},
        vocabulary=len(tokenizer),
        **facts,
    )


def split_facts(texts: TextData, split: str, rows: Rows) -> dict[str, Any]:
    """Classes and lengths of one split; means and deviations are None where it is empty."""
    lengths = np.asarray(rows.lengths)
    facts = {
        "n": len(rows),
        "classes": texts.class_counts(split),
        **_spread("tokens", lengths),
        "truncated": int(np.sum(rows["truncated"])),
        "empty": int((lengths == 0).sum()),
        "distinct": _distinct(rows),
    }
    if "n_sentences" in rows.column_names:
        facts |= _spread("sentences", np.asarray(rows["n_sentences"], dtype=float))
    if "query_input_ids" in rows.column_names:
        query_lengths = np.asarray(list(map(len, rows["query_input_ids"])))
        facts |= {
            **_spread("query_tokens", query_lengths),
            "query_truncated": int(np.sum(rows["query_truncated"])),
            "query_empty": int((query_lengths == 0).sum()),
        }
    return facts


def _spread(name: str, counts: np.ndarray) -> dict[str, float | None]:
    if not len(counts):
        return {f"{name}_mean": None, f"{name}_std": None}
    return {f"{name}_mean": float(counts.mean()), f"{name}_std": float(counts.std())}


def _distinct(rows: Rows) -> int:
    """Different texts, of pairs different pairs, as the model reads them."""
    columns = [rows[name] for name in _READ if name in rows.column_names]
    seen = set()
    for text in zip(*columns, strict=True):
        ids = repr([list(part) for part in text])
        seen.add(hashlib.blake2b(ids.encode(), digest_size=16).digest())
    return len(seen)
