"""The figures of Amini and Kosseim."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, distinct, how_to_run
from attn_faithful.reports.figures.distributions import Group, violins
from attn_faithful.reports.figures.means import Twin, tradeoff
from attn_faithful.reports.groups import TwinGroup
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.palette import hue_of

PAPER = "Amini and Kosseim"
ATTEFA = "attefa"
_VARIANT = re.compile(r"attefa(?:-(\d\S*?))?(?:-(from-\w+))?")


def _attefa(cells: Sequence[Cell]) -> list[Panel]:
    """One row a cell and kind of twin; every text of every seed."""
    variants = distinct(cell.group.twins for cell in cells)
    rows = []
    for cell in cells:
        for variant, twins in cell.group.twins.items():
            name = cell.name_or_title
            if len(variants) > 1:
                name += f", {_kind(variant)[0]}"
            values = _attefa_values(cell, variant)
            if np.isfinite(values).any():
                rows.append(_row(name, values, twins))
    if not rows and variants:
        raise Missing("undefined in all texts: no twin's attention ever moved")
    if not rows:
        raise Missing(f"needs twins, which were not trained: {how_to_run(ATTEFA)}")
    label = "AtteFa of each text (0: other attention, same prediction)"
    return [Panel("", {"groups": rows, "limits": (0.0, 1.0), "label": label}, len(rows))]


def _attefa_values(cell: Cell, variant: str) -> np.ndarray:
    """AtteFa of every text by every twin of a kind."""
    values = [np.zeros(0)]
    for run in cell.runs:
        for name, twin in run.summary.twins.items():
            if twin.variant == variant:
                values.append(run.scores(ATTEFA, name).to_numpy())  # (B,)
    return np.concatenate(values)


def _row(name: str, values: np.ndarray, twins: TwinGroup) -> Group:
    n = len(twins.by_seed)
    note = counted(n, "twin")
    if twins.collapsed:
        note += f", {twins.collapsed} collapsed"
    hue = hue_of("adversarial").light
    return Group(name, values, hue, note, twins.attefa.mean, pale=twins.collapsed == n)


def _tradeoff(cells: Sequence[Cell]) -> list[Panel]:
    panels = []
    for cell in cells:
        points = _points(cell)
        if points:
            constants = [twins.constant_tvd.mean for twins in cell.group.twins.values()]
            data = {"twins": points, "bases": _base_pairs(cell), "constant": float(np.mean(constants))}
            panels.append(Panel(cell.name, data))
    if not panels and any(cell.group.twins for cell in cells):
        raise Missing("undefined in all twins: no text has both a TVD and a JSD")
    if not panels:
        raise Missing(f"needs twins, which were not trained: {how_to_run(ATTEFA)} --weights 0.1,0.3")
    return panels


def _points(cell: Cell) -> list[Twin]:
    points = []
    for variant, twins in cell.group.twins.items():
        kind, weight = _kind(variant)
        for twin in twins.by_seed:
            if math.isfinite(twin.tvd) and math.isfinite(twin.jsd):
                path = f"{twin.base_seed}, {twin.seed}"
                points.append(Twin(kind, path, weight, twin.jsd, twin.tvd, twin.collapsed))
    return points


def _base_pairs(cell: Cell) -> list[tuple[float, float]]:
    """JSD and TVD of every pair of bases that differ in their seed."""
    pairs = []
    for tvd, jsd in cell.group.base_pairs.pairs:
        if math.isfinite(tvd) and math.isfinite(jsd):
            pairs.append((jsd, tvd))
    return pairs


def _kind(variant: str) -> tuple[str, float]:
    """A variant in words and its weight, which is 1 where none is named; NaN for another objective.

    Example:
        >>> _kind("attefa"), _kind("attefa-1e-05-from-base"), _kind("constrained-0.05")
        (('weight 1', 1.0), ('weight 1e-05, from-base', 1e-05), ('constrained-0.05', nan))
    """
    match = _VARIANT.fullmatch(variant)
    if match is None:
        return variant, math.nan
    weight, start = match[1] or "1", match[2]
    words = f"weight {weight}"
    if start:
        words += f", {start}"
    return words, float(weight)


FIGURES = (
    Figure(
        name="attefa_violins",
        title="How faithful is attention, text by text and model by model?",
        paper=f"{PAPER}, figure 1",
        reading="AtteFa of every text: near 0, a twin attends elsewhere and predicts the same. Diamond: AtteFa of the "
        "data set. Hatched: all twins gave up predicting, and their AtteFa says that no other attention was found.",
        metrics=(ATTEFA,),
        test=ATTEFA,
        panels=_attefa,
        draw=violins,
        size=(3.6, 0.46),
    ),
    Figure(
        name="twin_tradeoff",
        title="What does moving attention cost in predictions?",
        paper=f"{PAPER}, figure 2; Wiegreffe and Pinter 2019, figure 5",
        reading="A point a twin by its means over texts; lines join the weights of one seed. Low on the right: "
        "attention moved far, predictions did not. The cross is what a new seed alone does.",
        metrics=(ATTEFA,),
        test=ATTEFA,
        panels=_tradeoff,
        draw=tradeoff,
        size=(3.6, 2.5),
    ),
)
