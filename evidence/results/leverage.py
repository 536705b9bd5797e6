"""The tables of docs/results/leverage.md."""

from __future__ import annotations

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.earlier import earlier_table
from evidence.markdown import claims_table, table
from evidence.measured import ACCURACY, Column, about, between, by_label, cells_of, measured_table
from evidence.results.shown_sst import LINE

TOPIC = "leverage"
WEIGHTS = ("0", "0.1", "0.2", "0.3", "0.6")
_ASKED = ("0.3", "0.6")  # weights that the claims are about

PROOF = Column("attention-proof", "attention_proof", digits=3)
BY_DELETION = Column("polarity violated: deletion", "polarity_violation")
ORDER = Column("NAOPC of attention", "naopc_removal")
_COLUMNS = (
    ACCURACY,
    PROOF,
    Column("flip distance", "flip_distance"),
    BY_DELETION,
    Column("removal", "polarity_violation_removal"),
    ORDER,
    Column("core", "core_is_top"),
    Column("conicity", "conicity"),
    Column("comprehensiveness", "comprehensiveness"),
)
_BESIDE = (
    Column("NAOPC: its gradient", "naopc_removal", "attention_gradient"),
    Column("random order", "naopc_removal", "random_ranking"),
    Column("polarity by deletion: its gradient", "polarity_violation", "attention_gradient", 3),
    Column("random word", "polarity_violation", "random"),
)


def _seeds_that_show(cells: list[CellSummary]) -> int:
    """Models of which attention may be shown."""
    return sum(number.value == 1 for cell in cells for number in cell.find("may_be_shown", "attention"))


def _shown_table() -> str:
    lines = []
    for weight, cells in by_label(TOPIC, "weight", WEIGHTS).items():
        lines.append([weight, f"{_seeds_that_show(cells)} of {len(cells)}"])
    return table(["weight", "models whose attention may be shown"], lines)


def _claims() -> list[Claim]:
    found = []
    plain = cells_of(TOPIC, weight="0")
    for weight in _ASKED:
        cells = cells_of(TOPIC, weight=weight)
        where = f"SST, weight {weight}"
        found += [
            Claim(
                TOPIC,
                "hardly a decision is left that no attention changes",
                "share of attention-proof texts",
                where,
                PROOF.of(cells),
                below=0.05,
                zero=0.05,
            ),
            Claim(
                TOPIC,
                "the first word speaks for the decision",
                "polarity violated by deletion",
                where,
                BY_DELETION.of(cells),
                below=0.15,
                zero=0.15,
            ),
            Claim(
                TOPIC,
                "attention is near the best order",
                "NAOPC of attention",
                where,
                ORDER.of(cells),
                above=LINE,
                zero=LINE,
            ),
            Claim(
                TOPIC,
                "accuracy stays within a point",
                "accuracy minus that at weight 0",
                where,
                between(cells, plain, ACCURACY),
                above=-0.01,
                zero=-0.01,
            ),
        ]
    return found


TABLES = {
    "about": lambda: about(cells_of(TOPIC)),
    "weights": lambda: measured_table("weight", by_label(TOPIC, "weight", WEIGHTS), _COLUMNS),
    "beside": lambda: measured_table("weight", by_label(TOPIC, "weight", WEIGHTS), _BESIDE),
    "shown": _shown_table,
    "claims": lambda: claims_table(_claims()),
    "tried": lambda: earlier_table("leverage_tried"),
}
