"""Means over texts: of twins against their bases, and of models against a setting. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.reports.figures.marks import DASHED, MARKERS, above, beneath, corner
from attn_faithful.reports.figures.relations import LN2
from attn_faithful.reports.figures.style import safe
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.palette import RULE, hue_of, tint

LINE_STYLES = ("-", "--", "-.", ":")
_LEAST_TVD = 0.1  # that is shown
_MANY_PARTS = 14  # of a model, beyond which their names stand upright
_LETTERS_OF_A_LINE = 40  # of its title


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
    top = _top(twins, bases, constant)
    for attefa in (0.1, 0.3, 1.0):
        _attefa_line(ax, attefa, top)
    if math.isfinite(constant):
        ax.axhline(constant, **DASHED)
        above(ax, "constant prediction", (0, constant), fontsize=7)
    _draw_twins(ax, twins)
    if bases:
        _draw_bases(ax, bases)
    ax.set_xlim(-0.015, 0.72)  # ln 2, with some room on either side
    ax.set_ylim(-0.02 * top, 1.06 * top)
    ax.axvline(LN2, color=RULE, linewidth=0.9, zorder=0)
    ax.set_xlabel("attention moved by: mean JSD, nats (at most 0.693)")
    ax.set_ylabel("predictions moved by: mean TVD")
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, counted(len(twins), "twin"))
    return ax


def _top(twins: Sequence[Twin], bases: Sequence[tuple[float, float]], constant: float) -> float:
    """The largest TVD that is shown."""
    tvds = [_LEAST_TVD]
    tvds += [twin.tvd for twin in twins]
    tvds += [tvd for _, tvd in bases]
    if math.isfinite(constant):
        tvds.append(constant)
    return min(1.0, 1.12 * max(tvds))


def _attefa_line(ax: Any, attefa: float, top: float) -> None:
    """All points of the same AtteFa, up to the largest TVD that is shown."""
    jsd = min(LN2, top / attefa * LN2)
    tvd = attefa * jsd / LN2
    ax.plot([0, jsd], [0, tvd], color=RULE, linewidth=0.9, zorder=0)
    place = "right" if jsd == LN2 else "center"
    above(ax, f"AtteFa {attefa:g}", (jsd, tvd), ha=place, fontsize=6.5, zorder=0)


def _draw_twins(ax: Any, twins: Sequence[Twin]) -> None:
    """A marker a kind, and lines that join the weights of one path."""
    hue = hue_of("adversarial").light
    for path in dict.fromkeys(twin.path for twin in twins):
        members = [twin for twin in twins if twin.path == path]
        _draw_path(ax, members, tint(hue, 0.45))
    kinds = dict.fromkeys(twin.kind for twin in twins)
    for kind, marker in zip(kinds, cycle(MARKERS), strict=False):
        for twin in twins:
            if twin.kind == kind:
                fill = "white" if twin.collapsed else hue
                ax.plot(twin.jsd, twin.tvd, marker, color=fill, markeredgecolor=hue, markersize=6, zorder=3)
        _legend_entry(ax, marker, safe(kind), color=hue, markersize=6)
    if any(twin.collapsed for twin in twins):
        _legend_entry(ax, "o", "hollow: collapsed", color="white", markeredgecolor=hue)


def _draw_path(ax: Any, twins: Sequence[Twin], colour: str) -> None:
    """A line through the twins of one path, in the order of their weights."""
    points = []
    for twin in twins:
        if math.isfinite(twin.weight):
            points.append((twin.weight, twin.jsd, twin.tvd))
    if points:
        _, jsd, tvd = zip(*sorted(points), strict=True)
        ax.plot(jsd, tvd, color=colour, linewidth=1, zorder=1)


def _legend_entry(ax: Any, marker: str, label: str, **style: Any) -> None:
    """A marker that is in the legend alone."""
    ax.plot([], [], marker, linestyle="none", label=label, **style)


def _draw_bases(ax: Any, bases: Sequence[tuple[float, float]]) -> None:
    """The pairs of bases, and a cross at their mean."""
    hue = hue_of("attention").light
    jsd, tvd = np.array(bases).T  # (pairs,) each
    ax.errorbar(
        jsd.mean(),
        tvd.mean(),
        yerr=tvd.std(),
        xerr=jsd.std(),
        fmt="P",
        color=hue,
        markersize=7,
        capsize=3,
        zorder=4,
    )
    pairs = f"mean ± sd of {len(bases)} pairs" if len(bases) > 1 else "one pair"
    _legend_entry(ax, "P", f"bases of other seeds, {pairs}", color=hue, markersize=7)
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
    for line, marker, line_style in zip(lines, cycle(MARKERS), cycle(LINE_STYLES), strict=False):
        draw_line(ax, settings, line, marker=marker, linestyle=line_style)
    if settings.min() < -1 or settings.max() > 10:
        ax.set_xscale("symlog", linthresh=1, linscale=1.6)
    ticks = sorted(set(settings.tolist()))
    rotation = 45 if len(ticks) > 5 else 0
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=rotation)
    ax.minorticks_off()
    ax.set_ylim(*limits)
    ax.grid(axis="y", color=RULE)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, f"{len(ticks)} models")
    return ax


def by_depth(ax: Any, steps: Sequence[str], lines: Sequence[Line], *, lowest: float, note: str) -> Any:
    """tau-b of importances with themselves against the parts of a model, from its output on the left to its input.

    Args:
        ax: where to draw.
        steps: names of the parts.
        lines: one a source.
        lowest: value of all panels that stand side by side.
        note: how many texts they show.
    """
    depth = np.arange(len(steps), dtype=float)
    apart = 0.16 / max(1, len(lines))  # so that no interval hides another
    for number, (line, marker, line_style) in enumerate(zip(lines, cycle(MARKERS), cycle(LINE_STYLES), strict=False)):
        beside = (number - (len(lines) - 1) / 2) * apart
        draw_line(ax, depth + beside, line, marker=marker, linestyle=line_style)
    ax.axhline(0, color=RULE, linewidth=0.9, zorder=0)
    ax.axhline(1, **DASHED)
    names = [safe(_last_of(step, steps)) for step in steps]
    turned = 40 if len(steps) <= _MANY_PARTS else 90
    middle = "top" if turned < 90 else "center"
    ax.set_xticks(range(len(steps)), names, rotation=turned, ha="right", va=middle, rotation_mode="anchor", fontsize=7)
    ax.set_xlim(-0.4, len(steps) - 0.6)
    ax.set_ylim(min(-0.1, lowest - 0.05), 1.08)
    ax.grid(axis="y", color=RULE)
    ax.set_xlabel("drawn anew, from the output to the embeddings")
    ax.set_ylabel("tau-b with itself before")
    corner(ax, note)
    beneath(ax, *ax.get_legend_handles_labels())
    return ax


def _last_of(step: str, steps: Sequence[str]) -> str:
    """The end of a part's name that tells it from the others: a number with the word before it.

    Example:
        >>> _last_of("encoder.layer.5", ["encoder.layer.5", "pooler"])
        'layer.5'
    """
    words = step.split(".")
    for count in range(1, len(words)):
        end = ".".join(words[-count:])
        alike = [other for other in steps if other == end or other.endswith(f".{end}")]
        if len(alike) == 1 and not end[0].isdigit():
            return end
    return step


def draw_line(ax: Any, settings: np.ndarray, line: Line, **style: Any) -> None:
    """The defined means of a line with their intervals."""
    means = np.asarray(line.values, dtype=float)  # (settings,)
    below = means - np.asarray(line.low, dtype=float)
    beyond = np.asarray(line.high, dtype=float) - means
    known = np.isfinite(means)
    errors = np.stack([below[known], beyond[known]])  # (2, known settings)
    ax.errorbar(
        settings[known],
        means[known],
        np.nan_to_num(errors).clip(min=0),  # no interval where it is undefined
        color=hue_of(line.source).light,
        markersize=4.5,
        capsize=2,
        label=safe(line.title, _LETTERS_OF_A_LINE),
        **style,
    )
