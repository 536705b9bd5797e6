"""Things by a key that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


def by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Key -> its items; keys and items in the order in which they first stand.

    Example:
        >>> by_key(["b1", "a1", "b2"], lambda name: name[0])
        {'b': ['b1', 'b2'], 'a': ['a1']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
