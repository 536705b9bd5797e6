"""The figures of Jain and Wallace (2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, by_source, distinct
from attn_faithful.reports.figures.distributions import Group, boxes, histogram_by_class
from attn_faithful.reports.figures.relations import LN2, scatter_by_class
from attn_faithful.reports.palette import hue_of, title_of
from attn_faithful.reports.run import Run

PAPER = "Jain and Wallace 2019"
TAU, DIFFERENCE = "attention_correlation", "tau_difference"
MEDIAN, LARGEST, ADVERSARY = "attention_permutation", "largest_attention", "adversarial_attention"
_ATTENTION = "attention"
_PAIRED = "attention~"  # begins the sources of comparisons of attention with an importance
_ROW = 0.34  # inches of a box


def _taus(cells: Sequence[Cell]) -> list[Panel]:
    return by_source(cells, TAU, _tau)


def _tau(cell: Cell, source: str, site: str) -> Panel | None:
    if not source.startswith(_PAIRED):
        return None
    importance = title_of(source.removeprefix(_PAIRED))
    label = f"tau-b with {importance} (1: same order)"
    data = _histogram(cell, cell.values(TAU, source, site), source, (-1.0, 1.0), label)
    if data is None:
        return None
    return Panel(cell.panel_title(TAU, site, importance), data, group=f"{cell.title} {site}")


def _adversaries(cells: Sequence[Cell]) -> list[Panel]:
    return by_source(cells, ADVERSARY, _adversary, (_ATTENTION,))


def _adversary(cell: Cell, source: str, site: str) -> Panel | None:
    values = cell.values(ADVERSARY, source, site)
    data = _histogram(cell, values, "adversarial", (0.0, LN2), "largest JSD, nats (at most 0.693)")
    if data is None:
        return None
    return Panel(cell.panel_title(ADVERSARY, site), data)


def _histogram(
    cell: Cell, values: np.ndarray, hue: str, limits: tuple[float, float], label: str
) -> dict[str, Any] | None:
    """The data of a histogram by class; None where no value is defined."""
    if not np.isfinite(values).any():
        return None
    return {
        "values": values,
        "classes": cell.classes,
        "hue": hue_of(hue).light,
        "limits": limits,
        "label": label,
    }


def _against_largest(
    metric: str, hue: str, label: str, top: float, ceiling: float | None = None
) -> Callable[[Sequence[Cell]], list[Panel]]:
    """A metric of every text against its largest weight, a panel a cell and site."""

    def build(cell: Cell, source: str, site: str) -> Panel | None:
        x = largest_attention(cell, site)
        y = cell.values(metric, source, site)
        if not (np.isfinite(x) & np.isfinite(y)).any():
            return None
        data = {
            "x": x,
            "y": y,
            "classes": cell.classes,
            "hue": hue_of(hue).light,
            "labels": ("largest attention weight", label),
            "y_limits": (-0.02 * top, 1.06 * top),
            "line": ceiling,
        }
        return Panel(cell.panel_title(metric, site), data)

    def panels(cells: Sequence[Cell]) -> list[Panel]:
        return by_source(cells, metric, build, (_ATTENTION,))

    return panels


def largest_attention(cell: Cell, site: str) -> np.ndarray:
    """The largest weight of every text: as the test permutation stored it, else from the attention itself."""
    stored = cell.values(LARGEST, _ATTENTION, site)
    if np.isfinite(stored).any():
        return stored
    return np.concatenate([_largest(run, site) for run in cell.runs])


def _largest(run: Run, site: str) -> np.ndarray:
    """The largest weight of every text of a run (B,), NaN where its attention was not stored."""
    if not run.has("tokens"):
        return np.full(len(run.ids), np.nan)
    table = run.read("tokens", ["example", "site", "attention"])
    largest = {}
    for row in table.to_pylist():
        weights = row["attention"]
        if row["site"] == site and weights:
            largest[row["example"]] = max(weights)
    return np.array([largest.get(example, np.nan) for example in run.ids])


def _differences(cells: Sequence[Cell]) -> list[Panel]:
    """One panel a comparison and site, one row a cell."""
    sites = distinct(cell.sites(DIFFERENCE) for cell in cells)
    panels = []
    for site in sites:
        for source in distinct(cell.sources(DIFFERENCE, site) for cell in cells):
            panel = _difference(cells, source, site, len(sites) > 1)
            if panel is not None:
                panels.append(panel)
    if not panels and any(cell.sites(TAU) for cell in cells):
        raise Missing(
            "needs the correlation of attention with two importances or more: --set "
            "'evaluation.tests.correlation.against=[input_x_gradient, leave_one_out]'"
        )
    return panels


def _difference(cells: Sequence[Cell], source: str, site: str, several_sites: bool) -> Panel | None:
    pair, reference = source.split("~")
    other = pair.removesuffix("-attention")
    # attention~reference must stand in the same run: the other two are compared with it
    rows = []
    for cell in cells:
        if source in cell.sources(DIFFERENCE, site):
            values = cell.values(DIFFERENCE, source, site)
            mean = cell.mean(DIFFERENCE, source, site)
            rows.append(Group(cell.name_or_title, values, hue_of(other).light, mark=mean))
    if not any(len(row.defined) for row in rows):
        return None
    first, second = title_of(other), title_of(reference)
    label = f"tau({first}, {second})\nminus tau(attention, {second})"
    title = f"{first} and {second}"
    if several_sites:
        title += f", {site}"
    return Panel(title, {"groups": rows, "limits": None, "label": label, "zero": True}, len(rows))


def _by_model(cells: Sequence[Cell]) -> list[Panel]:
    """One panel a site and importance, one row a cell; of a single cell one row an importance."""
    comparisons = _comparisons(cells)
    several_sites = len({site for site, _ in comparisons}) > 1
    rows: dict[str, list[Group]] = {}  # title of a panel -> its rows
    for site, source in comparisons:
        importance = title_of(source.removeprefix(_PAIRED))
        parts = [site] if several_sites else []
        if len(cells) > 1:
            parts.append(importance)
        title = ", ".join(parts)
        for cell in cells:
            if source in cell.sources(TAU, site):
                values = cell.values(TAU, source, site)
                mean = cell.mean(TAU, source, site)
                row = Group(cell.name or importance, values, hue_of(source).light, mark=mean)
                rows.setdefault(title, []).append(row)
    panels = []
    for title, groups in rows.items():
        if any(len(group.defined) for group in groups):
            label = "tau-b with attention (1: same order)"
            data = {"groups": groups, "limits": (-1.0, 1.0), "label": label, "zero": True}
            panels.append(Panel(title, data, len(groups)))
    if rows and not panels:
        raise Missing("undefined in all texts")
    return panels


def _comparisons(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Site and source of the comparisons of attention with an importance."""
    comparisons = []
    for cell in cells:
        for site in cell.sites(TAU):
            for source in cell.sources(TAU, site):
                if source.startswith(_PAIRED):
                    comparisons.append((site, source))
    return list(dict.fromkeys(comparisons))


