"""Tables of the documentation in Markdown, from estimates, printed rows and claims."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evidence.claims import Claim
from evidence.estimates import Estimate
from evidence.printed import Row


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a bar within a cell is escaped."""
    lines = [_line(head), _line(["---"] * len(head))]
    lines += [_line(row) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def number(value: float, digits: int = 3) -> str:
    """A number with so many decimal places; "undefined" for NaN."""
    if math.isnan(value):
        return "undefined"
    text = f"{value:.{digits}f}"
    return text.replace("-0.000", "0.000") if float(text) == 0 else text


def interval(estimate: Estimate, digits: int = 3) -> str:
    """The ends of an interval; "" where there is none."""
    if math.isnan(estimate.low):
        return ""
    return f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def printed_table(rows: Sequence[Row], metrics: dict[str, str]) -> str:
    """Ours beside the printed numbers.

    Args:
        rows: in the order of the table.
        metrics: metric as a recipe writes it -> its title; others are left out.
    """
    lines = []
    for row in rows:
        if row.metric not in metrics:
            continue
        start = [" ".join(row.key), metrics[row.metric], f"{row.paper:g}"]
        if row.ours is None:
            lines.append([*start, row.reason, "", "", "", ""])
            continue
        counts = [str(row.ours.seeds), str(row.ours.n // row.ours.seeds)]
        lines.append([*start, number(row.ours.value), interval(row.ours), *counts, row.within])
    return table(["cell", "number", "paper", "ours", "95%", "seeds", "texts", "within"], lines)


def claims_table(claims: Sequence[Claim]) -> str:
    """Claims with what was measured and what the interval says."""
    lines = []
    for claim in claims:
        ours = claim.estimate
        value = number(ours.value) if ours.seeds else ""
        seeds = str(ours.seeds) if ours.seeds else ""
        shown = interval(ours) if ours.seeds else ""
        lines.append([claim.says, claim.where, claim.measure, claim.bound, value, shown, seeds, claim.verdict])
    return table(["claim", "data", "number", "claimed", "ours", "95%", "seeds", "verdict"], lines)
