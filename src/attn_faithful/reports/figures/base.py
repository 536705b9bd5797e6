"""What a figure is, as data, and what figures are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ALL, Run
from attn_faithful.reports.tables.by_test import is_control


class Missing(Exception):  # noqa: N818 - no error: what is told instead of drawing an empty figure
    """Why a figure cannot be drawn."""


@dataclass
class Cell:
    """Runs that differ in nothing but the seed.

    Attributes:
        record: of `aggregate`.
        runs: one a seed.
        name: the labels that tell it from the other cells; "" where there are none.
    """

    record: Mapping[str, Any]
    runs: Sequence[Run]
    name: str = ""

    @property
    def title(self) -> str:
        return " ".join(self.record["axes"].values())

    @property
    def label_names(self) -> list[str]:
        return self.runs[0].label_names

    @cached_property
    def predicted(self) -> np.ndarray:
        """Predicted class of every text of every seed."""
        return np.concatenate([run.predicted for run in self.runs])

    def sites(self, metric: str) -> list[str]:
        """Where in the model the metric was computed."""
        return list(dict.fromkeys(r["site"] for r in self.record["tests"] if r["metric"] == metric))

    def sources(self, metric: str, site: str | None = None) -> list[str]:
        """The sources of a metric, without the controls."""
        own = (r for r in self.record["tests"] if r["metric"] == metric and site in (None, r["site"]))
        return list(dict.fromkeys(r["source"] for r in own if not is_control(r["source"])))

    def values(self, metric: str, source: str, site: str) -> np.ndarray:
        """A metric of every text of every seed, as `predicted`; NaN where undefined."""
        return np.concatenate([run.scores(metric, source, site).to_numpy() for run in self.runs])

    def summary(self, metric: str, source: str, site: str) -> Mapping[str, Any] | None:
        """The record over all texts."""
        key = (metric, source, site, ALL)
        for r in self.record["tests"]:
            if (r["metric"], r["source"], r["site"], r["class"]) == key:
                return r
        return None

    def why(self, metric: str, source: str, site: str) -> str:
        """Why a metric is undefined, in words."""
        reasons = (self.summary(metric, source, site) or {}).get("reasons", {})
        return ", ".join(f"{reason} ({n})" for reason, n in reasons.items())


def cells(runs: Sequence[Run], records: Sequence[Mapping[str, Any]] | None = None) -> list[Cell]:
    """Runs by cell.

    Args:
        runs: finished runs.
        records: of `aggregate` over them, where that was done.
    """
    records = aggregate([run.folder for run in runs]) if records is None else records
    by_path = {str(run.path): run for run in runs}
    found = [Cell(record, [by_path[path] for path in record["runs"]]) for record in records]
    several = [axis for axis, labels in _labels(found).items() if len(set(labels)) > 1]
    for cell in found:
        cell.name = " ".join(cell.record["axes"][axis] for axis in several if axis in cell.record["axes"])
    return found


def common_title(found: Sequence[Cell]) -> str:
    """The labels that all cells share, and how many seeds stand behind each."""
    shared = [labels[0] for labels in _labels(found).values() if len(set(labels)) == 1 and labels[0]]
    seeds = max(len(cell.runs) for cell in found)
    return ", ".join([*shared, *([f"{seeds} seeds"] if seeds > 1 else [])])


def _labels(found: Sequence[Cell]) -> dict[str, list[str]]:
    """Axis -> the label of each cell, "" where it has none."""
    axes = dict.fromkeys(axis for cell in found for axis in cell.record["axes"])
    return {axis: [cell.record["axes"].get(axis, "") for cell in found] for axis in axes}


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
            Missing: nothing can be drawn; it is said why and what to do.
        """
        found = self.panels(cells)
        if not found:
            raise Missing(f"needs the test {self.test}, which was not run: {how_to_run(self.test)}")
        return found


def how_to_run(test: str) -> str:
    """The command that gives a test's numbers."""
    if test == "attefa":
        return "attn-faithful attefa --data DATA"
    return f"attn-faithful evaluate MODEL --data DATA --tests {test}"


def titled(cell: Cell, *more: str) -> str:
    """A panel's title: what tells the cell from others, and what else sets the panel apart."""
    return ", ".join(part for part in (cell.name, *more) if part)


def by_text(
    found: Sequence[Cell], metric: str, build: Callable[[Cell, str, str], Panel | None], only: Sequence[str] = ()
) -> list[Panel]:
    """A panel a cell, site and source of a metric.

    Args:
        found: the cells.
        metric: what is drawn of every text.
        build: ``build(cell, source, site)`` makes the panel, or None where nothing is defined.
        only: the sources to take; () for all but the controls.

    Raises:
        Missing: the metric is there, and undefined in all texts; it is said why.
    """
    panels, reasons = [], []
    for cell in found:
        for site in cell.sites(metric):
            for source in only or cell.sources(metric, site):
                panel = build(cell, source, site)
                if panel is not None:
                    panels.append(panel)
                elif why := cell.why(metric, source, site):
                    reasons.append(f"{cell.title}, {title_of(source)}: {why}")
    if not panels and reasons:
        raise Missing(f"undefined in all texts: {reasons[0]}")
    return panels
