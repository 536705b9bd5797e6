"""Classes that look like one class misspelt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import combinations
from unicodedata import normalize

_ALIKE, _VERY = 0.8, 0.85  # of difflib's ratio: "buisness" and "business" have .875
_SHORTEST = 4  # letters of a name that may be a misspelt one
_FEW, _SHARE, _QUARTER = 2, 0.05, 0.25  # rows, and shares of the other class's, that a misspelt class has at most
_MOST = 1000  # classes that are compared with one another


def near_classes(counts: Mapping[str, int]) -> list[str]:
    """What to tell of classes that could be one.

    Those whose names differ in capitals, blanks and punctuation alone; and those with few rows whose names are nearly
    that of a larger class. Names that differ in their numbers are names of their own.

    Args:
        counts: class -> rows.

    Example:
        >>> near_classes({"business": 40, "buisness": 1, "sport": 30, "Sport": 20, "grade 1": 1, "grade 2": 40})
        ["Classes 'buisness' (1 row) and 'business' (40 rows): one misspelt?", \
"Classes 'Sport' (20 rows) and 'sport' (30 rows) differ in capitals, blanks or punctuation only."]
    """
    told = []
    if len(counts) > _MOST:
        return told
    for pair in combinations(counts, 2):
        few, many = sorted(pair, key=lambda name: (counts[name], name))
        said = f"Classes {_with_rows(few, counts)} and {_with_rows(many, counts)}"
        if _plain(few) == _plain(many):
            told.append(f"{said} differ in capitals, blanks or punctuation only.")
        elif _misspelt(_plain(few), _plain(many), counts[few], counts[many]):
            told.append(f"{said}: one misspelt?")
    return told


def _with_rows(name: str, counts: Mapping[str, int]) -> str:
    return f"{name!r} ({counts[name]} {'row' if counts[name] == 1 else 'rows'})"


def _plain(name: str) -> str:
    """A name without what does not tell names apart; a sign of its own where nothing else is left."""
    plain = re.sub(r"[\W_]+", "", normalize("NFKC", name).casefold())
    return plain or name


def _misspelt(few: str, many: str, rows: int, others: int) -> bool:
    """Whether a class of few rows has nearly the name of another; the more alike, the more rows it may have."""
    if min(len(few), len(many)) < _SHORTEST or re.findall(r"\d+", few) != re.findall(r"\d+", many):
        return False
    alike = SequenceMatcher(None, few, many, autojunk=False).ratio()
    if rows <= max(_FEW, _SHARE * others):
        return alike >= _ALIKE
    return rows <= _QUARTER * others and alike >= _VERY
