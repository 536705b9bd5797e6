"""The tables of docs/results/shown_sst.md."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.markdown import claims_table
from evidence.measured import ACCURACY, Column, Rows, about, by_label, by_seed, cells_of, gap, measured_table

TOPIC = "shown_sst"
MODELS = ("lstm", "mlp")
LINE = 0.75  # of NAOPC, from which a source is recommended

_CORES = (
    ACCURACY,
    Column("core 0", "core_none", "certified_core", 3),
    Column("median", "core_median", "certified_core", 0),
    Column("at most 5", "core_few", "certified_core", 3),
    Column("attention's top", "core_is_top"),
    Column("random", "core_is_top", "random_ranking"),
)
ATTENTION = Column("NAOPC: attention", "naopc_removal")
GRADIENT = Column("its gradient", "naopc_removal", "attention_gradient")
PRODUCT = Column("product", "naopc_removal", "attention_x_gradient")
VIOLATED = Column("polarity: attention", "polarity_violation")
_BY_REMOVAL = Column("by removal", "polarity_violation_removal")
_ORDERS = (ATTENTION, GRADIENT, PRODUCT, Column("random", "naopc_removal", "random_ranking"))
_POLARITY = (VIOLATED, _BY_REMOVAL, Column("product", "polarity_violation", "attention_x_gradient"))
_FIRST = (
    Column("gradient: as few words as any set", "flip_optimal", "attention_gradient"),
    Column("product: as few words as any set", "flip_optimal", "attention_x_gradient"),
)


def recommended(cells: Sequence[CellSummary]) -> str:
    """What may be shown of a model: the first of the sources that pass; "none"."""
    for cell in cells:
        for number in cell.numbers:
            if number.metric == "recommended":
                return number.source.replace("_", " ")
    return "none"


def _rows() -> Rows:
    return by_seed(TOPIC, "model", MODELS)


def _recommended() -> str:
    lines = ["Recommended:", ""]
    lines += [f"- {label}: {recommended(cells)}" for label, cells in _rows().items()]
    return "\n".join(lines)


def _orders_table() -> str:
    return "\n\n".join([measured_table("model", _rows(), _ORDERS), _recommended()])


def _claims() -> list[Claim]:
    found = []
    top, chance = Column("", "core_is_top"), Column("", "core_is_top", "random_ranking")
    for model, cells in by_label(TOPIC, "model", MODELS).items():
        where = f"SST, {model}"
        found += [
            Claim(
                TOPIC,
                "attention is not the best order",
                "NAOPC of attention",
                where,
                ATTENTION.of(cells),
                below=LINE,
                zero=1.0,
            ),
            Claim(
                TOPIC,
                "what attention multiplies is nearer to it",
                "NAOPC of its gradient minus attention's",
                where,
                gap(cells, GRADIENT, ATTENTION),
                above=0.0,
            ),
            Claim(
                TOPIC,
                "words with most attention are a certified core more often than random ones",
                "share of the texts, attention's minus random",
                where,
                gap(cells, top, chance),
                above=0.0,
            ),
        ]
    bare = Column("", "core_none", "certified_core")
    lstm, mlp = (cells_of(TOPIC, model=model) for model in MODELS)
    found.append(
        Claim(
            TOPIC,
            "some decisions of the BiLSTM no attention changes",
            "share of the texts with an empty core",
            "SST, lstm",
            bare.of(lstm),
            above=0.05,
            zero=0.05,
        )
    )
    found.append(
        Claim(
            TOPIC,
            "hardly a decision of the MLP is of that kind",
            "share of the texts with an empty core",
            "SST, mlp",
            bare.of(mlp),
            below=0.05,
            zero=0.05,
        )
    )
    return found


TABLES = {
    "about": lambda: about(cells_of(TOPIC)),
    "cores": lambda: measured_table("model", _rows(), _CORES),
    "orders": _orders_table,
    "polarity": lambda: measured_table("model", _rows(), _POLARITY),
    "smallest-sets": lambda: measured_table("model", _rows(), _FIRST),
    "claims": lambda: claims_table(_claims()),
}
