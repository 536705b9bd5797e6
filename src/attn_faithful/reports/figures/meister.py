"""The figures of Meister et al. (2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attn_faithful.records.scores import ScoreRecord
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel
from attn_faithful.reports.figures.means import Line, curves
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.tables.trends import FEW, families

PAPER = "Meister et al. 2021"
ENTROPY, TAU = "importance_entropy", "attention_correlation"


def _against_setting(
    metric: str, label: str, limits: tuple[float, float], keep: Callable[[str], bool]
) -> Callable[[Sequence[Cell]], list[Panel]]:
    """One panel a family of cells that differ in one number, and site; one line a source."""

    def panels(cells: Sequence[Cell]) -> list[Panel]:
        by_group = {id(cell.group): cell for cell in cells}
        found = []
        swept = [family for family in families([cell.group for cell in cells]) if len(set(family.x)) >= FEW]
        for family in swept:
            own = [by_group[id(group)] for group in family.groups]
            sites = list(dict.fromkeys(site for cell in own for site in cell.sites(metric)))
            for site in sites:
                lines = _lines(own, metric, site, keep)
                if lines:
                    labels = (_setting(family.axis, family.name), label)
                    data = {"x": family.x, "lines": lines, "labels": labels, "limits": limits}
                    parts = ([family.name] if len(swept) > 1 else []) + ([site] if len(sites) > 1 else [])
                    found.append(Panel(", ".join(parts), data))
        if not found and any(cell.sites(metric) for cell in cells):
            raise Missing(
                f"needs {FEW} models or more that differ in one number alone, such as sparsegen's lambda: "
                "attn-faithful run recipes/papers/meister_2021.yaml"
            )
        return found

    return panels


def _lines(cells: Sequence[Cell], metric: str, site: str, keep: Callable[[str], bool]) -> list[Line]:
    lines = []
    for source in dict.fromkeys(source for cell in cells for source in cell.sources(metric, site)):
        if not keep(source):
            continue
        found = [cell.summary(metric, source, site) for cell in cells]
        columns = [[_value(r, name) for r in found] for name in ("mean", "low", "high")]
        if any(math.isfinite(value) for value in columns[0]):
            lines.append(Line(source, title_of(source.removeprefix("attention~")), *columns))
    return lines


def _value(record: ScoreRecord | None, name: str) -> float:
    return math.nan if record is None else float(getattr(record, name))


def _setting(axis: str, family: str) -> str:
    """What the number is called: the last word of the family is the projection's name."""
    known = {
        "sparsegen": "sparsegen's lambda (0: sparsemax; larger: sparser)",
        "softmax": "softmax's temperature",
        "entmax": "entmax's alpha (1: softmax, 2: sparsemax)",
    }
    return known.get(family.split(" ")[-1], axis)


FIGURES = (
    Figure(
        name="entropy_by_setting",
        title="Does sparser attention make importance sparser?",
        paper=f"{PAPER}, figure 2 and table 2",
        reading="Mean entropy of the shares of importance, of its largest value: 1 where all words have the same "
        "share, 0 where one has all. A line that stays high while attention's falls: the model reads many words all "
        "the same.",
        metrics=(ENTROPY,),
        test="entropy",
        panels=_against_setting(ENTROPY, "entropy, of its largest", (0.0, 1.05), lambda source: True),
        draw=curves,
        size=(3.8, 2.2),
    ),
    Figure(
        name="correlation_by_setting",
        title="Does sparser attention agree better with importance?",
        paper=f"{PAPER}, figure 3",
        reading="Mean tau-b of attention with each importance: of words, and of the encoder's states at them.",
        metrics=(TAU,),
        test="correlation",
        panels=_against_setting(TAU, "tau-b with attention", (-0.2, 1.05), lambda s: s.startswith("attention~")),
        draw=curves,
        size=(3.8, 2.2),
    ),
)
