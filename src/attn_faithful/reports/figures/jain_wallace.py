"""The figures of Jain and Wallace (2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, by_text, titled
from attn_faithful.reports.figures.distributions import Group, boxes, histogram_by_class
from attn_faithful.reports.figures.relations import LN2, scatter_by_class
from attn_faithful.reports.palette import hue_of, title_of
from attn_faithful.reports.run import Run

PAPER = "Jain and Wallace 2019"
TAU, DIFFERENCE = "attention_correlation", "tau_difference"
MEDIAN, LARGEST, ADVERSARY = "attention_permutation", "largest_attention", "adversarial_attention"
_ATTENTION = "attention"
_ROW = 0.34  # inches of a box


def _tau(cells: Sequence[Cell]) -> list[Panel]:
    def build(cell: Cell, source: str, site: str) -> Panel | None:
        values = cell.values(TAU, source, site)
        other = source.removeprefix("attention~")
        if not source.startswith("attention~") or not np.isfinite(values).any():
            return None
        data = {
            "values": values,
            "classes": cell.predicted,
            "names": cell.label_names,
            "hue": hue_of(source).light,
            "limits": (-1.0, 1.0),
            "label": f"tau-b with {title_of(other)} (1: same order)",
        }
        return Panel(titled(cell, _at(cell, TAU, site), title_of(other)), data, group=f"{cell.title} {site}")

    return by_text(cells, TAU, build)


def _at(cell: Cell, metric: str, site: str) -> str:
    return site if len(cell.sites(metric)) > 1 else ""


def largest_attention(cell: Cell, site: str) -> np.ndarray:
    """The largest weight of every text: as the test permutation stored it, else from the attention itself."""
    found = cell.values(LARGEST, _ATTENTION, site)
    return found if np.isfinite(found).any() else np.concatenate([_largest(run, site) for run in cell.runs])


def _largest(run: Run, site: str) -> np.ndarray:
    if not run.has("tokens"):
        return np.full(len(run.ids), np.nan)
    table = run.read("tokens", ["example", "site", "attention"]).to_pydict()
    rows = zip(table["example"], table["site"], table["attention"], strict=True)
    top = {example: max(weights) for example, where, weights in rows if where == site and weights}
    return np.array([top.get(example, np.nan) for example in run.ids])


def _against_largest(metric: str, hue: str, top: float, label: str, ceiling: float | None) -> Any:
    def panels(cells: Sequence[Cell]) -> list[Panel]:
        def build(cell: Cell, source: str, site: str) -> Panel | None:
            x, y = largest_attention(cell, site), cell.values(metric, source, site)
            if not (np.isfinite(x) & np.isfinite(y)).any():
                return None
            data = {
                "x": x,
                "y": y,
                "classes": cell.predicted,
                "names": cell.label_names,
                "hue": hue_of(hue).light,
                "labels": ("largest attention weight", label),
                "y_limits": (-0.02 * top, 1.06 * top),
                "ceiling": ceiling,
            }
            return Panel(titled(cell, _at(cell, metric, site)), data)

        return by_text(cells, metric, build, (_ATTENTION,))

    return panels


def _adversaries(cells: Sequence[Cell]) -> list[Panel]:
    def build(cell: Cell, source: str, site: str) -> Panel | None:
        values = cell.values(ADVERSARY, source, site)
        if not np.isfinite(values).any():
            return None
        data = {
            "values": values,
            "classes": cell.predicted,
            "names": cell.label_names,
            "hue": hue_of("adversarial").light,
            "limits": (0.0, LN2),
            "label": "largest JSD, nats (at most 0.693)",
        }
        return Panel(titled(cell, _at(cell, ADVERSARY, site)), data)

    return by_text(cells, ADVERSARY, build, (_ATTENTION,))


def _differences(cells: Sequence[Cell]) -> list[Panel]:
    """One panel a comparison and site, one row a cell."""
    panels = []
    for site in dict.fromkeys(site for cell in cells for site in cell.sites(DIFFERENCE)):
        for source in dict.fromkeys(s for cell in cells for s in cell.sources(DIFFERENCE, site)):
            pair, reference = source.split("~")
            other = pair.removesuffix("-attention")
            # attention~reference must stand in the same run: the other two are compared with it
            rows = [
                Group(
                    cell.name or cell.title,
                    cell.values(DIFFERENCE, source, site),
                    hue_of(other).light,
                    mark=cell.mean(DIFFERENCE, source, site),
                )
                for cell in cells
                if source in cell.sources(DIFFERENCE, site)
            ]
            if any(np.isfinite(row.values).any() for row in rows):
                label = f"tau({title_of(other)}, {title_of(reference)})\nminus tau(attention, {title_of(reference)})"
                data = {"groups": rows, "limits": None, "label": label, "zero": True}
                several = len({s for cell in cells for s in cell.sites(DIFFERENCE)}) > 1
                title = f"{title_of(other)} and {title_of(reference)}" + (f", {site}" if several else "")
                panels.append(Panel(title, data, len(rows)))
    if not panels and any(cell.sites(TAU) for cell in cells):
        raise Missing(
            "needs the correlation of attention with two importances or more: --set "
            "'evaluation.tests.correlation.against=[input_x_gradient, leave_one_out]'"
        )
    return panels


def _by_model(cells: Sequence[Cell]) -> list[Panel]:
    """One panel a site and importance, one row a cell; of a single cell one row an importance."""
    keys = [(site, source) for cell in cells for site in cell.sites(TAU) for source in cell.sources(TAU, site)]
    keys = [(site, source) for site, source in dict.fromkeys(keys) if source.startswith("attention~")]
    several, found = len({site for site, _ in keys}) > 1, {}
    for site, source in keys:
        other = title_of(source.removeprefix("attention~"))
        for cell in (cell for cell in cells if source in cell.sources(TAU, site)):
            title = ", ".join(([site] if several else []) + ([other] if len(cells) > 1 else []))
            mean = cell.mean(TAU, source, site)
            row = Group(cell.name or other, cell.values(TAU, source, site), hue_of(source).light, mark=mean)
            found.setdefault(title, []).append(row)
    data = {"limits": (-1.0, 1.0), "label": "tau-b with attention (1: same order)", "zero": True}
    known = {title: rows for title, rows in found.items() if any(np.isfinite(row.values).any() for row in rows)}
    if found and not known:
        raise Missing("undefined in all texts")
    return [Panel(title, {**data, "groups": rows}, len(rows)) for title, rows in known.items()]


FIGURES = (
    Figure(
        name="tau_histograms",
        title="Does attention order the words as their importance does?",
        paper=f"{PAPER}, figure 2",
        reading="Kendall's tau-b of every text: 1 where attention and the importance put its words in the same order, "
        "0 where the two orders have nothing to do with one another.",
        metrics=(TAU,),
        test="correlation",
        panels=_tau,
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
        panels=_against_largest(MEDIAN, "attention", 1.0, "median change of prediction, TVD", None),
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
        panels=_against_largest(ADVERSARY, "adversarial", LN2, "largest JSD, nats (dashed: 0.693)", LN2),
        draw=scatter_by_class,
    ),
)
