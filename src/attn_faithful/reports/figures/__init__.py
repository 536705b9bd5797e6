"""The papers' figures from run folders: each a function of axes and arrays, and an entry that says what it needs."""

from attn_faithful.reports.figures import amini_kosseim, jain_wallace, meister, serrano_smith
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, cells, common_title
from attn_faithful.reports.figures.compose import draw, letters, png, write
from attn_faithful.reports.figures.style import style

FIGURES: dict[str, Figure] = {
    figure.name: figure for paper in (jain_wallace, serrano_smith, amini_kosseim, meister) for figure in paper.FIGURES
}

__all__ = [
    "FIGURES",
    "Cell",
    "Figure",
    "Missing",
    "Panel",
    "cells",
    "common_title",
    "draw",
    "letters",
    "png",
    "style",
    "write",
]
