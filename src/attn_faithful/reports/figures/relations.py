"""One number of a text against another, and numbers against a setting. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.reports.figures.distributions import CLASSES
from attn_faithful.reports.figures.style import beneath, corner, counted, safe
from attn_faithful.reports.palette import INK, MUTED, RULE, hue_of, tint

LN2 = math.log(2)
_BINS = 10
_IN_A_BIN = 5  # texts, below which a bin's quartiles say nothing
_MARKERS = "osD^vPX*"


def scatter_by_class(
    ax: Any,
    x: np.ndarray,
    y: np.ndarray,
    classes: np.ndarray,
    names: Sequence[str],
    hue: str,
    *,
    labels: tuple[str, str],
    y_limits: tuple[float, float],
    x_limits: tuple[float, float] | None = None,
    ceiling: float | None = None,
    zero: bool = False,
) -> Any:
    """A point a text, coloured by predicted class; in ink the median and the quartiles of ten bins of x.

    Args:
        ax: where to draw.
        x, y: (B,); a text in which either is NaN is left out.
        classes: (B,) index of the predicted class.
        names: of the classes; more than four are drawn alike.
        hue: ``#rrggbb``.
        labels: what x and y are, with their units.
        y_limits, x_limits: of the axes; None for 0 to the largest x.
        ceiling: a value of y that is marked.
        zero: whether a line marks y = 0.
    """
    x, y, classes = np.asarray(x, dtype=float), np.asarray(y, dtype=float), np.asarray(classes)
    known = np.isfinite(x) & np.isfinite(y)
    groups = [(name, known & (classes == c)) for c, name in enumerate(names)]
    if len(names) > CLASSES or len(names) < 2:
        groups = [("", known)]
    size = float(np.clip(2400 / max(known.sum(), 1), 3, 26))
    tints = np.linspace(1.0, 0.5, len(groups))
    handles, shown = [], []
    for i, ((name, own), share) in enumerate(zip(groups, tints, strict=True)):
        points = ax.scatter(
            x[own],
            y[own],
            s=size,
            marker=_MARKERS[i],
            color=tint(hue, share),
            alpha=0.45,
            linewidths=0,
            rasterized=True,
        )
        if name:
            handles.append(points)
            shown.append(f"{safe(name)}, n = {int(own.sum()):,}" if own.any() else f"{safe(name)}: no text")
    low, high = x_limits or (0.0, float(np.clip(x[known].max(initial=0) * 1.05, 0.05, 1.02)))
    _medians(ax, x[known], y[known], low, high)
    if ceiling is not None:
        ax.axhline(ceiling, color=MUTED, linewidth=0.9, linestyle="--", zorder=0)
    if zero:
        ax.axhline(0, color=MUTED, linewidth=0.9, linestyle="--", zorder=0)
    ax.set_xlim(low, high)
    ax.set_ylim(*y_limits)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    if handles:
        legend = beneath(ax, handles, shown)
        for handle in legend.legend_handles:
            handle.set(alpha=1, sizes=[22])
    corner(ax, counted(int(known.sum()), int((~known).sum())))
    return ax


def _medians(ax: Any, x: np.ndarray, y: np.ndarray, low: float, high: float) -> None:
    """Median and quartiles of y in bins of x that hold enough texts."""
    edges = np.linspace(low, high, _BINS + 1)
    place = np.digitize(x, edges[1:-1])
    bins = [b for b in range(_BINS) if (place == b).sum() >= _IN_A_BIN]
    if not bins:
        return
    middles = [(edges[b] + edges[b + 1]) / 2 for b in bins]
    quartiles = np.array([np.quantile(y[place == b], [0.25, 0.5, 0.75]) for b in bins]).T
    errors = [quartiles[1] - quartiles[0], quartiles[2] - quartiles[1]]
    ax.errorbar(middles, quartiles[1], errors, fmt="o-", color=INK, markersize=3.5, linewidth=1.1, elinewidth=1)


def counts_by_bin(
    ax: Any,
    low: Sequence[float],
    high: Sequence[float],
    counts: Sequence[int],
    of: Sequence[int],
    hue: str,
    *,
    labels: tuple[str, str],
) -> Any:
    """A bar a bin with how many of how many texts above it.

    Args:
        ax: where to draw.
        low, high: rims of each bin.
        counts, of: how many texts of how many.
        hue: ``#rrggbb``.
        labels: of the two axes, with their units.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    bars = ax.bar(low, counts, high - low, align="edge", color=tint(hue, 0.7), edgecolor="white")
    for bar, count, whole in zip(bars, counts, of, strict=True):
        text = f"{count} of\n{whole:,}"
        ax.annotate(
            text,
            (bar.get_x() + bar.get_width() / 2, bar.get_height()),
            xytext=(0, 2),
            va="bottom",
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=MUTED,
        )
    ax.set_ylim(0, max([*counts, 1]) * 1.25)
    ax.set_xlim(min(0.0, low.min(initial=0)), max(1.0, high.max(initial=1)))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    corner(ax, counted(int(sum(of))))
    return ax


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
    hue, own = hue_of("adversarial").light, hue_of("attention").light
    top = max([twin.tvd for twin in twins] + [tvd for _, tvd in bases] + [0.1])
    top = min(1.0, 1.12 * max(top, constant if math.isfinite(constant) else 0))
    for share in (0.1, 0.3, 1.0):
        end = min(LN2, top / share * LN2)
        ax.plot([0, end], [0, share * end / LN2], color=RULE, linewidth=0.9, zorder=0)
        side = "right" if end == LN2 else "center"
        ax.annotate(
            f"AtteFa {share:g}",
            (end, share * end / LN2),
            xytext=(0, 2),
            textcoords="offset points",
            ha=side,
            fontsize=6.5,
            color=MUTED,
            va="bottom",
            zorder=0,
        )
    if math.isfinite(constant):
        ax.axhline(constant, color=MUTED, linewidth=0.9, linestyle="--", zorder=0)
        ax.annotate(
            "constant prediction", (0, constant), xytext=(0, 2), textcoords="offset points", fontsize=7, color=MUTED
        )
    for path in dict.fromkeys(twin.path for twin in twins):
        joined = sorted((t.weight, t.jsd, t.tvd) for t in twins if t.path == path and math.isfinite(t.weight))
        if joined:
            _, *line = zip(*joined, strict=True)
            ax.plot(*line, color=tint(hue, 0.45), linewidth=1, zorder=1)
    kinds = list(dict.fromkeys(twin.kind for twin in twins))
    for i, kind in enumerate(kinds):
        marker, drawn = _MARKERS[i % len(_MARKERS)], [twin for twin in twins if twin.kind == kind]
        for twin in drawn:
            ax.plot(
                twin.jsd,
                twin.tvd,
                marker,
                color="white" if twin.collapsed else hue,
                markeredgecolor=hue,
                markersize=6,
                zorder=3,
            )
        ax.plot([], [], marker, color=hue, markersize=6, linestyle="none", label=safe(kind))
    if any(twin.collapsed for twin in twins):
        ax.plot([], [], "o", color="white", markeredgecolor=hue, linestyle="none", label="hollow: collapsed")
    if bases:
        jsd, tvd = np.array(bases).T
        ax.errorbar(
            [jsd.mean()], [tvd.mean()], [tvd.std()], [jsd.std()], fmt="P", color=own, markersize=7, capsize=3, zorder=4
        )
        told = f"mean ± sd of {len(bases)} pairs" if len(bases) > 1 else "one pair"
        ax.plot([], [], "P", color=own, markersize=7, label=f"bases of other seeds, {told}")
        ax.plot(jsd, tvd, ".", color=tint(own, 0.6), markersize=4, zorder=2)
    ax.set_xlim(-0.015, 0.72)
    ax.set_ylim(-0.02 * top, 1.06 * top)
    ax.axvline(LN2, color=RULE, linewidth=0.9, zorder=0)
    ax.set_xlabel("attention moved by: mean JSD, nats (at most 0.693)")
    ax.set_ylabel("predictions moved by: mean TVD")
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, f"{len(twins)} twins" if len(twins) != 1 else "1 twin")
    return ax


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
    at = np.asarray(x, dtype=float)
    for i, line in enumerate(lines):
        y, low, high = (np.asarray(v, dtype=float) for v in (line.values, line.low, line.high))
        known = np.isfinite(y)
        hue = hue_of(line.source).light
        errors = np.nan_to_num(np.stack([y - low, high - y])[:, known]).clip(min=0)
        ax.errorbar(
            at[known],
            y[known],
            errors,
            color=hue,
            marker=_MARKERS[i % len(_MARKERS)],
            markersize=4.5,
            capsize=2,
            label=safe(line.title),
            linestyle=("-", "--", "-.", ":")[i % 4],
        )
    ticks = sorted(set(at.tolist()))
    if at.min() < -1 or at.max() > 10:
        ax.set_xscale("symlog", linthresh=1, linscale=1.6)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=45 if len(ticks) > 5 else 0)
    ax.minorticks_off()
    ax.set_ylim(*limits)
    ax.grid(axis="y", color=RULE)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    beneath(ax, *ax.get_legend_handles_labels())
    corner(ax, f"{len(ticks)} models")
    return ax
