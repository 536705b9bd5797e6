"""The tables of docs/replications/jain_wallace.md."""

from __future__ import annotations

from evidence.cells import read_cells
from evidence.claims_jain_wallace import PAPER, claims
from evidence.datasets import datasets_table
from evidence.markdown import claims_table, printed_table
from evidence.printed import printed_rows
from evidence.schedule import read_schedule

_PERFORMANCE = {"base_f1": "F1", "base_accuracy": "accuracy"}
_CLASSES = {"all": "", "0": ", class 0", "1": ", class 1", "2": ", class 2"}
_IMPORTANCE = {"input_x_gradient": "gradient", "leave_one_out": "leave-one-out"}


def _correlations() -> dict[str, str]:
    """Metrics of table 2 -> their titles."""
    titles = {}
    for source, importance in _IMPORTANCE.items():
        for group, of_class in _CLASSES.items():
            place = f"attention~{source} {group}"
            titles[f"attention_correlation {place}"] = f"tau with {importance}{of_class}"
            titles[f"significant {place}"] = f"significant, {importance}{of_class}"
    return titles


def _performance_table() -> str:
    return printed_table(printed_rows(PAPER, read_cells(), read_schedule()), _PERFORMANCE)


def _correlation_table() -> str:
    return printed_table(printed_rows(PAPER, read_cells(), read_schedule()), _correlations())


def _claims() -> str:
    return claims_table(claims(read_cells()))


def _datasets() -> str:
    return datasets_table(PAPER, read_cells())


TABLES = {
    "data": _datasets,
    "performance": _performance_table,
    "correlation": _correlation_table,
    "claims": _claims,
}
