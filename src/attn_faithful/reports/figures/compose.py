"""Panels on a page: drawn, laid out, and written as png and svg."""

from __future__ import annotations

import io
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful.reports.figures.base import Cell, Figure, Panel, common_title
from attn_faithful.reports.figures.marks import below_axis, few_ticks
from attn_faithful.reports.figures.style import safe, style
from attn_faithful.reports.palette import MUTED

ROWS = 6  # of panels on a page; more of them go on further pages
_COLUMNS = 3
_MOST_COLUMNS = 4  # where each cell has a row of its own
_LONG = 80  # letters of a panel's title
_LETTERS_AN_INCH = 12.5  # of a panel's title
_HEAD_LETTERS_AN_INCH = 10.5  # of the figure's

# inches
_DESK = 30.0  # of the page before it is fitted to its panels
_NARROWEST = 4.4
_GAP = 0.22  # between panels
_RIM = 0.12  # around them
_CORNER = 1.0  # of a title's last line that the corner needs
_TITLE_LINE = 0.19
_SUBTITLE_LINE = 0.17
_FOOT = 0.2


def columns_of(panels: Sequence[Panel]) -> int:
    """How many panels stand beside one another; where every cell has several, each gets a row of its own."""
    group_sizes = set(Counter(panel.group for panel in panels).values())
    largest = max(group_sizes)
    first = panels[0]
    if first.group and len(group_sizes) == 1 and 1 < largest <= _MOST_COLUMNS:
        return largest
    if first.rows or len(panels) == 4:
        return min(2, len(panels))
    return min(_COLUMNS, len(panels))


def sheets(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    """The panels of each page."""
    step = ROWS * columns_of(panels)
    return [panels[start : start + step] for start in range(0, len(panels), step)]


def draw(figure: Figure, panels: Sequence[Panel], subtitle: str = "") -> Any:
    """A matplotlib figure with these panels. Call it within `style`.

    Every pair of axes has the size that the figure names; names, ticks and legends around it enlarge the page. The
    layout is made on a page that is larger than needed, on which axes have their sizes before there is any layout.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Page

    page = Page(figsize=(_DESK, _DESK), layout="constrained")
    page.get_layout_engine().set(w_pad=_GAP / 2, h_pad=_GAP / 2, wspace=0, hspace=0)
    renderer = FigureCanvasAgg(page).get_renderer()
    columns = columns_of(panels)
    rows = math.ceil(len(panels) / columns)
    grid = page.add_gridspec(rows, columns)
    for i, panel in enumerate(panels):
        width, height = figure.size_of(panel)
        ax = page.add_axes((0.3, 0.3, width / _DESK, height / _DESK))
        _draw_panel(ax, figure, panel)
        below_axis(ax, renderer)
        row, column = divmod(i, columns)
        ax.set_subplotspec(grid[row, column])
    page.get_layout_engine().execute(page)
    page.set_layout_engine(None)  # or every file would be drawn twice
    _shrink(page, figure, panels, safe(subtitle, _LONG))
    return page


def _draw_panel(ax: Any, figure: Figure, panel: Panel) -> None:
    figure.draw(ax, **panel.data)
    if panel.title:
        width = figure.size[0] if panel.rows else figure.size[0] - _CORNER
        letters = max(int(width * _LETTERS_AN_INCH), 16)
        title = safe(panel.title, _LONG)
        ax.set_title(textwrap.fill(title, letters, max_lines=3, placeholder="…"))
    few_ticks(ax)


def _shrink(page: Any, figure: Figure, panels: Sequence[Panel], subtitle: str) -> None:
    """Give the axes their sizes, shrink the page by the difference, and add the titles."""
    columns = columns_of(panels)
    boxes = [ax.get_position() for ax in page.axes]  # all of one size, in shares of the page
    spare_width = boxes[0].width * _DESK - figure.size[0]  # of each column
    spare_heights = _spare_heights(figure, panels, boxes[0].height * _DESK)
    page_width = max(_NARROWEST, _DESK - columns * spare_width)
    title_lines = textwrap.wrap(figure.title, int(page_width * _HEAD_LETTERS_AN_INCH))
    head = _RIM + _TITLE_LINE * len(title_lines)
    page_height = _FOOT + _DESK - sum(spare_heights) + head
    if subtitle:
        page_height += _SUBTITLE_LINE
    page.set_size_inches(page_width, page_height)
    for i, (ax, box, panel) in enumerate(zip(page.axes, boxes, panels, strict=True)):
        row, column = divmod(i, columns)
        left = box.x0 * _DESK - column * spare_width
        top = _FOOT + box.y1 * _DESK - sum(spare_heights[row:])  # the rows below and this one are lower now
        width, height = figure.size_of(panel)
        bottom = top - height
        ax.set_position((left / page_width, bottom / page_height, width / page_width, height / page_height))
    title = "\n".join(title_lines)
    _write(page, _RIM, page_height - _RIM, title, va="top", fontsize=11, fontweight="bold")
    _write(page, _RIM, page_height - head - 0.02, subtitle, va="top", fontsize=8.5, color=MUTED)
    _write(page, page_width - _RIM, 0.06, figure.paper, ha="right", va="bottom", fontsize=7, color=MUTED)


def _spare_heights(figure: Figure, panels: Sequence[Panel], height: float) -> list[float]:
    """What each row of axes, from the top, has above the height of its tallest panel, in inches."""
    columns = columns_of(panels)
    heights = [figure.size_of(panel)[1] for panel in panels]
    spare_heights = []
    for start in range(0, len(heights), columns):
        tallest = max(heights[start : start + columns])
        spare_heights.append(height - tallest)
    return spare_heights


def _write(page: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Write a text at a place of the page in inches."""
    if text:
        width, height = page.get_size_inches()
        page.text(x / width, y / height, text, **style)


def letters(cells: Sequence[Cell]) -> list[str]:
    """The users' texts in figures, for which `style` looks for fonts."""
    texts = []
    for cell in cells:
        texts += [cell.title, *cell.label_names]
    return texts


def write(figure: Figure, panels: Sequence[Panel], folder: Path, stem: str, cells: Sequence[Cell]) -> list[Path]:
    """Write a figure's pages as png and svg; returns the png of each."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = sheets(panels)
    subtitle = common_title(cells)
    paths = []
    with style(letters(cells)):
        for number, panels_of_page in enumerate(pages, 1):
            name = stem if len(pages) == 1 else f"{stem}-{number}"
            path = folder / f"{name}.png"
            page = draw(figure, panels_of_page, subtitle)
            page.savefig(path, metadata={"Software": None})
            page.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
            paths.append(path)
    return paths


def png(figure: Figure, panels: Sequence[Panel], cells: Sequence[Cell]) -> bytes:
    """The first page of a figure."""
    content = io.BytesIO()
    with style(letters(cells)):
        page = draw(figure, sheets(panels)[0], common_title(cells))
        page.savefig(content, format="png", dpi=110, metadata={"Software": None})
    return content.getvalue()