FIGURES = (
    Figure(
        name="tau_histograms",
        title="Does attention order the words as their importance does?",
        paper=f"{PAPER}, figure 2",
        reading="Kendall's tau-b of every text: 1 where attention and the importance put its words in the same order, "
        "0 where the two orders have nothing to do with one another.",
        metrics=(TAU,),
        test="correlation",
        panels=_taus,
        draw=histogram_by_class,
    ),
    Figure(
        name="correlation_differences",
        title="Do other importances agree with one another more than attention does?",
        paper=f"{PAPER}, figures 3 and 4",
        reading="Right of 0: the two importances agree more with one another than attention agrees with the second. "
        "Diamond: mean.",
        metrics=(DIFFERENCE,),
        test="correlation",
        panels=_differences,
        draw=boxes,
        size=(3.3, _ROW),
    ),
    Figure(
        name="correlation_by_model",
        title="How well does attention agree with importance, model by model?",
        paper=f"{PAPER}, figure 5; Meister et al. 2021, figure 1",
        reading="One box a model and importance: tau-b of every text. Diamond: mean.",
        metrics=(TAU,),
        test="correlation",
        panels=_by_model,
        draw=boxes,
        size=(3.3, _ROW),
    ),
    Figure(
        name="permutation",
        title="What happens to the answer when the weights are shuffled?",
        paper=f"{PAPER}, figure 6",
        reading="A point a text: the median change of its prediction over random permutations of its weights. Low on "
        "the right: attention singles out a word, and giving its weight to another changes nothing. Ink: median and "
        "quartiles.",
        metrics=(MEDIAN, LARGEST),
        test="permutation",
        panels=_against_largest(MEDIAN, "attention", "median change of prediction, TVD", 1.0),
        draw=scatter_by_class,
    ),
    Figure(
        name="adversarial_histogram",
        title="How far can attention move while the answer stays?",
        paper=f"{PAPER}, figure 7",
        reading="The largest JSD from the model's attention of every text at which the prediction moves by epsilon at "
        "most; 0.693 means other words altogether.",
        metrics=(ADVERSARY,),
        test="adversarial",
        panels=_adversaries,
        draw=histogram_by_class,
    ),
    Figure(
        name="adversarial_scatter",
        title="Does sharp attention leave less room to move?",
        paper=f"{PAPER}, figure 8",
        reading="A point a text. High on the right: attention singles out a word, and a wholly different attention "
        "gives the same answer. Ink: median and quartiles.",
        metrics=(ADVERSARY,),
        test="adversarial",
        panels=_against_largest(ADVERSARY, "adversarial", "largest JSD, nats (dashed: 0.693)", LN2, LN2),
        draw=scatter_by_class,
    ),
)
