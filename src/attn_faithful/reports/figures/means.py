"""Means over texts: of twins against their bases, and of models against a setting. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.reports.figures.marks import DASHED, MARKERS, above, beneath, corner
from attn_faithful.reports.figures.relations import LN2
from attn_faithful.reports.figures.style import safe
from attn_faithful.reports.palette import RULE, hue_of, tint

_LINE_STYLES = ("-", "--", "-.", ":")


class Twin(NamedTuple):
    """A twin by its means over texts.

    Attributes:
        kind: its objective and weight, in words.
        path: what joins it to others by a line: twins of one base and seed.
        weight: of the JSD in its objective; NaN where there is none, and it is joined to no other.
        jsd, tvd: of its attention (nats) and predictions from the base's.
        collapsed: whether it gave up predicting.
    """

    kind: str
    path: str
    weight: float
    jsd: float
    tvd: float
    collapsed: bool


def tradeoff(
    ax: Any, twins: Sequence[Twin], bases: Sequence[tuple[float, float]] = (), constant: float = math.nan
) -> Any:
    """How far each twin's predictions (TVD) and attention (JSD) lie from the base's.

    Args:
        ax: where to draw.
        twins: points; those of one path are joined in the order of their weights.
        bases: (JSD, TVD) between two bases that differ in their seed alone, a pair each: what chance does.
        constant: TVD of the best constant prediction.
    """
    largest = max([0.1, *(twin.tvd for twin in twins), *(tvd for _, tvd in bases)])
    if math.isfinite(constant):
        largest = max(largest, constant)
    top = min(1.0, 1.12 * largest)
    for attefa in (0.1, 0.3, 1.0):
        _attefa_line(ax, attefa, top)
    if math.isfinite(constant):
        ax.axhline(constant, **DASHED)
        above(ax, "constant prediction", (0, constant), fontsize=7)
    _draw_twins(ax, twins)
    if bases:
        _draw_bases(ax, bases)
    ax.set_xlim(-0.015, 0.72)
    ax.set_ylim(-0.02 * top, 1.06 * top)
    ax.axvline(LN2, color=RULE, linewidth=0.9, zorder=0)
    ax.set_xlabel("attention moved by: mean JSD, nats (at most 0.693)")
    ax.set_ylabel("predictions moved by: mean TVD")
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, f"{len(twins)} twins" if len(twins) != 1 else "1 twin")
    return ax


def _attefa_line(ax: Any, attefa: float, top: float) -> None:
    """All points of the same AtteFa, up to the largest TVD that is shown."""
    jsd = min(LN2, top / attefa * LN2)
    end = (jsd, attefa * jsd / LN2)
    ax.plot([0, end[0]], [0, end[1]], color=RULE, linewidth=0.9, zorder=0)
    above(ax, f"AtteFa {attefa:g}", end, ha="right" if jsd == LN2 else "center", fontsize=6.5, zorder=0)


def _draw_twins(ax: Any, twins: Sequence[Twin]) -> None:
    """A marker a kind, and lines that join the weights of one path."""
    hue = hue_of("adversarial").light
    for path in dict.fromkeys(twin.path for twin in twins):
        points = sorted((t.weight, t.jsd, t.tvd) for t in twins if t.path == path and math.isfinite(t.weight))
        if points:
            _, jsd, tvd = zip(*points, strict=True)
            ax.plot(jsd, tvd, color=tint(hue, 0.45), linewidth=1, zorder=1)
    for i, kind in enumerate(dict.fromkeys(twin.kind for twin in twins)):
        marker = MARKERS[i % len(MARKERS)]
        for twin in twins:
            if twin.kind == kind:
                fill = "white" if twin.collapsed else hue
                ax.plot(twin.jsd, twin.tvd, marker, color=fill, markeredgecolor=hue, markersize=6, zorder=3)
        ax.plot([], [], marker, color=hue, markersize=6, linestyle="none", label=safe(kind))
    if any(twin.collapsed for twin in twins):
        ax.plot([], [], "o", color="white", markeredgecolor=hue, linestyle="none", label="hollow: collapsed")


def _draw_bases(ax: Any, bases: Sequence[tuple[float, float]]) -> None:
    """The pairs of bases, and a cross at their mean."""
    hue = hue_of("attention").light
    jsd, tvd = np.array(bases).T
    mean, deviation = (jsd.mean(), tvd.mean()), (jsd.std(), tvd.std())
    ax.errorbar(*mean, deviation[1], deviation[0], fmt="P", color=hue, markersize=7, capsize=3, zorder=4)
    pairs = f"mean ± sd of {len(bases)} pairs" if len(bases) > 1 else "one pair"
    ax.plot([], [], "P", color=hue, markersize=7, label=f"bases of other seeds, {pairs}")
    ax.plot(jsd, tvd, ".", color=tint(hue, 0.6), markersize=4, zorder=2)


class Line(NamedTuple):
    """A number against the setting: its source, the means, and the rims of their intervals."""

    source: str
    title: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def curves(
    ax: Any, x: Sequence[float], lines: Sequence[Line], *, labels: tuple[str, str], limits: tuple[float, float]
) -> Any:
    """Means with their 95% intervals against a setting; x is logarithmic on either side of -1 to 1.

    Args:
        ax: where to draw.
        x: the setting of each cell, in order.
        lines: one a source.
        labels: of the two axes, with their units.
        limits: of y.
    """
    settings = np.asarray(x, dtype=float)
    for i, line in enumerate(lines):
        means = np.asarray(line.values, dtype=float)
        low, high = np.asarray(line.low, dtype=float), np.asarray(line.high, dtype=float)
        known = np.isfinite(means)
        errors = np.nan_to_num(np.stack([means - low, high - means])[:, known]).clip(min=0)
        ax.errorbar(
            settings[known],
            means[known],
            errors,
            color=hue_of(line.source).light,
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5,
            capsize=2,
            label=safe(line.title),
            linestyle=_LINE_STYLES[i % len(_LINE_STYLES)],
        )
    if settings.min() < -1 or settings.max() > 10:
        ax.set_xscale("symlog", linthresh=1, linscale=1.6)
    ticks = sorted(set(settings.tolist()))
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=45 if len(ticks) > 5 else 0)
    ax.minorticks_off()
    ax.set_ylim(*limits)
    ax.grid(axis="y", color=RULE)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, f"{len(ticks)} models")
    return ax
