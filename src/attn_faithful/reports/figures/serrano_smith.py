"""The figures of Serrano and Smith (2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np

from attn_faithful.records.facts import NegativeJS
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, by_site, by_source
from attn_faithful.reports.figures.distributions import Group, boxes, stacked
from attn_faithful.reports.figures.relations import LN2, counts_by_bin, scatter_by_class
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import hue_of, tint, title_of

PAPER = "Serrano and Smith 2019"
FRACTION, MASS, NEVER = "decision_flip", "flip_mass", "flip_never"
OUTCOMES = ("flip_both", "flip_top_only", "flip_random_only", "flip_neither")
CHANGE, GAP = "js_difference", "attention_difference"
_GAP_LABEL = "weight of the top word minus weight of another"
_ROW = (2.9, 0.42)  # inches of a box
_PARTS = (
    ("both flip it", tint(hue_of("attention").light, 0.5)),
    ("the top one alone", hue_of("attention").light),
    ("the random one alone", hue_of("adversarial").light),
    ("neither", tint(hue_of("random").light, 0.25)),
)


def _differences(cells: Sequence[Cell]) -> list[Panel]:
    return by_source(cells, CHANGE, _difference, ("attention",))


def _difference(cell: Cell, source: str, site: str) -> Panel | None:
    x = cell.values(GAP, source, site)
    y = cell.values(CHANGE, source, site)
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return None
    low, high = float(y[known].min()), float(y[known].max())
    margin = 0.05 * max(high - low, 0.02)
    data = {
        "x": x,
        "y": y,
        "classes": cell.classes,
        "hue": hue_of(source).light,
        "labels": (_GAP_LABEL, "delta JS of the prediction, nats"),
        "y_limits": (min(low, 0) - margin, min(max(high, 0) + margin, LN2)),
        "line": 0.0,
    }
    return Panel(cell.panel_title(CHANGE, site), data)


def _negative_differences(cells: Sequence[Cell]) -> list[Panel]:
    panels = list(chain.from_iterable(_negative_of(cell) for cell in cells))
    if not panels and any(cell.sites(CHANGE) for cell in cells):
        raise Missing("the run holds no counts of it: no text has two items, or an older version wrote the run")
    return panels


def _negative_of(cell: Cell) -> list[Panel]:
    """One panel a site and seed of a cell."""
    facts = []
    for fact in cell.group.facts:
        if isinstance(fact, NegativeJS) and fact.n:
            ranking = fact.source.split(",")[0]  # without ", seed 3", where there are several
            if ranking == "attention":
                facts.append(fact)
    several_sites = len({fact.site for fact in facts}) > 1
    panels = []
    for fact in facts:
        data = {
            "low": fact.low,
            "high": fact.high,
            "counts": fact.negative,
            "totals": fact.of,
            "hue": hue_of("attention").light,
            "labels": (_GAP_LABEL, "texts with delta JS below 0"),
        }
        site = fact.site if several_sites else ""
        seed = fact.source.removeprefix("attention").removeprefix(", ")
        title = ", ".join(filter(None, (cell.name, site, seed)))
        panels.append(Panel(title, data))
    return panels


def _outcomes(cells: Sequence[Cell]) -> list[Panel]:
    return by_site(cells, OUTCOMES[0], _outcomes_at, "undefined in all texts")


def _outcomes_at(cell: Cell, site: str) -> Panel | None:
    """One row a ranking."""
    names, shares, notes = [], [], []
    for source in cell.sources(OUTCOMES[0], site):
        outcomes = [cell.values(outcome, source, site) for outcome in OUTCOMES]
        n = int(np.isfinite(outcomes[0]).sum())
        if n:
            names.append(title_of(source))
            shares.append([100 * np.nanmean(values) for values in outcomes])
            notes.append(f"n = {n:,}")
    if not names:
        return None
    data = {"names": names, "shares": np.array(shares), "notes": notes, "parts": _PARTS, "label": "texts, %"}
    return Panel(cell.panel_title(OUTCOMES[0], site), data, len(names))


def _removed(metric: str, label: str) -> Callable[[Sequence[Cell]], list[Panel]]:
    """Boxes of what has to be removed, a panel a cell and site."""

    def panels(cells: Sequence[Cell]) -> list[Panel]:
        build = partial(_removed_at, metric, label)
        return by_site(cells, metric, build, "no ranking changes the decision of any text")

    return panels


def _removed_at(metric: str, label: str, cell: Cell, site: str) -> Panel | None:
    """One row a ranking."""
    rows = [_row(cell, metric, source, site) for source in cell.sources(metric, site)]
    if not any(len(row.defined) for row in rows):
        return None
    data = {"groups": rows, "limits": (0.0, 1.0), "label": label}
    return Panel(cell.panel_title(metric, site), data, len(rows))


def _row(cell: Cell, metric: str, source: str, site: str) -> Group:
    values = cell.values(metric, source, site)
    n = int(np.isfinite(values).sum())
    note = "no text flips"
    if n:
        median = float(np.nanmedian(values))
        never = int(np.nansum(cell.values(NEVER, source, site)))
        note = f"median {number(median, 2)}, n = {n:,}"
        if never:
            note += f"\nnever flips: {never:,}"
    return Group(title_of(source), values, hue_of(source).light, note)


FIGURES = (
    Figure(
        name="removal_difference",
        title="Does the top word matter more than another?",
        paper=f"{PAPER}, figures 3 and 7",
        reading="A point a text: how much more the prediction moves without its most attended word than without a "
        "random other one. Near 0 on the right: far more attention, hardly more effect. Below 0: the other one "
        "mattered more. Ink: median and quartiles.",
        metrics=(CHANGE, GAP),
        test="flips",
        panels=_differences,
        draw=scatter_by_class,
    ),
    Figure(
        name="negative_differences",
        title="How often did a random word matter more than the top one?",
        paper=f"{PAPER}, figures 4 and 8",
        reading="By how much more attention the top word had; above each bar: of how many texts.",
        metrics=(CHANGE,),
        test="flips",
        panels=_negative_differences,
        draw=counts_by_bin,
    ),
    Figure(
        name="flip_outcomes",
        title="Does the top word decide, or would another do?",
        paper=f"{PAPER}, figures 9, 12 and 13, table 2",
        reading="Texts whose decision changes without the first item of each ranking, without a random other one, "
        "without either alone, or in neither case. Texts with two items or more.",
        metrics=OUTCOMES,
        test="flips",
        panels=_outcomes,
        draw=stacked,
        size=_ROW,
    ),
    Figure(
        name="fraction_removed",
        title="How many words must go until the decision changes?",
        paper=f"{PAPER}, figures 5, 6 and 10",
        reading="Share of a text's items removed, in the order of each ranking, when the decision changes: the smaller "
        "the better the ranking; the smallest set is what the best ranking could do.",
        metrics=(FRACTION,),
        test="flips",
        panels=_removed(FRACTION, "share of the items removed"),
        draw=boxes,
        size=_ROW,
    ),
    Figure(
        name="mass_removed",
        title="How much attention must go until the decision changes?",
        paper=f"{PAPER}, figure 11",
        reading="Attention that the removed items held. Near 1: nearly all attention is gone and the decision still "
        "stands.",
        metrics=(MASS,),
        test="flips",
        panels=_removed(MASS, "attention removed"),
        draw=boxes,
        size=_ROW,
    ),
)
