"""Text that is safe to print: control characters are shown and not obeyed, unknown characters are replaced."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DEGRADE = "attn_faithful.degrade"  # name of the error handler of streams

_BLANKS = frozenset("\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they turn what follows
_PICTURES = 0x2400  # code point of the picture of NUL; those of the other control characters follow
_DELETE, _DELETE_PICTURE = 0x7F, 0x2421
_SIMPLER = {
    "\u00b1": "+-",
    "\u00d7": "x",
    "\u00b7": ".",
    "\u00a0": " ",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2022": "*",
    "\u2026": "...",
    "\u2192": "->",
    "\u2264": "<=",
    "\u2265": ">=",
}


def visible(text: object) -> str:
    r"""One line without control characters: blanks for line breaks, pictures for the others, escapes for the rest.

    A terminal would obey the control characters of a text (colours, titles, moves, bells), and marks of direction
    would turn what follows; a lone surrogate cannot be written at all.

    Example:
        >>> visible("a" + chr(27) + "[31mb") == "a" + chr(0x241B) + "[31mb"
        True
        >>> print(visible("one" + chr(10) + "two" + chr(0x202E) + chr(0xDC80)))
        one two\u202e\udc80
    """
    line = str(text)
    if line.isascii() and line.isprintable():
        return line
    return "".join(_visible(character) for character in line)


def _visible(character: str) -> str:
    code = ord(character)
    if character in _BLANKS:
        return " "
    if code < 32:
        return chr(_PICTURES + code)
    if code == _DELETE:
        return chr(_DELETE_PICTURE)
    if character in _DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs"):
        return _escaped(character)
    return character


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]


def writable(text: object, encoding: str | None) -> str:
    r"""`visible` text in characters that an encoding has: a simpler one where there is one, else an escape.

    Example:
        >>> writable("0.5 " + chr(0xB1) + "0.1, caf" + chr(0xE9), "ascii")
        '0.5 +-0.1, caf\\xe9'
        >>> writable("caf" + chr(0xE9), "utf-8") == "caf" + chr(0xE9)
        True
    """
    shown = visible(text)
    try:
        shown.encode(encoding or "ascii")
    except LookupError:
        return writable(shown, "ascii")
    except UnicodeEncodeError:
        name = encoding or "ascii"
        return "".join(_degraded(character, name) for character in shown)
    return shown


def _degraded(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return simpler(character)
    return character


def simpler(character: str) -> str:
    """ASCII in place of one character."""
    code = ord(character)
    if _PICTURES <= code < _PICTURES + 32:
        return _escaped(chr(code - _PICTURES))
    if code == _DELETE_PICTURE:
        return _escaped(chr(_DELETE))
    return _SIMPLER.get(character, _escaped(character))


def _degrade(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(simpler, lacking)), error.end


codecs.register_error(DEGRADE, _degrade)


@contextmanager
def degrading(*streams: TextIO | Any) -> Iterator[None]:
    """Replace characters that a stream's encoding lacks by simpler ones, where they would end the program."""
    changed = [(stream, stream.errors) for stream in streams if hasattr(stream, "reconfigure")]
    for stream, _ in changed:
        stream.reconfigure(errors=DEGRADE)
    try:
        yield
    finally:
        for stream, errors in changed:
            if not stream.closed:
                stream.reconfigure(errors=errors)
