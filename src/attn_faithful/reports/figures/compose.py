"""Panels on a page: laid out, drawn, and written as png and svg."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful.reports.figures.base import Cell, Figure, Panel
from attn_faithful.reports.figures.style import safe, style
from attn_faithful.reports.palette import MUTED

A_PAGE = 24  # panels; more of them go on further pages
_COLUMNS = 3
_MARGIN = 0.55  # inches that a panel of boxes needs beside its rows
_LONG = 80  # letters of a panel's title
_NARROWEST = 5.0  # inches
_LETTERS_AN_INCH = 10  # of the title


def sheets(figure: Figure, panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    """The panels of each page."""
    return [panels[start : start + A_PAGE] for start in range(0, len(panels), A_PAGE)]


def draw(figure: Figure, panels: Sequence[Panel]) -> Any:
    """A matplotlib figure with these panels. Call it within `style`."""
    from matplotlib.figure import Figure as Canvas

    columns = min(2 if panels[0].rows or len(panels) == 4 else _COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    heights = [_height(figure, panels[row * columns : (row + 1) * columns]) for row in range(rows)]
    width = max(figure.size[0] * columns, _NARROWEST)
    title = textwrap.fill(figure.title, int(width * _LETTERS_AN_INCH))
    lines = title.count("\n") + 1
    canvas = Canvas(figsize=(width, sum(heights) + 0.25 * lines + 0.25), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False, height_ratios=heights)
    for ax, panel in zip(axes.flat, panels, strict=False):
        figure.draw(ax, **panel.data)
        if panel.title:
            room = max(int(figure.size[0] * _LETTERS_AN_INCH) - 10, 20)  # the corner beside it says how many texts
            ax.set_title(textwrap.fill(safe(panel.title, _LONG), room, max_lines=2, placeholder="…"))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    canvas.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    canvas.supxlabel(figure.paper, x=0.99, ha="right", fontsize=7, color=MUTED)
    return canvas


def _height(figure: Figure, panels: Sequence[Panel]) -> float:
    rows = max(panel.rows for panel in panels)
    return figure.size[1] * rows + _MARGIN + 0.35 if rows else figure.size[1] + 0.25


def letters(cells: Sequence[Cell]) -> list[str]:
    """The texts of users that may stand in figures."""
    return [text for cell in cells for text in (cell.title, *cell.label_names)]


def write(figure: Figure, panels: Sequence[Panel], folder: Path, stem: str, texts: Sequence[str]) -> list[Path]:
    """Write a figure's pages as png and svg; returns the png of each."""
    written = []
    with style(texts):
        for number, page in enumerate(sheets(figure, panels), 1):
            canvas = draw(figure, page)
            canvas.draw_without_rendering()
            canvas.set_layout_engine("none")  # laid out once, for both files
            name = stem if len(panels) <= A_PAGE else f"{stem}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            canvas.savefig(folder / f"{name}.png", metadata={"Software": None})
            canvas.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            written.append(folder / f"{name}.png")
    return written


def png(figure: Figure, panels: Sequence[Panel], texts: Sequence[str]) -> bytes:
    """The first page of a figure."""
    with style(texts):
        held = io.BytesIO()
        draw(figure, sheets(figure, panels)[0]).savefig(held, format="png", dpi=110, metadata={"Software": None})
    return held.getvalue()
