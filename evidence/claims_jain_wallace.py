"""The claims of Jain and Wallace (2019), as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.estimates import Estimate, difference, over_seeds

PAPER = "jain_wallace_2019"
DATA = ("SST", "IMDB", "20News", "AgNews", "TREC", "bAbI-1", "bAbI-2", "bAbI-3", "SNLI")
GRADIENT = "attention~input_x_gradient"
LEFT_OUT = "attention~leave_one_out"
_GAP = 0.4  # of tau on 20News, by table 2: 0.65 and 0.66 against 0.08 and 0.13


def claims(cells: Sequence[CellSummary]) -> list[Claim]:
    """Every claim, data set by data set."""
    found = [_encoders(cells, data) for data in DATA]
    found += [_weak(cells, data) for data in DATA]
    found += [_others_agree_more(cells, data) for data in DATA]
    found += [_permutations_differ(cells)]
    found += [_other_attention_exists(cells, data) for data in DATA]
    return found


def of_cells(cells: Sequence[CellSummary], data: str, encoder: str, metric: str, source: str) -> Estimate:
    """A number of the cells of a data set and encoder, over seeds."""
    numbers = []
    for cell in cells:
        if cell.paper == PAPER and cell.axes["data"] == data and cell.axes["encoder"] == encoder:
            numbers += cell.find(metric, source)
    return over_seeds(numbers)


def _encoders(cells: Sequence[CellSummary], data: str) -> Claim:
    average = of_cells(cells, data, "average", "attention_correlation", GRADIENT)
    lstm = of_cells(cells, data, "lstm", "attention_correlation", GRADIENT)
    gap = difference(average, lstm) if average.seeds and lstm.seeds else Estimate()
    return Claim(
        PAPER,
        "attention agrees with gradients better without a recurrent encoder",
        "tau with the gradient, average minus BiLSTM",
        data,
        gap,
        above=_GAP if data == "20News" else 0.0,
    )


def _weak(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "attention of a BiLSTM agrees with leave-one-out weakly",
        "tau with leave-one-out, BiLSTM",
        data,
        of_cells(cells, data, "lstm", "attention_correlation", LEFT_OUT),
        below=0.5,
        zero=1.0,
    )


def _others_agree_more(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "gradients agree with leave-one-out better than attention does",
        "tau of gradient with leave-one-out minus tau of attention with it, BiLSTM",
        data,
        of_cells(cells, data, "lstm", "tau_difference", "input_x_gradient-attention~leave_one_out"),
        above=0.0,
    )


def _permutations_differ(cells: Sequence[CellSummary]) -> Claim:
    babi = of_cells(cells, "bAbI-1", "lstm", "attention_permutation", "attention")
    sst = of_cells(cells, "SST", "lstm", "attention_permutation", "attention")
    gap = difference(babi, sst) if babi.seeds and sst.seeds else Estimate()
    return Claim(
        PAPER,
        "permuted attention hardly changes SST's predictions and changes bAbI's",
        "median TVD of permutations, bAbI 1 minus SST, BiLSTM",
        "bAbI-1, SST",
        gap,
        above=0.0,
    )


def _other_attention_exists(cells: Sequence[CellSummary], data: str) -> Claim:
    return Claim(
        PAPER,
        "other attention with the same prediction is nearly as far away as attention can be",
        "largest JSD in nats that leaves the prediction where it is, BiLSTM",
        data,
        of_cells(cells, data, "lstm", "adversarial_attention", "attention"),
        above=0.5,
    )
