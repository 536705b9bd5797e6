"""Distributions over texts: histograms by class, boxes and violins. Axes in, axes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.reports.figures.style import beneath, corner, counted, safe
from attn_faithful.reports.palette import INK, MUTED, RULE, tint

CLASSES = 4  # drawn apart; more of them are drawn as one
_FEW = 8  # texts, below which they are drawn one by one
_TOLD = 5  # percent, below which a part of a bar has no room for its number


class Group(NamedTuple):
    """One row of boxes or violins.

    Attributes:
        name: what it is called.
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


def histogram_by_class(
    ax: Any,
    values: np.ndarray,
    classes: np.ndarray,
    names: Sequence[str],
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
        classes: (B,) index of the predicted class.
        names: of the classes; more than four are drawn as one.
        hue: ``#rrggbb``.
        limits: of the values.
        label: what the values are, with their unit.
    """
    values, classes = np.asarray(values, dtype=float), np.asarray(classes)
    known = np.isfinite(values)
    edges = np.linspace(*limits, bins + 1)
    groups = [(name, values[known & (classes == c)]) for c, name in enumerate(names)]
    if len(names) > CLASSES or len(names) < 2:
        groups = [("all texts", values[known])]
    tints = [1.0] if len(groups) == 1 else np.linspace(1.0, 0.45, len(groups))
    handles, labels = [], []
    for i, ((name, own), share) in enumerate(zip(groups, tints, strict=True)):
        shade = tint(hue, share)
        weights = np.full(len(own), 100 / max(len(own), 1))
        inside = np.clip(own, *limits)  # rounding must not lose a value at the rim
        style = ("-", "--", ":", "-.")[i]
        ax.hist(inside, edges, weights=weights, histtype="stepfilled", color=shade, alpha=0.30, linewidth=0)
        _, _, drawn = ax.hist(inside, edges, weights=weights, histtype="step", color=shade, linestyle=style)
        if len(own):
            mean = float(own.mean())
            ax.axvline(mean, color=shade, linestyle=style, linewidth=1, alpha=0.9)
            labels.append(f"{safe(name)}: mean {mean:.2f}, n = {len(own):,}")
        else:
            labels.append(f"{safe(name)}: no text")
        handles.append(drawn[0])
    ax.set_xlim(*limits)
    ax.set_xlabel(label)
    ax.set_ylabel("texts of the class, %" if len(groups) > 1 else "texts, %")
    beneath(ax, handles, labels)
    corner(ax, counted(int(known.sum()), int((~known).sum())))
    return ax


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
        values = group.values[np.isfinite(group.values)]
        _end(ax, row, group, len(values))
        if not len(values):
            continue
        if len(values) < _FEW:
            ax.plot(values, np.full(len(values), row), "o", color=group.hue, alpha=0.7, markersize=4)
        else:
            ax.boxplot(
                values,
                positions=[row],
                orientation="horizontal",
                widths=0.56,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": tint(group.hue, 0.35), "edgecolor": group.hue},
                medianprops={"color": group.hue, "linewidth": 2.4},
                whiskerprops={"color": group.hue},
                capprops={"color": group.hue},
                flierprops={
                    "marker": ".",
                    "markersize": 2.5,
                    "alpha": 0.35,
                    "markerfacecolor": group.hue,
                    "markeredgecolor": "none",
                    "rasterized": True,
                },
            )
        _mark(ax, row, group)
    if zero:
        ax.axvline(0, color=MUTED, linewidth=0.9, linestyle="--", zorder=0)
    return _rows(ax, groups, limits, label)


def violins(ax: Any, groups: Sequence[Group], *, limits: tuple[float, float], label: str) -> Any:
    """One violin a group, from the top, with its quartiles and median; few or equal values are drawn as points.

    Args:
        ax: where to draw.
        groups: rows; one without a defined value is named and left empty.
        limits: of the values; no density is drawn beyond.
        label: what the values are, with their unit.
    """
    grid = np.linspace(*limits, 201)
    for row, group in enumerate(groups):
        values = group.values[np.isfinite(group.values)]
        _end(ax, row, group, len(values))
        if not len(values):
            continue
        if np.ptp(values) < 1e-9:
            ax.plot(values[:1], [row], "|", color=group.hue, markersize=22, markeredgewidth=2.5)
        elif len(values) < _FEW:
            ax.plot(values, np.full(len(values), row), "o", color=group.hue, alpha=0.7, markersize=4)
        else:
            height = _density(values, grid)
            body = ax.fill_between(
                grid, row - height, row + height, facecolor=tint(group.hue, 0.35), linewidth=0.8, edgecolor=group.hue
            )
            if group.pale:
                body.set_hatch("////")
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            ax.plot([low, high], [row, row], color=group.hue, linewidth=3.5, solid_capstyle="butt")
            ax.plot([middle], [row], "|", color="white", markersize=7, markeredgewidth=1.6)
        _mark(ax, row, group)
    return _rows(ax, groups, limits, label)


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
    starts = np.cumsum(shares, 1) - shares
    handles = []
    for i, (_, hue) in enumerate(parts):
        bars = ax.barh(range(len(names)), shares[:, i], 0.56, starts[:, i], color=hue, edgecolor="white")
        handles.append(bars)
        for row, share in enumerate(shares[:, i]):
            if share >= _TOLD:
                ink = "white" if _dark(hue) else INK
                ax.text(
                    starts[row, i] + share / 2, row, f"{share:.0f}", ha="center", va="center", fontsize=7, color=ink
                )
    for row, note in enumerate(notes):
        _noted(ax, row, note)
    _rows(ax, [Group(name, np.zeros(0), "") for name in names], (0.0, 100.0), label)
    beneath(ax, handles, [name for name, _ in parts])
    return ax


def _dark(hue: str) -> bool:
    return sum(int(hue[i : i + 2], 16) for i in (1, 3, 5)) < 3 * 0x90


def _density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Half the height of a violin: a Gaussian density, mirrored at the limits so that its mass stays inside."""
    n = len(values)
    spread = min(values.std(), (np.quantile(values, 0.75) - np.quantile(values, 0.25)) / 1.34 or values.std())
    width = max(0.9 * spread * n**-0.2, (grid[-1] - grid[0]) / 200)
    counts, edges = np.histogram(values, np.linspace(grid[0], grid[-1], 402))
    middles = (edges[1:] + edges[:-1]) / 2
    found = np.zeros(len(grid))
    for centre in (middles, 2 * grid[0] - middles, 2 * grid[-1] - middles):
        found += np.exp(-0.5 * ((grid[:, None] - centre) / width) ** 2) @ counts
    return 0.42 * found / found.max()


def _mark(ax: Any, row: int, group: Group) -> None:
    if math.isfinite(group.mark):
        ax.plot([group.mark], [row], "D", color=INK, markersize=4.5, markeredgecolor="white", zorder=5)


def _end(ax: Any, row: int, group: Group, n: int) -> None:
    undefined = len(group.values) - n
    _noted(ax, row, group.note or (counted(n, undefined) if n else "no defined text"))


def _noted(ax: Any, row: int, note: str) -> None:
    place = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "xytext": (4, 0)}
    ax.annotate(note, (1.0, row), **place, va="center", fontsize=7.5, color=MUTED, annotation_clip=False)


def _rows(ax: Any, groups: Sequence[Group], limits: tuple[float, float] | None, label: str) -> Any:
    ax.set_yticks(range(len(groups)), [safe(group.name) for group in groups])
    ax.set_ylim(len(groups) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=RULE)
    if limits is not None:
        room = 0.02 * (limits[1] - limits[0])
        ax.set_xlim(limits[0] - room, limits[1] + room)
    ax.set_xlabel(label)
    return ax
