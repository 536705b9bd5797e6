"""Ways to read a text and the tokens that a tokenizer made of it, so that the one is found in the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from attn_faithful.data.normalization import Aligned

_MARKERS = re.compile("^(##|[\u2581\u0120\u010a]+)|</w>$")  # of pieces, and of the blank before a word
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Reading:
    """One way to read both.

    Attributes:
        name: in words.
        text: the characters of a text that are compared, each with its place; blanks are left out.
        token: the same of a token, or None where it cannot be read this way.
    """

    name: str
    text: Callable[[str], Aligned]
    token: Callable[[str], str | None]


def bare(token: str) -> str:
    """A token without blanks and without the marks of pieces and blanks: ``##ly``, ``Ġgood``, ``▁good``, ``good</w>``.

    Example:
        >>> [bare(token) for token in ("##ly", "\u0120good", "\u2581good", "good</w>", "##")]
        ['ly', 'good', 'good', 'good', '##']
    """
    unmarked = token if token == "##" else _MARKERS.sub("", token)
    return without_blanks(unmarked)


def without_blanks(text: str) -> str:
    """A text without its white space."""
    return "".join(text.split())


def _each(text: str, units: Callable[[str], Iterable[str]]) -> Aligned:
    """What each character of a text is read as, all of it at the place of the character."""
    read: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character.isspace():
            continue
        for unit in units(character):
            read.append(unit)
            places.append(place)
    return Aligned("".join(read), places, [place + 1 for place in places])


def _characters(text: str) -> Aligned:
    return _each(text, lambda character: character)


def folded(text: str) -> str:
    """A text without case, accents, ligatures, other forms of letters and invisible characters.

    Example:
        >>> folded("Caf\u00e9, \ufb01n") == "cafe,fin"
        True
    """
    kept = []
    for character in unicodedata.normalize("NFKD", text).casefold():
        invisible = unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Zs")
        if not invisible and not character.isspace():
            kept.append(character)
    return "".join(kept)


def _folded_characters(text: str) -> Aligned:
    return _each(text, folded)


def _bytes(text: str) -> Aligned:
    """The bytes of UTF-8 as characters below 256."""
    return _each(text, lambda character: character.encode("utf-8", "surrogatepass").decode("latin-1"))


def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in tokens of GPT-2's kind -> the byte.

    Reference:
        Radford et al. (2019), section 2.2, and the code of their tokenizer.

    Example:
        >>> alphabet = byte_alphabet()
        >>> alphabet["!"], alphabet["\u0120"], len(alphabet)
        (33, 32, 256)
    """
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    characters = shown + [256 + place for place in range(len(hidden))]
    return {chr(character): byte for character, byte in zip(characters, shown + hidden, strict=True)}


_ALPHABET = byte_alphabet()


def _bytes_of_alphabet(token: str) -> str | None:
    """A token of GPT-2's kind as bytes, those of blanks left out."""
    if not all(character in _ALPHABET for character in token):
        return None
    values = bytes(_ALPHABET[character] for character in token)
    return _without_ascii_blanks(values)


def _bytes_of_pieces(token: str) -> str:
    """A token of SentencePiece's kind as bytes: ``<0xE6>`` is one."""
    found = _BYTE.fullmatch(token)
    if found:
        return _without_ascii_blanks(bytes([int(found[1], 16)]))
    return _without_ascii_blanks(bare(token).encode("utf-8", "surrogatepass"))


def _without_ascii_blanks(values: bytes) -> str:
    return values.translate(None, b" \t\n\r\x0b\x0c").decode("latin-1")


READINGS = (
    Reading("as they are written", _characters, without_blanks),
    Reading("without the marks of pieces", _characters, bare),
    Reading("without case and accents", _folded_characters, lambda token: folded(bare(token))),
    Reading("as bytes", _bytes, _bytes_of_alphabet),
    Reading("as pieces and bytes", _bytes, _bytes_of_pieces),
)
