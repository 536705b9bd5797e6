"""The claims of Amini and Kosseim, as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.estimates import Estimate, difference, over_seeds
from evidence.printed import TWIN

PAPER = "amini_kosseim"
DATA = ("SST", "IMDB", "AgNews", "20News")


def claims(cells: Sequence[CellSummary]) -> list[Claim]:
    """Every claim, data set by data set."""
    found = [_lower_of_recurrent(cells, data) for data in DATA]
    found += [_predictions_stay(cells, data) for data in DATA]
    found += [_attention_moves(cells, data) for data in DATA]
    return found


def of_twins(cells: Sequence[CellSummary], data: str, encoder: str, metric: str) -> Estimate:
    """A number over the twins of a data set and encoder; a seed is one of a twin."""
    numbers = []
    for cell in cells:
        if cell.paper == PAPER and cell.axes["data"] == data and cell.axes["encoder"] == encoder:
            numbers += cell.of_twins(metric, TWIN)
    return over_seeds(numbers)


def _lower_of_recurrent(cells: Sequence[CellSummary], data: str) -> Claim:
    lstm, mlp = of_twins(cells, data, "lstm", "attefa"), of_twins(cells, data, "mlp", "attefa")
    gap = difference(lstm, mlp) if lstm.seeds and mlp.seeds else Estimate()
    return Claim(
        PAPER,
        "attention of a BiLSTM is less faithful than that of an MLP",
        "AtteFa, BiLSTM minus MLP",
        data,
        gap,
        below=0.0,
    )


def _predictions_stay(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "a BiLSTM with other attention predicts nearly the same",
        "TVD of the twin from its base, both classes, BiLSTM",
        data,
        of_twins(cells, data, "lstm", "tvd"),
        below=0.1,
        zero=0.5,
    )


def _attention_moves(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "its attention is nearly as far away as attention can be",
        "JSD of the twin's attention from its base's in nats, of at most 0.693, BiLSTM",
        data,
        of_twins(cells, data, "lstm", "jsd"),
        above=0.6,
    )
