"""What our tokenizers do to a text before they cut it, and where each character that is left stood in it."""

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
        >>> seen = Aligned.of("cafe\\u0301 3").composed(lambda text: text.replace("e\\u0301", "\\u00e9"))
        >>> seen = seen.replaced([(5, 6)], "qqq")
        >>> seen.text, seen.starts, seen.ends
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
        seen, starts, ends, at = [], [], [], 0
        for start, end in [*spans, (len(self.text), len(self.text))]:
            seen.append(self.text[at:start])
            starts.extend(self.starts[at:start])
            ends.extend(self.ends[at:start])
            if end > start:
                seen.append(content)
                starts.extend([self.starts[start]] * len(content))
                ends.extend([self.ends[end - 1]] * len(content))
            at = end
        return Aligned("".join(seen), starts, ends)

    def composed(self, compose: Callable[[str], str]) -> Aligned:
        """The same in another form of Unicode, letter by letter: what a letter becomes stands where all of it stood."""
        whole = compose(self.text)
        if whole == self.text:
            return self
        seen, starts, ends = [], [], []
        for start, end in _letters(self.text, compose):
            content = compose(self.text[start:end])
            seen.append(content)
            while start < end - 1 and content[:1] == self.text[start]:  # what stays as it is stays where it is
                starts.append(self.starts[start])
                ends.append(self.ends[start])
                content, start = content[1:], start + 1
            starts.extend([self.starts[start]] * len(content))
            ends.extend([self.ends[end - 1]] * len(content))
        return Aligned("".join(seen), starts, ends)


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
