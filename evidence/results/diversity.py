"""The tables of docs/results/diversity.md."""

from __future__ import annotations

import yaml

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.datasets import PRINTED
from evidence.markdown import claims_table, number, table
from evidence.measured import ACCURACY, Column, about, between, cells_of, measured_table, with_interval
from evidence.printed import expected_of

PAPER = "mohankumar_2020"
DATA = ("SST", "20News", "bAbI-1")
ENCODERS = ("plain", "diversity", "orthogonal")

CONICITY = Column("conicity", "conicity", digits=3)
PEOPLE = Column("AUPRC of attention", "plausibility", digits=3)
FLIPS = Column("items removed until the decision flips", "decision_flip", digits=3)
GRADIENT = Column("tau with input x gradient", "attention_correlation", "attention~input_x_gradient", 3)
_NEVER = Column("no removal flips it", "flip_never", "smallest_set", 3)
_CHANCE = Column("AUPRC of a random order", "plausibility", "random", 3)


def _models() -> list[tuple[str, str, list[CellSummary]]]:
    found = []
    for data in DATA:
        for encoder in ENCODERS:
            found.append((data, encoder, cells_of(PAPER, data=data, encoder=encoder)))
    return found


def _printed_table() -> str:
    """Ours beside the paper's and its replication's accuracy and conicity."""
    paper = expected_of(PAPER).rows
    replication = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["replications"][PAPER]
    lines = []
    for data, encoder, cells in _models():
        row = f"{data} {encoder}"
        line = [row, str(len(cells))]
        for place, column in enumerate((ACCURACY, CONICITY)):
            line += [
                number(paper[row][place], 3 - place),
                number(replication[row][place], 3 - place),
                with_interval(column.of(cells), 3),
            ]
        lines.append(line)
    head = ["model", "seeds"]
    for column in (ACCURACY, CONICITY):
        head += [f"{column.title}: paper", "replication", "ours"]
    return table(head, lines)


def _tests_table() -> str:
    rows = {f"{data} {encoder}": cells for data, encoder, cells in _models()}
    return measured_table("model", rows, (GRADIENT, FLIPS, _NEVER, PEOPLE, _CHANCE))


def _seeds_table() -> str:
    rows = {}
    for encoder in ENCODERS:
        for cell in cells_of(PAPER, data="SST", encoder=encoder):
            rows[f"{encoder}, seed {cell.seed}"] = [cell]
    return measured_table("SST", rows, (PEOPLE, FLIPS, GRADIENT))


def _claims() -> list[Claim]:
    found = []
    for data in ("SST", "bAbI-1"):
        plain = cells_of(PAPER, data=data, encoder="plain")
        for encoder in ("diversity", "orthogonal"):
            cells = cells_of(PAPER, data=data, encoder=encoder)
            where = f"{data}, {encoder}"
            found += [
                Claim(
                    PAPER,
                    "attention is on the words that people mark, once states differ",
                    "AUPRC of attention minus that of plain states",
                    where,
                    between(cells, plain, PEOPLE),
                    above=0.0,
                ),
                Claim(
                    PAPER,
                    "fewer items change the decision",
                    "share removed minus that of plain states",
                    where,
                    between(cells, plain, FLIPS),
                    below=0.0,
                ),
            ]
    for data, encoder, cells in _models():
        if encoder == "plain":
            continue
        plain = cells_of(PAPER, data=data, encoder="plain")
        found.append(
            Claim(
                PAPER,
                "attention agrees with gradients more",
                "tau minus that of plain states",
                f"{data}, {encoder}",
                between(cells, plain, GRADIENT),
                above=0.0,
            )
        )
    return found


TABLES = {
    "about": lambda: about(cells_of(PAPER)),
    "printed": _printed_table,
    "tests": _tests_table,
    "seeds": _seeds_table,
    "claims": lambda: claims_table(_claims()),
}
