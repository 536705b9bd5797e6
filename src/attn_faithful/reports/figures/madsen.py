"""The figure of Madsen et al. (2022)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from attn_faithful.records.roar import RANDOM
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel
from attn_faithful.reports.figures.marks import MARKERS, beneath, corner
from attn_faithful.reports.figures.means import LINE_STYLES, Line, draw_line
from attn_faithful.reports.palette import RULE, hue_of, tint, title_of
from attn_faithful.reports.roar import MODES, RoarCurve, roar_grids

PAPER = "Madsen et al. 2022"
_METRIC = "accuracy"
_APART = 0.008  # of a text, so that no interval hides another


def _panels(cells: Sequence[Cell]) -> list[Panel]:
    """A panel a model and kind of ROAR."""
    panels = []
    for cell in cells:
        for grid in roar_grids(cell.group):
            random = [curve for curve in grid.curves if curve.source == RANDOM]
            for mode, title in MODES.items():
                curves = [curve for curve in grid.curves if curve.source != RANDOM and curve.mode == mode]
                if not curves:
                    continue
                data = {
                    "curves": curves,
                    "random": random[0] if random else None,
                    "base": cell.group.base.accuracy.mean,
                    "note": f"{len(cell.runs)} seed{'s' if len(cell.runs) > 1 else ''}, {grid.n:,} texts each",
                }
                panels.append(Panel(", ".join(filter(None, [cell.name, title])), data, group=cell.title))
    if not panels:
        raise Missing("needs ROAR, which no recipe of these runs asks for: set roar, as in the recipe roar")
    return panels


def _draw(ax: Any, curves: Sequence[RoarCurve], *, random: RoarCurve | None, base: float, note: str) -> Any:
    """Accuracy against the share of masked tokens; random masks as a band.

    Args:
        ax: where to draw.
        curves: one a source.
        random: that of random masks; None where it is not there yet.
        base: accuracy without masks.
        note: how many seeds and texts.
    """
    if random is not None:
        _draw_random(ax, random)
    for number, (curve, marker, line_style) in enumerate(zip(curves, cycle(MARKERS), cycle(LINE_STYLES), strict=False)):
        beside = (number - (len(curves) - 1) / 2) * _APART
        draw_line(ax, np.asarray(curve.shares) + beside, _line(curve), marker=marker, linestyle=line_style)
    ax.plot(0, base, "D", color=hue_of("smallest").light, markersize=4, label="no masks: the base", zorder=3)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xticks((0, 0.2, 0.4, 0.6, 0.8, 1), ("0", "20%", "40%", "60%", "80%", "100%"))
    ax.grid(axis="y", color=RULE)
    ax.set_xlabel("tokens masked in training and test")
    ax.set_ylabel("accuracy")
    corner(ax, note)
    beneath(ax, *ax.get_legend_handles_labels())
    return ax


def _line(curve: RoarCurve) -> Line:
    points = curve.at(_METRIC)
    means = [point.mean for point in points]
    low = [point.low for point in points]
    high = [point.high for point in points]
    return Line(curve.source, title_of(curve.source), means, low, high)


def _draw_random(ax: Any, random: RoarCurve) -> None:
    line = _line(random)
    hue = hue_of(RANDOM).light
    ax.fill_between(random.shares, line.low, line.high, color=tint(hue, 0.35), linewidth=0, zorder=0)
    ax.plot(random.shares, line.values, color=hue, linewidth=1.2, label="random masks", zorder=1)


FIGURES = (
    Figure(
        name="roar",
        title="Does a model need the words that a source calls important?",
        paper=f"{PAPER}, figure 3",
        reading="Accuracy of models trained anew on texts without the top words of a source, mean over seeds, with 95% "
        "intervals by Student's t; grey: random masks. A line below the grey band: the masked words were needed, and "
        "the rest does not make up for them. In the grey band: no better than chance.",
        metrics=(),
        test="roar",
        panels=_panels,
        draw=_draw,
        size=(3.8, 2.4),
    ),
)
