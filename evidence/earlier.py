"""Tables of numbers that were measured before summaries were kept: transcribed into summaries/earlier, as CSV.

Lines that begin with ``#`` stand above the header and say where the numbers come from: ``# command:``, ``# versions:``
and what else is to be said. No command makes these numbers anew; the page says so below each table.
"""

from __future__ import annotations

import csv
from pathlib import Path

from evidence.cells import SUMMARIES
from evidence.markdown import table

EARLIER = SUMMARIES / "earlier"
TRANSCRIBED = "Transcribed from the output of the run; no file here makes these numbers anew."


def earlier_table(name: str, folder: Path = EARLIER) -> str:
    """The table of a file, with what its notes say of the versions."""
    notes, rows = read_earlier(folder / f"{name}.csv")
    below = [TRANSCRIBED]
    if "versions" in notes:
        below.append(f"Versions: {notes['versions']}.")
    return "\n".join([table(rows[0], rows[1:]), "", " ".join(below)])


def read_earlier(path: Path) -> tuple[dict[str, str], list[list[str]]]:
    """Notes by name, and the header with the rows.

    Raises:
        ValueError: a row is longer or shorter than the header.
    """
    notes = {}
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            name, _, said = line.removeprefix("#").partition(":")
            notes[name.strip()] = said.strip()
        else:
            lines.append(line)
    rows = list(csv.reader(lines))
    for row in rows:
        if len(row) != len(rows[0]):
            raise ValueError(
                f"expected {len(rows[0])} fields in every row of {path.name}, but one has {len(row)}: {row}"
            )
    return notes, rows
