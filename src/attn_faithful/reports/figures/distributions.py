"""Distributions over texts: histograms by class, boxes and violins. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.reports.figures.marks import DASHED, Classes, beneath, corner, counted, row_note
from attn_faithful.reports.figures.style import safe
from attn_faithful.reports.palette import INK, RULE, channels, tint

_FEW = 8  # texts, below which they are drawn one by one
_LEAST_TOLD = 5  # percent, below which a part of a bar has no room for its number
_LINE_STYLES = ("-", "--", ":", "-.")


class Group(NamedTuple):
    """One row of boxes or violins.

    Attributes:
        name: at the row's beginning.
        values: an entry a text; NaN is left out.
        hue: ``#rrggbb``.
        note: what stands at the row's end, instead of the number of texts.
        mark: a value of the whole group, drawn as a diamond; NaN for none.
        pale: whether it is drawn hatched, as of little use.
    """

    name: str
    values: np.ndarray
    hue: str
    note: str = ""
    mark: float = math.nan
    pale: bool = False

    @property
    def defined(self) -> np.ndarray:
        return self.values[np.isfinite(self.values)]


def histogram_by_class(
    ax: Any,
    values: np.ndarray,
    classes: Classes,
    hue: str,
    *,
    limits: tuple[float, float],
    label: str,
    bins: int = 30,
) -> Any:
    """Share of each predicted class's texts by a value; a class without any has an entry in the legend alone.

    Args:
        ax: where to draw.
        values: (B,), NaN where undefined.
        classes: of the texts; more than four are drawn as one.
        hue: ``#rrggbb``.
        limits: of the values.
        label: what the values are, with their unit.
    """
    values = np.asarray(values, dtype=float)
    known = np.isfinite(values)
    edges = np.linspace(*limits, bins + 1)
    groups = classes.members(known, "all texts")
    lightest = 0.45 if len(groups) > 1 else 1.0
    shares = np.linspace(1.0, lightest, len(groups))
    handles, labels = [], []
    for (name, members), share, line_style in zip(groups, shares, _LINE_STYLES, strict=False):
        of_class = values[members]
        handles.append(_outline(ax, of_class, edges, tint(hue, share), line_style))
        summary = "no text"
        if len(of_class):
            summary = f"mean {of_class.mean():.2f}, n = {len(of_class):,}"
        labels.append(f"{safe(name)}: {summary}")
    ax.set_xlim(*limits)
    ax.set_xlabel(label)
    ax.set_ylabel("texts of the class, %" if len(groups) > 1 else "texts, %")
    beneath(ax, handles, labels)
    n = int(known.sum())
    corner(ax, counted(n, len(values) - n))
    return ax


def _outline(ax: Any, values: np.ndarray, edges: np.ndarray, colour: str, line_style: str) -> Any:
    """A histogram in percent of its values, and a line at their mean."""
    weights = np.full(len(values), 100 / max(len(values), 1))
    inside = np.clip(values, edges[0], edges[-1])  # rounding must not lose a value at the rim
    ax.hist(inside, edges, weights=weights, histtype="stepfilled", color=colour, alpha=0.30, linewidth=0)
    _, _, patches = ax.hist(inside, edges, weights=weights, histtype="step", color=colour, linestyle=line_style)
    if len(values):
        ax.axvline(float(values.mean()), color=colour, linestyle=line_style, linewidth=1, alpha=0.9)
    return patches[0]


def boxes(
    ax: Any, groups: Sequence[Group], *, limits: tuple[float, float] | None, label: str, zero: bool = False
) -> Any:
    """One box a group, from the top: median, quartiles, whiskers to the last text within 1.5 of their distance.

    Args:
        ax: where to draw.
        groups: rows; one without a defined value is named and left empty.
        limits: of the values; None for those that they have.
        label: what the values are, with their unit.
        zero: whether a line marks 0.
    """
    for row, group in enumerate(groups):
        values = group.defined
        _end(ax, row, group)
        if not len(values):
            continue
        if len(values) < _FEW:
            _points(ax, row, values, group.hue)
        else:
            _box(ax, row, values, group.hue)
        _mark(ax, row, group)
    if zero:
        ax.axvline(0, **DASHED)
    return _rows(ax, [group.name for group in groups], limits, label)


def _box(ax: Any, row: int, values: np.ndarray, hue: str) -> None:
    outliers = {
        "marker": ".",
        "markersize": 2.5,
        "alpha": 0.35,
        "markerfacecolor": hue,
        "markeredgecolor": "none",
        "rasterized": True,
    }
    ax.boxplot(
        values,
        positions=[row],
        orientation="horizontal",
        widths=0.56,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": tint(hue, 0.35), "edgecolor": hue},
        medianprops={"color": hue, "linewidth": 2.4},
        whiskerprops={"color": hue},
        capprops={"color": hue},
        flierprops=outliers,
    )


def violins(ax: Any, groups: Sequence[Group], *, limits: tuple[float, float], label: str) -> Any:
    """One violin a group, from the top, with its quartiles and median; few or equal values are drawn as points.

    Args:
        ax: where to draw.
        groups: rows; one without a defined value is named and left empty.
        limits: of the values; no density is drawn beyond.
        label: what the values are, with their unit.
    """
    for row, group in enumerate(groups):
        values = group.defined
        _end(ax, row, group)
        if not len(values):
            continue
        if np.ptp(values) < 1e-9:
            ax.plot(values[:1], [row], "|", color=group.hue, markersize=22, markeredgewidth=2.5)
        elif len(values) < _FEW:
            _points(ax, row, values, group.hue)
        else:
            _violin(ax, row, group, limits)
        _mark(ax, row, group)
    return _rows(ax, [group.name for group in groups], limits, label)


def _violin(ax: Any, row: int, group: Group, limits: tuple[float, float]) -> None:
    values, hue = group.defined, group.hue
    grid = np.linspace(*limits, 201)
    height = _density(values, grid)  # (201,)
    body = ax.fill_between(
        grid,
        row - height,
        row + height,
        facecolor=tint(hue, 0.35),
        edgecolor=hue,
        linewidth=0.8,
    )
    if group.pale:
        body.set_hatch("////")
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    ax.plot([low, high], [row, row], color=hue, linewidth=3.5, solid_capstyle="butt")
    ax.plot([middle], [row], "|", color="white", markersize=7, markeredgewidth=1.6)


def _density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Half the height of a violin: a Gaussian density, mirrored at the limits so that its mass stays inside."""
    quartile_distance = np.quantile(values, 0.75) - np.quantile(values, 0.25)
    deviation = values.std()
    spread = min(deviation, quartile_distance / 1.34 or deviation)
    silverman = 0.9 * spread * len(values) ** -0.2
    low, high = grid[0], grid[-1]
    bandwidth = max(silverman, (high - low) / 200)
    counts, edges = np.histogram(values, np.linspace(low, high, 402))
    middles = (edges[1:] + edges[:-1]) / 2  # (401,) of the bins
    density = np.zeros(len(grid))
    for centres in (middles, 2 * low - middles, 2 * high - middles):
        distances = (grid[:, None] - centres) / bandwidth  # (points, bins)
        density += np.exp(-0.5 * distances**2) @ counts
    return 0.42 * density / density.max()


