"""The tables of docs/replications/serrano_smith.md."""

from __future__ import annotations

from dataclasses import replace

from evidence.cells import all_cells
from evidence.claims_serrano_smith import MODELS, PAPER, claims, name_of, of_model
from evidence.datasets import datasets_table
from evidence.estimates import over_seeds
from evidence.markdown import claims_table, interval, number, printed_table, table
from evidence.printed import Row, printed_rows
from evidence.published_faults.table import faults_table
from evidence.schedule import read_schedule

_OUTCOMES = {
    "flip_both": "both flip",
    "flip_top_only": "top only",
    "flip_random_only": "random only",
    "flip_neither": "neither",
}
_RANKINGS = ("attention", "attention_gradient", "attention_x_gradient", "random_ranking")


def _rows() -> list[Row]:
    """The printed rows, a model called as in the paper."""
    rows = []
    for row in printed_rows(PAPER, all_cells(), read_schedule()):
        *data, architecture, encoder = row.key
        rows.append(replace(row, key=(" ".join(data), name_of((architecture, encoder)))))
    return rows


def _accuracy() -> str:
    return printed_table(_rows(), {"base_accuracy": "accuracy"}, digits=3)


def _outcomes(ranking: str) -> str:
    titles = {f"{metric} {ranking} all": title for metric, title in _OUTCOMES.items()}
    return printed_table(_rows(), titles, digits=3)


def _removals() -> str:
    """Share of the items removed until the decision changes, by ranking."""
    cells = all_cells()
    lines = []
    for model in MODELS:
        line = [name_of(model)]
        for ranking in _RANKINGS:
            fraction = over_seeds(of_model(cells, "Yelp", model, "decision_flip", ranking))
            never = over_seeds(of_model(cells, "Yelp", model, "flip_never", ranking))
            if not fraction.seeds:
                line.append("")
                continue
            line.append(f"{number(fraction.value, 2)} [{interval(fraction, 2)}]; {number(never.value, 3)}")
        lines.append(line)
    head = ["model", "attention", "gradient of attention", "their product", "random"]
    return table(head, lines)


TABLES = {
    "claims": lambda: claims_table(claims(all_cells())),
    "data": lambda: datasets_table(PAPER, all_cells()),
    "accuracy": _accuracy,
    "by-attention": lambda: _outcomes("attention"),
    "by-product": lambda: _outcomes("attention_x_gradient"),
    "removals": _removals,
    "faults": lambda: faults_table(PAPER),
}
