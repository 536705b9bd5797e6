"""The papers' figures from run folders: each an entry of `FIGURES` that reads its data and a function that draws it."""

from attn_faithful.reports.figures.adebayo import FIGURES as ADEBAYO
from attn_faithful.reports.figures.amini_kosseim import FIGURES as AMINI_KOSSEIM
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, cells, common_title
from attn_faithful.reports.figures.compose import draw, letters, png, write
from attn_faithful.reports.figures.jain_wallace import FIGURES as JAIN_WALLACE
from attn_faithful.reports.figures.madsen import FIGURES as MADSEN
from attn_faithful.reports.figures.meister import FIGURES as MEISTER
from attn_faithful.reports.figures.serrano_smith import FIGURES as SERRANO_SMITH
from attn_faithful.reports.figures.style import style

_ALL = (*JAIN_WALLACE, *SERRANO_SMITH, *AMINI_KOSSEIM, *MEISTER, *ADEBAYO, *MADSEN)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}

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
