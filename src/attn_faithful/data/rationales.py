"""What people marked as the reason for a label, out of the columns that data sets have, one value a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.data.columns import features_of, list_columns

DERIVED = {  # a rationale that is worked out -> the columns that it needs
    "supporting": ("supporting",),
    "token_sentiment": ("token_sentiment",),
    "pairs": ("pair_id", "is_revised"),
}
SIDES = {"very negative": -1, "negative": -1, "positive": 1, "very positive": 1}
NEUTRAL, STRONGEST = 2, 4


@dataclass(frozen=True)
class SplitTexts:
    """The texts of one split, as they were read.

    Attributes:
        read: gives the values of a column, a row each.
        texts: the attended text of every row, None where it is missing.
        examples: row -> id, of the rows that are kept.
        labels: row -> name of the label, None where it has no single known one.
    """

    read: Callable[[str], list[Any]]
    texts: Sequence[str | None]
    examples: Mapping[int, str]
    labels: Mapping[int, str | None]

    def words(self, row: int) -> list[str]:
        """The white-space words of a row's text, none where it is missing."""
        return (self.texts[row] or "").split()

    def no_words(self, row: int) -> list[int]:
        """The rationale in which no word is marked."""
        return [0] * len(self.words(row))


def says(rows: Any, name: str) -> bool:
    """Whether a data set has the columns that a rationale is made of."""
    return set(DERIVED.get(name, (name,))) <= set(rows.column_names)


def check_rationale(name: str, splits: Mapping[str, Any], source: str) -> None:
    """Raise where no split can give a rationale.

    Args:
        name: of a list column, or one of `DERIVED`.
        splits: the data sets.
        source: for messages.

    Raises:
        InputError: an unknown name, columns that are lacking or hold no lists.
    """
    features = features_of(splits)
    lists = list_columns(features)
    listed = ", ".join(features)
    if name not in DERIVED:
        check_choice(f"rationale of {source!r} (columns: {listed})", name, [*lists, *DERIVED])
    if not any(says(rows, name) for rows in splits.values()):
        raise InputError(
            f"Expected the columns {' and '.join(DERIVED[name])} for the rationale {name!r}, but {source!r} has "
            f"{listed}; name a list column with one 0 or 1 a word, or one of {', '.join(DERIVED)}."
        )
    if name in ("supporting", "token_sentiment") and name not in lists:
        raise InputError(f"Expected lists in column {name!r} of {source!r}, but it holds {features[name]}.")


def word_rationales(name: str, split: SplitTexts) -> list[list[int]]:
    """For each kept row 1 at the white-space words of its text that are the reason for the label, 0 at the others.

    - "supporting": the words of the lines that a column of that name lists, from 0, as those that prove the answer.
    - "token_sentiment": the words on the side of the label, of a column with 0 to 4 a word, 2 neutral: above 2 for
      (very) positive, below 2 for (very) negative, all but 2 for labels of other names.
    - "pairs": the words that the other text with the same ``pair_id``, original or revised (``is_revised``), lacks, as
      `difflib` matches the two.
    - anything else: the list column of that name, as it is.

    A row without a value, or without the other text of its pair, has no word marked.

    Args:
        name: one of the above.
        split: the whole split: the other text of a pair need not be among the kept ones.

    Raises:
        InputError: another number of values than words, a value that is none, or more than two texts in a pair, with
            the example.

    Example:
        >>> read = {"supporting": [[1]]}.__getitem__
        >>> word_rationales("supporting", SplitTexts(read, ["Mary left .\\nJohn ran ."], {0: "e"}, {0: "garden"}))
        [[0, 0, 0, 1, 1, 1]]
    """
    if name == "pairs":
        return _changed_words_of_pairs(split)
    mark = {"supporting": _supporting_lines, "token_sentiment": _sentiment_words}.get(name, _marked_words)
    return _row_by_row(name, split, mark)


