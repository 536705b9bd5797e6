"""The look of figures, and users' text in them: unchanged, or escaped where no font has its letters."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from attn_faithful.reports.escaping import plain
from attn_faithful.reports.palette import INK, MUTED, RULE

FONT = "DejaVu Sans"  # comes with matplotlib
_LETTERS = 32  # of a name, beyond which it is cut
_NO_FONTS = ("Last Resort", "STIX", "cm", "DejaVu Math", "DejaVu Sans Display", "DejaVu Serif Display")

_STYLE: dict[str, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "patch.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "attn_faithful",
    "axes.unicode_minus": True,
    "font.sans-serif": [FONT, "Verdana", "Arial"],  # an SVG's letters where the first is not installed; as wide
    "text.hinting": "none",  # or words are wider in the file than where they were measured
}


@contextmanager
def style(texts: Iterable[str] = ()) -> Iterator[None]:
    """The look of our figures, with fonts for the letters of ``texts`` where some are installed."""
    import matplotlib as mpl

    families = [FONT, *_fonts_for(frozenset("".join(texts))), "sans-serif"]
    with mpl.rc_context({**_STYLE, "font.family": families}):
        yield


def safe(text: object, letters: int = _LETTERS) -> str:
    r"""Text that matplotlib shows literally: no formula, no missing glyph, cut after so many letters.

    Example:
        >>> print(safe("$x$ a_b"), safe("\U000f0000"), safe("a" * 50)[-3:])
        \$x\$ a_b \U000f0000 aa…
    """
    import matplotlib as mpl

    shown = plain(str(text))
    if len(shown) > letters:
        shown = shown[: letters - 1] + "…"
    families = {FONT, *mpl.rcParams["font.family"]}
    known = frozenset().union(*map(_letters, families))
    pieces = [letter if ord(letter) in known else _escaped(letter) for letter in shown]
    return "".join(pieces).replace("$", r"\$")


def _escaped(letter: str) -> str:
    """The code of a letter; "" for a format character, which is not seen anyway."""
    if unicodedata.category(letter) == "Cf":
        return ""
    return letter.encode("unicode_escape").decode()


@functools.cache
def _letters(family: str) -> frozenset[int]:
    """Code points that an installed font has; none where there is no such font."""
    from matplotlib import font_manager, ft2font

    fonts = []
    for font in font_manager.fontManager.ttflist:
        if font.name == family and font.style == "normal":
            fonts.append(font)
    if not fonts:
        return frozenset()
    regular = min(fonts, key=_boldness)
    try:
        return frozenset(ft2font.FT2Font(regular.fname).get_charmap())
    except (OSError, RuntimeError):  # a font that was removed, or is none
        return frozenset()


def _boldness(font: Any) -> int:
    """How far a font is from the usual weight."""
    weight = str(font.weight)
    return abs(int(weight) - 400) if weight.isdigit() else 0


@functools.cache
def _fonts_for(letters: frozenset[str]) -> tuple[str, ...]:
    """Installed fonts for what the usual one lacks, as few as needed."""
    missing = {ord(letter) for letter in letters} - _letters(FONT)
    if not missing:
        return ()
    from matplotlib import font_manager

    chosen: list[str] = []
    for name in sorted({font.name for font in font_manager.fontManager.ttflist}):
        if name == FONT or name.startswith(_NO_FONTS):
            continue
        if missing & _letters(name):
            chosen.append(name)
            missing -= _letters(name)
        if not missing:
            break
    return tuple(chosen)
