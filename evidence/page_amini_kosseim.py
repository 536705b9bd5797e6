"""The tables of docs/replications/amini_kosseim.md."""

from __future__ import annotations

from evidence.cells import all_cells
from evidence.claims_amini_kosseim import DATA, PAPER, claims, of_twins
from evidence.markdown import claims_table, number, printed_table, table
from evidence.printed import TWIN, printed_rows
from evidence.published_faults.table import faults_table
from evidence.schedule import read_schedule

_TITLES = {
    "base_f1": "F1 of the base",
    "twin_f1": "F1 of the twin",
    "tvd": "TVD, both classes",
    "jsd": "JSD",
    "attefa": "AtteFa",
}


def _twins() -> str:
    return printed_table(printed_rows(PAPER, all_cells(), read_schedule()), _TITLES, digits=3)


def _by_twin() -> str:
    """A row a twin: what it reached, and whether it collapsed."""
    cells = [cell for cell in all_cells() if cell.paper == PAPER]
    lines = []
    for cell in cells:
        for attefa in cell.of_twins("attefa", TWIN):
            values = [number(cell.find(metric, attefa.source)[0].value) for metric in ("twin_f1", "tvd", "jsd")]
            epoch = f"{cell.find('twin_epoch', attefa.source)[0].value:.0f}"
            constant = number(cell.find("constant_tvd", attefa.source)[0].value)
            collapsed = "yes" if cell.find("collapsed", attefa.source)[0].value else "no"
            seed = attefa.source.rpartition(" ")[2]
            train, test = str(cell.data["train"]["n"]), str(cell.data["test"]["n"])
            names = [cell.axes["data"], cell.axes["encoder"], train, test, f"{cell.seed}, {seed}", epoch]
            lines.append([*names, *values, constant, number(attefa.value), collapsed])
    head = [
        "data",
        "encoder",
        "train",
        "test",
        "seeds",
        "epoch",
        "F1",
        "TVD",
        "JSD",
        "constant TVD",
        "AtteFa",
        "collapsed",
    ]
    return table(head, lines)


def _ratios() -> str:
    """AtteFa of the MLP over that of the BiLSTM, ours and the paper's."""
    cells = all_cells()
    printed = {row.key: row.paper for row in printed_rows(PAPER, cells, read_schedule()) if row.metric == "attefa"}
    lines = []
    for data in DATA:
        lstm, mlp = of_twins(cells, data, "lstm", "attefa"), of_twins(cells, data, "mlp", "attefa")
        if lstm.seeds and mlp.seeds:
            theirs = printed[data, "mlp"] / printed[data, "lstm"]
            lines.append([data, f"{mlp.value / lstm.value:.1f}", f"{theirs:.1f}"])
    return table(["data", "ours", "paper"], lines)


TABLES = {
    "claims": lambda: claims_table(claims(all_cells())),
    "twins": _twins,
    "by-twin": _by_twin,
    "ratios": _ratios,
    "faults": lambda: faults_table(PAPER),
}
