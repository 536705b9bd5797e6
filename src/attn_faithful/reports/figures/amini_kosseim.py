"""The figures of Amini and Kosseim."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, how_to_run
from attn_faithful.reports.figures.distributions import Group, violins
from attn_faithful.reports.figures.means import Twin, tradeoff
from attn_faithful.reports.palette import hue_of

PAPER = "Amini and Kosseim"
ATTEFA = "attefa"


def _attefa(cells: Sequence[Cell]) -> list[Panel]:
    """One row a cell and kind of twin; every text of every seed."""
    rows = []
    kinds = {variant for cell in cells for variant in cell.group.twins}
    for cell in cells:
        for variant, twin in cell.group.twins.items():
            parts = [
                run.scores(ATTEFA, name).to_numpy()
                for run in cell.runs
                for name, of_run in run.summary.twins.items()
                if of_run.variant == variant
            ]
            if not parts or not np.isfinite(np.concatenate(parts)).any():
                continue
            gone, of = twin.collapsed, len(twin.by_seed)
            note = f"{of} twin{'s' if of > 1 else ''}" + (f", {gone} collapsed" if gone else "")
            name = ", ".join([cell.name or cell.title, *([_kind(variant)[0]] if len(kinds) > 1 else [])])
            values, hue = np.concatenate(parts), hue_of("adversarial").light
            rows.append(Group(name, values, hue, note, twin.attefa.mean, pale=gone == of))
    if not rows:
        if kinds:
            raise Missing("undefined in all texts: no twin's attention ever moved")
        raise Missing(f"needs twins, which were not trained: {how_to_run(ATTEFA)}")
    label = "AtteFa of each text (0: other attention, same prediction)"
    return [Panel("", {"groups": rows, "limits": (0.0, 1.0), "label": label}, len(rows))]


def _tradeoff(cells: Sequence[Cell]) -> list[Panel]:
    panels = []
    for cell in cells:
        twins, limits = [], []
        for variant, twin in cell.group.twins.items():
            for row in twin.by_seed:
                path = f"{row.base_seed}, {row.seed}"
                if not math.isnan(row.tvd) and not math.isnan(row.jsd):
                    kind, weight = _kind(variant)
                    twins.append(Twin(kind, path, weight, row.jsd, row.tvd, row.collapsed))
            limits.append(twin.constant_tvd.mean)
        if twins:
            bases = [(jsd, tvd) for tvd, jsd in cell.group.base_pairs.pairs if not math.isnan(tvd)]
            data = {"twins": twins, "bases": bases, "constant": float(np.mean(limits))}
            panels.append(Panel(cell.name, data))
    if not panels:
        if any(cell.group.twins for cell in cells):
            raise Missing("undefined in all twins: no text has both a TVD and a JSD")
        raise Missing(f"needs twins, which were not trained: {how_to_run(ATTEFA)} --weights 0.1,0.3")
    return panels


_VARIANT = re.compile(r"attefa(?:-(\d\S*?))?(?:-(from-\w+))?")


def _kind(variant: str) -> tuple[str, float]:
    """A variant in words and its weight, which is 1 where none is named; NaN for another objective.

    Example:
        >>> _kind("attefa"), _kind("attefa-1e-05-from-base"), _kind("constrained-0.05")
        (('weight 1', 1.0), ('weight 1e-05, from-base', 1e-05), ('constrained-0.05', nan))
    """
    found = _VARIANT.fullmatch(variant)
    if found is None:
        return variant, math.nan
    weight, start = found[1] or "1", found[2]
    return f"weight {weight}" + (f", {start}" if start else ""), float(weight)


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
