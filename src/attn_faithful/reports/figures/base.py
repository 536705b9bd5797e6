"""The types of figures: `Figure` says what is drawn, `Cell` gives the numbers of a model, `Panel` is a pair of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from attn_faithful.records.scores import ALL, ScoreRecord
from attn_faithful.reports.figures.marks import Classes
from attn_faithful.reports.groups import Group
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.sources import is_control


class Missing(Exception):  # noqa: N818 - no error: the reason that stands in place of an empty figure
    """Why a figure cannot be drawn."""


@dataclass
class Cell:
    """One model over its seeds, and the labels that tell it from the others.

    Attributes:
        group: its runs, and their numbers over seeds.
        name: the labels that tell it from the other cells; "" where there are none.
    """

    group: Group
    name: str = ""

    @property
    def runs(self) -> Sequence[Run]:
        return self.group.runs

    @property
    def title(self) -> str:
        return self.group.title

    @property
    def name_or_title(self) -> str:
        return self.name or self.title

    @property
    def label_names(self) -> list[str]:
        return self.group.label_names

    @property
    def classes(self) -> Classes:
        """Predicted class of every text of every seed."""
        return Classes(self.group.predicted, self.label_names)

    def values(self, metric: str, source: str, site: str) -> np.ndarray:
        """A metric of every text of every seed, as `classes`; NaN where undefined."""
        return self.group.values(metric, source, site)

    def sites(self, metric: str) -> list[str]:
        """Where in the model the metric was computed."""
        sites = [record.site for record in self.group.tests if record.metric == metric]
        return list(dict.fromkeys(sites))

    def sources(self, metric: str, site: str) -> list[str]:
        """The sources of a metric at a site, without the controls."""
        sources = []
        for record in self.group.tests:
            is_here = record.metric == metric and record.site == site
            if is_here and not is_control(record.source):
                sources.append(record.source)
        return list(dict.fromkeys(sources))

    def summary(self, metric: str, source: str, site: str) -> ScoreRecord | None:
        """The record over all texts."""
        for record in self.group.tests:
            if record.place == (metric, site, source, ALL):
                return record
        return None

    def mean(self, metric: str, source: str, site: str) -> float:
        """The mean over all texts; NaN where there is none."""
        record = self.summary(metric, source, site)
        return np.nan if record is None else record.mean

    def why(self, metric: str, source: str, site: str) -> str:
        """Why a metric is undefined, in words."""
        record = self.summary(metric, source, site)
        if record is None:
            return ""
        return ", ".join(f"{reason} ({n})" for reason, n in record.reasons.items())

    def panel_title(self, metric: str, site: str, *more: str) -> str:
        """What sets a panel apart: the cell's name, the site where the metric has several, and whatever else."""
        site_name = site if len(self.sites(metric)) > 1 else ""
        parts = (self.name, site_name, *more)
        return ", ".join(filter(None, parts))


def cells(groups: Sequence[Group]) -> list[Cell]:
    """The models as cells, each with the labels that tell it from the others."""
    axes = [axis for axis, labels in _labels(groups).items() if len(set(labels)) > 1]
    cells = []
    for group in groups:
        name = " ".join(group.axes[axis] for axis in axes if axis in group.axes)
        cells.append(Cell(group, name))
    return cells


def common_title(cells: Sequence[Cell]) -> str:
    """The labels that all cells share, and how many seeds stand behind each."""
    groups = [cell.group for cell in cells]
    parts = []
    for labels in _labels(groups).values():
        is_shared = len(set(labels)) == 1
        if is_shared and labels[0]:
            parts.append(labels[0])
    seeds = max(len(group.runs) for group in groups)
    if seeds > 1:
        parts.append(f"{seeds} seeds")
    return ", ".join(parts)