def marked_words(name: str, split: SplitTexts) -> list[list[int]]:
    """For each kept row the 0 or 1 of each white-space word in a list column, as it is, whatever its name.

    Raises:
        InputError: another number of values than words, or a value that is neither 0 nor 1, with the example.
    """
    return _row_by_row(name, split, _marked_words)


def _row_by_row(
    name: str, split: SplitTexts, mark: Callable[[str, SplitTexts, int, Sequence[Any]], list[int]]
) -> list[list[int]]:
    """The marks of every kept row; a row without a value has no word marked."""
    values = split.read(name)
    marks = []
    for row in split.examples:
        if values[row] is None:
            marks.append(split.no_words(row))
        else:
            marks.append(mark(name, split, row, values[row]))
    return marks


def _marked_words(name: str, split: SplitTexts, row: int, values: Sequence[Any]) -> list[int]:
    _check_values(name, split, row, values, (0, 1))
    return list(map(int, values))


def _sentiment_words(name: str, split: SplitTexts, row: int, values: Sequence[Any]) -> list[int]:
    _check_values(name, split, row, values, range(STRONGEST + 1))
    side = SIDES.get((split.labels[row] or "").lower())
    if side is None:
        return [int(value != NEUTRAL) for value in values]
    return [int(side * (value - NEUTRAL) > 0) for value in values]


def _check_values(name: str, split: SplitTexts, row: int, values: Sequence[Any], known: Sequence[int]) -> None:
    """Raise unless there is one of the known values for each word."""
    example = split.examples[row]
    check_same_length(("words of the text", name), (split.words(row), values), example)
    for value in values:
        if value not in known:
            raise InputError(
                f"Expected {known[0]} to {known[-1]} for each word in column {name!r}, but the example {example!r} has "
                f"{value!r}."
            )


def _supporting_lines(name: str, split: SplitTexts, row: int, places: Sequence[Any]) -> list[int]:
    lines = (split.texts[row] or "").split("\n")
    for place in places:
        if place not in range(len(lines)):
            raise InputError(
                f"Expected lines from 0 to {len(lines) - 1} in column {name!r}, but the example "
                f"{split.examples[row]!r} has {place!r}."
            )
    marks = []
    for i, line in enumerate(lines):
        marks += [int(i in places)] * len(line.split())
    return marks


def _changed_words_of_pairs(split: SplitTexts) -> list[list[int]]:
    marks: dict[int, list[int]] = {}
    for members in _pairs(split).values():
        if len(members) == 2 and not split.examples.keys().isdisjoint(members.values()):
            original, revised = members[False], members[True]
            marks[original], marks[revised] = changed_words(split.words(original), split.words(revised))
    return [marks.get(row) or split.no_words(row) for row in split.examples]


def _pairs(split: SplitTexts) -> dict[Any, dict[bool, int]]:
    """Pair -> whether revised -> row."""
    pairs: dict[Any, dict[bool, int]] = {}
    columns = zip(split.read("pair_id"), split.read("is_revised"), split.texts, strict=True)
    for row, (pair, revised, text) in enumerate(columns):
        if pair is None or text is None:
            continue
        if revised not in (0, 1):
            raise InputError(f"Expected true or false in column 'is_revised', but row {row} has {revised!r}.")
        first = pairs.setdefault(pair, {}).setdefault(bool(revised), row)
        if first != row:
            kind = "revised" if revised else "original"
            raise InputError(
                f"Expected one original and one revised text a pair, but the pair {pair!r} has two {kind} ones, "
                f"rows {first} and {row}; give each pair a pair_id of its own."
            )
    return pairs


def changed_words(first: Sequence[str], second: Sequence[str]) -> tuple[list[int], list[int]]:
    """1 at the words of each text that have no match in the other.

    Example:
        >>> changed_words("a good film".split(), "a truly bad film".split())
        ([0, 1, 0], [0, 1, 1, 0])
    """
    in_first, in_second = [1] * len(first), [1] * len(second)
    for a, b, size in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        in_first[a : a + size] = [0] * size
        in_second[b : b + size] = [0] * size
    return in_first, in_second
