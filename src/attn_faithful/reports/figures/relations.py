"""One number of a text against another, and counts by bins. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful.reports.figures.marks import DASHED, MARKERS, Classes, above, beneath, corner, counted
from attn_faithful.reports.figures.style import safe
from attn_faithful.reports.palette import INK, tint

LN2 = math.log(2)
_BINS = 10
_IN_A_BIN = 5  # texts, below which a bin's quartiles say nothing


def scatter_by_class(
    ax: Any,
    x: np.ndarray,
    y: np.ndarray,
    classes: Classes,
    hue: str,
    *,
    labels: tuple[str, str],
    y_limits: tuple[float, float],
    line: float | None = None,
) -> Any:
    """A point a text, coloured by predicted class; in ink the median and the quartiles of ten bins of x.

    Args:
        ax: where to draw.
        x, y: (B,); a text in which either is NaN is left out.
        classes: of the texts; more than four are drawn alike.
        hue: ``#rrggbb``.
        labels: what x and y are, with their units.
        y_limits: of the axis; x goes from 0 to its largest value.
        line: a value of y that is marked.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = np.isfinite(x) & np.isfinite(y)
    highest = float(np.clip(x[known].max(initial=0) * 1.05, 0.05, 1.02))
    _points(ax, x, y, classes.members(known, ""), hue)
    _medians(ax, x[known], y[known], highest)
    if line is not None:
        ax.axhline(line, **DASHED)
    ax.set_xlim(0.0, highest)
    ax.set_ylim(*y_limits)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    n = int(known.sum())
    corner(ax, counted(n, len(known) - n))
    return ax


def _points(ax: Any, x: np.ndarray, y: np.ndarray, groups: Sequence[tuple[str, np.ndarray]], hue: str) -> None:
    """The texts of each group, and a legend where they are several."""
    n = sum(int(members.sum()) for _, members in groups)
    size = float(np.clip(2400 / max(n, 1), 3, 26))  # smaller where there are more
    shares = np.linspace(1.0, 0.5, len(groups))
    handles, labels = [], []
    for (name, members), share, marker in zip(groups, shares, MARKERS, strict=False):
        points = ax.scatter(
            x[members],
            y[members],
            s=size,
            marker=marker,
            color=tint(hue, share),
            alpha=0.45,
            linewidths=0,
            rasterized=True,
        )
        handles.append(points)
        if members.any():
            labels.append(f"{safe(name)}, n = {members.sum():,}")
        else:
            labels.append(f"{safe(name)}: no text")
    if len(groups) == 1:
        return
    legend = beneath(ax, handles, labels)
    for handle in legend.legend_handles:
        handle.set(alpha=1, sizes=[22])


def _medians(ax: Any, x: np.ndarray, y: np.ndarray, highest: float) -> None:
    """Median and quartiles of y in bins of x that hold enough texts."""
    edges = np.linspace(0.0, highest, _BINS + 1)
    bin_of_text = np.digitize(x, edges[1:-1])
    middles, quartiles = [], []
    for b in range(_BINS):
        values = y[bin_of_text == b]
        if len(values) >= _IN_A_BIN:
            middles.append((edges[b] + edges[b + 1]) / 2)
            quartiles.append(np.quantile(values, [0.25, 0.5, 0.75]))
    if not middles:
        return
    low, median, high = np.array(quartiles).T
    errors = [median - low, high - median]
    ax.errorbar(
        middles,
        median,
        errors,
        fmt="o-",
        color=INK,
        markersize=3.5,
        linewidth=1.1,
        elinewidth=1,
    )


def counts_by_bin(
    ax: Any,
    low: Sequence[float],
    high: Sequence[float],
    counts: Sequence[int],
    totals: Sequence[int],
    hue: str,
    *,
    labels: tuple[str, str],
) -> Any:
    """A bar a bin with how many of how many texts above it.

    Args:
        ax: where to draw.
        low, high: rims of each bin.
        counts, totals: how many texts of how many.
        hue: ``#rrggbb``.
        labels: of the two axes, with their units.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    widths = high - low
    bars = ax.bar(low, counts, widths, align="edge", color=tint(hue, 0.7), edgecolor="white")
    for bar, count, total in zip(bars, counts, totals, strict=True):
        middle = bar.get_x() + bar.get_width() / 2
        above(ax, f"{count} of\n{total:,}", (middle, bar.get_height()), ha="center", fontsize=7)
    largest = max([*counts, 1])
    ax.set_ylim(0, 1.25 * largest)  # room for the numbers above the bars
    ax.set_xlim(min(0.0, low.min(initial=0)), max(1.0, high.max(initial=1)))
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    corner(ax, counted(int(sum(totals))))
    return ax
