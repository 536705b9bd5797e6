"""Tables of ROAR: the area between each source's curve and that of random masks, and the performance at every share."""

from __future__ import annotations

from typing import Any

import numpy as np

from attn_faithful.records.roar import PLAIN, RANDOM, RECURSIVE
from attn_faithful.reports.groups import Group
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.roar import METRICS, MODES, RoarCurve, RoarGrid, roar_grids
from attn_faithful.reports.tables.table import Table


def tables_of_roar(group: Group) -> list[Table]:
    """Two tables for each grid of shares: areas, and performance.

    Args:
        group: one model over its seeds.
    """
    tables = []
    for grid in roar_grids(group):
        tables += [_areas(grid, group), _performance(grid, group)]
    return tables


def _areas(grid: RoarGrid, group: Group) -> Table:
    head = ["source", "RACU", "95%", "Recursive", "95%", "RACU, AUC", "Recursive, AUC"]
    rows = []
    for source in _sources(grid):
        plain, recursive = (_curve(grid, source, mode) for mode in (PLAIN, RECURSIVE))
        cells = [title_of(source)]
        for curve in (plain, recursive):
            cells += _with_interval(curve)
        for curve in (plain, recursive):
            cells.append("-" if curve is None else number(curve.racu("roc_auc").mean))
        rows.append(cells)
    table = Table(f"{group.title}, ROAR".lstrip(", "), head, rows, _notes(grid, group), "roar", named=1)
    table.data = _area_data(grid)
    return table


def _with_interval(curve: RoarCurve | None) -> list[str]:
    """RACU by accuracy, and its interval over seeds."""
    if curve is None:
        return ["-", "-"]
    area = curve.racu("accuracy")
    return [number(area.mean), interval(area.low, area.high)]


def _performance(grid: RoarGrid, group: Group) -> Table:
    shares = grid.curves[0].shares
    head = ["source", "importance of", "Base", *(f"{share:.0%}" for share in shares)]
    rows = []
    for curve in grid.curves:
        of = "the model before" if curve.mode == RECURSIVE else "the base"
        if curve.source == RANDOM:
            of = "none"
        cells = [number(at.mean) for at in curve.at("accuracy")]
        rows.append([title_of(curve.source), of, number(group.base.accuracy.mean), *cells])
    notes = [
        "Accuracy on test texts of models trained and tested on texts of which this share of the tokens is masked; "
        f"mean over {_seeds(group)}. All tokens masked: what lengths and classes alone allow."
    ]
    table = Table(f"{group.title}, ROAR, accuracy by share".lstrip(", "), head, rows, notes, "roar_accuracy", named=2)
    table.data = _performance_data(grid, group)
    return table


def _notes(grid: RoarGrid, group: Group) -> list[str]:
    notes = [
        "RACU: area between the curves of accuracy of random masks and of masks along the source, over shares of "
        "masked tokens, of the largest that there can be; 1: the first share holds all that a model needs, 0: as "
        "random masks, below 0: worse. Models are trained anew at every share. Recursive: importance is that of the "
        "model before.",
        f"[]: 95% interval over {_seeds(group)} by Student's t; n {grid.n} test texts. AUC: the same of ROC-AUC.",
    ]
    for source, n in grid.n_undefined.items():
        if n:
            notes.append(f"{title_of(source)}: undefined in {n} texts at most, masked from their first token on.")
    unfinished = [title_of(curve.source) for curve in grid.curves if np.isnan(curve.by_metric["accuracy"]).any()]
    if unfinished:
        notes.append(
            f"Not all models are trained yet of: {', '.join(dict.fromkeys(unfinished))}; run the recipe again."
        )
    costless = sum(curve.is_costless("accuracy") for curve in grid.curves if curve.source == RANDOM)
    if costless:
        notes.append("RACU is undefined where random masks cost no accuracy: such a model needs no words.")
    return notes


def _seeds(group: Group) -> str:
    count = len(group.seeds)
    return "one seed" if count == 1 else f"{count} seeds"


def _sources(grid: RoarGrid) -> list[str]:
    return list(dict.fromkeys(curve.source for curve in grid.curves if curve.source != RANDOM))


def _curve(grid: RoarGrid, source: str, mode: str) -> RoarCurve | None:
    for curve in grid.curves:
        if curve.source == source and curve.mode == mode:
            return curve
    return None


def _area_data(grid: RoarGrid) -> tuple[list[str], list[list[Any]]]:
    """Every area of every seed, unrounded."""
    rows = []
    for curve in grid.curves:
        if curve.source == RANDOM:
            continue
        for metric in METRICS:
            area = curve.racu(metric)
            rows.append([curve.source, MODES[curve.mode], metric, area.mean, area.low, area.high, *area.values])
    n_seeds = len(rows[0]) - 6 if rows else 0
    return ["source", "mode", "metric", "racu", "low", "high", *(f"seed {i + 1}" for i in range(n_seeds))], rows


def _performance_data(grid: RoarGrid, group: Group) -> tuple[list[str], list[list[Any]]]:
    """Every metric at every share of every seed, unrounded."""
    rows = []
    for curve in grid.curves:
        for metric in METRICS:
            for seed, values in zip(group.seeds, curve.by_metric[metric], strict=True):
                rows.append([curve.source, MODES[curve.mode], metric, seed, *values])
    return ["source", "mode", "metric", "seed", *(f"{share:g}" for share in grid.curves[0].shares)], rows
