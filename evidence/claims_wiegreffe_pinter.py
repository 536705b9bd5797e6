"""The claims of Wiegreffe and Pinter (2019), as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary, Number
from evidence.claims import Claim
from evidence.estimates import Estimate, difference, over_seeds

PAPER = "wiegreffe_pinter_2019"
DATA = ("SST", "AgNews", "20News", "IMDB")
TWIN = "kl-0.001"
_NEARLY = 0.02  # of the accuracy: what "nearly as well" is taken to mean


def claims(cells: Sequence[CellSummary]) -> list[Claim]:
    """Every claim, data set by data set."""
    found = [_uniform_is_enough(cells, data) for data in DATA]
    for first, second, says in (
        ("imposed", "imposed_uniform", "a trained model's attention guides an MLP better than uniform attention"),
        ("imposed", "mlp", "a trained model's attention guides an MLP better than what the MLP learns itself"),
        ("imposed", "imposed_twin", "an adversary's attention guides an MLP worse than the trained model's"),
    ):
        found += [_guides_better(cells, data, first, second, says) for data in DATA]
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


def _uniform_is_enough(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "uniform attention does nearly as well, so attention is not needed",
        "accuracy of the base minus that under uniform attention",
        data,
        _gap(accuracies(cells, data, "base"), accuracies(cells, data, "uniform")),
        below=_NEARLY,
        zero=1.0,
    )


def _guides_better(cells: Sequence[CellSummary], data: str, first: str, second: str, says: str) -> Claim:
    return Claim(
        PAPER,
        says,
        f"accuracy of the MLP, {first} minus {second}",
        data,
        _gap(accuracies(cells, data, first), accuracies(cells, data, second)),
        above=0.0,
    )


def _gap(first: Estimate, second: Estimate) -> Estimate:
    if not first.seeds or not second.seeds:
        return Estimate()
    return difference(first, second)
