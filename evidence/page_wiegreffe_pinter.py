"""The tables of docs/replications/wiegreffe_pinter.md."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.base_pairs import read_pairs
from evidence.cells import all_cells
from evidence.claims_wiegreffe_pinter import DATA, PAPER, TWIN, accuracies, claims
from evidence.estimates import over_seeds
from evidence.markdown import claims_table, interval, number, table
from evidence.published_faults.table import faults_table

_BASES = ("jain_wallace_2019", PAPER)  # recipes whose BiLSTMs have several seeds
_MODELS = {
    "base": "base, BiLSTM",
    "uniform": "the same, uniform attention",
    "mlp": "MLP, attention of its own",
    "imposed_uniform": "MLP, uniform attention",
    "imposed": "MLP under the base's attention",
    "imposed_twin": "MLP under the twin's attention",
}


def _accuracies() -> str:
    """Diagnostics 1 and 3: a row a model, a column a data set."""
    cells = all_cells()
    lines = []
    for model, title in _MODELS.items():
        line = [title]
        for data in DATA:
            ours = accuracies(cells, data, model)
            line.append(f"{number(ours.value)} [{interval(ours)}]" if ours.seeds else "")
        lines.append(line)
    return table(["accuracy", *DATA], lines)


def _twins() -> str:
    """Diagnostic 4: how far the twin's attention and predictions are from the base's."""
    lines = []
    for data in DATA:
        cells = [cell for cell in all_cells() if cell.paper == PAPER and cell.axes["data"] == data]
        if not cells:
            continue
        line = [data, str(len(cells)), str(cells[0].data["train"]["n"]), str(cells[0].data["test"]["n"])]
        for metric in ("twin_f1", "tvd", "jsd"):
            numbers = [number for cell in cells for number in cell.of_twins(metric, TWIN)]
            ours = over_seeds(numbers)
            shown = number(ours.value)
            line.append(f"{shown} [{interval(ours)}]" if interval(ours) else shown)
        lines.append(line)
    return table(["data", "seeds", "train", "test", "F1 of the twin", "TVD, both classes", "JSD of attention"], lines)


def _seeds() -> str:
    """Diagnostic 2: how far trainings that differ in the seed alone lie apart."""
    lines = []
    for pairs in read_pairs():
        if pairs.axes.get("encoder", "lstm") != "lstm" or pairs.paper not in _BASES:
            continue
        shown = [_mean_and_range(pairs.tvd), _mean_and_range(pairs.jsd)]
        lines.append([pairs.axes["data"], str(len(pairs.seeds)), str(len(pairs.tvd)), *shown])
    return table(["data", "seeds", "pairs", "TVD of predictions, both classes", "JSD of attention"], lines)


def _mean_and_range(values: Sequence[float]) -> str:
    return f"{number(sum(values) / len(values))} ({number(min(values))} to {number(max(values))})"


TABLES = {
    "seeds": _seeds,
    "claims": lambda: claims_table(claims(all_cells())),
    "accuracies": _accuracies,
    "twins": _twins,
    "faults": lambda: faults_table(PAPER),
}
