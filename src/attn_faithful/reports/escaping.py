"""Escaping of users' text, such as names of classes and data sets, in Markdown, LaTeX and figures."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable

# "]" makes a link only before these, or a line of its own before ":"; a "_" within a word is no emphasis
_MARKDOWN = re.compile(
    r"[\\`*|<>&$]|\](?=[(\[])|(?<!\[)\](?=:)|(?<!\w)_|_(?!\w)|~~"
    r"|^(?=#+(?: |$)|[+>](?: |$)|- |-{2,}$|=+$)|^\d+(?=[.)](?: |$))"
)
# signs that some reader takes for mathematics or code even behind a backslash
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\\": "&#92;", "$": "&#36;", "`": "&#96;", "~~": r"\~\~"}

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"{\char34}",
    "`": r"\textasciigrave{}",
    "\u00a0": "~",
    "\u00b1": r"\ensuremath{\pm}",
    "\u2264": r"\ensuremath{\le}",
    "\u2265": r"\ensuremath{\ge}",
    "\u00d7": r"\ensuremath{\times}",
    "\u03bb": r"\ensuremath{\lambda}",
    "\u03c4": r"\ensuremath{\tau}",
    "\u03b1": r"\ensuremath{\alpha}",
    "\u03b5": r"\ensuremath{\varepsilon}",
    "\u0394": r"\ensuremath{\Delta}",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "{'}",
    "\u201c": "``",
    "\u201d": "{''}",
    "\u2026": r"\ldots{}",
    "\u2212": r"\ensuremath{-}",
}
# letters that LaTeX knows of itself once they are UTF-8: Latin-1 and Latin Extended-A
_KNOWN_LETTERS = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e]")
_DOUBLED = "-',"  # two of them run together into another sign
_UNKNOWN = r"\unicodetext"


def plain(text: str) -> str:
    """One line without control characters and without marks of direction.

    Example:
        >>> plain("a" + chr(10) + "b" + chr(0) + chr(0x202E) + "c")
        'a b c'
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    shown = "".join(_plain_letter(letter) for letter in text)
    return re.sub(r"\s+", " ", shown).strip()


def _plain_letter(letter: str) -> str:
    if unicodedata.category(letter) in ("Cc", "Zl", "Zp"):
        return " "
    if "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069":  # marks of direction
        return ""
    return letter


def markdown(text: str) -> str:
    r"""Text as Markdown shows it unchanged, within a table's cell too.

    Example:
        >>> print(markdown("a_b | <b>x</b> *y* $z$"), markdown("[0.1, 0.2]"), markdown("[x](y)"))
        a_b \| &lt;b&gt;x&lt;/b&gt; \*y\* &#36;z&#36; [0.1, 0.2] [x\](y)
    """
    return _MARKDOWN.sub(_escaped, plain(text))


def _escaped(match: re.Match[str]) -> str:
    sign = match[0]
    if sign.isdigit():  # "1." begins a list
        return sign + "\\"
    return _NAMED.get(sign, "\\" + sign)


def latex(text: str) -> str:
    r"""Text as LaTeX sets it unchanged.

    Letters that pdflatex lacks are given twice: as they are, for XeLaTeX and LuaLaTeX, and as code points.

    Example:
        >>> print(latex("50% of $a_b$ & {x}"), latex("0.5 ±0.1"), latex("好"))
        50\% of \$a\_b\$ \& \{x\} 0.5 \ensuremath{\pm}0.1 \unicodetext{好}{U+597D}
    """
    pieces: list[str] = []
    for known, letters in itertools.groupby(plain(text), _is_known):
        if not known:
            pieces.append(_unknown("".join(letters)))
            continue
        for letter in letters:
            piece = _LATEX.get(letter, letter)
            if letter in _DOUBLED and pieces and pieces[-1].endswith(letter):
                piece = "{}" + letter
            pieces.append(piece)
    return "".join(pieces)


def _is_known(letter: str) -> bool:
    """Whether pdflatex has the letter."""
    return letter.isascii() or letter in _LATEX or _KNOWN_LETTERS.match(letter) is not None


def _unknown(letters: str) -> str:
    codes = " ".join(f"U+{ord(letter):04X}" for letter in letters)
    return f"{_UNKNOWN}{{{letters}}}{{{codes}}}"


def preamble(lines: Iterable[str]) -> list[str]:
    """The definitions that lines of LaTeX from `latex` need before them."""
    if not any(_UNKNOWN in line for line in lines):
        return []
    return [rf"\providecommand{{{_UNKNOWN}}}[2]{{\ifdefined\Umathcode #1\else #2\fi}} % pdfTeX lacks \Umathcode"]
