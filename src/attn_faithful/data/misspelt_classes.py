"""Classes that look like one class misspelt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import combinations
from unicodedata import normalize

# of difflib's ratio: "buisness" and "business" have .875
_SIMILAR = 0.8
_VERY_SIMILAR = 0.85
_SHORTEST = 4  # letters of a name that may be a misspelt one
# rows that a misspelt class has at most: so many, or shares of those of the other class
_FEW_ROWS = 2
_FEW_SHARE = 0.05
_LARGEST_SHARE = 0.25  # where the names are very similar
_MOST = 1000  # classes that are compared with one another


def near_classes(counts: Mapping[str, int]) -> list[str]:
    """Sentences about classes that could be one.

    Those whose names differ in capitals, blanks and punctuation alone; and those with few rows whose names are nearly
    that of a larger class. Names that differ in their numbers are names of their own.

    Args:
        counts: class -> rows.

    Example:
        >>> near_classes({"business": 40, "buisness": 1, "sport": 30, "Sport": 20, "grade 1": 1, "grade 2": 40})
        ["Classes 'buisness' (1 row) and 'business' (40 rows): one misspelt?", \
"Classes 'Sport' (20 rows) and 'sport' (30 rows) differ in capitals, blanks or punctuation only."]
    """
    sentences = []
    if len(counts) > _MOST:
        return sentences
    for pair in combinations(counts, 2):
        rare, frequent = sorted(pair, key=lambda name: (counts[name], name))
        both = f"Classes {_with_rows(rare, counts)} and {_with_rows(frequent, counts)}"
        if _plain(rare) == _plain(frequent):
            sentences.append(f"{both} differ in capitals, blanks or punctuation only.")
        elif _misspelt(_plain(rare), _plain(frequent), counts[rare], counts[frequent]):
            sentences.append(f"{both}: one misspelt?")
    return sentences


def _with_rows(name: str, counts: Mapping[str, int]) -> str:
    unit = "row" if counts[name] == 1 else "rows"
    return f"{name!r} ({counts[name]} {unit})"


def _plain(name: str) -> str:
    """A name without capitals, blanks and punctuation; the name itself where nothing else is left."""
    return re.sub(r"[\W_]+", "", normalize("NFKC", name).casefold()) or name


def _misspelt(rare: str, frequent: str, rows: int, rows_of_frequent: int) -> bool:
    """Whether a class of few rows has nearly the name of another; the more alike, the more rows it may have."""
    if min(len(rare), len(frequent)) < _SHORTEST or re.findall(r"\d+", rare) != re.findall(r"\d+", frequent):
        return False
    similarity = SequenceMatcher(None, rare, frequent, autojunk=False).ratio()
    if rows <= max(_FEW_ROWS, _FEW_SHARE * rows_of_frequent):
        return similarity >= _SIMILAR
    return similarity >= _VERY_SIMILAR and rows <= _LARGEST_SHARE * rows_of_frequent
