"""The claims of Serrano and Smith (2019), as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary, Number
from evidence.claims import Claim
from evidence.estimates import over_seeds

PAPER = "serrano_smith_2019"
PRODUCT = "attention_x_gradient"
MODELS = tuple(
    (architecture, encoder) for architecture in ("hierarchical", "flat") for encoder in ("rnn", "conv", "noenc")
)
NAMES = {"hierarchical": "HAN", "flat": "FLAN"}
_WITH_ENCODER = ("rnn", "conv")


def claims(cells: Sequence[CellSummary], data: str = "Yelp") -> list[Claim]:
    """Every claim, model by model."""
    found = []
    for model in MODELS:
        found.append(_fewest(cells, data, model, "attention"))
        found.append(_fewest(cells, data, model, "attention_gradient"))
    for model in MODELS:
        found.append(_top_flips_seldom(cells, data, model))
    for architecture, encoder in MODELS:
        if encoder in _WITH_ENCODER:
            found.append(_gradient_sooner(cells, data, (architecture, encoder)))
    return found


def of_model(cells: Sequence[CellSummary], data: str, model: tuple[str, str], metric: str, source: str) -> list[Number]:
    """A number of one of the six models, one a seed."""
    numbers = []
    for cell in cells:
        axes = cell.axes
        if cell.paper == PAPER and axes["data"] == data and (axes["architecture"], axes["encoder"]) == model:
            numbers += cell.find(metric, source)
    return numbers


def name_of(model: tuple[str, str]) -> str:
    """Such as "HANrnn"."""
    architecture, encoder = model
    return f"{NAMES[architecture]}{encoder}"


def _fewest(cells: Sequence[CellSummary], data: str, model: tuple[str, str], other: str) -> Claim:
    against = "attention" if other == "attention" else "the gradient of attention"
    return Claim(
        PAPER,
        f"attention times its gradient needs fewer removals than {against}",
        f"share of the items removed until the decision changes, product minus {against}",
        f"{data}, {name_of(model)}",
        over_seeds(of_model(cells, data, model, "flip_fraction_difference", f"{PRODUCT}~{other}")),
        below=0.0,
    )


def _top_flips_seldom(cells: Sequence[CellSummary], data: str, model: tuple[str, str]) -> Claim:
    return Claim(
        PAPER,
        "removing the item with most attention seldom changes the decision",
        "share of the texts whose decision neither it nor a random item changes",
        f"{data}, {name_of(model)}",
        over_seeds(of_model(cells, data, model, "flip_neither", "attention")),
        above=0.5,
    )


def _gradient_sooner(cells: Sequence[CellSummary], data: str, model: tuple[str, str]) -> Claim:
    return Claim(
        PAPER,
        "with an encoder the gradient's order needs fewer removals than attention's",
        "share of the items removed until the decision changes, gradient minus attention",
        f"{data}, {name_of(model)}",
        over_seeds(of_model(cells, data, model, "flip_fraction_difference", "attention_gradient~attention")),
        below=0.0,
    )
