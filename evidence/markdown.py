"""Tables of the documentation in Markdown, from estimates, printed rows and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evidence.claims import Claim, counted
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
    return text.removeprefix("-") if float(text) == 0 else text


def interval(estimate: Estimate, digits: int = 3) -> str:
    """The ends of an interval; "" where there is none."""
    if math.isnan(estimate.low):
        return ""
    return f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def beside(row: Row | None, digits: int = 2) -> str:
    """The printed number and ours: "0.65 / 0.66 [0.60, 0.72]"; with "*" where ours is not within the band."""
    if row is None:
        return ""
    paper = f"{row.paper:.{digits}f}"
    if row.ours is None or not row.ours.seeds:
        return paper
    mark = "*" if row.within == "no" else ""
    ours = number(row.ours.value, digits) + mark
    if math.isnan(row.ours.low):
        return f"{paper} / {ours}"
    return f"{paper} / {ours} [{number(row.ours.low, digits)}, {number(row.ours.high, digits)}]"


def printed_table(rows: Sequence[Row], titles: Mapping[str, str], digits: int = 2) -> str:
    """A row a cell, a column a metric: the printed number, ours and its interval; below, why rows have none of ours.

    Args:
        rows: in the order of the table.
        titles: metric as a recipe writes it -> title of its column; others are left out.
        digits: decimal places.
    """
    shown = [row for row in rows if row.metric in titles]
    by_cell: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in shown:
        by_cell.setdefault(row.key, {})[row.metric] = row
    lines = []
    missing: dict[str, list[str]] = {}  # reason -> the cells
    for key, of_cell in by_cell.items():
        estimates = [row.ours for row in of_cell.values() if row.ours is not None]
        if not estimates:
            reason = next(iter(of_cell.values())).reason
            missing.setdefault(reason, []).append(" ".join(key))
            continue
        most = max(estimates, key=lambda ours: ours.seeds)
        cells = [beside(of_cell.get(metric), digits) for metric in titles]
        lines.append([" ".join(key), str(most.seeds), str(most.n // most.seeds), *cells])
    made = table(["cell", "seeds", "texts", *titles.values()], lines)
    if not missing:
        return made
    reasons = [f"- {', '.join(cells)}: {reason}" for reason, cells in missing.items()]
    return "\n".join([made, "", "Without a number of ours:", "", *reasons])


def claims_table(claims: Sequence[Claim]) -> str:
    """Claims, each with a table of where it was asked, what was measured and what the interval says."""
    by_claim: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        by_claim.setdefault((claim.says, claim.measure), []).append(claim)
    parts = []
    for (says, measure), same in by_claim.items():
        lines = []
        for claim in same:
            ours = claim.estimate
            shown = [number(ours.value), interval(ours), str(ours.seeds)] if ours.seeds else ["", "", ""]
            lines.append([claim.where, claim.bound, *shown, claim.verdict])
        made = table(["where", "claimed", "ours", "95%", "seeds", "verdict"], lines)
        parts += [f"**{says[0].upper()}{says[1:]}.** {measure[0].upper()}{measure[1:]}:", made]
    return "\n\n".join(parts)


def verdicts_table(by_paper: Mapping[str, Sequence[Claim]]) -> str:
    """How many claims of each paper have which verdict.

    Args:
        by_paper: the paper as a page calls it -> its claims.
    """
    lines = []
    for paper, claims in by_paper.items():
        lines.append([paper, *map(str, counted(claims).values())])
    return table(["paper", *counted([])], lines)
