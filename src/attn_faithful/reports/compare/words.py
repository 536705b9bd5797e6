"""The words that two models have in common in a text: their items are laid on each other by character spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Items:
    """A text as one model reads it.

    Attributes:
        words: its items, as they stand in the text.
        spans: start and end of each in the text (items, 2), characters.
    """

    words: Sequence[str]
    spans: np.ndarray

    def same_as(self, other: Items) -> bool:
        """Whether both are cut in the same way."""
        return self.words == other.words and np.array_equal(self.spans, other.spans)


@dataclass(frozen=True)
class Common:
    """A text as both models read it: the finest words whose edges cut no item of either.

    Attributes:
        words: in the order of the text, W of them.
        joined: of each whether no blank stands between it and the one before.
        places: for each model the word that each of its items lies in.
        read: for each model whether it has an item in a word (W,).
    """

    words: list[str]
    joined: list[bool]
    places: tuple[np.ndarray, np.ndarray]
    read: tuple[np.ndarray, np.ndarray]

    @property
    def both(self) -> np.ndarray:
        """The words that both read (W,)."""
        return self.read[0] & self.read[1]

    def laid(self, which: int, weights: np.ndarray) -> np.ndarray:
        """Weights of one model's items as sums over the words (W,); NaN in words that it does not read.

        Args:
            which: 0 for the first model, 1 for the second.
            weights: one an item.
        """
        sums = np.bincount(self.places[which], weights=weights, minlength=len(self.words))
        return np.where(self.read[which], sums, np.nan)


def same_text(first: Items, second: Items) -> bool:
    """Whether what both read of a text agrees: at every place that both read stands the same character.

    One may read less than the other, because it was cut, or has no token for a sign.

    Example:
        >>> whole = Items(["good", "film"], np.array([[0, 4], [5, 9]]))
        >>> same_text(whole, Items(["good"], np.array([[0, 4]])))
        True
        >>> same_text(whole, Items(["bad"], np.array([[0, 3]])))
        False
    """
    if first.same_as(second):
        return True
    one, other = _characters(first), _characters(second)
    shared = one.keys() & other.keys()
    return bool(shared) and all(one[place] == other[place] for place in shared)


def read_alike(first: Items, second: Items) -> bool:
    """Whether both read the same part of a text, blanks aside."""
    return first.same_as(second) or _read(first) == _read(second)


def _read(items: Items) -> set[int]:
    """The places of a text that some item stands on and where no blank is."""
    blanks = {place for place, character in _characters(items).items() if character.isspace()}
    places: set[int] = set()
    for start, end in items.spans.tolist():
        places.update(range(start, end))
    return places - blanks


def _characters(items: Items) -> dict[int, str]:
    """Place in the text -> the character there, of the items that stand there as they are."""
    found: dict[int, str] = {}
    for word, (start, end) in zip(items.words, items.spans.tolist(), strict=True):
        if len(word) == end - start:
            found |= dict(zip(range(start, end), word, strict=True))
    return found


def common_words(first: Items, second: Items) -> Common:
    """The words of a text in which both models' items can be compared.

    Items of both that share a character lie in the same word, and so do those that share one with these.

    Example:
        >>> pieces = Items(["un", "able", "now"], np.array([[0, 2], [2, 6], [7, 10]]))
        >>> words = Items(["unable", "now"], np.array([[0, 6], [7, 10]]))
        >>> common = common_words(pieces, words)
        >>> common.words, common.laid(0, np.array([0.25, 0.25, 0.5])).tolist()
        (['unable', 'now'], [0.5, 0.5])
    """
    spans = np.concatenate([first.spans, second.spans])  # (items of both, 2)
    place_of, bounds = _merged(spans)
    n = len(bounds)
    places = place_of[: len(first.words)], place_of[len(first.words) :]
    read = np.isin(np.arange(n), places[0]), np.isin(np.arange(n), places[1])
    words = [_word(place, places, (first, second)) for place in range(n)]
    joined = [False] * n
    for place in range(1, n):
        joined[place] = bounds[place][0] <= bounds[place - 1][1]
    return Common(words, joined, places, read)


def _merged(spans: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """For each span the word that it lies in, and start and end of each word, in the order of the text."""
    place_of = np.zeros(len(spans), dtype=int)
    bounds: list[tuple[int, int]] = []
    for i in np.lexsort((spans[:, 1], spans[:, 0])).tolist():
        start, end = map(int, spans[i])
        if bounds and (start < bounds[-1][1] or (start, end) == bounds[-1]):
            bounds[-1] = bounds[-1][0], max(bounds[-1][1], end)
        else:
            bounds.append((start, end))
        place_of[i] = len(bounds) - 1
    return place_of, bounds


def _word(place: int, places: Sequence[np.ndarray], sides: Sequence[Items]) -> str:
    """The letters of a word, of the model whose items hold more of them."""
    most, text = -1, ""
    for places_of_side, items in zip(places, sides, strict=True):
        inside = np.flatnonzero(places_of_side == place).tolist()
        words = [items.words[i] for i in inside]
        letters = sum(map(len, words))
        if words and letters > most:
            most, text = letters, _joined(words, items.spans[inside])
    return text


def _joined(words: Sequence[str], spans: np.ndarray) -> str:
    """Items in a row, a blank where there was one."""
    text = words[0]
    for word, start, end in zip(words[1:], spans[1:, 0], spans[:-1, 1], strict=True):
        text += word if start <= end else f" {word}"
    return text
