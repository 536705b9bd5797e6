"""The figures of Serrano and Smith (2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attn_faithful.records.facts import NegativeJS
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, by_text, titled
from attn_faithful.reports.figures.distributions import Group, boxes, stacked
from attn_faithful.reports.figures.relations import LN2, counts_by_bin, scatter_by_class
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import hue_of, tint, title_of

PAPER = "Serrano and Smith 2019"
FRACTION, MASS, NEVER = "decision_flip", "flip_mass", "flip_never"
OUTCOMES = ("flip_both", "flip_top_only", "flip_random_only", "flip_neither")
CHANGE, GAP = "js_difference", "attention_difference"
_ROW = (2.9, 0.42)  # inches of a box
_PARTS = (
    ("both flip it", tint(hue_of("attention").light, 0.5)),
    ("the top one alone", hue_of("attention").light),
    ("the random one alone", hue_of("adversarial").light),
    ("neither", tint(hue_of("random").light, 0.25)),
)


def _single(cells: Sequence[Cell]) -> list[Panel]:
    def build(cell: Cell, source: str, site: str) -> Panel | None:
        x, y = cell.values(GAP, source, site), cell.values(CHANGE, source, site)
        known = np.isfinite(x) & np.isfinite(y)
        if not known.any():
            return None
        low, high = float(y[known].min()), float(y[known].max())
        room = 0.05 * max(high - low, 0.02)
        data = {
            "x": x,
            "y": y,
            "classes": cell.predicted,
            "names": cell.label_names,
            "hue": hue_of(source).light,
            "labels": ("weight of the top word minus weight of another", "delta JS of the prediction, nats"),
            "y_limits": (min(low, 0) - room, min(max(high, 0) + room, LN2)),
            "zero": True,
        }
        return Panel(titled(cell, site if len(cell.sites(CHANGE)) > 1 else ""), data)

    return by_text(cells, CHANGE, build, ("attention",))


def _negative(cells: Sequence[Cell]) -> list[Panel]:
    panels = []
    for cell in cells:
        facts = [fact for fact in cell.group.facts if isinstance(fact, NegativeJS) and fact.n]
        own = [fact for fact in facts if fact.source.split(",")[0] == "attention"]  # ", seed 3" where several
        for fact in own:
            data = {
                "low": fact.low,
                "high": fact.high,
                "totals": fact.of,
                "counts": fact.negative,
                "hue": hue_of("attention").light,
                "labels": ("weight of the top word minus weight of another", "texts with delta JS below 0"),
            }
            site = fact.site if len({f.site for f in own}) > 1 else ""
            seed = fact.source.removeprefix("attention").removeprefix(", ")
            panels.append(Panel(titled(cell, site, seed), data))
    if not panels and any(cell.sites(CHANGE) for cell in cells):
        raise Missing("the run holds no counts of it: no text has two items, or an older version wrote the run")
    return panels


def _outcomes(cells: Sequence[Cell]) -> list[Panel]:
    """One panel a cell and site, one row a ranking."""
    found, reasons = [], []
    for cell in cells:
        sites = cell.sites(OUTCOMES[0])
        for site in sites:
            rows = {s: [cell.values(name, s, site) for name in OUTCOMES] for s in cell.sources(OUTCOMES[0], site)}
            known = {source: own for source, own in rows.items() if np.isfinite(own[0]).any()}
            if not known:
                reasons.append(f"{cell.title}: {cell.why(OUTCOMES[0], 'attention', site) or 'undefined'}")
                continue
            data = {
                "names": [title_of(source) for source in known],
                "shares": np.array([[100 * np.nanmean(values) for values in own] for own in known.values()]),
                "notes": [f"n = {int(np.isfinite(own[0]).sum()):,}" for own in known.values()],
                "parts": _PARTS,
                "label": "texts, %",
            }
            found.append(Panel(titled(cell, site if len(sites) > 1 else ""), data, len(known)))
    if not found and reasons:
        raise Missing(f"undefined in all texts: {reasons[0]}")
    return found


def _removed(metric: str, label: str) -> Callable[[Sequence[Cell]], list[Panel]]:
    """One panel a cell and site, one row a ranking."""

    def panels(cells: Sequence[Cell]) -> list[Panel]:
        found, reasons = [], []
        for cell in cells:
            for site in cell.sites(metric):
                rows = [_row(cell, metric, source, site) for source in cell.sources(metric, site)]
                if any(np.isfinite(row.values).any() for row in rows):
                    data = {"groups": rows, "limits": (0.0, 1.0), "label": label}
                    title = titled(cell, site if len(cell.sites(metric)) > 1 else "")
                    found.append(Panel(title, data, len(rows)))
                else:
                    reasons.append(f"{cell.title}: {cell.why(metric, 'attention', site) or 'undefined'}")
        if not found and reasons:
            raise Missing(f"no ranking changes the decision of any text: {reasons[0]}")
        return found

    return panels


def _row(cell: Cell, metric: str, source: str, site: str) -> Group:
    values = cell.values(metric, source, site)
    n = int(np.isfinite(values).sum())
    never = int(np.nansum(cell.values(NEVER, source, site)))
    median = number(float(np.nanmedian(values)), 2) if n else "-"
    note = f"median {median}, n = {n:,}" + (f"\nnever flips: {never:,}" if never else "")
    return Group(title_of(source), values, hue_of(source).light, note if n else "no text flips")


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
        panels=_single,
        draw=scatter_by_class,
    ),
    Figure(
        name="negative_differences",
        title="How often did a random word matter more than the top one?",
        paper=f"{PAPER}, figures 4 and 8",
        reading="By how much more attention the top word had; above each bar: of how many texts.",
        metrics=(CHANGE,),
        test="flips",
        panels=_negative,
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
