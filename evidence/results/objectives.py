"""The tables of docs/results/objectives.md."""

from __future__ import annotations

from evidence.cells import CellSummary
from evidence.markdown import table
from evidence.measured import ACCURACY, Column, about, cells_of, with_interval

RECIPE = "faithful_attention"
_OBJECTIVES = {
    "plain": "plain",
    "one direction": "one direction",
    "orthogonal": "orthogonal, one direction",
    "diversity": "diversity 0.5",
    "narrow": "narrow, 25 units",
    "tying": "tying 0.1, 25 units",
    "rationale": "rationale 0.5",
    "stability": "stability 0.1",
    "leverage": "leverage 0.3",
}
_ASKED = {  # what an objective itself asks for
    "orthogonal": "conicity",
    "diversity": "conicity",
    "rationale": "plausibility",
    "stability": "stability_tau",
    "leverage": "attention_proof",
}
_TAU = Column("tau with input x gradient", "attention_correlation", "attention~input_x_gradient")
_COLUMNS = (
    ACCURACY,
    Column("conicity", "conicity"),
    Column("proof", "attention_proof", digits=3),
    Column("flip distance", "flip_distance"),
    Column("polarity violated: deletion", "polarity_violation"),
    Column("removal", "polarity_violation_removal"),
    Column("NAOPC of attention", "naopc_removal"),
    Column("its gradient", "naopc_removal", "attention_gradient"),
    Column("stability", "stability_tau"),
    Column("AUPRC", "plausibility"),
    _TAU,
)


def _attefa(cells: list[CellSummary]) -> str:
    """AtteFa of the one twin; "collapsed" where it gave up predicting."""
    (cell,) = cells
    if any(entry.value for entry in cell.of_twins("collapsed", "attefa")):
        return "collapsed"
    (entry,) = cell.of_twins("attefa", "attefa")
    return f"{entry.value:.2f} [{entry.low:.2f}, {entry.high:.2f}]"


def _table() -> str:
    """A row an objective; what it asks for is bold."""
    lines = []
    for encoder, title in _OBJECTIVES.items():
        cells = cells_of(RECIPE, encoder=encoder)
        line = [title]
        for column in _COLUMNS:
            shown = with_interval(column.of(cells), column.digits)
            line.append(f"**{shown}**" if _ASKED.get(encoder) == column.metric else shown)
        lines.append([*line, _attefa(cells)])
    return table(["objective", *(column.title for column in _COLUMNS), "AtteFa"], lines)


TABLES = {
    "about": lambda: about(cells_of(RECIPE)),
    "objectives": _table,
}
