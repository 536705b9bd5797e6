"""How figures look, and how users' text stands in them: as it is, or escaped where no font has its letters."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attn_faithful.reports.escaping import plain
from attn_faithful.reports.palette import INK, MUTED, RULE

FONT = "DejaVu Sans"  # comes with matplotlib
_LETTERS = 32  # of a name, beyond which it is cut
_LETTER = 0.072  # inches of a letter in a legend
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

    with mpl.rc_context({**_STYLE, "font.family": [FONT, *_fonts_for(frozenset("".join(texts))), "sans-serif"]}):
        yield


def safe(text: object, letters: int = _LETTERS) -> str:
    r"""Text that matplotlib shows as it is: no formula, no missing glyph, no more than so many letters.

    Example:
        >>> print(safe("$x$ a_b"), safe("\U000f0000"), safe("a" * 50)[-3:])
        \$x\$ a_b \U000f0000 aa…
    """
    import matplotlib as mpl

    shown = plain(str(text))
    if len(shown) > letters:
        shown = shown[: letters - 1] + "…"
    families = mpl.rcParams["font.family"]
    known = frozenset().union(*(_letters(name) for name in {FONT, *families}))
    return "".join(c if ord(c) in known else _escaped(c) for c in shown).replace("$", r"\$")


def _escaped(c: str) -> str:
    return "" if unicodedata.category(c) == "Cf" else c.encode("unicode_escape").decode()


@functools.cache
def _letters(family: str) -> frozenset[int]:
    """Code points that an installed font has; none where there is no such font."""
    from matplotlib import font_manager, ft2font

    found = [font for font in font_manager.fontManager.ttflist if font.name == family and font.style == "normal"]
    if not found:
        return frozenset()
    path = min(found, key=lambda font: abs(int(font.weight) - 400) if str(font.weight).isdigit() else 0).fname
    try:
        return frozenset(ft2font.FT2Font(path).get_charmap())
    except (OSError, RuntimeError):  # a font that was removed, or is none
        return frozenset()


@functools.cache
def _fonts_for(letters: frozenset[str]) -> tuple[str, ...]:
    """Installed fonts for what the usual one lacks, as few as needed."""
    missing = {ord(c) for c in letters} - _letters(FONT)
    if not missing:
        return ()
    from matplotlib import font_manager

    chosen: list[str] = []
    names = sorted({font.name for font in font_manager.fontManager.ttflist})
    for name in (name for name in names if name != FONT and not name.startswith(_NO_FONTS)):
        if missing & _letters(name):
            chosen.append(name)
            missing -= _letters(name)
        if not missing:
            break
    return tuple(chosen)


def corner(ax: Any, text: str, place: str = "right") -> None:
    """A short note above the axes' right or left end: how many texts it shows."""
    x = 1.0 if place == "right" else 0.0
    ax.annotate(
        text,
        (x, 1.0),
        xytext=(0, 3),
        textcoords="offset points",
        xycoords="axes fraction",
        ha=place,
        va="bottom",
        fontsize=7.5,
        color=MUTED,
    )


def beneath(ax: Any, handles: Sequence[Any], labels: Sequence[str]) -> Any:
    """A legend below the axis and its name, where it hides nothing."""
    width = ax.get_position().width * ax.figure.get_figwidth()
    columns = 2 if len(labels) > 1 and 2 * (max(map(len, labels)) * _LETTER + 0.4) < width else 1
    legend = ax.legend(
        handles,
        labels,
        loc="upper left",
        ncols=columns,
        borderaxespad=0,
        columnspacing=1.2,
        handletextpad=0.5,
        handlelength=2.2,
        labelspacing=0.35,
    )
    _anchor(ax, legend, 0.5)
    return legend


def few_ticks(ax: Any) -> None:
    """At most a handful of ticks, the same however large the page is drawn."""
    from matplotlib.ticker import MaxNLocator

    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_locator(), MaxNLocator):
            axis.get_major_locator().set_params(nbins=6)


def below_axis(ax: Any, renderer: Any) -> None:
    """Move the legend right below what the axis holds, as it turned out."""
    legend = ax.get_legend()
    if legend is not None:
        used = ax.xaxis.get_tightbbox(renderer)
        _anchor(ax, legend, (ax.bbox.y0 - used.y0) / ax.figure.dpi + 0.07)


def _anchor(ax: Any, legend: Any, inches: float) -> None:
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -inches, ax.figure.dpi_scale_trans)
    legend.set_bbox_to_anchor((0, 0), transform=ax.transAxes + down)


def counted(n: int, undefined: int = 0) -> str:
    """How many texts, and for how many the value is undefined.

    Example:
        >>> counted(1641, 6), counted(3)
        ('n = 1,641 (6 undefined)', 'n = 3')
    """
    return f"n = {n:,}" + (f" ({undefined:,} undefined)" if undefined else "")