def stacked(
    ax: Any,
    names: Sequence[str],
    shares: np.ndarray,
    notes: Sequence[str],
    parts: Sequence[tuple[str, str]],
    *,
    label: str,
) -> Any:
    """One bar a row, from the top, of parts that make a whole; a part of 5% or more says how much it is.

    Args:
        ax: where to draw.
        names: of the rows.
        shares: (rows, parts), percent.
        notes: what stands at each row's end.
        parts: name and ``#rrggbb`` of each; they differ in lightness, for print without colours.
        label: what the shares are of.
    """
    shares = np.asarray(shares, dtype=float)
    starts = np.cumsum(shares, 1) - shares  # (rows, parts)
    rows = range(len(names))
    handles = []
    for i, (_, hue) in enumerate(parts):
        bars = ax.barh(rows, shares[:, i], 0.56, starts[:, i], color=hue, edgecolor="white")
        handles.append(bars)
        _write_shares(ax, starts[:, i], shares[:, i], hue)
    for row, note in enumerate(notes):
        row_note(ax, row, note)
    _rows(ax, names, (0.0, 100.0), label)
    beneath(ax, handles, [name for name, _ in parts])
    return ax


def _write_shares(ax: Any, starts: np.ndarray, shares: np.ndarray, hue: str) -> None:
    """How much a part is of each row, where it has room for a number."""
    is_dark = sum(channels(hue)) < 3 * 0x90
    ink = "white" if is_dark else INK
    for row, (start, share) in enumerate(zip(starts, shares, strict=True)):
        if share >= _LEAST_TOLD:
            middle = start + share / 2
            ax.text(middle, row, f"{share:.0f}", ha="center", va="center", fontsize=7, color=ink)


def _points(ax: Any, row: int, values: np.ndarray, hue: str) -> None:
    ax.plot(values, np.full(len(values), row), "o", color=hue, alpha=0.7, markersize=4)


def _mark(ax: Any, row: int, group: Group) -> None:
    if math.isfinite(group.mark):
        ax.plot([group.mark], [row], "D", color=INK, markersize=4.5, markeredgecolor="white", zorder=5)


def _end(ax: Any, row: int, group: Group) -> None:
    """The note at a row's end."""
    n = len(group.defined)
    counts = "no defined text"
    if n:
        counts = counted(n, len(group.values) - n)
    row_note(ax, row, group.note or counts)


def _rows(ax: Any, names: Sequence[str], limits: tuple[float, float] | None, label: str) -> Any:
    """Names at the rows' beginnings, limits and grid."""
    ax.set_yticks(range(len(names)), [safe(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=RULE)
    if limits is not None:
        low, high = limits
        margin = 0.02 * (high - low)
        ax.set_xlim(low - margin, high + margin)
    ax.set_xlabel(label)
    return ax
