"""Words that attention must not show, such as pronouns where a gender is predicted (Pruthi et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.columns import features_of, list_columns
from attn_faithful.data.rationales import SplitTexts, marked_words

_EDGES = re.compile(r"^\W+|\W+$")  # what may stand around a word


def check_impermissible(given: str | Sequence[str], splits: Mapping[str, Any], source: str) -> None:
    """Raise where nothing can be marked.

    Args:
        given: the name of a list column, or words.
        splits: the data sets.
        source: for messages.

    Raises:
        InputError: a column that no split has or that holds no lists, an empty list of words, or several words in one.
    """
    if isinstance(given, str):
        features = features_of(splits)
        listed = ", ".join(features)
        check_choice(f"impermissible of {source!r} (columns: {listed})", given, list_columns(features))
        return
    if not given:
        raise InputError("Expected words in data.impermissible, but got none; name some, or a column, or leave it out.")
    for word in given:
        if not isinstance(word, str) or len(word.split()) != 1:
            raise InputError(f"Expected single words in data.impermissible, but got {word!r}; give each by itself.")


def has_marks(rows: Any, given: str | Sequence[str]) -> bool:
    """Whether a split says which words are impermissible: by its column, or by a list of words in any case."""
    return not isinstance(given, str) or given in rows.column_names


def impermissible_words(given: str | Sequence[str], split: SplitTexts) -> list[list[int]]:
    """For each kept row 1 at the white-space words of its text that attention must not show, 0 at the others.

    Args:
        given: the name of a list column with one 0 or 1 a word; or words, found whatever their case and the punctuation
            around them.
        split: the texts.

    Raises:
        InputError: another number of values than words, or a value that is neither 0 nor 1, with the example.

    Example:
        >>> split = SplitTexts({}.__getitem__, ["He said: “she left.”"], {0: "e"}, {0: None})
        >>> impermissible_words(["he", "she"], split)
        [[1, 0, 1, 0]]
    """
    if isinstance(given, str):
        return marked_words(given, split)
    wanted = {word.casefold() for word in given}
    return [[_is_among(word, wanted) for word in split.words(row)] for row in split.examples]


def _is_among(word: str, wanted: set[str]) -> int:
    word = word.casefold()
    return int(word in wanted or _EDGES.sub("", word) in wanted)
