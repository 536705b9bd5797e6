"""The figures of Meister et al. (2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attn_faithful.records.scores import ScoreRecord
from attn_faithful.reports.figures.base import Cell, Figure, Missing, Panel, distinct
from attn_faithful.reports.figures.means import Line, curves
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.tables.trends import FEW, Family, families

PAPER = "Meister et al. 2021"
ENTROPY, TAU = "importance_entropy", "attention_correlation"
_PAIRED = "attention~"  # begins the sources of comparisons of attention with an importance
_SETTINGS = {
    "sparsegen": "sparsegen's lambda (0: sparsemax; larger: sparser)",
    "softmax": "softmax's temperature",
    "entmax": "entmax's alpha (1: softmax, 2: sparsemax)",
}


def _against_setting(
    metric: str, label: str, limits: tuple[float, float], only: str = ""
) -> Callable[[Sequence[Cell]], list[Panel]]:
    """One panel a family of models that differ in one number, and site; one line a source.

    Args:
        metric: whose means are drawn.
        label, limits: of y.
        only: how the sources begin that are drawn.
    """

    def panels(cells: Sequence[Cell]) -> list[Panel]:
        swept = _swept(cells)
        panels = []
        for family in swept:
            members = [Cell(group) for group in family.groups]
            sites = distinct(cell.sites(metric) for cell in members)
            for site in sites:
                lines = _lines(members, metric, site, only)
                if not lines:
                    continue
                parts = [family.name] if len(swept) > 1 else []
                if len(sites) > 1:
                    parts.append(site)
                data = {"x": family.x, "lines": lines, "labels": (_setting(family), label), "limits": limits}
                panels.append(Panel(", ".join(parts), data))
        if not panels and any(cell.sites(metric) for cell in cells):
            raise Missing(
                f"needs {FEW} models or more that differ in one number alone, such as sparsegen's lambda: "
                "attn-faithful run recipes/papers/meister_2021.yaml"
            )
        return panels

    return panels


def _swept(cells: Sequence[Cell]) -> list[Family]:
    """The families with enough settings for a line."""
    groups = [cell.group for cell in cells]
    return [family for family in families(groups) if len(set(family.x)) >= FEW]


def _lines(cells: Sequence[Cell], metric: str, site: str, only: str) -> list[Line]:
    """A line a source of which a mean is defined."""
    lines = []
    for source in distinct(cell.sources(metric, site) for cell in cells):
        if not source.startswith(only):
            continue
        numbers = [_mean_and_interval(cell.summary(metric, source, site)) for cell in cells]
        means, low, high = zip(*numbers, strict=True)
        title = title_of(source.removeprefix(_PAIRED))
        if any(math.isfinite(mean) for mean in means):
            lines.append(Line(source, title, means, low, high))
    return lines


def _mean_and_interval(record: ScoreRecord | None) -> tuple[float, float, float]:
    if record is None:
        return math.nan, math.nan, math.nan
    return record.mean, record.low, record.high


def _setting(family: Family) -> str:
    """What the number is called: the last word of the family is the projection's name."""
    projection = family.name.split(" ")[-1]
    return _SETTINGS.get(projection, family.axis)


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
        panels=_against_setting(ENTROPY, "entropy, of its largest", (0.0, 1.05)),
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
        panels=_against_setting(TAU, "tau-b with attention", (-0.2, 1.05), _PAIRED),
        draw=curves,
        size=(3.8, 2.2),
    ),
)
