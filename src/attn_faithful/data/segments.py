"""Where words begin in scripts that are written without blanks, and at marks that a tokenizer cuts off their letter."""

from __future__ import annotations

import re
from bisect import bisect_right
from unicodedata import category

# Scripts without blanks between words: Han, kana, Thai, Lao, Tibetan (whose units are syllables), Burmese, Khmer.
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u3041-\u3096\u3099-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff]"
)
_JOINERS = "\u200c\u200d"


class Segments:
    """The words of one text by the rules and dictionaries of ICU (UAX 29), where the tokenizer's own cannot do.

    Borders count where one of the two characters is of a script without blanks. What stands between other letters is
    left to the tokenizer, but for marks and joiners, which some tokenizers of bytes cut off the letter they stand on.

    Example:
        >>> segments = Segments("\u6211\u559c\u6b22\u7535\u5f71")  # I, like, films
        >>> [segments.before(place) for place in range(5)]
        [0, 1, 1, 2, 2]
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._borders: list[int] | None = None  # all that ICU sees; found once they are needed
        self._unspaced_borders: list[int] = []

    def before(self, place: int) -> int:
        """How many borders of words in scripts without blanks lie at `place` or before it."""
        self._find_borders()
        return bisect_right(self._unspaced_borders, place)

    def go_on(self, place: int) -> bool:
        """Whether a word goes on at `place` behind or before a mark, though the tokenizer may cut there."""
        if not 0 < place < len(self._text) or not any(map(_joins, self._text[place - 1 : place + 1])):
            return False
        return place not in self._find_borders()

    def _find_borders(self) -> list[int]:
        """Every border that ICU sees, where the text has such scripts or marks."""
        if self._borders is not None:
            return self._borders
        self._borders = []
        text = self._text
        if not _UNSPACED.search(text) and (text.isascii() or not any(map(_joins, text))):
            return self._borders
        from icu4py.breakers import WordBreaker

        border = 0
        for piece in WordBreaker(text, "en"):
            border += len(piece)
            self._borders.append(border)
            if border < len(text) and _UNSPACED.search(text[border - 1 : border + 1]):
                self._unspaced_borders.append(border)
        return self._borders


def _joins(character: str) -> bool:
    return character in _JOINERS or category(character).startswith("M")
