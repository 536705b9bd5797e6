"""Finds what is kept of the stock models, and writes their numbers."""

from __future__ import annotations

import math

from evidence.cells import CellSummary, Number, all_cells
from evidence.collect_stock import PAPER
from evidence.markdown import number


def cells_of(data: str) -> list[CellSummary]:
    """What is kept of a data set."""
    return [cell for cell in all_cells() if cell.paper == PAPER and cell.axes["data"] == data]


def cell_of(data: str, part: str) -> CellSummary | None:
    """What is kept of a part of a data set; None where it was not run."""
    for cell in cells_of(data):
        if cell.axes["part"] == part:
            return cell
    return None


def layers_of(cell: CellSummary) -> list[str]:
    """The layers that were tested, from the input up."""
    return sorted({each.site for each in cell.numbers if each.site.startswith("layer.")})


def shown_of(cell: CellSummary | None, metric: str, source: str, site: str | None = None, ends: bool = True) -> str:
    """A number with or without its interval; "" where it was not measured."""
    for found in [] if cell is None else cell.find(metric, source):
        if site in (None, found.site):
            return shown(found, ends=ends)
    return ""


def pair_of(cell: CellSummary | None, source: str, other: str, site: str | None = None) -> Number | None:
    """The rank correlation of two sources, whichever stands first, at a site or the last one."""
    if cell is None:
        return None
    found = []
    for pair in (f"{source}~{other}", f"{other}~{source}"):
        found += cell.find("attention_correlation", pair)
    at_site = [each for each in found if site in (None, each.site)]
    return max(at_site, key=lambda each: each.site, default=None)


def shown(found: Number | None, digits: int = 2, ends: bool = True) -> str:
    """A number with or without its 95% interval; "undefined" with the reason."""
    if found is None:
        return ""
    if math.isnan(found.value):
        return f"undefined: {', '.join(found.reasons)}"
    value = number(found.value, digits)
    if not ends or math.isnan(found.low):
        return value
    return f"{value} ({number(found.low, digits)} to {number(found.high, digits)})"
