"""The figure of Adebayo et al. (2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel
from attn_faithful.reports.figures.marks import counted
from attn_faithful.reports.figures.means import Line, by_depth
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.randomisation import BY_STEP, IGNORES, MODES, TAU, TEST, Curve, curves, ignoring

PAPER = "Adebayo et al. 2018"


def _panels(cells: Sequence[Cell]) -> list[Panel]:
    """Two panels a cell and site, one a mode."""
    panels, reasons = [], []
    for cell in cells:
        for site in cell.sites(TAU):
            panels += _panels_of(cell, site)
            reasons.append(f"{cell.title}: {cell.why(TAU, 'attention', site) or 'undefined'}")
    if not panels and reasons:
        raise Missing(f"undefined in all texts: {reasons[0]}")
    return panels


def _panels_of(cell: Cell, site: str) -> list[Panel]:
    """The panels of the modes in which a tau is defined, all down to one lowest value."""
    records = cell.group.tests
    ignorant = ignoring(records, site)
    drawn = {mode: list(filter(_is_defined, curves(records, site, mode))) for mode in MODES}
    every_curve = chain.from_iterable(drawn.values())
    lowest = min(map(_lowest, every_curve), default=0.0)
    panels = []
    for mode, of_mode in drawn.items():
        if not of_mode:
            continue
        data = {
            "steps": list(of_mode[0].by_step),
            "lines": [_line(curve, ignorant) for curve in of_mode],
            "lowest": lowest,
            "note": counted(max(map(_texts, of_mode))),
        }
        panels.append(Panel(cell.panel_title(TAU, site, MODES[mode]), data, group=f"{cell.title} {site}"))
    return panels


def _is_defined(curve: Curve) -> bool:
    return any(record.n for record in curve.by_step.values())


def _texts(curve: Curve) -> int:
    """The most texts that a step has a tau of."""
    return max(record.n for record in curve.by_step.values())


def _lowest(curve: Curve) -> float:
    """The lowest end of an interval, or mean."""
    ends: list[float] = []
    for record in curve.by_step.values():
        ends += [record.mean, record.low]
    return min(filter(math.isfinite, ends))


def _line(curve: Curve, ignorant: Sequence[str]) -> Line:
    title = title_of(curve.source)
    if curve.source in ignorant:
        title = f"{title} ({IGNORES})"
    records = list(curve.by_step.values())
    means = [record.mean for record in records]
    return Line(curve.source, title, means, [record.low for record in records], [record.high for record in records])


FIGURES = (
    Figure(
        name="randomisation_by_depth",
        title="Does importance change when the model's weights do?",
        paper=f"{PAPER}, section 3",
        reading="Mean tau-b of each importance with itself, once the weights of the named part and of all to its left, "
        "or of this part alone, are drawn as before training; bars: 95% intervals over texts. 1: the same order as "
        "before, so that it says nothing of these weights. Attention stays where only parts above it changed.",
        metrics=tuple(BY_STEP.values()),
        test=TEST,
        panels=_panels,
        draw=by_depth,
        size=(3.8, 2.2),
    ),
)
