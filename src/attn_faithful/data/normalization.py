"""The normalization of our tokenizers, and where each character of a normalized text stood in the raw one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import combining

Span = tuple[int, int]

# Oniguruma patterns. Zero-width spaces and the separators U+001C to U+001F part words, as blanks do in Python.
SEPARATORS = r"[\x{200B}\x{1C}-\x{1F}]"
# Joiners and the selectors of Mongolian are parts of words in these scripts, and joiners of emoji; elsewhere they are
# as invisible as the rest: byte order marks, soft hyphens, marks of direction, NUL and other controls.
_JOINERS = r"\x{200C}\x{200D}\x{180B}-\x{180F}"
_SCRIPTS = (
    "Arabic Syriac Nko Mongolian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala "
    "Tibetan Myanmar Khmer Javanese Balinese"
)
_JOINING = "".join(rf"\p{{{script}}}" for script in _SCRIPTS.split())
_PICTURE = r"\p{Extended_Pictographic}\p{Emoji_Modifier}"
_SELECTORS = r"\x{FE00}-\x{FE0F}"  # of the look of an emoji
INVISIBLE = (
    rf"[\p{{Default_Ignorable_Code_Point}}\p{{Cc}}\x{{FFF9}}-\x{{FFFB}}&&[^\s\x{{200B}}{_JOINERS}{_SELECTORS}]]"
    rf"|(?<![{_PICTURE}])[{_SELECTORS}]"
)
LOOSE_JOINERS = "|".join(
    [
        rf"(?<![[\p{{L}}\p{{M}}&&[{_JOINING}]]{_PICTURE}{_SELECTORS}])[{_JOINERS}]",
        r"\x{200C}(?![\p{L}\p{M}])",
        rf"(?<=[{_PICTURE}{_SELECTORS}])\x{{200D}}(?!\p{{Extended_Pictographic}})",
    ]
)


def clean_steps() -> list[Any]:
    """Normalizers of `tokenizers`: invisible characters go, and what looks the same is written the same (NFC)."""
    from tokenizers import Regex, normalizers

    return [
        normalizers.Replace(Regex(SEPARATORS), " "),
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.Replace(Regex(LOOSE_JOINERS), ""),
        normalizers.NFC(),
    ]


@dataclass(frozen=True)
class Aligned:
    """A text, changed, with the place of each of its characters in the text that it was made of.

    Attributes:
        text: as it is now.
        starts, ends: of each character, in the first text.

    Example:
        >>> aligned = Aligned.of("cafe\\u0301 3").composed(lambda text: text.replace("e\\u0301", "\\u00e9"))
        >>> aligned = aligned.replaced([(5, 6)], "qqq")
        >>> aligned.text, aligned.starts, aligned.ends
        ('caf\u00e9 qqq', [0, 1, 2, 3, 5, 6, 6, 6], [1, 2, 3, 5, 6, 7, 7, 7])
    """

    text: str
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> Aligned:
        """A text as it is."""
        return cls(text, list(range(len(text))), list(range(1, len(text) + 1)))

    def replaced(self, spans: Sequence[Span], content: str) -> Aligned:
        """The same with `content` in place of each span."""
        if not spans:
            return self
        builder = _Builder(self)
        position = 0
        for start, end in spans:
            builder.keep(position, start)
            if end > start:
                builder.replace(start, end, content)
            position = end
        builder.keep(position, len(self.text))
        return builder.aligned()

    def composed(self, compose: Callable[[str], str]) -> Aligned:
        """The same in another form of Unicode, letter by letter: what a letter becomes stands where all of it stood."""
        if compose(self.text) == self.text:
            return self
        builder = _Builder(self)
        for start, end in _letters(self.text, compose):
            content = compose(self.text[start:end])
            while start < end - 1 and content[:1] == self.text[start]:  # what stays as it is stays where it is
                builder.keep(start, start + 1)
                content, start = content[1:], start + 1
            builder.replace(start, end, content)
        return builder.aligned()


class _Builder:
    """Builds a changed text from pieces of another one, left to right."""

    def __init__(self, source: Aligned) -> None:
        self._source = source
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def keep(self, start: int, end: int) -> None:
        """Go on with a piece as it is."""
        self._pieces.append(self._source.text[start:end])
        self._starts += self._source.starts[start:end]
        self._ends += self._source.ends[start:end]

    def replace(self, start: int, end: int, content: str) -> None:
        """Go on with other characters, all of which stand where the piece stood."""
        self._pieces.append(content)
        self._starts += [self._source.starts[start]] * len(content)
        self._ends += [self._source.ends[end - 1]] * len(content)

    def aligned(self) -> Aligned:
        return Aligned("".join(self._pieces), self._starts, self._ends)


def _letters(text: str, compose: Callable[[str], str]) -> list[Span]:
    """The shortest pieces of a text whose forms put together are that of the text."""
    pieces: list[Span] = []
    start = 0
    for place in range(1, len(text)):
        if combining(text[place]):
            continue
        piece, character = text[start:place], text[place]
        if compose(piece + character) == compose(piece) + compose(character):
            pieces.append((start, place))
            start = place
    return [*pieces, (start, len(text))] if text else []
