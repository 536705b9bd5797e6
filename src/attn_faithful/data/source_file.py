"""A file of importance that was computed elsewhere, by our tokens or by places in the text, joined to our examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.data.files.tables import read_file
from attn_faithful.data.importance_file import importance_of, score_column
from attn_faithful.data.normalization import Span
from attn_faithful.data.span_scores import lay_scores

PLACES = ("starts", "ends")  # columns of a file that says where its tokens stand


@dataclass(frozen=True)
class SourceItems:
    """What importance from a file is joined to: the items of the examples of a data set.

    Attributes:
        examples: ids.
        texts: one an example, raw.
        tokens: the items of each, as they stand in the text.
        spans: (start, end) of each item; None for an example whose items have no known places.
        shortened: texts of the source were left out (`TextData.shortened`): a file may have rows of these too.
    """

    examples: Sequence[str]
    texts: Sequence[str]
    tokens: Sequence[Sequence[str]]
    spans: Sequence[Sequence[Span] | None]
    shortened: bool = False


@dataclass(frozen=True)
class SourceScores:
    """Importance from a file.

    Attributes:
        values: one list an example over its items, NaN where the file has no score.
        n_missing: examples that the file lacks.
        notes: what did not fit, in sentences.
    """

    values: list[list[float]]
    n_missing: int
    notes: list[str]


def read_source_file(path: str | Path, items: SourceItems) -> SourceScores:
    """Importance of every item, from a parquet, csv, tsv, json or jsonl file.

    A file with lists ``starts`` and ``ends`` says where its tokens stand in the text, in characters: their scores are
    laid on our items, see `span_scores.lay_scores`. It names examples by ``example``, or by ``text``, where blanks at
    the end do not count: copies of a text have its rows in order, the last one for all others. Any other file is one of
    `importance_file.read_importance`. Where texts of the data set were left out, rows of other texts are left out too,
    and a note says how many.

    Args:
        path: of the file.
        items: of our examples.

    Raises:
        InputError: what is wrong with the file; the example or the text is named.
    """
    rows = read_file(Path(path))
    notes = []
    if items.shortened:
        tested = _of_tested(rows, items)
        n_left_out = len(rows) - len(tested)
        if len(tested) and n_left_out:  # of a file without any text that is tested the error says what it has
            rows = rows.select(tested)
            notes.append(f"{n_left_out} rows of {path} are of texts that are not tested here.")
    if all(name in rows.column_names for name in PLACES):
        given = _PlacedFile(path, rows.with_format(None)[:], rows.column_names, items).read()
        return replace(given, notes=[*notes, *given.notes])
    values, n_missing = importance_of(rows, path, items.examples, items.tokens)
    return SourceScores(values, n_missing, [*notes, *_missing_note(path, n_missing)])


def _of_tested(rows: Any, items: SourceItems) -> list[int]:
    """Places of the rows whose text is tested; all where the file names no text."""
    key = _key(rows.column_names)
    if key is None:
        return list(range(len(rows)))
    known = set(_our_keys(items, key))
    return [place for place, name in enumerate(rows[key]) if _spelt(name, key) in known]


def _key(names: Sequence[str]) -> str | None:
    """The column by which a file names its texts."""
    return next((name for name in ("example", "text") if name in names), None)


def _our_keys(items: SourceItems, key: str) -> list[str]:
    """The same of our texts."""
    ours = items.examples if key == "example" else items.texts
    return [_spelt(name, key) for name in ours]


def _spelt(name: Any, key: str) -> str:
    """A name as it is compared: blanks at the end of a text do not count."""
    return str(name).rstrip() if key == "text" else str(name)


def _missing_note(path: str | Path, n_missing: int) -> list[str]:
    return [f"{n_missing} examples are not in {path}."] if n_missing else []


@dataclass
class _PlacedFile:
    """A file whose tokens have places.

    Attributes:
        path: for messages.
        table: name -> column.
        names: of the columns.
        items: of our examples.
        bare: example -> its items without a score.
        unplaced: example -> its scores that stand in no item.
    """

    path: str | Path
    table: dict[str, list[Any]]
    names: Sequence[str]
    items: SourceItems
    bare: dict[int, int] = field(default_factory=dict)
    unplaced: dict[int, int] = field(default_factory=dict)

    def read(self) -> SourceScores:
        scores = self.table[score_column(self.path, self.names)]
        found: dict[int, list[float]] = {}
        for row, places in enumerate(self._joined()):
            for place in places:
                found[place] = self._laid(row, place, scores[row])
        values = []
        for place, tokens in enumerate(self.items.tokens):
            values.append(found.get(place, [math.nan] * len(tokens)))
        n_missing = len(values) - len(found)
        return SourceScores(values, n_missing, [*_missing_note(self.path, n_missing), *self._notes()])

    def _joined(self) -> list[list[int]]:
        """For each row the places of its examples in the data set."""
        key = _key(self.names)
        if key is None:
            raise InputError(
                f"Expected a column 'example' or 'text' in {self.path}, but its columns are {', '.join(self.names)}."
            )
        places: dict[str, list[int]] = {}
        for place, name in enumerate(_our_keys(self.items, key)):
            places.setdefault(name, []).append(place)
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.table[key]):
            rows.setdefault(_spelt(name, key), []).append(row)
        joined: list[list[int]] = [[] for _ in self.table[key]]
        for name, same in rows.items():
            known = places.get(name)
            if known is None:
                raise InputError(
                    f"{self.path} holds {self._name(same[0])}, which the data set lacks; give the explanation the very "
                    "texts of the data set, or leave out those that are not in it."
                )
            if key == "example" and len(same) > 1:
                raise InputError(f"{self.path} holds {self._name(same[0])} twice.")
            for copy, place in enumerate(known):
                joined[same[min(copy, len(same) - 1)]].append(place)
        return joined

    def _name(self, row: int) -> str:
        if "example" in self.names:
            return f"the example {self.table['example'][row]!r}"
        return f"the text {self.table['text'][row]!r:.80}"

    def _laid(self, row: int, place: int, scores: Any) -> list[float]:
        """The scores of a row over the items of an example."""
        name, text = self._name(row), self.items.texts[place]
        own_spans = self.items.spans[place]
        if own_spans is None:
            raise InputError(
                f"{self.path} says where its tokens stand in {name}, but where those of the model stand is not known: "
                "expected single texts, special tokens left out, and a fast tokenizer."
            )
        if "text" in self.names and str(self.table["text"][row]).rstrip() != text.rstrip():
            raise InputError(f"The text of {name} in {self.path} is not the data set's: {text!r:.80}.")
        columns = [self.table[column][row] for column in PLACES]
        check_same_length((*PLACES, "scores"), (*columns, scores), self.items.examples[place])
        spans = list(zip(*columns, strict=True))
        for span in spans:
            if not _fits(span, text):
                raise InputError(
                    f"Expected places from 0 to {len(text)} in {name} of {self.path}, but got {span}; "
                    "starts and ends count characters."
                )
        numbers = [self._number(name, score) for score in scores]
        laid = lay_scores(spans, numbers, own_spans)
        self.bare[place] = len(laid.reasons) - laid.reasons.count(None)
        self.unplaced[place] = laid.n_unplaced
        return laid.values

    def _number(self, name: str, score: Any) -> float:
        if score is not None and not isinstance(score, int | float):
            raise InputError(f"Expected numbers as scores, but {name} of {self.path} has {score!r:.60}.")
        return math.nan if score is None else float(score)

    def _notes(self) -> list[str]:
        notes = []
        if any(self.bare.values()):
            notes.append(
                f"{_count('word', self.bare)} without a score in {self.path}: no token of the explanation stands "
                "there, or its score is no number."
            )
        if any(self.unplaced.values()):
            notes.append(
                f"{_count('score', self.unplaced)} in {self.path} of no word that the model reads, such as those of "
                "special tokens."
            )
        return notes


def _count(noun: str, counts: dict[int, int]) -> str:
    """``"3 words of 2 texts"``."""
    n = sum(counts.values())
    texts = sum(map(bool, counts.values()))
    return f"{n} {noun}{'s' * (n > 1)} of {texts} text{'s' * (texts > 1)}"


def _fits(span: tuple[Any, Any], text: str) -> bool:
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in span):
        return False
    start, end = span
    return 0 <= start <= end <= len(text)
