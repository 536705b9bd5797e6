"""The claims of Meister et al. (2021), as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.estimates import Estimate, over_seeds, rank_correlation

PAPER = "meister_2021"
DATA = ("SST", "IMDB", "20News")
ENCODERS = {"lstm": "BiLSTM", "transformer": "Transformer"}
SWEEP = 5  # fewest lambdas from which a tau-b is told
_SWEPT = "sparsegen "  # how the labels of lambda begin
INPUTS, STATES = "attention~saliency", "attention~state_saliency"


def claims(cells: Sequence[CellSummary]) -> list[Claim]:
    """Every claim, data set by data set and encoder by encoder."""
    places = [(data, encoder) for data in DATA for encoder in ENCODERS]
    found = [_goes_with_lambda(cells, place, INPUTS) for place in places]
    found += [_goes_with_lambda(cells, place, STATES) for place in places]
    found += [_entropy_falls(cells, place) for place in places]
    found += [_states_depend_on_all(cells, place) for place in places]
    return found


def swept(cells: Sequence[CellSummary], data: str, encoder: str) -> dict[int, dict[float, CellSummary]]:
    """Seed -> lambda of sparsegen -> cell, of the seeds that have as many as the fullest one."""
    by_seed: dict[int, dict[float, CellSummary]] = {}
    for cell in cells:
        axes = cell.axes
        if cell.paper != PAPER or (axes["data"], axes["encoder"]) != (data, encoder):
            continue
        if axes["projection"].startswith(_SWEPT):
            value = float(axes["projection"].removeprefix(_SWEPT))
            by_seed.setdefault(cell.seed, {})[value] = cell
    fullest = max(map(len, by_seed.values()), default=0)
    return {seed: by_lambda for seed, by_lambda in by_seed.items() if len(by_lambda) == fullest}


def with_lambda(cells: Sequence[CellSummary], data: str, encoder: str, metric: str, source: str) -> Estimate:
    """Kendall's tau-b of lambda with a number, over seeds; nothing with fewer lambdas than a sweep has."""
    by_seed = swept(cells, data, encoder)
    settings = sorted(next(iter(by_seed.values()), {}))
    if len(settings) < SWEEP:
        return Estimate()
    rows = []
    for by_lambda in by_seed.values():
        numbers = [by_lambda[value].find(metric, source)[0].value for value in settings]
        rows.append(numbers)
    return rank_correlation(settings, rows)


def _goes_with_lambda(cells: Sequence[CellSummary], place: tuple[str, str], source: str) -> Claim:
    data, encoder = place
    estimate = with_lambda(cells, data, encoder, "attention_correlation", source)
    if source == INPUTS:
        says, bound = "the sparser attention is, the less it goes with the importance of inputs", {"below": 0.0}
        measure = "tau-b of lambda with tau of attention and the inputs' gradients"
    else:
        says, bound = "the sparser attention is, the more it goes with the importance of states", {"above": 0.0}
        measure = "tau-b of lambda with tau of attention and the states' gradients"
    return Claim(PAPER, says, measure, f"{data}, {ENCODERS[encoder]}", estimate, **bound)


def _entropy_falls(cells: Sequence[CellSummary], place: tuple[str, str]) -> Claim:
    data, encoder = place
    return Claim(
        PAPER,
        "sparser attention makes the importance of inputs no sparser (their text; their table 2 has the other sign)",
        "tau-b of lambda with the entropy of the inputs' importance",
        f"{data}, {ENCODERS[encoder]}",
        with_lambda(cells, data, encoder, "importance_entropy", "saliency"),
        above=0.0,
    )


def _states_depend_on_all(cells: Sequence[CellSummary], place: tuple[str, str]) -> Claim:
    data, encoder = place
    numbers = []
    for cell in cells:
        axes = cell.axes
        if cell.paper == PAPER and (axes["data"], axes["encoder"], axes["projection"]) == (
            data,
            encoder,
            "sparsegen 0",
        ):
            numbers += cell.find("hidden_entropy", "hidden_gradient")
    return Claim(
        PAPER,
        "a state depends on most of the text, under sparse attention too",
        "normalized entropy of a state's gradients over tokens, sparsemax",
        f"{data}, {ENCODERS[encoder]}",
        over_seeds(numbers),
        above=0.5,
    )
