"""The claims of Wiegreffe and Pinter (2019), as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary, Number
from evidence.claims import Claim
from evidence.estimates import Estimate, over_seeds

PAPER = "wiegreffe_pinter_2019"
DATA = ("SST", "AgNews", "20News", "IMDB")
TWIN = "kl-0.001"
_NEARLY = 0.02  # of F1: what "nearly as well" is taken to mean
_GUIDED_WORSE = {
    "imposed_uniform": "a trained model's attention guides an MLP better than uniform attention",
    "mlp": "a trained model's attention guides an MLP better than what the MLP learns itself",
    f"imposed_twin {TWIN}": "an adversary's attention guides an MLP worse than the trained model's",
}


def claims(cells: Sequence[CellSummary]) -> list[Claim]:
    """Every claim, data set by data set."""
    found = [_uniform_is_enough(cells, data) for data in DATA]
    for control, says in _GUIDED_WORSE.items():
        found += [_guided_worse(cells, data, control, says) for data in DATA]
    return found


def accuracies(cells: Sequence[CellSummary], data: str, model: str) -> Estimate:
    """Accuracy of the base or of a control of a data set, over seeds."""
    numbers: list[Number] = []
    for cell in cells:
        if cell.paper != PAPER or cell.axes["data"] != data:
            continue
        if model == "base":
            numbers += cell.find("base_accuracy")
        else:
            numbers += [number for number in cell.numbers if _is_of(number, model)]
    return over_seeds(numbers)


def _is_of(number: Number, control: str) -> bool:
    """Whether a number is the accuracy of a control; one of each twin has the twin's name behind its own."""
    return number.metric == "control_accuracy" and number.source.split(" ")[0] == control


def _differences(cells: Sequence[CellSummary], data: str, compared: str) -> Estimate:
    """F1 of a control minus that of another model on the same texts, over seeds."""
    numbers = []
    for cell in cells:
        if cell.paper == PAPER and cell.axes["data"] == data:
            numbers += cell.find("control_f1_difference", compared)
    return over_seeds(numbers)


def _uniform_is_enough(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "uniform attention does nearly as well, so attention is not needed",
        "F1 under uniform attention minus that of the base",
        data,
        _differences(cells, data, "uniform~(base)"),
        above=-_NEARLY,
        zero=-1.0,
    )


def _guided_worse(cells: Sequence[CellSummary], data: str, control: str, says: str) -> Claim:
    return Claim(
        PAPER,
        says,
        f"F1 of the MLP, {control} minus imposed",
        data,
        _differences(cells, data, f"{control}~imposed"),
        below=0.0,
    )
