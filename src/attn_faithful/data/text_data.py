"""Texts and labels in one form, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attn_faithful._checks import check_choice
from attn_faithful.data.split_table import SplitTable
from attn_faithful.schema import MARKS

if TYPE_CHECKING:
    import datasets

_IN_FINGERPRINT = ("text", "label", "query", "candidates", *MARKS)


@dataclass
class TextData:
    """Texts and labels in one form.

    Attributes:
        name: a short slug for folders and tables.
        splits: data sets with ``example`` (an id that is unique over all splits: split and row of the source),
            ``text``, ``label`` (index into ``label_names``, -1 where unknown; a list of 0 and 1 where a text may have
            several) and the list columns of the source, such as ``informative``. Pairs have ``query``, the text that
            asks (a question, a hypothesis), and, where the source names them, ``candidates``: 1 for each class that
            may be the answer. Where a rationale is asked for, ``rationale`` has one 0 or 1 a white-space word of the
            text, and only the splits that say so have it; ``impermissible`` likewise.
        label_names: the classes in the order of their indices.
        pre_tokenizer: ``whitespace`` where the texts are tokens joined by spaces, else ``words``.
        notes: what a reader of the results should know: rows dropped, splits made, texts in both train and test.
        fingerprint: sha256 over label names, texts, queries, candidates, labels and marks, the same in every process.
        rows: split -> the place of each of its texts in the source.
        single: the source was one table.
        shortened: texts of these splits were left out, by a limit or because the model was trained on them.
    """

    name: str
    splits: dict[str, datasets.Dataset]
    label_names: list[str]
    pre_tokenizer: str
    notes: list[str] = field(default_factory=list)
    fingerprint: str = ""
    rows: dict[str, list[int]] = field(default_factory=dict)
    single: bool = False
    shortened: bool = False

    def class_counts(self, split: str) -> dict[str, int]:
        """Texts of each class in a split, every class named; texts without a label are not counted.

        Raises:
            InputError: for a split that is not there.
        """
        labels = self.splits[check_choice("split", split, self.splits)]["label"][:]
        if labels and isinstance(labels[0], list):  # 0 and 1 for each class
            counts_in_order = map(sum, zip(*labels, strict=True))
            return dict(zip(self.label_names, counts_in_order, strict=True))
        counts = Counter(labels)
        return {name: counts[i] for i, name in enumerate(self.label_names)}


def fingerprint(label_names: Sequence[str], tables: Mapping[str, SplitTable]) -> str:
    """The sha256 over label names, texts, queries, candidates, labels and marks."""
    digest = hashlib.sha256(json.dumps(list(label_names)).encode())
    for split, table in tables.items():
        columns = table.columns
        hashed = [columns[name] for name in _IN_FINGERPRINT if name in columns]
        for values in zip(*hashed, strict=True):
            digest.update(json.dumps([split, *values]).encode())
    return digest.hexdigest()
