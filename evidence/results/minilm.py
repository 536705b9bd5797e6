"""The tables of docs/results/minilm.md and docs/results/minilm_heads.md."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.cells import CellSummary
from evidence.claims import Claim
from evidence.earlier import earlier_table
from evidence.markdown import claims_table, table
from evidence.measured import Column, about, cells_of, gap, sources_of, with_interval
from evidence.results.shown_sst import LINE, recommended

SHOWN, SOURCES = "shown_minilm", "sources_minilm"
_TITLES = {
    "attention": "attention of the last layer, mean over heads",
    "raw_attention": "the same, maximum over heads",
    "input_x_gradient": "input x gradient (magnitude)",
    "signed_input_x_gradient": "input x gradient (signed)",
    "value_norm": "attention x value norm",
    "attention_gradient": "gradient of attention",
}
_COMPREHENSIVE, _SUFFICIENT = "comprehensiveness", "sufficiency"
_LEFT_OUT, _SIGNED = "leave_one_out", "signed_leave_one_out"


def _title(source: str) -> str:
    return _TITLES.get(source, source.replace("leave_one_out", "leave-one-out").replace("_", " "))


def _of_sources() -> list[tuple[str, list[CellSummary]]]:
    """Source -> the cells that have it: the mean over heads, and the maximum."""
    mean, largest = cells_of(SOURCES, heads="mean"), cells_of(SOURCES, heads="max")
    found = []
    for source in sources_of(mean, _COMPREHENSIVE):
        found.append((source, largest if source == "raw_attention" else mean))
    return found


def _sources_table() -> str:
    lines = []
    for source, cells in _of_sources():
        columns = (
            Column("", "tau", f"{source}~{_LEFT_OUT}", 3),
            Column("", "tau", f"{source}~{_SIGNED}", 3),
            Column("", _COMPREHENSIVE, source, 3),
            Column("", _SUFFICIENT, source, 3),
        )
        lines.append([_title(source), *(with_interval(column.of(cells), 3) for column in columns)])
    return table(["source", "tau, leave-one-out", "tau, signed", "comprehensiveness", "sufficiency"], lines)


def _why_not(cells: Sequence[CellSummary], source: str) -> str:
    """Whether a source may be shown, with the lines that it missed; "" of random orders."""
    for cell in cells:
        for number in cell.find("may_be_shown", source):
            return "yes" if number.value else f"no: {', '.join(number.reasons)}"
    return ""


def _shown_table(asked: str) -> str:
    """The sources of one evaluation, the nearest to the best order first."""
    cells = cells_of(SHOWN, sources=asked)
    order = sources_of(cells, "naopc")
    order.sort(key=lambda source: -Column("", "naopc", source).of(cells).value)
    lines = []
    for source in order:
        stable = "" if source == "random" else with_interval(Column("", "stability_tau", source).of(cells))
        lines.append(
            [
                _title(source),
                with_interval(Column("", "naopc", source).of(cells)),
                with_interval(Column("", _COMPREHENSIVE, source).of(cells)),
                with_interval(Column("", "polarity_violation", source).of(cells)),
                stable,
                "" if source == "random" else _why_not(cells, source),
            ]
        )
    head = ["source", "NAOPC", "comprehensiveness", "polarity violated", "stability", "may be shown"]
    return "\n\n".join([table(head, lines), f"Recommended: {recommended(cells)}."])


def _by_removal() -> str:
    cells = cells_of(SHOWN, sources="usual")
    sources = sources_of(cells, "naopc_removal")
    lines = [[_title(source), with_interval(Column("", "naopc_removal", source).of(cells))] for source in sources]
    return table(["source", "NAOPC by removal from the last layer's attention"], lines)


def _claims() -> list[Claim]:
    every, mean = cells_of(SHOWN, sources="all"), cells_of(SOURCES, heads="mean")
    best = Column("", "naopc", "signed_integrated_gradients").of(every)
    where = "SST, MiniLM"
    heads, plain = (Column("", _COMPREHENSIVE, source) for source in ("learned_heads", "attention"))
    product = Column("", _COMPREHENSIVE, "attention_x_gradient")
    return [
        Claim(
            SHOWN,
            "no source comes near the best order",
            "NAOPC of the nearest, signed integrated gradients",
            where,
            best,
            below=LINE,
            zero=LINE,
        ),
        Claim(
            SHOWN,
            "attention is nearer to the best order than a random one",
            "NAOPC of attention minus random",
            where,
            gap(every, Column("", "naopc"), Column("", "naopc", "random")),
            above=0.0,
        ),
        Claim(
            SOURCES,
            "learned heads find more than the mean over heads",
            "comprehensiveness, learned heads minus attention",
            where,
            gap(mean, heads, plain),
            above=0.0,
        ),
        Claim(
            SOURCES,
            "the product with the gradient finds more than any mix of heads",
            "comprehensiveness, attention x gradient minus learned heads",
            where,
            gap(mean, product, heads),
            above=0.0,
        ),
    ]


TABLES = {
    "about-sources": lambda: about(cells_of(SOURCES)),
    "sources": _sources_table,
    "fit": lambda: earlier_table("learned_heads_fit"),
    "unit": lambda: earlier_table("learned_heads_unit"),
    "about-shown": lambda: about(cells_of(SHOWN)),
    "shown": lambda: _shown_table("all"),
    "usual": lambda: _shown_table("usual"),
    "removal": _by_removal,
    "claims": lambda: claims_table(_claims()),
}
HEADS_TABLES = {
    "heads": lambda: earlier_table("minilm_heads"),
    "removal": lambda: earlier_table("minilm_removal"),
    "first": lambda: earlier_table("minilm_first"),
    "first-removal": lambda: earlier_table("minilm_first_removal"),
    "attefa": lambda: earlier_table("minilm_attefa"),
}
