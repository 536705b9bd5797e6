"""The figure of AttentionBench: how well each number tells what explains from each kind that does not."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from attn_faithful.records.bench import EVERY, EXPLANATION, MODEL, TEXT, BenchResult
from attn_faithful.reports.figures.marks import DASHED
from attn_faithful.reports.figures.style import safe, style
from attn_faithful.reports.leaderboard import CHANCE, NOTHING, UNDEFINED, Cell, Row, kinds_of, number_rows
from attn_faithful.reports.palette import MUTED, RULE, hue_of

_ROW, _PANEL, _LETTER = 0.21, 1.05, 0.062  # inches: height of a row, width of a panel, width of a letter
_GAP, _HEAD, _FOOT, _RIM = 0.12, 0.56, 0.5, 0.1  # inches
_LONGEST = 60  # letters of a number's name


def auc_figure(result: BenchResult, level: str = "") -> Any:
    """A row of dots a number, one a kind, each with its 95% interval, as a figure of matplotlib.

    Dots are hollow where the interval holds 0.5, and so the number tells nothing; a number that is undefined against a
    kind has no dot there. Numbers stand in the order of their AUC over all kinds.

    Args:
        result: of a test or an explanation.
        level: "model" or "text" of a test, "token" of an explanation; "" for "model" where there is one, or what there
            is.

    Example:
        >>> from attn_faithful.records.bench import BenchScore
        >>> score = BenchScore("tau", "attention", "all", "model", "all", 0.9, 0.8, 1.0, 5, 5)
        >>> figure = auc_figure(BenchResult("mine", "test", "m:f", "0" * 64, [score]))
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['tau, attention']
    """
    kinds = kinds_of([result])
    rows = _shown(result, kinds, level)
    names = [row.title for row in rows]
    with style([*names, *kinds, result.name]):
        return _draw(result, rows, kinds)


def auc_svg(result: BenchResult, level: str = "") -> bytes:
    """`auc_figure` as an SVG file."""
    content = io.BytesIO()
    figure = auc_figure(result, level)
    with style():
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return content.getvalue()


def _shown(result: BenchResult, kinds: Sequence[str], level: str) -> list[Row]:
    """The rows of one level, over all lengths, the best first; those that are undefined everywhere are left out."""
    levels = {score.level for score in result.scores}
    chosen = level or next(name for name in (MODEL, TEXT, *sorted(levels)) if name in levels)
    rows = []
    for row in number_rows(result, kinds):
        is_here = row.place[2:] == (chosen, EVERY)
        if is_here and any(cell.says != UNDEFINED for cell in row.cells):
            rows.append(row)
    return sorted(rows, key=_worst_last)


def _worst_last(row: Row) -> float:
    auc = row.cells[0].auc
    return math.inf if math.isnan(auc) else -auc


def _draw(result: BenchResult, rows: Sequence[Row], kinds: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    names = [safe(row.title, _LONGEST) for row in rows]
    left = _RIM + _LETTER * max(map(len, names), default=0) + _GAP
    width = left + len(kinds) * (_PANEL + _GAP) + _RIM
    body = _ROW * max(1, len(rows))
    height = _HEAD + body + _FOOT
    figure = Figure(figsize=(width, height))
    for column, kind in enumerate(kinds):
        x = left + column * (_PANEL + _GAP)
        ax = figure.add_axes((x / width, _FOOT / height, _PANEL / width, body / height))
        _draw_kind(ax, [row.cells[column] for row in rows], [hue_of(row.place[1]).light for row in rows])
        ax.set_title("all" if kind == EVERY else safe(kind, 16))
        ax.set_yticks(range(len(rows)), names if column == 0 else [""] * len(rows))
    what = "decisive words from the others" if result.entry == EXPLANATION else "attention that explains from others"
    figure.text(_RIM / width, 1 - 0.08 / height, safe(result.name, _LONGEST), va="top", fontsize=11, fontweight="bold")
    figure.text(
        _RIM / width,
        0.08 / height,
        f"AUC of telling {what}, by kind of model, with 95% intervals; hollow: tells nothing",
        va="bottom",
        fontsize=7.5,
        color=MUTED,
    )
    return figure


def _draw_kind(ax: Any, cells: Sequence[Cell], colours: Sequence[str]) -> None:
    """The dots of one kind, the first number on top."""
    for y, (cell, colour) in enumerate(zip(cells, colours, strict=True)):
        if cell.says == UNDEFINED:
            continue
        fill = "white" if cell.says == NOTHING else colour
        ax.plot(cell.interval, (y, y), color=colour, linewidth=1.2, solid_capstyle="butt", zorder=2)
        ax.plot(cell.auc, y, "o", color=fill, markeredgecolor=colour, markersize=4.5, zorder=3)
    ax.axvline(CHANCE, **DASHED)
    ax.set_xlim(-0.04, 1.04)
    ax.set_ylim(max(1, len(cells)) - 0.5, -0.5)
    ax.set_xticks((0, 0.5, 1), ("0", ".5", "1"))
    ax.grid(axis="y", color=RULE, linewidth=0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
