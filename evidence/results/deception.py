"""The tables of docs/results/deception.md."""

from __future__ import annotations

import itertools

import numpy as np
import yaml

from attn_faithful.functional.auc import auc
from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.datasets import PRINTED
from evidence.earlier import earlier_table
from evidence.markdown import claims_table, number, table
from evidence.measured import ACCURACY, Column, about, between, cells_of, with_interval
from evidence.printed import expected_of

PAPER = "pruthi_2020"
DATA = ("pronoun", "SST + Wiki")
ENCODERS = ("none", "lstm")
LAMBDAS = ("lambda 0", "lambda 0.1", "lambda 1")
SETTINGS = tuple(itertools.product(DATA, ENCODERS))
_FREE = 0.05  # of accuracy: the distance between the paper and its replication

HIDDEN = Column("attention on impermissible words", "impermissible_mass")
_LEFT_OUT = Column("leave-one-out on impermissible words", "impermissible_mass", "leave_one_out")
_SHARE = Column("impermissible words of all", "impermissible_share")
POLARITY = Column("polarity violated, attention", "polarity_violation")
ADVERSARY = Column("eps-max JSD", "adversarial_attention")
ORDER_OF_GRADIENT = Column("NAOPC of the gradient of attention, removal", "naopc_removal", "attention_gradient")
_NUMBERS = (
    HIDDEN,
    _LEFT_OUT,
    ORDER_OF_GRADIENT,
    POLARITY,
    ADVERSARY,
    Column("the gradient's first item against a random one, wrong order", "js_negative", "attention_gradient"),
    Column("NAOPC of attention x gradient, removal", "naopc_removal", "attention_x_gradient"),
    Column("attention-proof texts", "attention_proof"),
    Column("NAOPC of attention, removal", "naopc_removal"),
    Column("entropy of attention", "importance_entropy"),
    Column("tau of attention with leave-one-out", "attention_correlation", "attention~leave_one_out"),
    Column("items removed until the decision flips, by attention", "decision_flip"),
)


def _cells(data: str, encoder: str, deceive: str) -> list[CellSummary]:
    return cells_of(PAPER, data=data, encoder=encoder, deceive=deceive)


def _printed_table() -> str:
    """Ours beside the paper's and its replication's accuracy and attention on the impermissible words."""
    paper = expected_of(PAPER).rows
    replication = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["replications"][PAPER]
    lines = []
    for (data, encoder), deceive in itertools.product(SETTINGS, LAMBDAS):
        row = f"{data} {encoder} {deceive}"
        cells = _cells(data, encoder, deceive)
        line = [row, str(len(cells))]
        for place, column in enumerate((ACCURACY, HIDDEN)):
            others = replication[row][place]
            line += [
                number(paper[row][place], 4),
                "" if others is None else number(others, 5),
                with_interval(column.of(cells), 4),
            ]
        lines.append(line)
    head = ["model", "seeds"]
    for column in (ACCURACY, HIDDEN):
        head += [f"{column.title}: paper", "replication", "ours"]
    return table(head, lines)


def _hidden_words_table() -> str:
    """What the words that attention hides are worth to leave-one-out at the largest weight."""
    columns = (_SHARE, HIDDEN, _LEFT_OUT)
    lines = []
    for data, encoder in SETTINGS:
        cells = _cells(data, encoder, LAMBDAS[-1])
        lines.append([f"{data} {encoder}", *(with_interval(column.of(cells)) for column in columns)])
    return table(["model, lambda 1", *(column.title for column in columns)], lines)


def _values(column: Column, data: str, encoder: str, deceive: str) -> np.ndarray:
    """A number of the models of a setting, a seed each (k,)."""
    return np.array([entry.value for entry in column.numbers(_cells(data, encoder, deceive))])


def _telling_table() -> str:
    """Every number of honest and deceptive models, and how well it tells them apart."""
    lines = []
    for column in _NUMBERS:
        honest = [_values(column, data, encoder, LAMBDAS[0]) for data, encoder in SETTINGS]
        deceptive = [_values(column, data, encoder, LAMBDAS[-1]) for data, encoder in SETTINGS]
        same = float(np.mean([auc(high, low) for high, low in zip(deceptive, honest, strict=True)]))
        all_pairs = auc(np.concatenate(deceptive), np.concatenate(honest))
        means = [_with_range(np.concatenate(values)) for values in (honest, deceptive)]
        lines.append([column.title, *means, number(same), number(all_pairs)])
    return table(["number", "lambda 0", "lambda 1", "AUC, same", "AUC, one line"], lines)


def _with_range(values: np.ndarray) -> str:
    """The mean of models, and the least and largest of them."""
    return f"{number(values.mean())} ({number(values.min())} to {number(values.max())})"


def _claims() -> list[Claim]:
    asked = (
        ("the loss hides the words", HIDDEN, {"below": 0.0}),
        ("more of a deceptive attention can be moved", ADVERSARY, {"above": 0.0}),
        ("it costs no accuracy", ACCURACY, {"above": -_FREE, "zero": -_FREE}),
    )
    found = []
    for says, column, bounds in asked:
        for data, encoder in SETTINGS:
            gap = between(_cells(data, encoder, LAMBDAS[-1]), _cells(data, encoder, LAMBDAS[0]), column)
            found.append(Claim(PAPER, says, f"{column.title}, lambda 1 minus 0", f"{data}, {encoder}", gap, **bounds))
    return found


TABLES = {
    "about": lambda: about(cells_of(PAPER)),
    "printed": _printed_table,
    "hidden": _hidden_words_table,
    "telling": _telling_table,
    "minilm": lambda: earlier_table("deceive_minilm"),
    "claims": lambda: claims_table(_claims()),
}
