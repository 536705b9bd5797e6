"""From a split as a source has it to its texts, labels and lists, without the rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful._checks import Faults, InputError
from attn_faithful.data.columns import Columns, list_columns
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.impermissible import has_marks, impermissible_words
from attn_faithful.data.label_map import DROPPED, MISSING, LabelMap, label_notes
from attn_faithful.data.rationales import SplitTexts, says, word_rationales
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.split_table import SplitTable
from attn_faithful.data.text_column import Texts, column_values, values_at
from attn_faithful.schema import IMPERMISSIBLE, RATIONALE

_FEW = 4  # texts; a few that are empty may be what is asked about
_ID_COLUMNS = ("example", "id")


@dataclass(frozen=True)
class SplitReader:
    """Reads the splits of one source.

    Attributes:
        raw: the source; its notes get what was left out.
        columns: of the source.
        label_map: from its labels to indices.
        settings: of the data set.
        purpose: "train" or "evaluate".
        faults: where faults of rows go.
    """

    raw: Raw
    columns: Columns
    label_map: LabelMap
    settings: DataSettings
    purpose: str
    faults: Faults

    def read(self, split: str) -> SplitTable:
        """The texts of a split with labels as indices; rows that keep and drop leave out are gone."""
        rows = self.raw.splits[split]
        self._check_columns(rows, split)
        texts = _texts(rows, self.columns.text)
        queries = candidates = None
        if self.columns.query is not None:
            queries = _texts(rows, self.columns.query)
        if self.columns.candidates is not None:
            candidates = column_values(rows, self.columns.candidates)
        empty = self._empty_rows(texts, queries, candidates)
        labels = self._labels(rows, split, len(texts))
        kept = self._kept(split, labels, empty)
        self._note_empty(texts, split)
        table = SplitTable(
            examples=self._ids(rows, split, kept),
            texts=values_at(texts, kept),
            labels=[labels[row] for row in kept],
            rows=kept,
        )
        if queries is not None:
            table.queries = values_at(queries, kept)
        if candidates is not None:
            candidates_of_kept = {row: candidates[row] for row in kept}
            table.candidates = self._candidates(rows, split, candidates_of_kept, labels)
        self._mark(table, rows, split, texts, labels)
        table.lists = self._lists(rows, table)
        return table

    def _check_columns(self, rows: Any, split: str) -> None:
        for column in (self.columns.text, self.columns.query, self.columns.candidates):
            if column is not None and column not in rows.column_names:
                listed = ", ".join(rows.column_names)
                raise InputError(f"Expected column {column!r} in every split, but split {split!r} has {listed}.")

    def _note(self, split: str, note: str) -> None:
        self.raw.notes.append(f"{split}: {note}")

    # labels, and which rows are kept

    def _labels(self, rows: Any, split: str, n: int) -> list[Any]:
        column = self.columns.label
        if column is not None and column in rows.column_names:
            values = column_values(rows, column)
            drop_none = self.settings.drop_none
            labels = self.label_map.encode(values, rows.features[column], split, drop_none, self.faults)
            self.raw.notes.extend(label_notes(values, labels, split))
            return labels
        if split in ("train", "all") and self.purpose == "train":
            error = InputError(
                f"Expected a label column in split {split!r} of {self.raw.name!r}, but its columns are "
                f"{', '.join(rows.column_names)}; name one with label_column."
            )
            self.faults.add(error, "no label column")
        elif column is not None:
            self._note(split, f"there is no column {column!r}, so no text of it has a label.")
        return [self.label_map.unknown] * n

    def _kept(self, split: str, labels: Sequence[Any], empty: dict[int, str]) -> list[int]:
        """The rows that have a text and a label that is not left out.

        Args:
            split: for messages.
            labels: of all rows.
            empty: row -> the column that holds nothing there.
        """
        kept = []
        n_missing = 0
        for row, label in enumerate(labels):
            if row in empty and not self.settings.drop_none:
                error = InputError(
                    f"Expected a value in column {empty[row]!r}, but row {row} of split {split!r} has none (rows count "
                    f"from 0); fill it or drop such rows (drop_none)."
                )
                self.faults.add(error, f"no text {split}")
            if row in empty or label is MISSING:
                n_missing += 1
            elif label is not DROPPED:
                kept.append(row)
        n_dropped = len(labels) - n_missing - len(kept)
        if self.faults.messages():  # the notes would count faults
            return kept
        if n_missing:
            self._note(split, f"{n_missing} rows without text or label dropped.")
        if n_dropped:
            self._note(split, f"{n_dropped} rows of other labels left out.")
        return kept

    def _empty_rows(
        self, texts: Sequence[Any], queries: Sequence[Any] | None, candidates: Sequence[Any] | None
    ) -> dict[int, str]:
        """Row -> the first column that holds nothing there."""
        names = (self.columns.text, self.columns.query, self.columns.candidates)
        empty: dict[int, str] = {}
        for name, values in zip(names, (texts, queries, candidates), strict=True):
            if name is not None and values is not None:
                for row in _nulls(values):
                    empty.setdefault(row, name)
        return empty

    def _note_empty(self, texts: Sequence[Any], split: str) -> None:
        """Note how many texts have nothing in them but blanks; a column of several such texts is a fault."""
        where = f"{self.columns.text!r} of split {split!r} of {self.raw.name!r}"
        n_blank = sum(isinstance(text, str) and not text.strip() for text in texts)
        if n_blank and n_blank == len(texts) > _FEW:
            error = InputError(f"Expected texts in column {where}, but all {n_blank} are empty; name another column.")
            self.faults.add(error)
        elif n_blank:
            self.raw.notes.append(f"{n_blank} of {len(texts)} texts in column {where} are empty.")

    # what is known of each kept row

    def _ids(self, rows: Any, split: str, kept: Sequence[int]) -> list[str]:
        """The source's own ids where it has a column ``example`` or ``id`` of different ones, else split and row."""
        for name in _ID_COLUMNS:
            if name not in rows.column_names:
                continue
            values = values_at(column_values(rows, name), kept)
            if all(isinstance(value, str | int) for value in values):
                ids = list(map(str, values))
                if len(set(ids)) == len(ids):
                    return ids
            self._note(split, f"the column {name!r} does not tell the texts apart, so they are named by their row.")
        return [f"{split}-{row}" for row in kept]

    def _candidates(
        self, rows: Any, split: str, candidates: dict[int, list[Any]], labels: Sequence[Any]
    ) -> list[list[int]]:
        feature = rows.features[self.columns.candidates]
        masks, n_unknown = self.label_map.encode_candidates(candidates, feature, labels, split)
        if n_unknown:
            self._note(split, f"{n_unknown} candidates left out that are no class.")
        return masks

    def _mark(
        self,
        table: SplitTable,
        rows: Any,
        split: str,
        texts: Sequence[Any],
        labels: Sequence[Any],
    ) -> None:
        """Add the marks that are asked for and that the split has."""
        rationale, impermissible = self.settings.rationale, self.settings.impermissible
        if rationale is None and impermissible is None:
            return
        split_texts = SplitTexts(
            read=lambda name: column_values(rows, name),
            texts=texts,
            examples=dict(zip(table.rows, table.examples, strict=True)),
            labels={row: self._label_name(labels[row]) for row in table.rows},
        )
        if rationale is not None:
            if says(rows, rationale):
                table.marks[RATIONALE] = word_rationales(rationale, split_texts)
                self._note_bare(split, table, RATIONALE, f"in the rationale {rationale!r}")
            else:
                self._note(split, f"nothing says what the rationale {rationale!r} is.")
        if impermissible is not None:
            if has_marks(rows, impermissible):
                table.marks[IMPERMISSIBLE] = impermissible_words(impermissible, split_texts)
                self._note_bare(split, table, IMPERMISSIBLE, "that is impermissible")
            else:
                self._note(
                    split, f"there is no column {impermissible!r}, so nothing says which words are impermissible."
                )

    def _note_bare(self, split: str, table: SplitTable, kind: str, of_what: str) -> None:
        """Note how many texts have no marked word."""
        n_bare = len(table) - sum(map(any, table.marks[kind]))
        if n_bare:
            self._note(split, f"{n_bare} of {len(table)} texts have no word {of_what}.")

    def _label_name(self, label: Any) -> str | None:
        """The class of a text; None where it has no single known one."""
        if isinstance(label, int) and label >= 0:
            return self.label_map.names[label]
        return None

    def _lists(self, rows: Any, table: SplitTable) -> dict[str, list[Any]]:
        """The further list columns of the source."""
        taken = {"example", "text", "label", "query", "candidates", self.columns.label, *table.marks}
        lists = {}
        for name in list_columns(rows.features):
            if name not in taken:
                values = column_values(rows, name)
                lists[name] = [values[row] for row in table.rows]
        return lists


def _texts(rows: Any, name: str) -> Sequence[Any]:
    """A column of texts as it is in arrow's memory; one that holds nothing but nulls as a list."""
    import pyarrow as pa

    texts = Texts.of(rows, name)
    kind = texts.column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return texts
    return column_values(rows, name)


def _nulls(values: Sequence[Any]) -> list[int]:
    if not isinstance(values, Texts):
        return [row for row, value in enumerate(values) if value is None]
    if not values.column.null_count:
        return []
    return np.flatnonzero(values.column.is_null().to_numpy()).tolist()