def _labels(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Axis -> the label of each group, "" where it has none."""
    labels = {}
    for axis in distinct(group.axes for group in groups):
        labels[axis] = [group.axes.get(axis, "") for group in groups]
    return labels


def distinct(lists: Iterable[Iterable[str]]) -> list[str]:
    """The entries of several lists, each once, in the order in which they come.

    Example:
        >>> distinct([["b", "a"], ["a", "c"]])
        ['b', 'a', 'c']
    """
    return list(dict.fromkeys(chain.from_iterable(lists)))


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: what tells it from the other panels of its figure.
        data: for the figure's ``draw``.
        rows: rows of boxes that it holds, 0 where it has a height of its own.
        group: panels of one group stand in a row.
    """

    title: str
    data: Mapping[str, Any]
    rows: int = 0
    group: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure, as data.

    Attributes:
        name: of its files.
        title: what it shows, in plain words.
        paper: whose figure it is, with its number.
        reading: how to read it, in a sentence or two.
        metrics: what it needs.
        test: which test gives that.
        panels: ``panels(cells)`` reads what is drawn, or raises `Missing`.
        draw: ``draw(ax, **panel.data) -> ax``.
        size: width and height of a panel's axes in inches; of rows of boxes the height of one.
    """

    name: str
    title: str
    paper: str
    reading: str
    metrics: Sequence[str]
    test: str
    panels: Callable[[Sequence[Cell]], list[Panel]]
    draw: Callable[..., Any]
    size: tuple[float, float] = (3.3, 2.0)

    def size_of(self, panel: Panel) -> tuple[float, float]:
        """Width and height of a panel's axes in inches."""
        width, height = self.size
        return width, height * (panel.rows or 1)

    def read(self, cells: Sequence[Cell]) -> list[Panel]:
        """The panels.

        Raises:
            Missing: nothing can be drawn; the text says why and what to do.
        """
        panels = self.panels(cells)
        if not panels:
            raise Missing(f"needs the test {self.test}, which was not run: {how_to_run(self.test)}")
        return panels


def how_to_run(test: str) -> str:
    """The command that gives a test's numbers."""
    if test == "attefa":
        return "attn-faithful attefa --data DATA"
    return f"attn-faithful evaluate MODEL --data DATA --tests {test}"


def by_source(
    cells: Sequence[Cell], metric: str, build: Callable[[Cell, str, str], Panel | None], only: Sequence[str] = ()
) -> list[Panel]:
    """A panel a cell, site and source of a metric.

    Args:
        cells: the models.
        metric: what is drawn of every text.
        build: ``build(cell, source, site)`` makes the panel, or None where nothing is defined.
        only: the sources to take; () for all but the controls.

    Raises:
        Missing: the metric is undefined in all texts; the text says why.
    """
    panels, reasons = [], []
    for cell in cells:
        for site in cell.sites(metric):
            for source in only or cell.sources(metric, site):
                panel = build(cell, source, site)
                if panel is not None:
                    panels.append(panel)
                    continue
                why = cell.why(metric, source, site)
                if why:
                    reasons.append(f"{cell.title}, {title_of(source)}: {why}")
    if not panels and reasons:
        raise Missing(f"undefined in all texts: {reasons[0]}")
    return panels


def by_site(
    cells: Sequence[Cell], metric: str, build: Callable[[Cell, str], Panel | None], undefined: str
) -> list[Panel]:
    """A panel a cell and site of a metric.

    Args:
        cells: the models.
        metric: what is drawn of every text.
        build: ``build(cell, site)`` makes the panel, or None where nothing is defined.
        undefined: what to say where there is no panel at all.

    Raises:
        Missing: the metric is undefined in all texts; the text says why.
    """
    panels, reasons = [], []
    for cell in cells:
        for site in cell.sites(metric):
            panel = build(cell, site)
            if panel is None:
                why = cell.why(metric, "attention", site) or "undefined"
                reasons.append(f"{cell.title}: {why}")
            else:
                panels.append(panel)
    if not panels and reasons:
        raise Missing(f"{undefined}: {reasons[0]}")
    return panels
