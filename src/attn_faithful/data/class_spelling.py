"""The spelling of class names: invisible characters around them, and one class that is written in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from unicodedata import category, normalize

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_TRUTH = ("true", "false")
_INVISIBLE = ("Cc", "Cf")  # categories of Unicode: controls, byte order marks, joiners, marks of direction


def cleaned(name: str) -> str:
    """A name without blanks and invisible characters around it, its letters composed (NFC).

    Example:
        >>> cleaned(" pos\\u200b "), cleaned("ne\\u0301g") == "n\\u00e9g"
        ('pos', True)
    """
    start, end = 0, len(name)
    while start < end and _is_invisible(name[start]):
        start += 1
    while start < end and _is_invisible(name[end - 1]):
        end -= 1
    return normalize("NFC", name[start:end])


def _is_invisible(character: str) -> bool:
    return character.isspace() or category(character) in _INVISIBLE


def one_in_two_ways(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that are the same number or truth value, each with the first way it is written.

    Example:
        >>> one_in_two_ways(["0", "1", "1.0", "01", "True", "true", "pos"])
        [('1', '1.0'), ('1', '01'), ('True', 'true')]
    """
    first_ways: dict[object, str] = {}
    pairs = []
    for name in names:
        value = _value(name)
        if value is None:
            continue
        first = first_ways.setdefault(value, name)
        if first != name:
            pairs.append((first, name))
    return pairs


def _value(name: str) -> object:
    """The number or truth value that a name is; None for any other."""
    if NUMBER.fullmatch(name):
        return Decimal(name)
    return name.lower() if name.lower() in _TRUTH else None
