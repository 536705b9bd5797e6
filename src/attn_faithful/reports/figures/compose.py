"""Panels on a page: drawn, measured, laid out, and written as png and svg."""

from __future__ import annotations

import io
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful.reports.figures.base import Cell, Figure, Panel, common_title
from attn_faithful.reports.figures.style import below_axis, few_ticks, safe, style
from attn_faithful.reports.palette import MUTED

ROWS = 6  # of panels on a page; more of them go on further pages
_COLUMNS = 3
_MOST_COLUMNS = 4  # where each cell has a row of its own
_LONG = 80  # letters of a panel's title
_LETTERS_AN_INCH = 12.5  # of a panel's title
_HEAD_LETTERS_AN_INCH = 10.5  # of the figure's
_CORNER = 1.0  # inches of a title's last line that the corner needs
_DESK = 30.0  # inches of the canvas on which panels are measured
_GAP, _RIM = 0.22, 0.12  # inches between panels, and around them
_NARROWEST = 4.4  # inches


def columns_of(panels: Sequence[Panel]) -> int:
    """Panels beside one another: a row a cell where cells have several."""
    groups = Counter(panel.group for panel in panels)
    widest = max(groups.values())
    if panels[0].group and 1 < widest <= _MOST_COLUMNS and set(groups.values()) == {widest}:
        return widest
    return min(2 if panels[0].rows or len(panels) == 4 else _COLUMNS, len(panels))


def sheets(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    """The panels of each page."""
    step = ROWS * columns_of(panels)
    return [panels[start : start + step] for start in range(0, len(panels), step)]


def draw(figure: Figure, panels: Sequence[Panel], subtitle: str = "") -> Any:
    """A matplotlib figure with these panels. Call it within `style`.

    Every pair of axes has the size that the figure names; what stands around it makes the page larger, and never the
    axes smaller.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Page

    page = Page(figsize=(_DESK, _DESK))
    renderer = FigureCanvasAgg(page).get_renderer()
    sizes = [(figure.size[0], figure.size[1] * (panel.rows or 1)) for panel in panels]
    axes = [page.add_axes((0.3, 0.3, width / _DESK, height / _DESK)) for width, height in sizes]
    for ax, panel, (width, _) in zip(axes, panels, sizes, strict=True):
        figure.draw(ax, **panel.data)
        if panel.title:
            room = int((width - (0 if panel.rows else _CORNER)) * _LETTERS_AN_INCH)
            ax.set_title(textwrap.fill(safe(panel.title, _LONG), max(room, 16), max_lines=3, placeholder="…"))
        few_ticks(ax)
        below_axis(ax, renderer)
    margins = [_margins(ax, renderer) for ax in axes]
    columns = columns_of(panels)
    lefts, rights = ([max(m[side] for m in margins[c::columns]) for c in range(columns)] for side in (0, 1))
    rows = [range(start, min(start + columns, len(panels))) for start in range(0, len(panels), columns)]
    width = 2 * _RIM + sum(lefts) + sum(rights) + columns * figure.size[0] + (columns - 1) * _GAP
    width = max(width, _NARROWEST)
    title = textwrap.wrap(figure.title, int(width * _HEAD_LETTERS_AN_INCH))
    head = _RIM + 0.19 * len(title) + (0.17 if subtitle else 0) + 0.1
    tops, bottoms, heights = (
        [max(values[i] for i in row) for row in rows]
        for values in ([m[2] for m in margins], [m[3] for m in margins], [size[1] for size in sizes])
    )
    height = head + sum(tops) + sum(bottoms) + sum(heights) + _GAP * (len(rows) - 1) + 0.3
    page.set_size_inches(width, height)
    y = height - head
    for row, top, bottom, tall in zip(rows, tops, bottoms, heights, strict=True):
        y -= top
        x = _RIM
        for column, i in enumerate(row):
            x += lefts[column]
            own = sizes[i][1]
            axes[i].set_position((x / width, (y - own) / height, figure.size[0] / width, own / height))
            x += figure.size[0] + rights[column] + _GAP
        y -= tall + bottom + _GAP
    place = {"ha": "left", "va": "top"}
    page.text(_RIM / width, 1 - _RIM / height, "\n".join(title), fontsize=11, fontweight="bold", **place)
    if subtitle:
        below = _RIM + 0.19 * len(title) + 0.02
        page.text(_RIM / width, 1 - below / height, safe(subtitle, _LONG), fontsize=8.5, color=MUTED, **place)
    page.text(1 - _RIM / width, 0.06 / height, figure.paper, ha="right", va="bottom", fontsize=7, color=MUTED)
    return page


def _margins(ax: Any, renderer: Any) -> tuple[float, float, float, float]:
    """Inches that the axes' names, ticks, title and legend need: left, right, above, below."""
    whole, inner, dpi = ax.get_tightbbox(renderer), ax.bbox, ax.figure.dpi
    return (
        max(inner.x0 - whole.x0, 0) / dpi,
        max(whole.x1 - inner.x1, 0) / dpi,
        max(whole.y1 - inner.y1, 0) / dpi,
        max(inner.y0 - whole.y0, 0) / dpi,
    )


def letters(cells: Sequence[Cell]) -> list[str]:
    """The texts of users that may stand in figures."""
    return [text for cell in cells for text in (cell.title, *cell.label_names)]


def write(figure: Figure, panels: Sequence[Panel], folder: Path, stem: str, cells: Sequence[Cell]) -> list[Path]:
    """Write a figure's pages as png and svg; returns the png of each."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    with style(letters(cells)):
        pages = sheets(panels)
        for number, shown in enumerate(pages, 1):
            page = draw(figure, shown, common_title(cells))
            path = folder / (f"{stem}.png" if len(pages) == 1 else f"{stem}-{number}.png")
            page.savefig(path, metadata={"Software": None})
            page.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
            written.append(path)
    return written


def png(figure: Figure, panels: Sequence[Panel], cells: Sequence[Cell]) -> bytes:
    """The first page of a figure."""
    held = io.BytesIO()
    with style(letters(cells)):
        page = draw(figure, sheets(panels)[0], common_title(cells))
        page.savefig(held, format="png", dpi=110, metadata={"Software": None})
    return held.getvalue()
