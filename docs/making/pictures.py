"""Draws the pictures of docs/tests from a small run of every test, made where it is not there yet.

    attn-faithful run docs/making/pictures.yaml         # two minutes of one core, into runs/pictures
    python -m docs.making.pictures runs/pictures        # into docs/tests/pictures

Learned heads need a transformers model, here a MiniLM that is fine-tuned and tested on the planted-token set:

    SET="--data mock-1 --set data.mock.n_train=1000 --set data.mock.n_test=200 --set data.mock.min_length=10
         --set data.mock.max_length=20"
    attn-faithful train --model MINILM --epochs 2 --seeds 1 --name heads $SET
    attn-faithful evaluate runs/heads/.../model --tests correlation --name heads-tests $SET --set
        'evaluation.tests.correlation.against=[leave_one_out, learned_heads, rollout, value_zeroing]'
    python -m docs.making.pictures runs/heads-tests

Where a report has a figure of a test it is drawn as there; else a box a ranking, over the texts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.figures import FIGURES, Cell, Figure, Missing, Panel, cells, write
from attn_faithful.reports.figures.distributions import Group, boxes, stacked
from attn_faithful.reports.palette import hue_of, title_of
from attn_faithful.reports.run_search import find

TARGET = Path(__file__).parents[1] / "tests" / "pictures"
# test -> the figure of a report that is its picture
OF_REPORTS = {"permutation": "permutation", "flips": "fraction_removed", "randomisation": "randomisation_by_depth"}


@dataclass(frozen=True)
class Boxes:
    """A picture of boxes: a metric of every text, a row a ranking.

    Attributes:
        metric: what is drawn.
        title: the question that it answers.
        label: of the axis.
        limits: of the axis.
        beside: only comparisons with this importance, the row named by the other; "" for every source.
    """

    metric: str
    title: str
    label: str
    limits: tuple[float, float]
    beside: str = ""


BOXES = {
    "erasure": Boxes(
        "comprehensiveness", "Does the prediction need the most important words?", "comprehensiveness", (-1.0, 1.0)
    ),
    "stability": Boxes(
        "stability_tau",
        "Does the ranking stay when a word without effect is another?",
        "tau-b with itself",
        (-1.0, 1.0),
    ),
    "entropy": Boxes(
        "importance_entropy", "Is importance on few words where attention is?", "entropy, of its largest", (0.0, 1.05)
    ),
    "plausibility": Boxes("plausibility", "Does attention find the marked words?", "AUPRC", (0.0, 1.05)),
    "impermissible": Boxes(
        "impermissible_mass", "How much is on words that must not show?", "share of the importance", (0.0, 1.05)
    ),
    "learned_heads": Boxes(
        "attention_correlation",
        "Does any mix of heads follow importance?",
        "tau-b with leave-one-out",
        (-1.0, 1.0),
        beside="leave_one_out",
    ),
}
VIOLATION = "polarity_violation"
SUPPORT = (("speaks for the decision", "#2f6f73"), ("does not", "#e2b79f"))


def box_panels(picture: Boxes, models: Sequence[Cell]) -> list[Panel]:
    """A panel a model, a row a ranking that is defined in some text."""
    panels = []
    for cell in models:
        for site in cell.sites(picture.metric):
            sources = cell.sources(picture.metric, site)
            rows = [_row(cell, picture, source, site) for source in sources if picture.beside in source]
            rows = [row for row in rows if len(row.defined)]
            data = {"groups": rows, "limits": picture.limits, "label": picture.label}
            panels.append(Panel(cell.panel_title(picture.metric, site), data, len(rows)))
    return panels


def _row(cell: Cell, picture: Boxes, source: str, site: str) -> Group:
    values = cell.values(picture.metric, source, site)
    mean = cell.mean(picture.metric, source, site)
    named = source
    if picture.beside:
        (named,) = {*source.replace("-", "~").split("~")} - {picture.beside}
    return Group(title_of(named), values, hue_of(named).light, mark=mean)


def polarity_panels(models: Sequence[Cell]) -> list[Panel]:
    """A panel a model, a bar a ranking: in how many texts its first word speaks for the decision."""
    panels = []
    for cell in models:
        panels += [_support(cell, site) for site in cell.sites(VIOLATION)]
    return panels


def _support(cell: Cell, site: str) -> Panel:
    names, shares, notes = [], [], []
    for source in cell.sources(VIOLATION, site):
        violated = 100 * cell.mean(VIOLATION, source, site)
        names.append(title_of(source))
        shares.append([100 - violated, violated])
        notes.append(f"n = {np.isfinite(cell.values(VIOLATION, source, site)).sum():,}")
    data = {"names": names, "shares": np.array(shares), "notes": notes, "parts": SUPPORT, "label": "texts, %"}
    return Panel(cell.panel_title(VIOLATION, site), data, len(names))


def pictures() -> dict[str, Figure]:
    """Test -> its picture, as data."""
    drawn = {test: FIGURES[name] for test, name in OF_REPORTS.items()}
    plain = replace(FIGURES["fraction_removed"], paper="", reading="diamond: mean")
    for test, picture in BOXES.items():
        panels = partial(box_panels, picture)
        drawn[test] = replace(plain, name=test, title=picture.title, test=test, panels=panels, draw=boxes)
    drawn["polarity"] = replace(
        plain,
        name="polarity",
        title="Does the word ranked first speak for the decision?",
        reading="by deletion of that word from the text",
        test="polarity",
        panels=polarity_panels,
        draw=stacked,
    )
    return drawn


def main(runs: Sequence[str]) -> None:
    """Draws what the runs have."""
    models = cells(aggregate(find(runs).runs))
    for test, figure in pictures().items():
        try:
            panels = figure.read(models)
        except Missing:
            continue
        written: list[Any] = write(figure, panels, TARGET, test, models)
        for picture in written:
            picture.unlink()  # the site has the SVG


if __name__ == "__main__":
    main(sys.argv[1:])
