"""A registry maps a field's names to objects; an unknown name lists the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from attn_faithful._checks import InputError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing, in order of registration.

    Example:
        >>> projections = Registry("projection")
        >>> _ = projections.register("softmax")(len)
        >>> projections["softmax"] is len
        True
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that enters an object under ``name``; a name can be taken once."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"The {self.kind} {name!r} is registered already; choose another name.")
            self._entries[name] = entry
            return entry

        return enter

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise InputError(f"Unknown {self.kind} {name!r}.{did_you_mean(name, self._entries)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
