"""The tables of docs/replications/jain_wallace.md."""

from __future__ import annotations

from dataclasses import replace

from evidence.cells import all_cells
from evidence.claims_jain_wallace import DATA, PAPER, claims, of_cells
from evidence.datasets import datasets_table
from evidence.markdown import claims_table, interval, number, printed_table, table
from evidence.printed import printed_rows
from evidence.published_faults.table import faults_table
from evidence.schedule import read_schedule

_PERFORMANCE = {"base_f1": "F1", "base_accuracy": "accuracy"}
_GRADIENT, _LEFT_OUT = "attention~input_x_gradient", "attention~leave_one_out"
_CHANGED = {
    "attention_permutation": "median TVD of permutations",
    "permutation_flips": "permutations that change the decision",
    "largest_attention": "largest weight",
    "adversarial_attention": "largest JSD, prediction kept",
    "flip_distance": "smallest JSD that flips the decision",
    "attention_proof": "no attention flips it",
}
_TITLES = {
    f"attention_correlation {_GRADIENT}": "tau, gradient",
    f"significant {_GRADIENT}": "significant",
    f"attention_correlation {_LEFT_OUT}": "tau, leave-one-out",
    f"significant {_LEFT_OUT}": "significant there",
}


def _performance_table() -> str:
    return printed_table(printed_rows(PAPER, all_cells(), read_schedule()), _PERFORMANCE)


def _correlation_table() -> str:
    """Table 2: a row a model and predicted class."""
    rows = []
    for row in printed_rows(PAPER, all_cells(), read_schedule()):
        metric, _, group = row.metric.rpartition(" ")
        if metric not in _TITLES:
            continue
        key = row.key[:2]  # all attention here is additive
        if row.ours is not None and group != "all":
            key = (*key, f"class {group}")
        rows.append(replace(row, key=key, metric=metric))
    return printed_table(rows, _TITLES)


def _other_attention() -> str:
    """Figures 6 to 8 in numbers: a row a BiLSTM."""
    cells = all_cells()
    lines = []
    for data in DATA:
        line = [data]
        for metric in _CHANGED:
            ours = of_cells(cells, data, "lstm", metric, "attention")
            line.append(f"{number(ours.value)} [{interval(ours)}]" if ours.seeds else "")
        if any(line[1:]):
            lines.append(line)
    return table(["data", *_CHANGED.values()], lines)


def _claims() -> str:
    return claims_table(claims(all_cells()))


def _datasets() -> str:
    return datasets_table(PAPER, all_cells())


TABLES = {
    "data": _datasets,
    "performance": _performance_table,
    "correlation": _correlation_table,
    "other-attention": _other_attention,
    "claims": _claims,
    "faults": lambda: faults_table(PAPER),
}
