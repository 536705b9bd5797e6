"""The tables of docs/replications/meister.md."""

from __future__ import annotations

from pathlib import Path

import yaml

from evidence.cells import all_cells
from evidence.claims_meister import DATA, ENCODERS, INPUTS, PAPER, STATES, SWEEP, claims, swept, with_lambda
from evidence.estimates import over_seeds
from evidence.markdown import claims_table, interval, number, printed_table, table
from evidence.printed import hours, printed_rows
from evidence.schedule import cells_of, read_schedule

PRINTED = Path(__file__).with_name("printed.yaml")
_NUMBERS = {
    ("base_accuracy", ""): "accuracy",
    ("zero_attention", "attention"): "zero attention",
    ("attention_correlation", INPUTS): "tau, inputs' gradients",
    ("attention_correlation", STATES): "tau, states' gradients",
    ("importance_entropy", "attention"): "entropy of attention",
    ("importance_entropy", "saliency"): "entropy of inputs' importance",
    ("hidden_entropy", "hidden_gradient"): "hidden entropy",
    ("adversarial_attention", "attention"): "epsilon-max JSD",
    ("flip_distance", "attention"): "flip distance",
}


def _hidden() -> str:
    rows = printed_rows(PAPER, all_cells(), read_schedule())
    return printed_table(rows, {"hidden_entropy hidden_gradient all": "normalized entropy"}, digits=2)


def _correlations() -> str:
    """Table 2: tau-b of lambda with the entropy of the inputs' importance."""
    printed = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["lambda_correlations"]
    cells = all_cells()
    lines = []
    for row, paper in printed.items():
        data, encoder = row.split(" ")
        ours = with_lambda(cells, data, encoder, "importance_entropy", "saliency")
        if ours.seeds:
            lines.append([data, ENCODERS[encoder], number(paper), number(ours.value), interval(ours), str(ours.seeds)])
        else:
            lines.append([data, ENCODERS[encoder], number(paper), sweep_not_run(data, encoder), "", ""])
    return table(["data", "encoder", "paper", "ours", "95%", "seeds"], lines)


def sweep_not_run(data: str, encoder: str) -> str:
    """What the cells of a sweep would take."""
    minutes = 0.0
    for entry in read_schedule():
        if entry.paper == PAPER and (entry.only["data"], entry.only["encoder"]) == (data, encoder):
            minutes += entry.minutes * len(entry.seeds) * len(list(cells_of(entry)))
    return f"not run: {hours(minutes)}"


def _sweep(data: str, encoder: str) -> str:
    """Every number against lambda, and its tau-b with it."""
    cells = all_cells()
    by_seed = swept(cells, data, encoder)
    settings = sorted(next(iter(by_seed.values()), {}))
    if len(settings) < SWEEP:
        return f"{sweep_not_run(data, encoder).capitalize()}."
    lines = []
    for (metric, source), title in _NUMBERS.items():
        values = []
        for setting in settings:
            numbers = [number for by_lambda in by_seed.values() for number in by_lambda[setting].find(metric, source)]
            values.append(number(over_seeds(numbers).value))
        tau = with_lambda(cells, data, encoder, metric, source)
        lines.append([title, *values, f"{number(tau.value, 2)} [{interval(tau, 2)}]" if tau.seeds else ""])
    return table(["", *(f"{setting:g}" for setting in settings), "tau-b with lambda"], lines)


TABLES = {
    "claims": lambda: claims_table(claims(all_cells())),
    "hidden": _hidden,
    "correlations": _correlations,
    **{f"sweep-{data.lower()}": (lambda data=data: _sweep(data, "lstm")) for data in DATA if data != "IMDB"},
}
