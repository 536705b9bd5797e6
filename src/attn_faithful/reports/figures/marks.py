"""What several kinds of figures draw: notes, lines across the axes, groups by class, a legend below the axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.reports.palette import MUTED

MARKERS = "osD^vPX*"
DASHED = {"color": MUTED, "linewidth": 0.9, "linestyle": "--", "zorder": 0}  # a line across the axes, behind everything
_MOST_CLASSES = 4  # drawn apart; more of them are drawn as one
_LETTER = 0.072  # inches of a letter in a legend


@dataclass(frozen=True)
class Classes:
    """The predicted classes of texts.

    Attributes:
        predicted: (B,) index of each text's class.
        names: of the classes.
    """

    predicted: np.ndarray
    names: Sequence[str]

    def members(self, known: np.ndarray, name_of_all: str) -> list[tuple[str, np.ndarray]]:
        """Name and members (B,) of each class; all texts as one where there are more than four classes, or one.

        Args:
            known: (B,) which texts are drawn.
            name_of_all: of the texts as one.
        """
        if not 2 <= len(self.names) <= _MOST_CLASSES:
            return [(name_of_all, known)]
        predicted = np.asarray(self.predicted)
        return [(name, known & (predicted == c)) for c, name in enumerate(self.names)]


def counted(n: int, undefined: int = 0) -> str:
    """How many texts, and for how many the value is undefined.

    Example:
        >>> counted(1641, 6), counted(3)
        ('n = 1,641 (6 undefined)', 'n = 3')
    """
    return f"n = {n:,} ({undefined:,} undefined)" if undefined else f"n = {n:,}"


def corner(ax: Any, text: str) -> None:
    """A short note above the right end of the axes: how many texts they show."""
    _note(ax, text, (1.0, 1.0), (0, 3), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5)


def row_note(ax: Any, row: int, text: str) -> None:
    """A short note at the right end of a row of boxes."""
    place = ax.get_yaxis_transform()
    _note(ax, text, (1.0, row), (4, 0), xycoords=place, va="center", fontsize=7.5, annotation_clip=False)


def above(ax: Any, text: str, point: tuple[float, float], **style: Any) -> None:
    """A short note right above a point of the data."""
    _note(ax, text, point, (0, 2), va="bottom", **style)


def _note(ax: Any, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    ax.annotate(text, point, xytext=offset, textcoords="offset points", color=MUTED, **style)


def few_ticks(ax: Any) -> None:
    """At most a handful of ticks, the same however large the page is drawn."""
    from matplotlib.ticker import MaxNLocator

    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_locator(), MaxNLocator):
            axis.get_major_locator().set_params(nbins=6)


def beneath(ax: Any, handles: Sequence[Any], labels: Sequence[str]) -> Any:
    """A legend below the axis, where it hides nothing; `below_axis` moves it once ticks and name are known."""
    width = ax.get_position().width * ax.figure.get_figwidth()
    entry_width = max(map(len, labels)) * _LETTER + 0.4
    side_by_side = len(labels) > 1 and 2 * entry_width < width
    legend = ax.legend(
        handles,
        labels,
        loc="upper left",
        ncols=2 if side_by_side else 1,
        borderaxespad=0,
        columnspacing=1.2,
        handletextpad=0.5,
        handlelength=2.2,
        labelspacing=0.35,
    )
    _anchor(ax, legend, 0.5)
    return legend


def below_axis(ax: Any, renderer: Any) -> None:
    """Move the legend right below the ticks and the name of the axis."""
    legend = ax.get_legend()
    if legend is not None:
        used = ax.xaxis.get_tightbbox(renderer)
        _anchor(ax, legend, (ax.bbox.y0 - used.y0) / ax.figure.dpi + 0.07)


def _anchor(ax: Any, legend: Any, inches: float) -> None:
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -inches, ax.figure.dpi_scale_trans)
    legend.set_bbox_to_anchor((0, 0), transform=ax.transAxes + down)
