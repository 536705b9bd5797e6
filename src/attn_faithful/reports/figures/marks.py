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
        members = []
        for index, name in enumerate(self.names):
            of_class = np.asarray(self.predicted) == index  # (B,)
            members.append((name, known & of_class))
        return members


def counted(n: int, undefined: int = 0) -> str:
    """How many texts, and for how many the value is undefined.

    Example:
        >>> counted(1641, 6), counted(3)
        ('n = 1,641 (6 undefined)', 'n = 3')
    """
    if undefined:
        return f"n = {n:,} ({undefined:,} undefined)"
    return f"n = {n:,}"


def corner(ax: Any, text: str) -> None:
    """A short note above the right end of the axes: how many texts they show."""
    top_right = (1.0, 1.0)
    _note(ax, text, top_right, (0, 3), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5)


def row_note(ax: Any, row: int, text: str) -> None:
    """A short note at the right end of a row of boxes."""
    right_end = (1.0, row)  # x in shares of the axes, y in rows
    place = ax.get_yaxis_transform()
    _note(ax, text, right_end, (4, 0), xycoords=place, va="center", fontsize=7.5, annotation_clip=False)


def above(ax: Any, text: str, point: tuple[float, float], **style: Any) -> None:
    """A short note right above a point of the data."""
    _note(ax, text, point, (0, 2), va="bottom", **style)


def _note(ax: Any, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """A text that lies an offset in points away from a point."""
    ax.annotate(text, point, xytext=offset, textcoords="offset points", color=MUTED, **style)


def few_ticks(ax: Any) -> None:
    """At most a handful of ticks, the same however large the page is drawn."""
    from matplotlib.ticker import MaxNLocator

    for axis in (ax.xaxis, ax.yaxis):
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=6)


def beneath(ax: Any, handles: Sequence[Any], labels: Sequence[str]) -> Any:
    """A legend below the axis, where it hides nothing; `below_axis` moves it once ticks and name are known."""
    axes_width = ax.get_position().width * ax.figure.get_figwidth()  # inches
    longest = max(len(label) for label in labels)
    entry_width = longest * _LETTER + 0.4
    side_by_side = len(labels) > 1 and 2 * entry_width < axes_width
    columns = 2 if side_by_side else 1
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


def below_axis(ax: Any, renderer: Any) -> None:
    """Move the legend right below the ticks and the name of the axis."""
    legend = ax.get_legend()
    if legend is not None:
        axis_box = ax.xaxis.get_tightbbox(renderer)
        axis_height = (ax.bbox.y0 - axis_box.y0) / ax.figure.dpi  # inches
        _anchor(ax, legend, axis_height + 0.07)


def _anchor(ax: Any, legend: Any, inches: float) -> None:
    """Set a legend so far below the axes."""
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -inches, ax.figure.dpi_scale_trans)
    legend.set_bbox_to_anchor((0, 0), transform=ax.transAxes + down)
