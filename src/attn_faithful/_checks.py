"""Checks of what users pass in, with one wording of errors: what was expected, what came, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any


class InputError(ValueError):
    """Something a user passed is wrong; the message says what was expected, what came and what to do.

    The command line prints its message on one line and exits with status 2, without a traceback.
    """


class MissingSourceError(InputError):
    """A data set is neither on this machine nor at its address; other cells of a recipe can do without it."""


def is_of_memory(error: BaseException) -> bool:
    """Whether there was not enough memory: torch has no error of its own for memory on the CPU."""
    if isinstance(error, RuntimeError):
        message = str(error)
        return "allocate memory" in message or "out of memory" in message
    return isinstance(error, MemoryError)


def add_note(error: BaseException, note: str) -> None:
    """Leave a sentence with an error, for a traceback and for the command line (PEP 678, as of Python 3.11)."""
    error.__notes__ = [*notes_of(error), note]  # type: ignore[attr-defined, unused-ignore]


def notes_of(error: object) -> list[str]:
    """The sentences that were left with an error."""
    return list(getattr(error, "__notes__", ()))


class SeveralFaultsError(InputError):
    """All that is wrong with something at once; ``faults`` holds a message each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)


class Faults:
    """Where faults go: the first is raised, or all are kept to be told together.

    Faults of one kind, such as a missing label in each of many rows, are told once, with how many more there are.

    Example:
        >>> faults = Faults(collect=True)
        >>> for row in range(3):
        ...     faults.add(InputError(f"Row {row} has no label."), kind="label")
        >>> faults.messages()
        ['Row 0 has no label. (2 more of this kind.)']
    """

    def __init__(self, collect: bool = False) -> None:
        self.collect = collect
        self._by_kind: dict[str, list[str]] = {}

    def add(self, error: InputError, kind: str | None = None) -> None:
        """Raise the error, or keep it; `kind` is shared by faults that are one, None for the message itself."""
        if not self.collect:
            raise error
        message = str(error)
        self._by_kind.setdefault(kind or message, []).append(message)

    def gather(self, look: Callable[[], object], kind: Callable[[str], str] = str) -> None:
        """Add whatever `look` finds wrong; `kind` gives of a message what faults that are one share."""
        try:
            look()
        except SeveralFaultsError as error:
            for fault in error.faults:
                self.add(InputError(fault), kind(fault))
        except InputError as error:
            self.add(error, kind(str(error)))

    def messages(self) -> list[str]:
        """A message each kind, in the order of their first."""
        messages = []
        for first, *others in self._by_kind.values():
            if others:
                first += f" ({len(others)} more of this kind.)"
            messages.append(first)
        return messages

    def raise_all(self) -> None:
        """Raise what was kept, if anything was."""
        messages = self.messages()
        if messages:
            raise SeveralFaultsError(messages)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """``" Did you mean 'softmax'?"`` for the nearest known name, or the list of all known names."""
    names = sorted(known)
    nearest = get_close_matches(str(name), names, n=1, cutoff=0.6)
    if nearest:
        return f" Did you mean {nearest[0]!r}?"
    return f" Known: {', '.join(names)}."


def check_shape(name: str, value: Any, letters: str, hint: str = "") -> None:
    """Raise unless ``value`` has one axis for each letter of ``letters`` (for example ``"B S T"``)."""
    axes = letters.split()
    if len(value.shape) != len(axes):
        expected = ", ".join(axes)
        advice = f"; {hint}" if hint else ""
        raise InputError(f"Expected `{name}` of shape ({expected}), but got {tuple(value.shape)}{advice}.")


def check_same_length(names: Sequence[str], values: Sequence[Any], example: object = None) -> None:
    """Raise unless all ``values`` are lists of one length; names both lengths and, where given, the example."""
    where = "" if example is None else f" in example {example!r}"
    for name, value in zip(names, values, strict=True):
        is_scalar_array = getattr(value, "shape", None) == ()
        if not hasattr(value, "__len__") or is_scalar_array:
            raise InputError(f"Expected `{name}`{where} to be a list, but got {value!r:.60}.")
    lengths = [len(value) for value in values]
    if len(set(lengths)) > 1:
        pairs = [f"`{name}` has {length}" for name, length in zip(names, lengths, strict=True)]
        raise InputError(
            f"Expected equal lengths{where}, but {', '.join(pairs)}; they must describe the same items in order."
        )


def check_choice(name: str, value: str, known: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``known``; otherwise raise and name the nearest."""
    known = list(known)
    if value not in known:
        raise InputError(f"Unknown {name} {value!r}.{did_you_mean(value, known)}")
    return value


def check_device(name: str, known: Iterable[str]) -> str:
    """Return the name of a device if it is one of ``known``, or "cuda" with a number; otherwise raise.

    Example:
        >>> check_device("cuda:1", ["cpu", "cuda"])
        'cuda:1'
    """
    kind, _, number = name.partition(":")
    if kind == "cuda" and number.isdigit():
        return name
    return check_choice("device", name, known)


def mapping(what: str, given: Any) -> dict[str, Any]:
    """A mapping of settings, empty for None; otherwise raise.

    Example:
        >>> mapping("settings", {"seed": 1}), mapping("settings", None)
        ({'seed': 1}, {})
    """
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"Expected {what} as a mapping, such as {{'seed': 1}}, but got {given!r:.60}.")
    return dict(given or {})


def names(what: str, given: Sequence[str] | str | None) -> list[str] | None:
    """A list of names, of which one may stand alone, or several with commas between.

    Example:
        >>> names("tests", "correlation"), names("tests", ["flips", "entropy"]), names("tests", None)
        (['correlation'], ['flips', 'entropy'], None)
    """
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise InputError(f"Expected {what} to be a list of names, but got {given!r:.60}.")
    if isinstance(given, str):
        return [name.strip() for name in given.split(",")]
    listed = list(given)
    for name in listed:
        if not isinstance(name, str):
            raise InputError(f"Expected {what} to be names, but got {name!r}.")
    return listed


def check_licence(identifier: str) -> str:
    """Return a licence's identifier as the Hub writes them; otherwise raise."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", identifier):
        raise InputError(
            f"Expected a licence as the Hub writes them, such as apache-2.0 or mit, but got {identifier!r:.60}."
        )
    return identifier
